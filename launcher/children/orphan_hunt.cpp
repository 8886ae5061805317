#include "launcher/children/orphan_hunt.h"

#include <algorithm>
#include <csignal>

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

constexpr int most_tries = 100;  // a moment each; what is nested more deeply, or stuck in the kernel, survives
// In between those that were killed die. What does not, since the kernel holds it, is looked for less and less often,
// and after the longest rest only when an orphan has ended.
constexpr Duration shortest_rest = milliseconds(5);
constexpr Duration longest_rest = std::chrono::seconds(2);

}  // namespace

OrphanHunt::OrphanHunt(Sys& sys, EventLoop& loop)
    : sys_(sys), timer_(loop, [this] { look(); }), last_mark_(process::highest_mark) {}

/// Marks fall with time: anybody may lower a limit, but raising it takes privilege. The clock goes on over an upgrade.
std::uint64_t OrphanHunt::next_mark() {
    auto const now = static_cast<std::uint64_t>(steady_clock::now().time_since_epoch().count());
    last_mark_ = std::min(last_mark_ - 1, process::highest_mark - now);
    return last_mark_;
}

process::RefusedSignals OrphanHunt::end_mark(std::uint64_t mark, ProcessId owner) {
    if (mark == 0) return {};
    if (marks_.size() == most_marks) {
        marks_.erase(marks_.begin());
        owners_.erase(owners_.begin());
    }
    owners_.reserve(marks_.size() + 1);
    marks_.push_back(mark);
    owners_.push_back(owner);
    if (pass_ == Pass::children) {
        begin_anew();  // a pass that is under way may already be past some of its orphans
        is_second_ = false;
    }
    rest_ = {};
    rests_until_ = {};
    refused_ = {};
    if (has_looked_) {
        look_soon();
    } else {
        has_looked_ = true;
        look();
    }
    return std::exchange(refused_, {});
}

bool OrphanHunt::is_hunting(ProcessId owner) const { return std::ranges::find(owners_, owner) != owners_.end(); }

void OrphanHunt::orphan_reaped() {
    if (!marks_.empty()) look_soon();
}

void OrphanHunt::look_soon() {
    if (!timer_.is_armed()) timer_.arm(std::max(steady_clock::now(), rests_until_));
}

void OrphanHunt::begin_anew() {
    pass_ = Pass::children;
    list_.clear();
    at_ = 0;
}

void OrphanHunt::finish() {
    for (int tries = 0; tries < most_tries && !marks_.empty(); ++tries) {
        do
            look();
        while (at_ != 0 || pass_ != Pass::children);
        if (marks_.empty()) return;
        sys_.wait_a_moment();
        sys_.list_children(list_);
        for (pid_t const child : list_) {
            Marks const its = sys_.marks_of(child);
            if (std::ranges::any_of(marks_, [its](std::uint64_t mark) { return its.have(mark); }))
                (void)sys_.reap(child);
        }
    }
}

/// Does one part of a pass.
void OrphanHunt::look() {
    if (at_ == 0) begin_pass();
    std::size_t const end = std::min(at_ + most_per_round, list_.size());
    for (; at_ < end; ++at_)
        has_found_ |= visit(list_[at_]);
    if (at_ < list_.size()) return look_soon();
    at_ = 0;
    end_pass();
}

void OrphanHunt::begin_pass() {
    has_found_ = false;
    switch (pass_) {
        case Pass::children: return sys_.list_children(list_);
        case Pass::stop_all: return sys_.list_processes(list_);
        case Pass::kill_all: list_.assign(known_.begin(), known_.end());
    }
}

/// Returns whether this is one that the pass looks for.
bool OrphanHunt::visit(pid_t pid) {
    bool const is_stop = pass_ == Pass::stop_all || (pass_ == Pass::children && is_second_);
    auto const signalled = sys_.signal_marked(pid, marks_, is_stop ? SIGSTOP : SIGKILL);
    if (!signalled) refused_.add(pid, signalled.error());
    bool const is_there = signalled.value_or(false);
    return is_there && (pass_ != Pass::stop_all || known_.insert(pid).second);
}

void OrphanHunt::end_pass() {
    switch (pass_) {
        case Pass::children:
            if (!has_found_) {
                marks_.clear();
                owners_.clear();
                is_second_ = false;
                return;
            }
            // The ends of those that were killed call look() again.
            if (!std::exchange(is_second_, true)) return;
            pass_ = Pass::stop_all;
            stops_ = 0;
            known_.clear();
            return look_soon();
        case Pass::stop_all:
            if (!has_found_ || ++stops_ == most_stops) pass_ = Pass::kill_all;
            return look_soon();
        case Pass::kill_all:
            begin_anew();
            if (rest_ >= longest_rest) return;
            rest_ = std::max(2 * rest_, shortest_rest);
            rests_until_ = steady_clock::now() + rest_;
            return look_soon();
    }
}

}  // namespace triton::launcher
