#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "launcher/plan/agent_plan.h"
#include "launcher/plan/version.h"
#include "launcher/shell/shell.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

/// How a version that can take over answers `upgrade-check`, before its version line.
constexpr std::string_view fit = "fit to take over: ";
constexpr milliseconds time_to_check{10000};
constexpr milliseconds time_to_drain{500};
// Children that still share our memory, or output that nobody takes: how long they may hold up an upgrade.
constexpr Duration time_to_get_ready = std::chrono::seconds(5);
constexpr Duration between_tries = milliseconds(2);

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        std::size_t const end = text.find('\n');
        if (end != 0) lines.emplace_back(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return lines;
}

/// What is in a pipe whose writers have ended; what they said beyond its size they have not said.
std::string take_all(int fd) {
    std::string text(65536, '\0');
    ssize_t const size = ::read(fd, text.data(), text.size());
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return text;
}

void set_close_on_exec(int fd, bool is_set) { (void)::fcntl(fd, F_SETFD, is_set ? FD_CLOEXEC : 0); }

}  // namespace

Result<> Shell::upgrade(std::string const& path) {
    if (supervisor_.phase() != SupervisorPhase::running) return fail(ErrorKind::refused, "the launcher is stopping");
    if (upgrade_) return fail(ErrorKind::refused, "an upgrade is under way");
    log_.write(log::LogLevel::info, "upgrade-started", "upgrade to " + path + " begins",
               {{"path", std::string_view(path)}});
    upgrade_.emplace();
    upgrade_->path = path;
    if (Result<> const begun = check_successor(); !begun) give_up_upgrade(begun.error());
    return {};
}

/// Runs `PATH upgrade-check OUR-ARGUMENTS` with the state as its standard input.
Result<> Shell::check_successor() {
    UniqueFd const state = TRY(seal_upgrade_state(write_upgrade_state(upgrade_state())));
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail(errno, "make a pipe");
    upgrade_->answer = UniqueFd{ends[0]};
    UniqueFd const theirs{ends[1]};
    // Of our end alone: what it started may hold the other one when it is read.
    if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return fail(errno, "make a pipe");

    std::vector<std::string> words{"upgrade-check"};
    for (char const* const* word = options_.arguments + 1; *word; ++word)
        words.emplace_back(*word);
    auto const plan = TRY(own_program(words, upgrade_->path));
    helpers_.run(upgrade_key, time_to_check, steady_clock::now(), [&]() -> Result<pid_t> {
        auto const pid =
            spawner_.spawn(plan, ProcessNumber{1}, {.in = state.get(), .out = theirs.get(), .err = theirs.get()});
        if (!pid) return fail(pid.error().code, process::stage_text(pid.error().stage, plan.get()));
        return static_cast<pid_t>(*pid);
    });
    arm_helpers();
    return {};
}

/// What the child of the new version has said.
void Shell::successor_answered(process::CommandRunner::Outcome const& outcome) {
    if (!upgrade_) return;
    std::string const text = take_all(upgrade_->answer.get());
    upgrade_->answer = {};
    std::vector<std::string> lines = lines_of(text);
    if (supervisor_.phase() != SupervisorPhase::running)
        return give_up_upgrade({ErrorKind::refused, {}, "the launcher is stopping", {}});
    if (outcome.is_ok() && !lines.empty() && lines.front().starts_with(fit)) {
        upgrade_->version = lines.front().substr(fit.size());
        upgrade_->is_checked = true;
        upgrade_->give_up_at = steady_clock::now() + time_to_get_ready;
        upgrade_timer_.arm(steady_clock::now());
        return;
    }
    if (auto const error = std::exchange(helper_error_, std::nullopt)) {
        return give_up_upgrade(
            {ErrorKind::internal, {}, "execute " + upgrade_->path + ": " + errno_text(error->code), {}});
    }
    std::string reason = upgrade_->path + " cannot take over";
    if (outcome.how == process::CommandRunner::How::timed_out) reason += ": it did not answer in time";
    if (outcome.how == process::CommandRunner::How::not_started) reason += ": " + outcome.error.text();
    if (lines.empty() && outcome.how == process::CommandRunner::How::exited) {
        reason += ": it is no launcher that can be upgraded to";
    }
    give_up_upgrade({ErrorKind::internal, {}, std::move(reason), std::move(lines)});
}

void Shell::give_up_upgrade(Error error) {
    upgrade_.reset();
    log_.write(log::LogLevel::error, "upgrade-failed", "upgrade failed: " + error.text(),
               {{"error", std::string_view(error.text())}, {"details", std::span<std::string const>(error.details)}});
    if (control_) control_->answer_upgrade(std::unexpected(std::move(error)));
}

