#include "launcher/children/orphan_hunt.h"

#include <algorithm>
#include <csignal>

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

constexpr int most_tries = 100;  // a moment each; what is nested more deeply, or stuck in the kernel, survives

}  // namespace

OrphanHunt::OrphanHunt(Sys& sys, EventLoop& loop)
    : sys_(sys), timer_(loop, [this] { look(); }), last_mark_(process::highest_mark) {}

/// Marks fall with time: anybody may lower a limit, but raising it takes privilege. The clock goes on over an upgrade.
std::uint64_t OrphanHunt::next_mark() {
    auto const now = static_cast<std::uint64_t>(steady_clock::now().time_since_epoch().count());
    last_mark_ = std::min(last_mark_ - 1, process::highest_mark - now);
    return last_mark_;
}

void OrphanHunt::end(pid_t process) { end_mark(sys_.mark_of(process)); }

void OrphanHunt::end_mark(std::uint64_t mark) {
    if (mark == 0) return;
    if (marks_.size() == most_marks) marks_.erase(marks_.begin());
    marks_.push_back(mark);
    children_.clear();  // a pass that is under way may already be past some of its orphans
    at_ = 0;
    if (has_looked_) return look_soon();
    has_looked_ = true;
    look();
}

void OrphanHunt::orphan_reaped() {
    if (!marks_.empty()) look_soon();
}

void OrphanHunt::look_soon() {
    if (!timer_.is_armed()) timer_.arm(steady_clock::now());
}

bool OrphanHunt::is_hunted(pid_t child) {
    std::uint64_t const mark = sys_.mark_of(child);
    return mark != 0 && std::ranges::find(marks_, mark) != marks_.end();
}

void OrphanHunt::finish() {
    for (int tries = 0; tries < most_tries && !marks_.empty(); ++tries) {
        do
            look();
        while (at_ != 0);
        if (marks_.empty()) return;
        sys_.wait_a_moment();
        for (pid_t const child : children_) {
            if (is_hunted(child)) (void)sys_.reap(child);
        }
    }
}

/// Does one part of a pass over our children.
void OrphanHunt::look() {
    if (at_ == 0) {
        sys_.list_children(children_);
        has_found_ = false;
    }
    std::size_t const end = std::min(at_ + most_per_round, children_.size());
    for (; at_ < end; ++at_) {
        if (!is_hunted(children_[at_])) continue;
        (void)sys_.signal(children_[at_], SIGKILL);  // ours, and not reaped: the pid is nobody else's
        has_found_ = true;
    }
    if (at_ < children_.size()) return look_soon();
    at_ = 0;
    if (!has_found_) marks_.clear();  // else the end of those that were killed calls look() again
}

}  // namespace triton::launcher
