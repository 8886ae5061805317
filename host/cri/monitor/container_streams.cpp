#include "host/cri/monitor/container_streams.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/pipe.h"

namespace triton::cri::monitor {

namespace {

constexpr std::size_t input_bytes = 4096;  // that are read of a client at once

/// A pipe whose end here does not block.
Result<Pipe> make_client_pipe(bool is_read_here) {
    Pipe pipe = TRY(make_pipe());
    ::fcntl((is_read_here ? pipe.reader : pipe.writer).get(), F_SETFL, O_NONBLOCK);
    ::fcntl(pipe.writer.get(), F_SETPIPE_SZ, ContainerStreams::pipe_bytes);  // else it has 64 KiB
    return pipe;
}

/// Returns how many bytes did not fit. Closes the pipe when nobody reads it any more.
std::size_t offer(UniqueFd& pipe, std::string_view bytes) {
    while (pipe && !bytes.empty()) {
        ssize_t const written = ::write(pipe.get(), bytes.data(), bytes.size());
        if (written > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(written));
        } else if (errno == EAGAIN) {
            return bytes.size();
        } else if (errno != EINTR) {
            pipe = {};
        }
    }
    return 0;
}

}  // namespace

void ContainerStreams::set_input(UniqueFd writer, bool is_terminal, bool is_once) {
    input_ = std::move(writer);
    is_terminal_ = is_terminal;
    is_once_ = is_once;
}

Result<StreamEnds> ContainerStreams::attach(Client client, std::int64_t wanted) {
    if (attached_.size() >= most_clients)
        return fail(ErrorKind::exhausted, "attach to a container",
                    "it has " + std::to_string(most_clients) + " clients already");
    Attached one;
    StreamEnds ends;
    for (auto const& [bit, here, there] :
         {std::tuple(stream_output, &one.output, &ends.output), std::tuple(stream_errors, &one.errors, &ends.errors)}) {
        if ((wanted & bit) == 0) continue;
        Pipe pipe = TRY(make_client_pipe(false));
        *here = std::move(pipe.writer);
        *there = std::move(pipe.reader);
    }
    if ((wanted & stream_input) != 0 && input_ && !is_input_ending_) {
        Pipe pipe = TRY(make_client_pipe(true));
        one.input = std::move(pipe.reader);
        ends.input = std::move(pipe.writer);
    }
    attached_.insert_or_assign(client, std::move(one));
    return ends;
}

std::uint64_t ContainerStreams::detach(Client client) {
    auto const found = attached_.find(client);
    if (found == attached_.end()) return 0;
    std::uint64_t const lost = found->second.lost;
    found->second.output = {};
    found->second.errors = {};
    found->second.is_gone = true;
    if (!found->second.input) attached_.erase(found);
    return lost;
}

void ContainerStreams::pass_on(std::string_view bytes, bool is_errors) {
    for (auto& [client, one] : attached_)
        one.lost += offer(is_errors ? one.errors : one.output, bytes);
}

void ContainerStreams::close() {
    input_ = {};
    pending_.clear();
    for (auto& [client, one] : attached_)
        one = Attached{.input = {}, .output = {}, .errors = {}, .lost = one.lost, .is_gone = one.is_gone};
    std::erase_if(attached_, [](auto const& one) { return one.second.is_gone; });
}

std::vector<ContainerStreams::Client> ContainerStreams::clients() const {
    std::vector<Client> found;
    for (auto const& [client, one] : attached_)
        if (!one.is_gone) found.push_back(client);
    return found;
}

void ContainerStreams::add_to(PollSet& polled, std::function<ContainerStreams*()> const& self) {
    if (!pending_.empty() && input_)
        return polled.add(input_.get(), POLLOUT, [self] {
            if (auto* const streams = self()) streams->flush();
        });
    for (auto const& [client, one] : attached_) {
        if (!one.input) continue;
        polled.add(one.input.get(), POLLIN, [self, client = client] {
            if (auto* const streams = self()) streams->read_input(client);
        });
    }
}

void ContainerStreams::read_input(Client client) {
    auto const found = attached_.find(client);
    if (found == attached_.end() || !found->second.input || !pending_.empty()) return;
    std::array<char, input_bytes> buffer{};
    ssize_t const size = ::read(found->second.input.get(), buffer.data(), buffer.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) return input_ended(client);
    pending_.assign(buffer.data(), static_cast<std::size_t>(size));
    flush();
}

void ContainerStreams::flush() {
    std::size_t const left = offer(input_, pending_);
    pending_.erase(0, pending_.size() - left);
    if (!input_)  // the program reads no more: neither do we
        for (auto& [client, one] : attached_)
            one.input = {};
    if (is_input_ending_ && pending_.empty()) input_ = {};
    std::erase_if(attached_, [](auto const& one) { return one.second.is_gone && !one.second.input; });
}

/// A terminal has no end of input that others could not go on from.
void ContainerStreams::input_ended(Client client) {
    auto const found = attached_.find(client);
    found->second.input = {};
    is_input_ending_ = is_input_ending_ || (is_once_ && !is_terminal_);
    flush();
}

void resize_terminal(int fd, std::int64_t width, std::int64_t height) {
    constexpr std::int64_t most = UINT16_MAX;
    if (width <= 0 || height <= 0) return;
    winsize const size{.ws_row = static_cast<unsigned short>(std::min(height, most)),
                       .ws_col = static_cast<unsigned short>(std::min(width, most)),
                       .ws_xpixel = 0,
                       .ws_ypixel = 0};
    (void)::ioctl(fd, TIOCSWINSZ, &size);  // of a terminal that has gone
}

}  // namespace triton::cri::monitor
