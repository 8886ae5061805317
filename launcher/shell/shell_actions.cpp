#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <unistd.h>

#include "launcher/shell/shell.h"
#include "lib/base/signal_text.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

process::CommandRunner::Key key_of(ProcessId id, Helper helper) {
    return static_cast<process::CommandRunner::Key>(id.program) << 32 |
           static_cast<process::CommandRunner::Key>(id.number) << 8 | static_cast<process::CommandRunner::Key>(helper);
}
ProcessId process_of(process::CommandRunner::Key key) {
    return {ProgramId{static_cast<std::uint32_t>(key >> 32)},
            ProcessNumber{static_cast<std::uint32_t>(key >> 8 & 0xffffff)}};
}
Helper helper_of(process::CommandRunner::Key key) { return static_cast<Helper>(key & 0xff); }

NotifyKey notify_key(ProcessId id) {
    return {static_cast<std::uint32_t>(id.program), static_cast<std::uint32_t>(id.number)};
}
OutputKey output_key(ProcessId id) {
    return {static_cast<std::uint32_t>(id.program), static_cast<std::uint32_t>(id.number)};
}
ProcessId process_of(NotifyKey key) { return {ProgramId{key.program}, ProcessNumber{key.process}}; }

std::string_view text(Helper helper) {
    switch (helper) {
        case Helper::pre_stop: return "preStop";
        case Helper::on_failure: return "onFailure";
        case Helper::readiness: return "readiness";
        case Helper::health: return "health";
    }
    std::unreachable();
}

bool is_probe(Helper helper) { return helper == Helper::readiness || helper == Helper::health; }

std::string outcome_text(process::CommandRunner::Outcome const& outcome) {
    switch (outcome.how) {
        case process::CommandRunner::How::exited: return "exit code " + std::to_string(outcome.code);
        case process::CommandRunner::How::signalled: return signal_text(outcome.code);
        case process::CommandRunner::How::timed_out: return "it took too long";
        case process::CommandRunner::How::cancelled: return "cancelled";
        case process::CommandRunner::How::not_started: return outcome.error.text();
    }
    std::unreachable();
}

template <class E>
process::SpawnError spawn_error(process::SpawnStage stage, E const& error) {
    return {stage, error.code != 0 ? error.code : EIO};
}

}  // namespace

void Shell::perform(Action const& action) {
    std::visit([this](auto const& which) { perform(which); }, action);
}

void Shell::perform(Effect const& effect) {
    std::visit([this](auto const& which) { on(which); }, effect);
}

void Shell::perform(Report const& report) { reports_.emplace_back(report); }

void Shell::on(action::Spawn const& action) {
    // What allocates comes first: a child must not get lost by an exception.
    if (spare_nodes_.empty()) {
        processes_.emplace(0, action.id);
        spare_nodes_.push_back(processes_.extract(0));
    }
    if (events_.size() == events_.capacity()) events_.reserve(2 * events_.size() + 16);
    auto const pid = spawn(action.id, programs_[static_cast<std::size_t>(action.id.program)]);
    if (!pid) {
        events_.push_back(event::SpawnFailed{action.id, pid.error()});
        return;
    }
    Processes::node_type node = std::move(spare_nodes_.back());
    spare_nodes_.pop_back();
    node.key() = static_cast<pid_t>(*pid);
    node.mapped() = action.id;
    processes_.insert(std::move(node));  // the table has room for all since activate()
    events_.push_back(event::Spawned{action.id, *pid});
}

/// What one start hands to its process, and the start. The design's form takes the short way: nothing is handed on.
std::expected<Pid, process::SpawnError> Shell::spawn(ProcessId id, Runtime& program) {
    if (!program.plan || !program.plan->start)
        return std::unexpected(process::SpawnError{process::SpawnStage::execute, ENOENT});
    if (auto const at = static_cast<std::size_t>(id.number) - 1; at < program.runs.size())
        program.runs[at] = static_cast<std::uint8_t>(program.versions.size() - 1);
    if (program.name.empty() && !cgroups_) return spawner_.spawn(program.plan->start, id.number);

    config::Program const& settings = program.plan->settings;
    process::StartFiles files;
    // Several programs cannot share one terminal; the only one of the design's form has it.
    if (!program.name.empty()) files.in = null_device();
    files.listen = program.listen;
    if (program.plan == agent_plan_) files.out = options_.log.console;  // it writes a log, too
    if (settings.output.kind == config::OutputKind::null) files.out = files.err = files.in;
    if (program.is_captured) {
        auto const ends = output_->write_ends(output_key(id));
        if (!ends) return std::unexpected(spawn_error(process::SpawnStage::descriptors, ends.error()));
        files.out = ends->out;
        files.err = ends->err;
    }
    UniqueFd ready;
    if (settings.readiness && settings.readiness->type == config::ReadinessType::notify) {
        process::Identity const& identity = program.plan->start->attributes().identity;
        auto const address = notify_->open_socket(
            notify_key(id),
            {.has_own_root = settings.root_directory.has_value(), .user = identity.user, .group = identity.group});
        if (!address) return std::unexpected(spawn_error(process::SpawnStage::descriptors, address.error()));
        files.notify_socket = *address;
    } else if (settings.readiness && settings.readiness->type == config::ReadinessType::fd) {
        auto pipe = notify_->open_pipe(notify_key(id));
        if (!pipe) return std::unexpected(spawn_error(process::SpawnStage::descriptors, pipe.error()));
        ready = std::move(*pipe);
        files.ready = ready.get();
    }
    UniqueFd cgroup;
    if (cgroups_) {
        auto group = prepare_group(id, program);
        if (!group) return std::unexpected(spawn_error(process::SpawnStage::cgroup, group.error()));
        cgroup = std::move(*group);
        files.cgroup = cgroup.get();
    }
    return spawner_.spawn(program.plan->start, id.number, files);
}

