#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/substitution.h"
#include "launcher/spawn_child.h"
#include "launcher/supervisor.h"

namespace triton::launcher {

/// What all processes of one accepted configuration share. Immutable; lives until its last child has left our memory.
class StartPlan {
public:
    /// `environment`: NAME=value entries. argv[0] is the program's path.
    StartPlan(std::string program, std::vector<std::string> environment, config::CommandTemplate command);
    StartPlan(StartPlan const&) = delete;
    StartPlan& operator=(StartPlan const&) = delete;

    [[nodiscard]] char const* program() const { return program_.c_str(); }
    [[nodiscard]] char* const* envp() const { return envp_.data(); }
    [[nodiscard]] config::CommandTemplate const& command() const { return command_; }
    [[nodiscard]] std::vector<std::string> const& environment() const { return environment_; }

    /// Whether they start the same.
    bool operator==(StartPlan const& other) const {
        return program_ == other.program_ && environment_ == other.environment_ && command_ == other.command_;
    }

private:
    std::string program_;
    std::vector<std::string> environment_;
    std::vector<char*> envp_;
    config::CommandTemplate command_;
};

/// What the launcher changed of itself and each child gets back.
struct Inherited {
    raw::SignalSet mask = 0;
    raw::KernelSigaction sigchld{};
    bool sigchld_was_ignored = false;
};

/// Starts processes as cheaply as Linux allows: clone(2) with CLONE_VM but without CLONE_VFORK, so that nothing is
/// copied and the parent does not wait for execve; each child has a small stack of its own until it has left our
/// memory.
class Spawner {
public:
    /// `orphan_signal`: what a child gets when we die, 0 for none.
    Spawner(Inherited const& inherited, int orphan_signal);
    ~Spawner();
    Spawner(Spawner const&) = delete;
    Spawner& operator=(Spawner const&) = delete;

    /// Starts one process. What fails after clone(2) is known when the child has been reaped: see take_error().
    std::expected<Pid, SpawnError> spawn(std::shared_ptr<StartPlan const> const& plan, ProcessNumber number);

    /// Of a child that was reaped with exit code 127: why it never became the program, if that is so.
    std::optional<SpawnError> take_error(Pid pid);

    /// Gives memory back that only a burst of starts needed.
    void trim();

private:
    struct Slot;
    Slot* new_slot(std::size_t bytes);
    Slot* take_slot(StartPlan const& plan);
    void recycle();
    void free_slot(Slot* slot);

    Inherited inherited_;
    int orphan_signal_;
    int own_pid_;
    Slot* free_ = nullptr;    // ready for use
    Slot* oldest_ = nullptr;  // in use, in order of their start
    Slot* newest_ = nullptr;
};

}  // namespace triton::launcher