UpgradeState Shell::upgrade_state() {
    UpgradeState state;
    state.version = version();
    state.pid = ::getpid();
    state.supervisor = supervisor_.state();
    for (std::size_t at = 0; at < programs_.size(); ++at) {
        Runtime const& program = programs_[at];
        UpgradeState::Program& saved = state.programs.emplace_back(program.name, program.plan != nullptr);
        if (program.plan && !program.is_configured) saved.output = program.plan->settings.output;
        if (program.versions.size() > 1) {
            saved.versions = program.versions;
            saved.runs.assign(program.runs.begin(), program.runs.end());
        }
        for (std::size_t i = 0; i < program.instances.size(); ++i) {
            Runtime::Instance const& one = program.instances[i];
            state.instances.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(i + 1), one.oom_kills,
                                       one.was_oom_killed, one.status});
        }
    }
    state.has_configuration = active_.has_value();
    if (active_) {
        state.configuration = active_->text;
        state.warnings = active_->warnings;
    }
    state.sockets = sockets_.export_state();
    if (notify_) state.notify = notify_->export_state();
    for (process::CommandRunner::Running const& running : helpers_.running()) {
        if (running.key < first_own_key) state.helpers.push_back(running);
    }
    if (control_ && control_->socket().fd >= 0) state.control = control_->socket();
    if (schedules_) state.schedules = schedules_->next_runs();
    if (cgroups_) state.cgroup_tree = cgroups_->path();
    state.inherited_mask = setup_.inherited.mask;
    state.sigchld_was_ignored = setup_.inherited.sigchld_was_ignored;
    state.descriptor_limit = source_.descriptor_limit;
    state.began = began_;
    state.told_ready = told_ready_;
    state.stop_requests = stop_requests_;
    state.reboots = reboots_;
    if (agent_link_) state.agent_link = agent_link_->export_state();
    state.probes = probes_.waiting();
    state.pod = pod_;
    state.configuration_changes = configuration_changes_;
    state.configuration_time = configuration_time_;
    return state;
}

/// Tries until nothing stands in the way: no child that shares our memory, no output that waits here.
void Shell::try_upgrade() {
    if (!upgrade_ || !upgrade_->is_checked) return;
    if (supervisor_.phase() != SupervisorPhase::running)
        return give_up_upgrade({ErrorKind::refused, {}, "the launcher is stopping", {}});
    reap();
    end_round();
    bool const is_clear = spawner_.is_idle() && !console_.is_blocked();
    TimePoint const now = steady_clock::now();
    if (!is_clear && now < upgrade_->give_up_at) return upgrade_timer_.arm(now + between_tries);
    if (console_.is_blocked())
        return give_up_upgrade({ErrorKind::internal, {}, "standard output takes nothing: lines would be lost", {}});
    become_successor();
}

/// Returns only when that has failed; then everything is as it was.
void Shell::become_successor() {
    UpgradeState state = upgrade_state();
    if (output_) state.output = output_->export_state();
    log_.flush();
    console_.drain(time_to_drain);
    if (console_.has_pending() || log_.has_pending()) {
        if (output_) output_->resume_reading();
        return give_up_upgrade({ErrorKind::internal, {}, "lines would be lost: the log takes nothing", {}});
    }
    auto const sealed = seal_upgrade_state(write_upgrade_state(state));
    int err = sealed ? 0 : sealed.error().code;
    if (sealed) {
        if (control_)
            control_->answer_upgrade(ControlServer::UpgradeVersions{std::string(version()), upgrade_->version});
        std::vector<int> descriptors = state.descriptors();
        descriptors.push_back(sealed->get());
        for (int const fd : descriptors)
            set_close_on_exec(fd, false);
        std::string const variable = std::string(upgrade_variable) + "=" + std::to_string(sealed->get());
        std::vector<char*> environment;
        for (char const* const* entry = environment_; *entry; ++entry) {
            // Ours may have one already: of the upgrade that it began with.
            if (!std::string_view(*entry).starts_with(upgrade_variable + std::string("=")))
                environment.push_back(const_cast<char*>(*entry));
        }
        environment.push_back(const_cast<char*>(variable.c_str()));
        environment.push_back(nullptr);
        (void)::execve(upgrade_->path.c_str(), const_cast<char**>(options_.arguments), environment.data());
        err = errno;
        for (int const fd : descriptors)
            set_close_on_exec(fd, true);
    }
    if (output_) output_->resume_reading();
    give_up_upgrade({ErrorKind::internal, {}, "execute " + upgrade_->path + ": " + errno_text(err), {}});
}

