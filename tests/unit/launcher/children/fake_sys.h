#pragma once

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

#include "launcher/children/sys.h"

namespace triton::launcher {

/// A kernel that does what the test says. Its children live until the test or a signal ends them.
class FakeSys : public Sys {
public:
    FakeSys() : signal_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (!signal_fd) std::abort();
    }

    std::expected<Pid, process::SpawnError> spawn(std::shared_ptr<process::StartPlan const> const& plan,
                                                  ProcessNumber number, process::StartFiles const& files,
                                                  std::optional<std::uint32_t> round) override {
        calls.push_back(std::string("spawn ") + plan->program() + " " +
                        std::to_string(static_cast<std::uint32_t>(number)));
        last_plan = plan;
        last_files = files;
        if (throws_at_spawn > 0 && throws_at_spawn-- == 1) throw std::bad_alloc();
        if (!spawn_errors.empty()) {
            int const error = spawn_errors.front();
            spawn_errors.pop_front();
            if (error != 0) return std::unexpected(process::SpawnError{process::SpawnStage::clone, error});
        }
        pid_t const pid = next_pid++;
        ++living;
        ++started;
        if (round) leaving.push_back({Pid{pid}, *round, false});
        if (on_spawn) on_spawn(pid);
        return Pid{pid};
    }
    /// Each execve has succeeded, or failed, as soon as somebody looks.
    void take_left(std::vector<Left>& left, std::optional<std::uint32_t>) override {
        for (Left& child : leaving)
            child.has_failed = errors_of_children.contains(static_cast<pid_t>(child.pid));
        left = std::exchange(leaving, {});
    }
    std::optional<std::uint32_t> forget(Pid pid) override {
        auto const found = std::ranges::find(leaving, pid, &Left::pid);
        if (found == leaving.end()) return std::nullopt;
        std::uint32_t const round = found->round;
        leaving.erase(found);
        return round;
    }
    [[nodiscard]] std::uint64_t starts() const override { return started; }
    std::optional<process::SpawnError> take_spawn_error(Pid pid) override {
        auto const found = errors_of_children.extract(static_cast<pid_t>(pid));
        return found ? std::optional(found.mapped()) : std::nullopt;
    }
    bool is_memory_shared() override { return false; }
    void give_memory_back() override {}

    std::expected<pid_t, int> find_dead() override {
        calls.emplace_back("look");
        if (int const error = next_wait_error()) return std::unexpected(error);
        if (!dead.empty()) return dead.front().pid;
        if (living == 0) return std::unexpected(ECHILD);
        return 0;
    }
    std::expected<Dead, int> reap(pid_t which) override {
        calls.push_back("reap " + std::to_string(which));
        if (int const error = next_wait_error()) return std::unexpected(error);
        auto const found = which == -1 ? dead.begin() : std::ranges::find(dead, which, &Dead::pid);
        if (found != dead.end()) {
            Dead const one = *found;
            dead.erase(found);
            return one;
        }
        if (living == 0) return std::unexpected(ECHILD);
        return Dead{};
    }
    /// Its work is done at once, by us; its end is told by the test.
    std::expected<pid_t, int> start_copy(int, std::function<void()> const& work) override {
        calls.emplace_back("copy");
        copies_refused += copy_error != 0;
        if (copy_error != 0) return std::unexpected(copy_error);
        if (!copies_hang) work();
        ++living;
        return next_copy++;
    }
    std::expected<pid_t, int> start_companion(int, std::function<void()> const&) override {
        return std::unexpected(EAGAIN);
    }
    int signal(pid_t pid, int signo) override {
        calls.push_back("kill " + std::to_string(pid) + " " + std::to_string(signo));
        if (on_signal) on_signal(pid, signo);
        auto const refused = signal_errors.find(pid);
        return refused == signal_errors.end() ? 0 : refused->second;
    }
    pid_t group_of(pid_t pid) override {
        if (throws_at_group_of > 0 && throws_at_group_of-- == 1) throw std::bad_alloc();
        return pid;
    }
    pid_t foreground_group() override { return terminal; }
    void set_foreground_group(pid_t group) override {
        if (terminal < 0) return;
        terminal = group;
        calls.push_back("foreground " + std::to_string(group));
    }
    int take_stop(pid_t pid) override { return std::exchange(stops[pid], 0); }
    pid_t own_pid() override { return own; }
    void list_children(std::vector<pid_t>& children) override {
        calls.emplace_back("list");
        children.clear();
        for (auto const& [pid, mark] : marks)
            if (std::ranges::find(deeper, pid) == deeper.end()) children.push_back(pid);
    }
    /// All that are marked are children of ours, and so are those that the test names.
    pid_t parent_of(pid_t pid) override {
        auto const found = parents.find(pid);
        return found != parents.end() ? found->second : marks.contains(pid) ? own_pid() : 0;
    }
    bool adopts_orphans() override { return true; }
    void wait_a_moment() override {
        if (on_moment) on_moment();
    }
    Marks marks_of(pid_t pid) override {
        auto const found = marks.find(pid);
        if (found == marks.end()) return {};
        auto const other = rising_marks.find(pid);
        std::uint64_t const rising = other == rising_marks.end() ? found->second : other->second;
        return {.falling = found->second, .rising = rising, .is_rising_set = rising != unset};
    }
    std::optional<uid_t> user_of(pid_t pid) override {
        auto const found = users.find(pid);
        return found == users.end() ? std::nullopt : std::optional(found->second);
    }
    std::expected<bool, int> signal_marked(pid_t pid, std::span<std::uint64_t const> wanted, int signo) override {
        Marks const its = marks_of(pid);
        bool const is_it = std::ranges::any_of(wanted, [its](std::uint64_t mark) { return its.have(mark); });
        if (!is_it || std::ranges::find(dead, pid, &Dead::pid) != dead.end()) return false;
        (void)signal(pid, signo);
        return true;
    }
    void list_processes(std::vector<pid_t>& processes) override {
        list_children(processes);
        calls.back() = "list all";
        processes.insert(processes.end(), deeper.begin(), deeper.end());
    }
    std::expected<std::size_t, int> read_signals(int, std::span<signalfd_siginfo> infos) override {
        ++reads_of_signals;
        if (!read_errors.empty()) {
            int const error = read_errors.front();
            read_errors.pop_front();
            return std::unexpected(error);
        }
        std::size_t count = 0;
        // As Linux does it: those of low numbers first. A flood never ends.
        std::ranges::stable_sort(signals);
        for (; count < infos.size() && (!signals.empty() || floods_with != 0); ++count) {
            int const signo = signals.empty() ? floods_with : signals.front();
            if (!signals.empty()) signals.pop_front();
            infos[count] = {};
            infos[count].ssi_signo = static_cast<std::uint32_t>(signo);
            infos[count].ssi_code = signal_code;
        }
        std::uint64_t value = 0;
        if (signals.empty() && floods_with == 0) (void)!::read(signal_fd.get(), &value, sizeof value);
        if (count == 0) return std::unexpected(EAGAIN);
        return count;
    }

