#include "tests/simulation/kernel.h"

#include <algorithm>
#include <csignal>

namespace triton::simulation {

Child const* Kernel::find(ProcessNumber number) const {
    auto const at = std::ranges::find(children_, number, &Child::number);
    return at == children_.end() ? nullptr : &*at;
}

bool Kernel::is_used(int pid) const {
    return std::ranges::any_of(children_, [pid](Child const& child) { return child.pid == Pid{pid}; });
}

Child& Kernel::clone(ProcessNumber number) {
    int pid = last_freed_;
    if (pid == 0 || is_used(pid) || random_.one_in(2)) {
        for (pid = 2; is_used(pid);)
            ++pid;
    }
    Child child;
    child.number = number;
    child.pid = Pid{pid};
    if (is_rude_) {
        child.is_deaf = random_.one_in(3);
        child.is_stuck = random_.one_in(5);
    }
    children_.push_back(child);
    return children_.back();
}

void Kernel::end(std::size_t child, int status) { children_[child].status = status; }

void Kernel::wake(std::size_t child) {
    children_[child].is_stuck = false;
    if (children_[child].is_killed) end(child, SIGKILL);
}

Child Kernel::reap(std::size_t child) {
    Child const reaped = children_[child];
    last_freed_ = static_cast<int>(reaped.pid);
    children_[child] = children_.back();
    children_.pop_back();
    return reaped;
}

void Kernel::signal(ProcessNumber number, int signo) {
    auto const at = std::ranges::find(children_, number, &Child::number);
    Child& child = *at;
    if (child.status || signo == SIGCONT) return;
    if (signo == SIGKILL) {
        child.is_killed = true;
        if (!child.is_stuck) child.status = SIGKILL;
        return;
    }
    if (child.is_deaf || child.is_stuck) return;
    if (signo == stop_signal_) {
        child.status = random_.one_in(2) ? 0 : signo;
    } else if (random_.one_in(8)) {
        child.status = signo;
    }
}

void Kernel::sweep(int signo) {
    if (orphans_ == 0 || (is_rude_ && random_.one_in(4))) return;  // stuck, all of them
    orphans_ = signo == SIGKILL || !is_rude_ ? 0 : random_.below(orphans_ + 1);
}

}  // namespace triton::simulation