// The other side: the new version.

/// A program whose configuration is gone, or cannot be read any more: it can be stopped, not started.
std::shared_ptr<ProgramPlan const> Shell::plan_without_start(UpgradeState::Program const& program,
                                                             ProgramPolicy const& policy) {
    auto plan = std::make_shared<ProgramPlan>();
    plan->settings.name = program.name;
    plan->settings.output = program.output;
    plan->policy = policy;
    return plan;
}

/// Where its file cannot be opened any more, standard output takes what it says: without a reader it would die.
void Shell::capture_again(std::uint32_t at, Runtime const& program) {
    config::Output const& wanted = program.plan->settings.output;
    Result<> const configured = output_->configure(at, program.name, wanted);
    if (configured) return;
    log_.write(log::LogLevel::error, "output-failed", "output of " + program.name + ": " + configured.error().text(),
               {{"program", std::string_view(program.name)}, {"error", std::string_view(configured.error().text())}});
    (void)output_->configure(at, program.name, {.kind = wanted.kind, .when_full = wanted.when_full});  // opens nothing
}

/// Programs get their plans from the configuration that was active, by their names.
void Shell::restore_programs(UpgradeState const& state) {
    programs_.resize(state.programs.size());
    if (state.has_configuration) {
        auto loaded = load_configuration(state.configuration, source_, environment_);
        if (loaded) {
            if (loaded->configuration.has_programs) open_channels();
            has_tree_killers_ = loaded->configuration.has_programs;
            active_ = std::move(*loaded);
        } else {
            reject(std::move(loaded.error()));
        }
    }
    sockets_.import_state(state.sockets);
    restore_agent(state);
    plans_ = plans_for(active_ ? &*active_ : nullptr);
    for (std::size_t at = 0; at < programs_.size(); ++at) {
        if (!state.programs[at].is_used) continue;
        Runtime& program = programs_[at];
        ProgramRecord const& record = state.supervisor.programs[at];
        program.name = state.programs[at].name;
        auto const named =
            std::ranges::find(plans_, program.name, [](auto const& plan) { return plan->settings.name; });
        program.is_configured = record.is_configured && named != plans_.end();
        program.plan = program.is_configured ? *named : plan_without_start(state.programs[at], record.policy);
        program.is_captured = program.plan->settings.output.kind == config::OutputKind::captured;
        if (!program.name.empty() && !output_) open_channels();
        if (program.is_captured) {
            capture_again(static_cast<std::uint32_t>(at), program);
        }
        has_tree_killers_ = has_tree_killers_ || !program.name.empty();
    }
    for (Runtime& program : programs_) {
        if (!program.plan) continue;
        for (SocketRequest const& socket : program.plan->sockets)
            program.listen.push_back(sockets_.fd(socket.address));
        if (is_agent(*program.plan)) hand_over_to_agent(program);
    }
    restore_versions(state);
    for (UpgradeState::Instance const& one : state.instances) {
        if (one.program >= programs_.size()) continue;
        Runtime& program = programs_[one.program];
        Runtime::Instance& mine = instance({ProgramId{one.program}, ProcessNumber{one.number}}, program);
        mine.oom_kills = one.oom_kills;
        mine.was_oom_killed = one.was_oom_killed;
        mine.status = one.status;
        if (!cgroups_) continue;
        if (auto group = cgroups_->make_group(program.name, one.number)) mine.cgroup = std::move(*group);
    }
}

/// The agent goes on too, and connects again. Where this version cannot have one, it is stopped like a program that is
/// not configured any more.
void Shell::restore_agent(UpgradeState const& state) {
    if (state.agent_link.ours >= 0) {
        auto link = AgentLink::adopt(loop_, state.agent_link,
                                     [this](UniqueFd connection) { agent_connected(std::move(connection)); });
        if (link) agent_link_ = std::move(*link);
    }
    if (!options_.agent.is_wanted && !(active_ && active_->needs_agent())) return;
    if (Result<> const prepared = prepare_agent(); !prepared) {
        log_.write(log::LogLevel::error, "agent-failed", "there is no agent any more: " + prepared.error().text(),
                   {{"error", std::string_view(prepared.error().text())}});
    }
}

void Shell::restore_versions(UpgradeState const& state) {
    for (std::size_t at = 0; at < programs_.size(); ++at) {
        Runtime& program = programs_[at];
        if (!program.is_configured) continue;
        remember_version(program);
        UpgradeState::Program const& saved = state.programs[at];
        if (saved.versions.empty() || saved.versions.size() > most_versions) continue;
        program.versions = saved.versions;
        program.runs.assign(saved.runs.begin(), saved.runs.end());
        remember_version(program);
    }
}