    Result<UniqueFd> open_null_device() override { return UniqueFd{::eventfd(0, EFD_CLOEXEC)}; }
    int execute(char const* path, char const* const* arguments, char const* const* environment) override {
        return on_execute ? on_execute(path, arguments, environment) : ENOSYS;
    }
    void reboot() override { calls.emplace_back("reboot"); }

    // What the test does.
    void send(int signo) {
        signals.push_back(signo);
        std::uint64_t const one = 1;
        (void)!::write(signal_fd.get(), &one, sizeof one);
    }
    /// A child has ended: one that was spawned here, or an orphan that nobody has counted.
    void end(pid_t pid, int status) {
        dead.push_back({pid, status});
        if (((pid < next_pid && pid >= first_pid) || pid >= first_copy) && living > 0) --living;
        send(SIGCHLD);
    }

    static constexpr pid_t first_pid = 100;
    static constexpr pid_t first_copy = 5000;
    UniqueFd signal_fd;
    pid_t own = 7;
    pid_t terminal = -1;         // its foreground group
    std::map<pid_t, int> stops;  // signals that have stopped children
    std::vector<std::string> calls;
    std::shared_ptr<process::StartPlan const> last_plan;
    process::StartFiles last_files;
    std::deque<int> spawn_errors;  // of the next spawns; 0: none
    int throws_at_spawn = 0;       // the n-th from now throws bad_alloc
    int throws_at_group_of = 0;    // the same
    std::map<pid_t, process::SpawnError> errors_of_children;
    std::deque<int> wait_errors;  // of the next waits; the last one stays when `refuses_to_wait`
    bool refuses_to_wait = false;
    int copy_error = 0;
    int copies_refused = 0;
    bool copies_hang = false;  // a copy does nothing
    std::deque<Dead> dead;
    int living = 0;
    pid_t next_pid = first_pid;
    pid_t next_copy = first_copy;
    std::uint64_t started = 0;
    std::vector<Left> leaving;  // watched, and not told of
    std::deque<int> signals;
    int signal_code = SI_USER;  // of all of them
    int floods_with = 0;
    std::deque<int> read_errors;
    int reads_of_signals = 0;
    static constexpr std::uint64_t unset = ~std::uint64_t{0};
    std::map<pid_t, std::uint64_t> marks;         // of our children, and of those below them
    std::map<pid_t, std::uint64_t> rising_marks;  // where they differ; `unset`: as ours
    std::vector<pid_t> deeper;                    // of those that are marked: no children of ours
    std::map<pid_t, uid_t> users;
    std::map<pid_t, pid_t> parents;      // of others
    std::map<pid_t, int> signal_errors;  // of kill(2), by whom it is for
    std::function<void()> on_moment;
    std::function<void(pid_t)> on_spawn;
    std::function<void(pid_t, int)> on_signal;
    std::function<int(char const*, char const* const*, char const* const*)> on_execute;  // returns an errno

private:
    int next_wait_error() {
        if (wait_errors.empty()) return 0;
        int const error = wait_errors.front();
        if (wait_errors.size() > 1 || !refuses_to_wait) wait_errors.pop_front();
        return error;
    }
};

}  // namespace triton::launcher
