#include "lib/process/execution_watch.h"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace triton::process {

namespace {

constexpr Duration first_delay = milliseconds(1);
constexpr Duration longest_delay = milliseconds(100);

}  // namespace

/// Opens a pipe for a round if there are a free place and a free descriptor.
std::uint32_t ExecutionWatch::prepare_round() {
    auto const is_free = [](Round const& round) { return round.waiting == 0 && !round.pipe; };
    auto const end = rounds_.begin() + most_pipes;
    auto const free = std::find_if(rounds_.begin(), end, is_free);
    std::uint32_t const round = static_cast<std::uint32_t>(free - rounds_.begin());
    starts_before_ = starts_.starts();
    return free != end && open_pipe(round) ? round : without_pipe;
}

bool ExecutionWatch::open_pipe(std::uint32_t round) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    UniqueFd read_end{ends[0]};
    UniqueFd write_end{ends[1]};
    auto watch = loop_.on_readable(read_end.get(), [this, round] { look(round); });
    if (!watch) return false;
    rounds_[round].pipe = std::move(read_end);
    rounds_[round].watch = std::move(*watch);
    rounds_[round].is_shared = false;
    write_end_ = std::move(write_end);
    return true;
}

std::expected<Pid, SpawnError> ExecutionWatch::spawn(std::shared_ptr<StartPlan const> const& plan, ProcessNumber number,
                                                     StartFiles const& files) {
    if (!round_) round_ = next_ ? std::exchange(next_, std::nullopt) : prepare_round();
    auto pid = starts_.spawn(plan, number, files, *round_);
    if (!pid) return pid;
    ++rounds_[*round_].waiting;
    ++waiting_;
    ++started_;
    return pid;
}

void ExecutionWatch::left(std::uint32_t round) {
    Round& that = rounds_[round];
    --that.waiting;
    --waiting_;
    if (that.waiting > 0 || round_ == round) return;
    that.watch = {};
    that.pipe = {};
}

void ExecutionWatch::reaped(Pid pid) {
    for (std::size_t at = next_left_; at < left_.size(); ++at) {
        if (left_[at].pid == pid) left_[at].has_failed = true;  // there is nothing more to report
    }
    if (waiting_ == 0) return;
    if (auto const round = starts_.forget(pid)) left(*round);
}

void ExecutionWatch::look() { look(std::nullopt); }

void ExecutionWatch::look(std::optional<std::uint32_t> ended_round) {
    if (ended_round) {
        // Children that are left have closed their end early, to put a descriptor of the program in its place: they
        // need a timer.
        rounds_[*ended_round].watch = {};
        rounds_[*ended_round].pipe = {};
    }
    bool const is_all_told = next_left_ == left_.size();
    if ((waiting_ == 0 && is_all_told) || is_looking_) return;
    struct Guard {
        bool& flag;
        ~Guard() { flag = false; }
    } const guard{is_looking_};
    is_looking_ = true;
    if (is_all_told) {
        starts_.take_left(left_, ended_round);
        next_left_ = 0;
        for (Starts::Left const& child : left_)
            left(child.round);
    }
    for (; next_left_ < left_.size(); ++next_left_) {
        Starts::Left const child = left_[next_left_];
        if (!child.has_failed) executed_(child.pid);
    }
}

/// Whether a timer is needed because a pipe may be late: a stuck child keeps it open for the others of its round.
bool ExecutionWatch::needs_time() const {
    return waiting_ > 0 && std::ranges::any_of(rounds_, [](Round const& round) {
               return round.waiting > (round.pipe && !round.is_shared ? 1U : 0U);
           });
}

void ExecutionWatch::end_round() {
    if (auto const round = std::exchange(round_, std::nullopt)) {
        write_end_ = {};
        Round& that = rounds_[*round];
        that.is_shared = starts_.starts() - starts_before_ != started_;
        if (that.waiting == 0) {
            that.watch = {};
            that.pipe = {};
        }
        started_ = 0;
        delay_ = first_delay;
        timer_.disarm();
        if (std::uint32_t const next = prepare_round(); next != without_pipe) next_ = next;
    }
    if (!timer_.is_armed() || !needs_time()) set_timer();
}

void ExecutionWatch::set_timer() {
    if (!needs_time()) return timer_.disarm();
    timer_.arm(std::chrono::steady_clock::now() + delay_);
    delay_ = std::min(2 * delay_, longest_delay);
}

}  // namespace triton::process
