#pragma once

#include <cstddef>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <sys/signalfd.h>
#include <sys/types.h>

#include "launcher/supervisor/supervisor.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/process/spawn.h"

namespace triton::launcher {

/// What a copy of the launcher may use: the writer of its input chooses how much it needs. The limits are
/// soft ones, because a program's own hard limits may be tried there.
struct CopyLimits {
    static constexpr unsigned processor_seconds = 5;      ///< then SIGXCPU ends it
    static constexpr unsigned long memory = 128UL << 20;  ///< bytes in addition to ours
    static constexpr unsigned long file = 8UL << 20;      ///< bytes of the longest file that it writes
};

/// The mark of a start as the two limits of a process have it (process::MarkLimits). A process can lower its limits,
/// and then they differ.
struct Marks {
    std::uint64_t falling = 0;   ///< 0: none
    std::uint64_t rising = 0;    ///< 0: none
    bool is_rising_set = false;  ///< else that limit is as ours: no start has set it

    /// The process was started with this mark, or by a process that was: nobody else can have both.
    [[nodiscard]] bool are(std::uint64_t mark) const { return mark != 0 && falling == mark && rising == mark; }
    /// The same, or it has changed one of the two.
    [[nodiscard]] bool have(std::uint64_t mark) const { return mark != 0 && (falling == mark || rising == mark); }
};

/// What the rooms of the launcher ask of the kernel about processes, signals and the launcher itself. A test has a fake
/// that answers by a script.
///
/// Time, descriptors that are waited for, and files are not in here: the EventLoop has the first two, and a temporary
/// directory is fake enough for the third. An error is an errno, as the kernel gave it: EINTR is not hidden: the
/// tests check who tries again.
class Sys : public process::Starts {
public:
    /// See process::Spawner: take_error(), is_idle(), trim().
    virtual std::optional<process::SpawnError> take_spawn_error(Pid pid) = 0;
    virtual bool is_memory_shared() = 0;
    virtual void give_memory_back() = 0;

    /// A child that has ended, which stays as it is: its pid is still its own. 0: none has ended.
    /// Errors: ECHILD when there is no child.
    virtual std::expected<pid_t, int> find_dead() = 0;
    struct Dead {
        pid_t pid = 0;  ///< 0: it has not ended
        int status = 0;
    };
    /// Reaps this child, or any for -1, if it has ended. Errors: ECHILD when there is no such child.
    virtual std::expected<Dead, int> reap(pid_t which) = 0;

    /// Starts a copy of this process that does `work`, and ends with exit code 0, or with 1 when that throws. It leads
    /// a process group of its own, is killed when we end, and has the limits of CopyLimits. Of the descriptors it has
    /// the standard ones and `kept`. Errors: those of fork(2).
    virtual std::expected<pid_t, int> start_copy(int kept, std::function<void()> const& work) = 0;

    /// The same without limits, for what goes on for as long as it has something to do, whether we live or not. Of the
    /// signals only SIGKILL and SIGSTOP reach it, and of the descriptors it has only `kept`.
    virtual std::expected<pid_t, int> start_companion(int kept, std::function<void()> const& work) = 0;

