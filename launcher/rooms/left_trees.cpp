#include "launcher/rooms/left_trees.h"

#include <algorithm>
#include <utility>

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

// A thousand processes may end in one round, each of which would have all our children listed: for those beyond this
// number the pass in the next round says whether something is left.
constexpr unsigned most_looks_in_round = 16;

ProcessId id_of_tree(UpgradeState::LeftTree const& tree) {
    return {ProgramId{tree.program}, ProcessNumber{tree.number}};
}

}  // namespace

LeftTrees::LeftTrees(Sys& sys, EventLoop& loop, Children const& children, Channels& channels, EventSink& events)
    : sys_(sys), loop_(loop), children_(children), channels_(channels), events_(events), timer_(loop, [this] {
          look();
      }) {}

std::vector<UpgradeState::LeftTree>::iterator LeftTrees::find(ProcessId id) {
    return std::ranges::find(trees_, id, id_of_tree);
}

void LeftTrees::note(ProcessId id, pid_t leader, std::uint64_t mark) {
    (void)forget(id);
    trees_.push_back({.program = static_cast<std::uint32_t>(id.program),
                      .number = static_cast<std::uint32_t>(id.number),
                      .leader = leader,
                      .mark = mark});
}

bool LeftTrees::reaped(ProcessId id) {
    auto const tree = find(id);
    if (tree == trees_.end()) return false;
    if (is_quickly_known_to_be_empty(*tree)) {
        (void)forget(id);
        return false;
    }
    look_soon();
    return true;
}

std::uint64_t LeftTrees::forget(ProcessId id) {
    auto const tree = find(id);
    if (tree == trees_.end()) return 0;
    std::uint64_t const mark = tree->mark;
    trees_.erase(tree);
    if (auto const at = std::ranges::find(looked_for_, id); at != looked_for_.end()) {
        bool const was_seen = channels_.has_groups() && at - looked_for_.begin() < static_cast<std::ptrdiff_t>(at_);
        if (was_seen) --at_;
        looked_for_.erase(at);
    }
    return mark;
}

/// Whether a child may be the rest of a tree: it is none of our processes, helper commands and companions.
bool LeftTrees::is_stranger(pid_t child) const { return !children_.is_known(child); }

bool LeftTrees::is_quickly_known_to_be_empty(Tree const& tree) {
    if (channels_.has_groups()) return !channels_.is_group_populated(id_of_tree(tree));
    if (std::exchange(round_, loop_.now()) != loop_.now()) looks_in_round_ = 0;
    if (++looks_in_round_ > most_looks_in_round) return false;
    std::vector<pid_t> children;
    sys_.list_children(children);
    std::erase_if(children, [this](pid_t child) { return !is_stranger(child); });
    if (children.size() > most_per_round) return false;
    return std::ranges::none_of(children, [&](pid_t child) { return sys_.marks_of(child).have(tree.mark); });
}

/// Without control groups: what has become our child, and the process group of the first process. That group is still
/// its own: the kernel gives its number to nobody else while somebody is in it.
process::RefusedSignals LeftTrees::signal(ProcessId id, int signo) {
    auto const tree = find(id);
    if (tree == trees_.end()) return {};
    if (channels_.has_groups()) return channels_.signal_group(id, 0, signo).refused;
    std::vector<pid_t> children;
    sys_.list_children(children);
    process::RefusedSignals refused;
    bool has_group = false;
    for (pid_t const child : children) {
        if (!is_stranger(child) || !sys_.marks_of(child).have(tree->mark)) continue;
        bool const is_of_group = tree->leader != 0 && sys_.group_of(child) == tree->leader;
        has_group = has_group || is_of_group;
        // kill(2) of a group does not say whom of it it could not reach.
        refused.add(child, sys_.signal(child, is_of_group ? 0 : signo));
    }
    if (has_group) (void)sys_.signal(-tree->leader, signo);
    return refused;
}

// The pass.

void LeftTrees::look_soon() {
    is_to_look_again_ = is_in_pass_;
    timer_.arm(steady_clock::now());
}

void LeftTrees::look() {
    if (trees_.empty()) {
        is_in_pass_ = is_to_look_again_ = false;
        return looked_for_.clear();
    }
    if (!std::exchange(is_in_pass_, true)) {
        at_ = 0;
        looked_for_.clear();
        for (Tree const& tree : trees_)
            looked_for_.push_back(id_of_tree(tree));
        pids_.clear();
        if (!channels_.has_groups()) sys_.list_children(pids_);
    }
    if (!is_pass_over()) return timer_.arm(steady_clock::now());
    is_in_pass_ = false;
    conclude();
    if (std::exchange(is_to_look_again_, false)) return timer_.arm(steady_clock::now());
    if (!trees_.empty()) timer_.arm(steady_clock::now() + rescan);
}

/// Does one part of a pass, in which trees that live are no longer looked for. Returns whether that was the last part.
bool LeftTrees::is_pass_over() {
    if (channels_.has_groups()) {
        std::size_t const last = std::min(at_ + most_per_round, looked_for_.size());
        std::size_t kept = at_;
        for (std::size_t at = at_; at < last; ++at) {
            if (!channels_.is_group_populated(looked_for_[at])) looked_for_[kept++] = looked_for_[at];
        }
        looked_for_.erase(looked_for_.begin() + static_cast<std::ptrdiff_t>(kept),
                          looked_for_.begin() + static_cast<std::ptrdiff_t>(last));
        at_ = kept;
        return at_ == looked_for_.size();
    }
    std::size_t const last = std::min(at_ + most_per_round, pids_.size());
    for (; at_ < last; ++at_) {
        if (!is_stranger(pids_[at_])) continue;
        Marks const marks = sys_.marks_of(pids_[at_]);
        for (Tree const& tree : trees_)
            if (marks.have(tree.mark)) std::erase(looked_for_, id_of_tree(tree));
    }
    return at_ == pids_.size();
}

/// What is still looked for is empty.
void LeftTrees::conclude() {
    while (!looked_for_.empty()) {
        ProcessId const id = looked_for_.back();
        (void)forget(id);  // first, since what the event causes may look for trees as well
        events_.dispatch(event::TreeEmpty{id});
    }
}

void LeftTrees::restore(UpgradeState const& state) {
    trees_ = state.left_trees;
    if (!trees_.empty()) look_soon();
}

}  // namespace triton::launcher
