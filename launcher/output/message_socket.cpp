#include "launcher/output/message_socket.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include <sys/socket.h>
#include <sys/uio.h>

namespace triton::launcher {

bool send_message(int socket, std::string_view first, std::string_view second) {
    std::array<iovec, 2> parts{
        {{const_cast<char*>(first.data()), first.size()}, {const_cast<char*>(second.data()), second.size()}}};
    msghdr header{};
    header.msg_iov = parts.data();
    header.msg_iovlen = parts.size();
    ssize_t size = -1;
    do {
        size = ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (size < 0 && errno == EINTR);
    return size >= 0;
}

std::optional<std::uint64_t> take_number(std::string_view& text, char end) {
    std::uint64_t number = 0;
    auto const [behind, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(behind - text.data()));
    if (text.starts_with(end)) text.remove_prefix(1);
    return number;
}

}  // namespace triton::launcher
