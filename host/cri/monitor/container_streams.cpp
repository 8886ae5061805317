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
    for (auto const& [bit, here, there] : {std::tuple(stream_output, &one.output.pipe, &ends.output),
                                           std::tuple(stream_errors, &one.errors.pipe, &ends.errors)}) {
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

void ContainerStreams::pass_on(std::string_view bytes, bool is_errors, TimePoint now) {
    for (auto& [client, one] : attached_) {
        Output& output = is_errors ? one.errors : one.output;
        if (!output.pipe) continue;
        if (!output.pending.empty()) {  // as at the end of the container, whose pipe is read to its end
            output.pending.append(bytes);
            continue;
        }
        std::size_t const left = offer(output.pipe, bytes);
        if (left == 0) {
            output.has_stopped = false;
        } else if (output.has_stopped) {
            one.lost += left;
        } else {
            output.pending.assign(bytes.substr(bytes.size() - left));
            output.progress = now;
        }
    }
}

bool ContainerStreams::holds_up(bool is_errors) const {
    return std::ranges::any_of(attached_, [is_errors](auto const& one) {
        return !(is_errors ? one.second.errors : one.second.output).pending.empty();
    });
}

bool ContainerStreams::is_behind(Client client) const {
    auto const found = attached_.find(client);
    return found != attached_.end() && !(found->second.output.pending.empty() && found->second.errors.pending.empty());
}

TimePoint ContainerStreams::deadline() const {
    TimePoint earliest = TimePoint::max();
    for (auto const& [client, one] : attached_)
        for (Output const* const output : {&one.output, &one.errors})
            if (!output->pending.empty()) earliest = std::min(earliest, output->progress + patience);
    return earliest;
}

void ContainerStreams::give_up_stopped(TimePoint now) {
    for (auto& [client, one] : attached_)
        for (Output* const output : {&one.output, &one.errors}) {
            if (output->pending.empty() || now < output->progress + patience) continue;
            one.lost += output->pending.size();
            output->pending.clear();
            output->has_stopped = true;
        }
}

void ContainerStreams::flush_output(Client client, bool is_errors) {
    auto const found = attached_.find(client);
    if (found == attached_.end()) return;
    Output& output = is_errors ? found->second.errors : found->second.output;
    std::size_t const left = offer(output.pipe, output.pending);
    if (left < output.pending.size()) output.progress = steady_now();
    output.pending.erase(0, output.pending.size() - left);
}

void ContainerStreams::close() {
    input_ = {};
    pending_.clear();
    for (auto& [client, one] : attached_) {
        one.input = {};
        for (Output* const output : {&one.output, &one.errors})
            if (output->pending.empty()) output->pipe = {};
    }
    std::erase_if(attached_, [](auto const& one) { return one.second.is_gone; });
}

std::vector<ContainerStreams::Client> ContainerStreams::clients() const {
    std::vector<Client> found;
    for (auto const& [client, one] : attached_)
        if (!one.is_gone) found.push_back(client);
    return found;
}

void ContainerStreams::add_to(PollSet& polled, std::function<ContainerStreams*()> const& self) {
    for (auto const& [client, one] : attached_)
        for (bool const is_errors : {false, true}) {
            Output const& output = is_errors ? one.errors : one.output;
            if (output.pending.empty()) continue;
            polled.add(output.pipe.get(), POLLOUT, [self, client = client, is_errors] {
                if (auto* const streams = self()) streams->flush_output(client, is_errors);
            });
        }
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
