#include "launcher/children/children.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include <sys/wait.h>

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

// The programs in the container decide how many processes end at once, and how many orphans there are.
constexpr int most_reaped_at_once = 1024;

// Each wait walks over all living children, and a child that dies meanwhile waits for the kernel's lock. 10,000 that
// end at once are reaped in a third of the time when they may die first.
constexpr int orphans_of_a_storm = 16;
constexpr auto storm_window = std::chrono::milliseconds(4);
constexpr auto storm_pause = std::chrono::milliseconds(1);

}  // namespace

Children::Children(Sys& sys, EventLoop& loop, log::Log& log, Listener& listener)
    : sys_(sys),
      log_(log),
      listener_(listener),
      commands_([this](pid_t pid, int signo) { return sys_.signal(pid, signo); },
                [this](Key key, Outcome const& outcome) { listener_.command_ended(key, outcome); }),
      command_timer_(loop,
                     [this] {
                         commands_.time_passed(steady_clock::now());
                         arm();
                     }),
      reap_timer_(loop, [this] { reap(); }),
      hunt_(sys, loop),
      executions_(loop, sys, [this](Pid pid) { executed(pid); }) {}

Result<> Children::check() {
    auto const may_be = [](int error) { return error == ECHILD || error == EINTR; };
    auto const found = sys_.find_dead();
    if (!found && !may_be(found.error())) return fail(found.error(), "look for children that have ended");
    auto const dead = sys_.reap(-1);  // what was there before us belongs to nobody
    if (!dead && !may_be(dead.error())) return fail(dead.error(), "wait for children");
    return {};
}

void Children::make_room(std::size_t count) {
    spare_nodes_.reserve(processes_.size() + count);
    processes_.reserve(processes_.size() + count);
}

void Children::make_room_for_a_start() {
    if (!spare_nodes_.empty()) return;
    processes_.emplace(0, Process{});
    spare_nodes_.push_back(processes_.extract(0));
}

std::expected<Pid, process::SpawnError> Children::start(ProcessId id,
                                                        std::shared_ptr<process::StartPlan const> const& plan,
                                                        process::StartFiles const& files) {
    auto const pid = executions_.spawn(plan, id.number, files);
    if (!pid) return pid;
    Processes::node_type node = std::move(spare_nodes_.back());
    spare_nodes_.pop_back();
    node.key() = static_cast<pid_t>(*pid);
    node.mapped() = {id, files.mark};
    processes_.insert(std::move(node));  // the table has room for all since make_room()
    return pid;
}

void Children::run_command(Key key, milliseconds timeout, process::CommandRunner::Spawn const& spawn,
                           process::CommandRunner::Former former) {
    commands_.run(key, timeout, steady_clock::now(), spawn, former);
    arm();
}

void Children::cancel_command(Key key) {
    commands_.cancel(key);
    arm();
}

Result<pid_t> Children::spawn_command(std::shared_ptr<process::StartPlan const> const& plan, ProcessNumber number,
                                      process::StartFiles const& files, ProcessId owner) {
    if (files.mark != 0) command_marks_.reserve(command_marks_.size() + 1);
    auto const pid = sys_.spawn(plan, number, files, std::nullopt);
    if (!pid) return fail(pid.error().code, process::stage_text(pid.error().stage, plan.get(), number));
    if (files.mark != 0) command_marks_.emplace_back(static_cast<pid_t>(*pid), Process{owner, files.mark});
    return static_cast<pid_t>(*pid);
}

Result<pid_t> Children::start_copy(int kept, std::function<void()> const& work) {
    auto const pid = sys_.start_copy(kept, work);
    if (!pid) return fail(pid.error(), "start a helper process");
    return *pid;
}

Result<> Children::start_companion(int kept, std::function<void()> const& work) {
    companions_.reserve(companions_.size() + 1);
    (void)TRY(as_companion(sys_.start_companion(kept, work)));
    return {};
}

Result<pid_t> Children::start_unheard_copy(int kept, std::function<void()> const& work) {
    companions_.reserve(companions_.size() + 1);
    return as_companion(sys_.start_copy(kept, work));
}

/// There is room for one more.
Result<pid_t> Children::as_companion(std::expected<pid_t, int> pid) {
    if (!pid) return fail(pid.error(), "start a helper process");
    companions_.push_back(*pid);
    return *pid;
}

bool Children::are_only_companions_left() {
    if (!is_sweeping_ || companions_.empty()) return false;
    sys_.list_children(living_);
    auto const is_companion = [this](pid_t pid) { return std::ranges::find(companions_, pid) != companions_.end(); };
    return !living_.empty() && std::ranges::all_of(living_, is_companion);  // empty: the kernel does not list them
}

/// Reaps the next child that has ended. Leftovers are killed between the end of their leader and its reaping: until
/// then nobody else can have its pid, which is also the group's.
/// Returns: pid 0 when none has ended; nullopt when there are no children.
std::optional<Sys::Dead> Children::next_dead() {
    pid_t wanted = -1;
    for (;;) {
        if (looks_first_) {
            auto const found = sys_.find_dead();
            if (!found && found.error() == EINTR) continue;
            if (!found) return std::nullopt;
            if (*found == 0) return Sys::Dead{};
            wanted = *found;
            auto const process = processes_.find(wanted);
            process != processes_.end() ? listener_.before_reaping(process->second.id, wanted)
                                        : commands_.before_reaping(wanted);
        }
        auto const dead = sys_.reap(wanted);
        if (!dead && dead.error() == EINTR) continue;
        if (!dead) return std::nullopt;
        return *dead;
    }
}

