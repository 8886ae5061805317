#include "tests/simulation/kernel.h"

#include <algorithm>
#include <csignal>

namespace triton::simulation {

namespace {

constexpr int core_dumped = 0x80;

template <class T>
T take(std::vector<T>& from, std::size_t at) {
    T const taken = from[at];
    from[at] = from.back();
    from.pop_back();
    return taken;
}

}  // namespace

Child const* Kernel::find(ProcessId id) const {
    auto const at = std::ranges::find(children_, id, &Child::id);
    return at == children_.end() ? nullptr : &*at;
}

Child const* Kernel::find(Pid pid) const {
    auto const at = std::ranges::find(children_, pid, &Child::pid);
    return at == children_.end() ? nullptr : &*at;
}

Command const* Kernel::find(ProcessId id, Helper helper) const {
    auto const at = std::ranges::find_if(commands_, [&](Command const& c) { return c.id == id && c.helper == helper; });
    return at == commands_.end() ? nullptr : &*at;
}

bool Kernel::is_used(int pid) const { return find(Pid{pid}) != nullptr; }

Child& Kernel::clone(ProcessId id, int stop_signal) {
    int pid = last_freed_;
    if (pid == 0 || is_used(pid) || random_.one_in(2)) {
        for (pid = 2; is_used(pid);)
            ++pid;
    }
    Child child;
    child.id = id;
    child.pid = Pid{pid};
    child.stop_signal = stop_signal;
    if (is_rude_) {
        child.is_deaf = random_.one_in(3);
        child.is_stuck = random_.one_in(5);
        child.is_mute = random_.one_in(4);
    }
    children_.push_back(child);
    return children_.back();
}

void Kernel::execute(std::size_t child) { children_[child].has_executed = true; }

void Kernel::fail_to_execute(std::size_t child, process::SpawnError error) {
    children_[child].error = error;
    end(child, 127 << 8);
}

void Kernel::tell_executed(std::size_t child) { children_[child].is_known = true; }

void Kernel::end(std::size_t child, int status) { children_[child].status = status; }

void Kernel::end_by_oom(std::size_t child) {
    children_[child].is_oom_killed = true;
    end(child, SIGKILL);
}

void Kernel::wake(std::size_t child) {
    children_[child].is_stuck = false;
    if (children_[child].is_killed) end(child, SIGKILL);
}

Child Kernel::reap(std::size_t child) {
    last_freed_ = static_cast<int>(children_[child].pid);
    return take(children_, child);
}

Pid Kernel::leave_behind(ProcessId id, int stop_signal) {
    Child& child = clone(id, stop_signal);
    child.has_executed = child.is_known = true;
    return child.pid;
}

void Kernel::forget(Pid pid) {
    std::erase_if(children_, [pid](Child const& child) { return child.pid == pid; });
    last_freed_ = static_cast<int>(pid);
}

void Kernel::signal(Pid pid, int signo) {
    auto const at = std::ranges::find(children_, pid, &Child::pid);
    if (at == children_.end()) return;  // ESRCH; that it was asked for is the invariants' business
    Child& child = *at;
    if (child.status || signo == SIGCONT) return;
    if (signo == SIGKILL) {
        child.is_killed = true;
        if (!child.is_stuck) child.status = SIGKILL;
        return;
    }
    if (child.is_deaf || child.is_stuck) return;
    if (signo == SIGABRT) {
        child.status = SIGABRT | core_dumped;
    } else if (signo == child.stop_signal) {
        child.status = random_.one_in(2) ? 0 : signo;
    } else if (random_.one_in(8)) {
        child.status = signo;
    }
}

void Kernel::run(ProcessId id, Helper helper) {
    commands_.push_back({.id = id, .helper = helper, .hangs = is_rude_ && random_.one_in(4)});
}

void Kernel::cancel(ProcessId id, Helper helper) {
    for (Command& command : commands_) {
        if (command.id == id && command.helper == helper) command.is_cancelled = true;
    }
}

Command Kernel::end_command(std::size_t command) { return take(commands_, command); }

void Kernel::sweep(int signo) {
    if (orphans_ == 0 || (is_rude_ && random_.one_in(4))) return;  // stuck, all of them
    orphans_ = signo == SIGKILL || !is_rude_ ? 0 : random_.below(orphans_ + 1);
}

}  // namespace triton::simulation
