#include "host/cri/monitor/message.h"

#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include <sys/socket.h>

namespace triton::cri::monitor {

namespace {

constexpr std::size_t most_name_bytes = 128;

struct Head {
    std::uint32_t version;
    std::uint32_t kind;
    std::uint64_t sequence;
    std::array<std::int64_t, container_numbers> numbers;
    std::uint32_t name_bytes;
    std::uint32_t texts;
};
static_assert(std::is_trivially_copyable_v<Head>);

template <class T>
void append(std::string& out, T const& value) {
    out.append(reinterpret_cast<char const*>(&value), sizeof value);
}

template <class T>
bool take(std::string_view& in, T& value) {
    if (in.size() < sizeof value) return false;
    std::memcpy(&value, in.data(), sizeof value);
    in.remove_prefix(sizeof value);
    return true;
}

bool take_text(std::string_view& in, std::size_t size, std::string& text) {
    if (in.size() < size) return false;
    text = in.substr(0, size);
    in.remove_prefix(size);
    return true;
}

std::unexpected<Error> damaged() { return fail(ErrorKind::corrupt, "a message of the monitor's socket is damaged"); }

/// The descriptors that came with a packet.
std::vector<UniqueFd> descriptors_of(msghdr& header) {
    std::vector<UniqueFd> found;
    for (cmsghdr* one = CMSG_FIRSTHDR(&header); one; one = CMSG_NXTHDR(&header, one)) {
        if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
        std::size_t const count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(one) + i * sizeof fd, sizeof fd);
            found.emplace_back(fd);
        }
    }
    return found;
}

}  // namespace

Result<std::string> encode(Message const& message) {
    std::string out;
    append(out, Head{.version = protocol_version,
                     .kind = static_cast<std::uint32_t>(message.kind),
                     .sequence = message.sequence,
                     .numbers = message.numbers,
                     .name_bytes = static_cast<std::uint32_t>(message.container.size()),
                     .texts = static_cast<std::uint32_t>(message.texts.size())});
    out += message.container;
    for (std::string const& text : message.texts) {
        append(out, static_cast<std::uint32_t>(text.size()));
        out += text;
    }
    bool const fits = out.size() <= most_message_bytes && message.texts.size() <= most_texts &&
                      message.container.size() <= most_name_bytes;
    if (!fits) return fail(ErrorKind::invalid, "a message to a monitor is too long");
    return out;
}

Result<Message> decode(std::string_view packet) {
    Head head{};
    if (!take(packet, head)) return damaged();
    if (head.version != protocol_version)
        return fail(ErrorKind::unsupported, "the monitor speaks version " + std::to_string(head.version));
    if (head.texts > most_texts || head.name_bytes > most_name_bytes) return damaged();
    Message message{.kind = static_cast<Kind>(head.kind), .sequence = head.sequence};
    message.numbers = head.numbers;
    if (!take_text(packet, head.name_bytes, message.container)) return damaged();
    for (std::uint32_t i = 0; i < head.texts; ++i) {
        std::uint32_t size = 0;
        std::string text;
        if (!take(packet, size) || !take_text(packet, size, text)) return damaged();
        message.texts.push_back(std::move(text));
    }
    if (!packet.empty()) return damaged();
    return message;
}

Result<> send_message(int socket, Message const& message, std::vector<int> const& descriptors) {
    std::string packet = TRY(encode(message));
    iovec part{.iov_base = packet.data(), .iov_len = packet.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(most_descriptors * sizeof(int))> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!descriptors.empty()) {
        std::size_t const bytes = descriptors.size() * sizeof(int);
        header.msg_control = control.data();
        header.msg_controllen = CMSG_SPACE(bytes);
        cmsghdr* const rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(bytes);
        std::memcpy(CMSG_DATA(rights), descriptors.data(), bytes);
    }
    if (::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return fail(errno, "send to a monitor's socket");
    return {};
}

Result<Received> receive_message(int socket) {
    static thread_local std::array<char, most_message_bytes> buffer;
    iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(most_descriptors * sizeof(int))> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    ssize_t const size = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return fail(ErrorKind::busy, "there is no message");
    if (size < 0) return fail(errno, "receive from a monitor's socket");
    if (size == 0) return fail(ErrorKind::unavailable, "the peer of a monitor's socket has gone");
    Received received{.message = {}, .descriptors = descriptors_of(header)};
    if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return damaged();
    received.message = TRY(decode({buffer.data(), static_cast<std::size_t>(size)}));
    return received;
}

}  // namespace triton::cri::monitor