    /// kill(2). Returns 0 or an errno.
    virtual int signal(pid_t pid, int signo) = 0;
    /// getpgid(2); -1: there is no such process.
    virtual pid_t group_of(pid_t pid) = 0;
    /// The foreground group of the terminal that is our standard input; -1: it is not ours, or not a terminal.
    virtual pid_t foreground_group() = 0;
    /// Does nothing where that is not allowed.
    virtual void set_foreground_group(pid_t group) = 0;
    /// The signal that has stopped this child since the last call; 0: none has.
    virtual int take_stop(pid_t pid) = 0;
    virtual pid_t own_pid() = 0;
    /// Replaces the content with our children, as many as a bounded read gives, including ended ones.
    virtual void list_children(std::vector<pid_t>& children) = 0;
    /// The mark that the process was started with or has inherited. None also when there is no such process.
    virtual Marks marks_of(pid_t pid) = 0;
    /// The parent of a process that lives; 0: there is no such process, it has ended, or that is the number of another
    /// thread than its first one, whose end nobody is told of.
    virtual pid_t parent_of(pid_t pid) = 0;
    /// The user that a process is in every respect; nullopt: it is one of several, or there is no such process.
    virtual std::optional<uid_t> user_of(pid_t pid) = 0;
    /// Signals this process if it has one of the marks and lives, and returns whether that is so. Never reaches another
    /// process that has got its pid meanwhile. Returns an errno when it could not be signalled.
    virtual std::expected<bool, int> signal_marked(pid_t pid, std::span<std::uint64_t const> marks, int signo) = 0;
    /// Replaces the content with all processes that we may see, as many as a bounded read gives.
    virtual void list_processes(std::vector<pid_t>& processes) = 0;
    /// Whether what processes of ours leave behind becomes our child: we are PID 1 or a subreaper.
    virtual bool adopts_orphans() = 0;
    /// A millisecond in which those that were killed may end.
    virtual void wait_a_moment() = 0;
    /// Signals that wait, at most as many as fit. Errors: EAGAIN when none does.
    virtual std::expected<std::size_t, int> read_signals(int fd, std::span<signalfd_siginfo> infos) = 0;

    /// Empty when there is no null device.
    virtual Result<UniqueFd> open_null_device() = 0;
    /// Becomes another program. Returns, with an errno, only when that has failed.
    virtual int execute(char const* path, char const* const* arguments, char const* const* environment) = 0;
    /// Restarts the machine whose PID 1 we are. Returns when that is not allowed.
    virtual void reboot() = 0;
};

/// Linux.
class RealSys final : public Sys {
public:
    /// See process::Spawner.
    RealSys(process::Inherited const& inherited, int orphan_signal) : spawner_(inherited, orphan_signal) {}

    std::expected<Pid, process::SpawnError> spawn(std::shared_ptr<process::StartPlan const> const& plan,
                                                  ProcessNumber number, process::StartFiles const& files,
                                                  std::optional<std::uint32_t> round) override {
        return spawner_.spawn(plan, number, files, round);
    }
    void take_left(std::vector<Left>& left, std::optional<std::uint32_t> ended_round) override {
        spawner_.take_left(left, ended_round);
    }
    std::optional<std::uint32_t> forget(Pid pid) override { return spawner_.forget(pid); }
    [[nodiscard]] std::uint64_t starts() const override { return spawner_.starts(); }
    std::optional<process::SpawnError> take_spawn_error(Pid pid) override { return spawner_.take_error(pid); }
    bool is_memory_shared() override { return !spawner_.is_idle(); }
    void give_memory_back() override { spawner_.trim(); }
    std::expected<pid_t, int> find_dead() override;
    std::expected<Dead, int> reap(pid_t which) override;
    std::expected<pid_t, int> start_copy(int kept, std::function<void()> const& work) override;
    std::expected<pid_t, int> start_companion(int kept, std::function<void()> const& work) override;
    int signal(pid_t pid, int signo) override;
    pid_t group_of(pid_t pid) override;
    pid_t foreground_group() override;
    void set_foreground_group(pid_t group) override;
    int take_stop(pid_t pid) override;
    pid_t own_pid() override;
    void list_children(std::vector<pid_t>& children) override;
    Marks marks_of(pid_t pid) override;
    pid_t parent_of(pid_t pid) override;
    std::optional<uid_t> user_of(pid_t pid) override;
    std::expected<bool, int> signal_marked(pid_t pid, std::span<std::uint64_t const> marks, int signo) override;
    void list_processes(std::vector<pid_t>& processes) override;
    bool adopts_orphans() override;
    void wait_a_moment() override;
    std::expected<std::size_t, int> read_signals(int fd, std::span<signalfd_siginfo> infos) override;
    Result<UniqueFd> open_null_device() override;
    int execute(char const* path, char const* const* arguments, char const* const* environment) override;
    void reboot() override;

private:
    process::Spawner spawner_;
};

}  // namespace triton::launcher