/// Reaps all children that have ended, since SIGCHLD coalesces. Nobody else reaps, so a pid stays ours until then: one
/// look-up tells whether it is one of our processes, however many orphans there are.
void Children::reap() {
    reap_timer_.disarm();
    is_letting_die_ = false;
    hunt_.begin_round();
    executions_.look();  // a process that has executed and ended is first told to have executed
    int orphans = 0;
    for (int count = 0; count < most_reaped_at_once; ++count) {
        // Before the kernel forgets the process: what it tells must not get lost.
        listener_.make_room_for_an_end();
        if (spare_nodes_.size() == spare_nodes_.capacity()) spare_nodes_.reserve(2 * spare_nodes_.size() + 16);
        auto const dead = next_dead();
        if (!dead) return listener_.no_child_left();
        if (dead->pid == 0) return are_only_companions_left() ? listener_.no_child_left() : let_die(orphans);
        orphans += reaped(*dead) ? 0 : 1;
    }
    reap_timer_.arm(steady_clock::now());
}

void Children::let_die(int orphans) {
    if (orphans == 0) return;
    auto const now = steady_clock::now();
    if (now - storm_since_ > storm_window) {
        storm_since_ = now;
        storm_size_ = 0;
    }
    storm_size_ += orphans;
    if (storm_size_ < orphans_of_a_storm) return;
    is_letting_die_ = true;
    reap_timer_.arm(now + storm_pause);
}

/// Returns whether the dead child was one of our processes.
bool Children::reaped(Sys::Dead dead) {
    // A child that was killed after it had failed, on its way out, counts as failed: its error is kept until it is
    // taken.
    bool const may_have_failed = WIFSIGNALED(dead.status) || WEXITSTATUS(dead.status) == 127;
    std::optional<process::SpawnError> error;
    if (may_have_failed) error = sys_.take_spawn_error(Pid{dead.pid});
    auto node = processes_.extract(dead.pid);
    if (node) {
        executions_.reaped(Pid{dead.pid});
        ProcessId const id = node.mapped().id;
        spare_nodes_.push_back(std::move(node));
        listener_.process_ended(id, dead.status, error);
        return true;
    }
    if (commands_.on_exit(dead.pid, dead.status, error)) {
        end_orphans_of_command(dead.pid);
        arm();
        return true;
    }
    if (std::erase(companions_, dead.pid) > 0) return true;
    hunt_.orphan_reaped();
    listener_.orphan_reaped();
    if (log_.is_enabled(log::LogLevel::debug)) {
        log_.write(log::LogLevel::debug, "orphan-reaped", "reaped orphan " + std::to_string(dead.pid),
                   {{"pid", std::int64_t{dead.pid}}});
    }
    return false;
}

/// It has been reaped, so that what it has left behind is ours.
void Children::end_orphans_of_command(pid_t pid) {
    auto const found = std::ranges::find(command_marks_, pid, &std::pair<pid_t, Process>::first);
    if (found == command_marks_.end()) return;
    Process const command = found->second;
    command_marks_.erase(found);
    hunt_.end_mark(command.mark, command.id);
}

void Children::executed(Pid pid) {
    auto const process = processes_.find(static_cast<pid_t>(pid));
    if (process != processes_.end()) listener_.process_executed(process->second.id);
}

void Children::adopt(std::vector<process::CommandRunner::Running> commands) {
    for (process::CommandRunner::Running const& command : commands)
        if (std::uint64_t const mark = own_mark(command.pid))
            command_marks_.emplace_back(command.pid, Process{nobody, mark});
    commands_.import_state(std::move(commands));
    arm();
}

void Children::follow(ProcessId id, std::optional<Pid> former, Pid pid) {
    // Its mark has been compared with that of the start, where that counts.
    processes_.emplace(static_cast<pid_t>(pid), Process{id, sys_.marks_of(static_cast<pid_t>(pid)).falling});
    if (former) processes_.erase(static_cast<pid_t>(*former));
}

bool Children::is_known(pid_t pid) const {
    return processes_.contains(pid) || is_command(pid) || std::ranges::find(companions_, pid) != companions_.end();
}

bool Children::is_command(pid_t pid) const {
    auto const& running = commands_.running();
    return std::ranges::find(running, pid, &process::CommandRunner::Running::pid) != running.end();
}

/// The mark that a process which runs was started with; 0: none, or it cannot be told. One that has changed its limits
/// may carry somebody else's mark, whose processes would be killed with it. A version before this one has set only one
/// of them.
std::uint64_t Children::own_mark(pid_t pid) {
    Marks const marks = sys_.marks_of(pid);
    return marks.are(marks.falling) || !marks.is_rising_set ? marks.falling : 0;
}

void Children::adopt(ProcessId id, Pid pid, std::optional<std::uint64_t> mark) {
    auto const number = static_cast<pid_t>(pid);
    processes_.emplace(number, Process{id, mark ? *mark : own_mark(number)});
}

void Children::end_orphans_of(pid_t pid) {
    auto const process = processes_.find(pid);
    if (process != processes_.end()) hunt_.end_mark(process->second.mark, process->second.id);
}

}  // namespace triton::launcher