Shell::Runtime::Instance& Shell::instance(ProcessId id, Runtime& program) {
    auto const at = static_cast<std::size_t>(id.number) - 1;
    while (program.instances.size() <= at)
        program.instances.emplace_back();
    return program.instances[at];
}

Shell::Runtime::Instance const* Shell::find_instance(ProcessId id) const {
    auto const at = static_cast<std::size_t>(id.number) - 1;
    auto const& instances = programs_[static_cast<std::size_t>(id.program)].instances;
    return at < instances.size() ? &instances[at] : nullptr;
}

/// The directory of the process's control group, with the limits that are configured now.
Result<UniqueFd> Shell::prepare_group(ProcessId id, Runtime& program) {
    Runtime::Instance& mine = instance(id, program);
    if (!mine.cgroup) mine.cgroup = TRY(cgroups_->make_group(program.name, static_cast<std::uint32_t>(id.number)));
    TRY(mine.cgroup->set_limits(program.plan->settings.cgroup.value_or(process::CgroupLimits{})));
    mine.oom_kills = mine.cgroup->oom_kills().value_or(0);
    return mine.cgroup->directory();
}

int Shell::null_device() {
    if (!null_device_) null_device_ = UniqueFd{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    return null_device_.get();  // -1 where there is none: then it is ours
}

void Shell::on(action::Signal const& action) {
    reports_.emplace_back(action);
    send(action);
}

void Shell::send(action::Signal const& action) {
    auto const pid = static_cast<pid_t>(action.pid);  // not reaped, so it exists
    Runtime& program = programs_[static_cast<std::size_t>(action.id.program)];
    Runtime::Instance const* const mine = find_instance(action.id);
    // SIGKILL is for all that a process has started. It may not be in its group yet, or not any more while others are.
    bool const is_kill = action.why == action::Why::kill;
    bool const is_for_all = is_kill || action.scope == StopScope::tree || (options_.kill_group && program.name.empty());
    if (is_for_all && mine && mine->cgroup) {
        // signal() may miss those that come into being meanwhile, and a group that is gone has nobody: the process is
        // signalled by itself in any case.
        if (is_kill) {
            (void)mine->cgroup->kill();
        } else if (mine->cgroup->signal(action.signo)) {
            return;
        }
    }
    bool const reached_group = is_for_all && ::kill(-pid, action.signo) == 0;
    if (!reached_group || is_kill) (void)::kill(pid, action.signo);
}

void Shell::on(action::Sweep const& action) {
    // Everything that this process may signal: never unless that is a PID namespace of our own.
    if (::getpid() != 1) return;
    (void)::kill(-1, action.signo);
    if (action.signo != SIGKILL) (void)::kill(-1, SIGCONT);
    reap();
}

void Shell::on(action::Finish const& action) {
    exit_code_ = action.exit_code;
    if (!begin_linger()) loop_.stop();
}

// Helper commands.

void Shell::on(action::RunHelper const& action) {
    Runtime& program = programs_[static_cast<std::size_t>(action.id.program)];
    HelperPlan const helper = program.plan ? program.plan->helper(action.helper) : HelperPlan{};
    if (helper.network) return run_network_probe(key_of(action.id, action.helper), helper, action.id.number);
    auto const start = [&]() -> Result<pid_t> {
        if (!helper.start) return fail(ENOENT, "run " + std::string(text(action.helper)));
        process::StartFiles files;
        files.in = null_device();
        // A probe runs all the time, and what it says of itself is in its exit code.
        if (is_probe(action.helper)) files.out = files.err = files.in;
        if (program.is_captured && !is_probe(action.helper)) {
            auto const ends = TRY(output_->write_ends(output_key(action.id)));
            files.out = ends.out;
            files.err = ends.err;
        }
        auto const pid = spawner_.spawn(helper.start, action.id.number, files);
        if (!pid) return fail(pid.error().code, process::stage_text(pid.error().stage, helper.start.get()));
        return static_cast<pid_t>(*pid);
    };
    helpers_.run(key_of(action.id, action.helper), helper.timeout, steady_clock::now(), start);
    arm_helpers();
}

void Shell::on(action::CancelHelper const& action) {
    process::CommandRunner::Key const key = key_of(action.id, action.helper);
    if (!probes_.cancel(key)) helpers_.cancel(key);
    arm_helpers();
    arm_probes();
}

void Shell::helper_ended(process::CommandRunner::Key key, process::CommandRunner::Outcome const& outcome) {
    if (key == upgrade_key) return successor_answered(outcome);
    if (key >= first_own_key) return staging_ended(key, outcome);
    ProcessId const id = process_of(key);
    Helper const helper = helper_of(key);
    dispatch(event::HelperEnded{id, helper, outcome.is_ok()});
    if (outcome.is_ok() || outcome.how == process::CommandRunner::How::cancelled) return;
    // A readiness probe fails until it is ready; that of the health is told when it matters.
    log::LogLevel const level = is_probe(helper) ? log::LogLevel::debug : log::LogLevel::warning;
    if (!log_.is_enabled(level)) return;
    std::string const who = reporter_.who(id);
    std::string const why = outcome_text(outcome);
    log_.write(level, "helper-failed", std::string(text(helper)) + " of " + who + " has failed: " + why,
               {{"program", std::string_view(programs_[static_cast<std::size_t>(id.program)].name)},
                {"process", static_cast<std::int64_t>(id.number)},
                {"helper", text(helper)},
                {"error", std::string_view(why)}});
}

// What processes say and leave behind.

/// Between the end of a process and its reaping.
void Shell::kill_leftovers(pid_t pid) {
    auto const found = processes_.find(pid);
    if (found == processes_.end()) return helpers_.before_reaping(pid);
    Runtime const& program = programs_[static_cast<std::size_t>(found->second.program)];
    if (!program.plan || !program.plan->policy.kills_tree) return;
    (void)::kill(-pid, SIGKILL);
    Runtime::Instance const* const mine = find_instance(found->second);
    if (mine && mine->cgroup) (void)mine->cgroup->kill();
}

/// What it said last comes before its end.
void Shell::process_ended(ProcessId id, Runtime& program) {
    if (program.name.empty()) return;
    if (program.plan && program.plan->settings.readiness) notify_->process_ended(notify_key(id));
    if (program.is_captured) output_->process_ended(output_key(id));
    if (Runtime::Instance const* const mine = find_instance(id); mine && !mine->status.empty())
        instance(id, program).status.clear();
}

bool Shell::has_died_of_memory(ProcessId id, Runtime& program) {
    Runtime::Instance const* const mine = find_instance(id);
    if (!mine || !mine->cgroup) return false;
    std::uint64_t const before = mine->oom_kills;
    std::uint64_t const now = mine->cgroup->oom_kills().value_or(before);
    Runtime::Instance& known = instance(id, program);
    known.oom_kills = now;
    known.was_oom_killed = now > before;
    return known.was_oom_killed;
}

/// Whether that process may speak for this one. Source: systemd.service(5), NotifyAccess=.
bool Shell::may_notify(NotifyKey key, NotifySender sender) const {
    ProcessId const id = process_of(key);
    if (key.program >= programs_.size() || !programs_[key.program].plan) return false;
    ProgramPlan const& plan = *programs_[key.program].plan;
    auto const pid = supervisor_.view(id).pid;
    if (!pid || sender.pid <= 0) return false;
    if (static_cast<pid_t>(*pid) == sender.pid) return true;
    auto const& readiness = plan.settings.readiness;
    if (!readiness || readiness->notify_access != config::NotifyAccess::all) return false;
    Runtime::Instance const* const mine = find_instance(id);
    if (mine && mine->cgroup && mine->cgroup->contains(sender.pid)) return true;
    pid_t const group = ::getpgid(sender.pid);
    // Gone already, as what a script runs to speak for it mostly is. It had the address, which its program alone was
    // told, and the user says that it is no stranger.
    if (group < 0) return plan.start && sender.user == plan.start->attributes().identity.user.value_or(::geteuid());
    return group == static_cast<pid_t>(*pid);
}

void Shell::notified(NotifyKey key, Notification const& notification) {
    ProcessId const id = process_of(key);
    if (notification.status) {
        instance(id, programs_[key.program]).status = *notification.status;
        if (control_) control_->state_changed();
    }
    if (notification.extend_timeout) dispatch(event::ExtendTimeout{id, *notification.extend_timeout});
    if (notification.is_watchdog_ping) dispatch(event::WatchdogPing{id});
    if (notification.is_ready) dispatch(event::Ready{id});
    if (notification.is_watchdog_trigger) dispatch(event::Command{event::Verb::signal, id.program, id.number, SIGABRT});
}

}  // namespace triton::launcher
