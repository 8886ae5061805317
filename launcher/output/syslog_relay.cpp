#include "launcher/output/syslog_relay.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/output/message_socket.h"

namespace triton::launcher {

namespace {

constexpr std::size_t longest_answer = 64;
constexpr int most_rounds_at_the_end = 32;  // a pipe is empty by then
constexpr int bytes_under_way = 1 << 20;    // in the kernel; it gives what net.core.wmem_max allows

}  // namespace

SyslogRelay::SyslogRelay(EventLoop& loop, Lost lost) : loop_(loop), lost_(std::move(lost)) {}

Result<> SyslogRelay::open() {
    if (ours_) return {};
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return fail(errno, "make the agent's sockets for syslog");
    ours_ = UniqueFd{ends[0]};
    theirs_ = UniqueFd{ends[1]};
    (void)::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes_under_way, sizeof bytes_under_way);
    (void)::shutdown(ends[0], SHUT_RD);
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return fail(errno, "make the agent's pipe for syslog");
    read_end_ = UniqueFd{ends[0]};
    write_end_ = UniqueFd{ends[1]};
    watch_ = TRY(loop_.on_readable(read_end_.get(), [this] { (void)take_answers(); }));
    return {};
}

Result<> SyslogRelay::adopt(State const& state) {
    if (state.ours < 0) return {};
    ours_ = UniqueFd{state.ours};
    theirs_ = UniqueFd{state.theirs};
    read_end_ = UniqueFd{state.read_end};
    write_end_ = UniqueFd{state.write_end};
    sent_ = state.sent;
    done_ = state.done;
    for (int const fd : {state.ours, state.theirs, state.read_end, state.write_end})
        (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
    watch_ = TRY(loop_.on_readable(read_end_.get(), [this] { (void)take_answers(); }));
    return {};
}

bool SyslogRelay::send(std::string_view address, std::string_view message) {
    if (!ours_) return false;
    std::string const head = std::to_string(sent_ + 1).append(" ").append(address).append(" ");
    if (!send_message(ours_.get(), head, message)) return false;
    ++sent_;
    return true;
}

/// Takes what the agent answers. A broken agent may write anything: what makes no sense changes nothing. Returns
/// whether there was something.
bool SyslogRelay::take_answers() {
    std::array<char, 4096> text;  // of one round; more of it waits
    ssize_t const size = ::read(read_end_.get(), text.data(), text.size());
    if (size <= 0) return false;
    begun_.append(text.data(), static_cast<std::size_t>(size));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = begun_.find('\n', begin)) != std::string::npos; begin = end + 1)
        take_answer(std::string_view(begun_).substr(begin, end - begin));
    begun_.erase(0, begin);
    if (begun_.size() > longest_answer) begun_.clear();
    if (on_room_) on_room_();
    return true;
}

void SyslogRelay::finish() {
    if (!ours_) return;
    on_room_ = {};
    for (int i = 0; i < most_rounds_at_the_end && take_answers(); ++i) {
    }
    std::uint64_t const left = sent_ - std::exchange(done_, sent_);
    if (left > 0 && lost_) lost_(left);
}

void SyslogRelay::take_answer(std::string_view answer) {
    constexpr std::string_view begins = "begin ";
    constexpr std::string_view is_done = "done ";
    std::uint64_t lost = 0;
    std::uint64_t const open = sent_ - done_;
    if (answer.starts_with(begins)) {
        answer.remove_prefix(begins.size());
        std::uint64_t const number = take_number(answer, ' ').value_or(0);
        if (number == 0 || number > sent_ || number - 1 <= done_) return;
        lost = number - 1 - done_;
        done_ = number - 1;
    } else if (answer.starts_with(is_done)) {
        answer.remove_prefix(is_done.size());
        std::uint64_t const count = std::min(take_number(answer, ' ').value_or(0), open);
        lost = std::min(take_number(answer, ' ').value_or(0), count);
        done_ += count;
    }
    if (lost > 0 && lost_) lost_(lost);
}

}  // namespace triton::launcher
