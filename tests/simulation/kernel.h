#pragma once

#include <optional>
#include <vector>

#include "launcher/supervisor.h"
#include "tests/simulation/random.h"

namespace triton::simulation {

using launcher::Pid;
using launcher::ProcessNumber;

/// One of the launcher's children, from clone until it is reaped.
struct Child {
    ProcessNumber number{};
    Pid pid{};
    bool is_deaf = false;   ///< ignores every signal but SIGKILL
    bool is_stuck = false;  ///< in an uninterruptible sleep: not even SIGKILL ends it yet
    bool is_killed = false;
    std::optional<int> status{};  ///< it has ended, and waits to be reaped
    std::optional<launcher::SpawnError> error{};
};

/// What the supervisor sees of a kernel: children, orphans, and as few pids as possible, so that they are used again
/// soon. It decides how a signal ends; when something happens is the episode's choice.
class Kernel {
public:
    Kernel(Random& random, int stop_signal, bool is_rude)
        : random_(random), stop_signal_(stop_signal), is_rude_(is_rude) {}

    [[nodiscard]] std::vector<Child> const& children() const { return children_; }
    [[nodiscard]] bool has_orphans() const { return orphans_ > 0; }
    [[nodiscard]] Child const* find(ProcessNumber number) const;

    /// The pid that was freed last comes first in half of the cases: the worst case for a signal that comes too late.
    Child& clone(ProcessNumber number);
    void end(std::size_t child, int status);
    void wake(std::size_t child);
    Child reap(std::size_t child);
    void signal(ProcessNumber number, int signo);

    void add_orphans(std::uint64_t count) { orphans_ += count; }
    void end_orphans() { orphans_ = 0; }
    /// kill(-1, signo); a deaf orphan survives anything but SIGKILL.
    void sweep(int signo);

private:
    [[nodiscard]] bool is_used(int pid) const;

    Random& random_;
    int stop_signal_;
    bool is_rude_;
    std::vector<Child> children_;
    std::uint64_t orphans_ = 0;
    int last_freed_ = 0;
};

}  // namespace triton::simulation