Result<int> Shell::take_over(UpgradeState state) {
    // No child is to have what was handed over. Each by itself: that works whatever a seccomp profile refuses.
    for (int const fd : state.descriptors())
        set_close_on_exec(fd, true);
    TRY(start_loop());
    source_.descriptor_limit = state.descriptor_limit;
    if (!state.cgroup_tree.empty()) {
        has_looked_for_cgroups_ = true;
        if (auto tree = process::CgroupTree::open(state.cgroup_tree)) cgroups_ = std::move(*tree);
    }
    supervisor_ = Supervisor(supervisor_policy(), state.supervisor);
    pod_ = state.pod;
    source_.variables = pod_.variables;
    is_pod_known_ = true;
    configuration_changes_ = state.configuration_changes;
    configuration_time_ = state.configuration_time;
    configuration_sequence_ = 1;
    restore_programs(state);
    for (std::size_t at = 0; at < state.supervisor.programs.size(); ++at) {
        auto const& processes = state.supervisor.programs[at].processes;
        for (std::size_t i = 0; i < processes.size(); ++i) {
            ProcessId const id{ProgramId{static_cast<std::uint32_t>(at)},
                               ProcessNumber{static_cast<std::uint32_t>(i + 1)}};
            if (auto const pid = supervisor_.view(id).pid) processes_.emplace(static_cast<pid_t>(*pid), id);
        }
    }
    if (output_) output_->import_state(std::move(state.output));
    if (notify_) notify_->import_state(std::move(state.notify));
    helpers_.import_state(std::move(state.helpers));
    arm_helpers();
    for (NetworkProbes::Probe& probe : state.probes)
        probes_.run(std::move(probe), steady_clock::now());
    std::vector<ProgramId> const ids = configured_ids();
    if (active_) set_schedules(ids);
    for (Schedules::NextRun const& next : state.schedules) {
        if (schedules_) schedules_->import_next_run(next);
    }
    arm_schedules();
    list_programs(ids);
    began_ = state.began;
    told_ready_ = state.told_ready;
    stop_requests_ = state.stop_requests;
    reboots_ = state.reboots;
    // As much room as activate() would have made: a restart allocates nothing.
    std::size_t const count = active_ ? active_->process_count() : 0;
    actions_.reserve(supervisor_.most_actions());
    reports_.reserve(supervisor_.most_actions());
    events_.reserve(count + 16);
    spare_nodes_.reserve(count + processes_.size());
    processes_.reserve(count + processes_.size());
    open_control(state.control);

    Result<> const log_file = log_.open_file();
    if (!log_file) log_.write(log::LogLevel::error, "log-open-failed", log_file.error().text() + "; trying again");
    bool const has_agent =
        std::ranges::any_of(programs_, [](Runtime const& program) { return program.name == agent_name; });
    if (agent_plan_ && !has_agent) activate_again();
    log_.write(log::LogLevel::info, "upgrade-done", "upgraded from " + state.version + " to " + std::string(version()),
               {{"from", std::string_view(state.version)}, {"to", std::string_view(version())}});
    end_round();
    reload_timer_.arm(steady_clock::now());
    run_loop();
    return shut_down();
}

UpgradeCheck check_upgrade(std::string_view text, LaunchOptions const& options, char const* const* environment) {
    auto const state = read_upgrade_state(text);
    UpgradeCheck result;
    if (!state) {
        result.exit_code = 1;
        if (!state.error().error.empty()) {
            result.output = "the state cannot be read: " + state.error().error + "\n";
            return result;
        }
        for (std::string const& place : state.error().lost)
            result.output += "would be lost: " + place + "\n";
        return result;
    }
    if (state->has_configuration) {
        SourceOptions source = options.source;
        source.descriptor_limit = state->descriptor_limit;
        source.variables = state->pod.variables;
        auto const loaded = load_configuration(state->configuration, source, environment);
        std::vector<std::string> problems = loaded ? loaded->warnings : loaded.error().errors;
        // What the version that runs warns of, too, is lost already.
        if (loaded)
            std::erase_if(problems, [&](auto const& one) {
                return std::ranges::find(state->warnings, one) != state->warnings.end();
            });
        for (std::string const& problem : problems)
            result.output += (loaded ? "would be lost: " : "the active configuration is refused: ") + problem + "\n";
        if (!problems.empty()) {
            result.exit_code = 1;
            return result;
        }
    }
    result.output = std::string(fit) + std::string(version()) + "\n";
    return result;
}

}  // namespace triton::launcher
