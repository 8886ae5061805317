#include <algorithm>
#include <charconv>
#include <ranges>

#include <sys/wait.h>
#include <unistd.h>

#include "config/substitution.h"
#include "launcher/control/process_usage.h"
#include "launcher/plan/version.h"
#include "launcher/shell/shell.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

constexpr Duration time_to_read = std::chrono::seconds(10);  // for the agent, which is told little

std::string text_of(process::IdOrName const& id) {
    if (auto const* const number = std::get_if<std::uint32_t>(&id)) return std::to_string(*number);
    return std::get<std::string>(id);
}

std::string_view text(config::RestartWhen when) {
    switch (when) {
        case config::RestartWhen::always: return "always";
        case config::RestartWhen::on_failure: return "on-failure";
        case config::RestartWhen::never: return "never";
    }
    std::unreachable();
}

std::string output_text(config::Output const& output) {
    switch (output.kind) {
        case config::OutputKind::inherit: return "inherit";
        case config::OutputKind::null: return "null";
        case config::OutputKind::captured: return output.file.value_or("captured");
    }
    std::unreachable();
}

/// The group that a name or a number means. Errors: "--control-group: no group \"x\" in /etc/group".
Result<std::optional<gid_t>> control_group(std::string const& name) {
    if (name.empty()) return std::nullopt;
    gid_t number = 0;
    auto const [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc{} && end == name.data() + name.size()) return number;
    process::Accounts const accounts = TRY(process::Accounts::read({}));
    auto const group = accounts.find_group(name);
    if (!group) return fail("--control-group: no group \"" + name + "\" in /etc/group");
    return *group;
}

}  // namespace

/// After the processes have been started: nobody waits for it, and a container without a place for it runs as well.
void Shell::open_control(std::optional<ControlSocket> adopted) {
    if (!options_.control_socket.empty()) {
        auto opened = [&]() -> Result<std::unique_ptr<ControlServer>> {
            ControlSettings settings{.path = options_.control_socket,
                                     .mode = options_.control_mode,
                                     .group = TRY(control_group(options_.control_group)),
                                     .adopted = adopted,
                                     .keeps_for_agent = options_.agent.is_reporting};
            return ControlServer::create(loop_, std::move(settings), *this);
        }();
        if (opened) {
            control_ = std::move(*opened);
            return tell_records();  // of what is told in this round, too
        }
        // One that was asked for is missed; the default's place is one that many containers do not have.
        log_.write(options_.is_control_asked_for ? log::LogLevel::error : log::LogLevel::info, "control-failed",
                   "no control socket: " + opened.error().text(), {{"error", std::string_view(opened.error().text())}});
    }
    if (agent_plan_) open_control_for_agent();
}

/// The agent comes another way, and needs no socket of a name.
void Shell::open_control_for_agent() {
    if (control_) return;
    ControlSettings settings{.keeps_for_agent = options_.agent.is_reporting};
    auto opened = ControlServer::create(loop_, std::move(settings), *this);
    if (!opened) return;
    control_ = std::move(*opened);
    tell_records();
}

LauncherStatus Shell::launcher() const {
    return {.version = std::string(version()),
            .pid = ::getpid(),
            .uptime = steady_clock::now() - began_,
            .phase = supervisor_.phase() == SupervisorPhase::running ? "running" : "stopping",
            .configuration_path = options_.configuration_path,
            .has_configuration = active_.has_value(),
            .is_ready = active_.has_value() && supervisor_.is_ready(),
            .rejection = rejection_,
            .configuration_changes = configuration_changes_,
            .configuration_time = active_ ? std::optional(configuration_time_) : std::nullopt,
            .is_isolated = pod_.is_isolated,
            .reporter = reporter_status()};
}

/// What the agent has told last, unless it is not there to tell.
std::optional<ReporterStatus> Shell::reporter_status() const {
    if (!options_.agent.is_reporting) return reporter_status_;
    ReporterStatus status =
        reporter_status_.value_or(ReporterStatus{"connecting", "the agent has not come up yet", {}});
    auto const agent = std::ranges::find(programs_, agent_plan_, &Runtime::plan);
    ProcessId const id{ProgramId{static_cast<std::uint32_t>(agent - programs_.begin())}, ProcessNumber{1}};
    if (agent == programs_.end() || !supervisor_.view(id).pid) {
        status.state = "failing";
        status.detail = "the agent does not run";
    } else if (control_ && control_->agent_deaf_for() > time_to_read) {
        status.state = "failing";
        status.detail = "the agent does not answer";
    }
    return status;
}

std::size_t Shell::program_count() const { return shown_.size(); }

std::optional<std::size_t> Shell::find_program(std::string_view name) const {
    auto const found = std::ranges::find_if(
        shown_, [&](ProgramId id) { return programs_[static_cast<std::size_t>(id)].name == name; });
    if (found == shown_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - shown_.begin());
}

ProgramStatus Shell::program(std::size_t index) const {
    ProgramId const id = shown_[index];
    Runtime const& program = programs_[static_cast<std::size_t>(id)];
    ProgramPolicy const& policy = supervisor_.policy(id);
    ProgramStatus status{.name = program.name,
                         .kind = policy.kind,
                         .wanted = program.is_configured ? policy.count : 0,
                         .processes = supervisor_.size(id),
                         .is_ready = supervisor_.is_ready(id),
                         .next_run_in = {},
                         .version = program.versions.empty() ? std::string() : program.versions.back(),
                         .is_internal = policy.auxiliary};
    if (schedules_) status.next_run_in = schedules_->next_run_in(id, steady_clock::now());
    return status;
}

ProgramDescription Shell::describe(std::size_t index) const {
    Runtime const& program = programs_[static_cast<std::size_t>(shown_[index])];
    config::Program const& settings = program.plan->settings;
    ProgramDescription description{
        .version = settings.version.value_or(active_ ? active_->configuration.version : std::string()),
        .command = {},
        .working_directory = settings.working_directory.value_or(""),
        .user = settings.user ? text_of(*settings.user) : "",
        .restart = std::string(text(settings.restart)),
        .after = settings.after,
        .requires_ = settings.requires_,
        .sockets = {},
        .output = output_text(settings.output)};
    if (process::StartPlan const* const start = program.plan->start.get()) {
        description.command = start->command().arguments(ProcessNumber{1});
        description.command.insert(description.command.begin(), start->name());
    }
    for (config::ListenSocket const& socket : settings.sockets)
        description.sockets.push_back(socket.name + " " + config::format_socket_address(socket.address));
    return description;
}

ProcessStatus Shell::process(std::size_t index, std::uint32_t number) const {
    ProcessId const id{shown_[index], ProcessNumber{number}};
    ProcessView const view = supervisor_.view(id);
    TimePoint const now = steady_clock::now();
    ProcessStatus status;
    status.number = number;
    status.state = view.state;
    if (view.pid) {
        status.pid = static_cast<pid_t>(*view.pid);
        status.uptime = now - view.since;
    }
    status.starts = view.starts;
    Runtime const& runtime = programs_[static_cast<std::size_t>(id.program)];
    if (view.pid && number <= runtime.runs.size() && runtime.runs[number - 1] < runtime.versions.size())
        status.version = runtime.versions[runtime.runs[number - 1]];
    if (view.last_status) {
        bool const by_signal = WIFSIGNALED(*view.last_status);
        status.last_exit = LastExit{.code = by_signal ? 0 : WEXITSTATUS(*view.last_status),
                                    .signal = by_signal ? WTERMSIG(*view.last_status) : 0,
                                    .was_oom_killed = false};
    }
    if (view.restart_at) status.restart_in = std::max(*view.restart_at - now, Duration{});
    if (Runtime::Instance const* const mine = find_instance(id)) {
        status.status_text = mine->status;
        if (status.last_exit) status.last_exit->was_oom_killed = mine->was_oom_killed;
    }
    return status;
}

ProcessUsage Shell::usage(std::size_t index, std::uint32_t number) const {
    ProcessId const id{shown_[index], ProcessNumber{number}};
    auto const pid = supervisor_.view(id).pid;
    if (!pid) return {};
    ProcessUsage usage = read_process_usage(static_cast<pid_t>(*pid));
    Runtime::Instance const* const mine = find_instance(id);
    if (!mine || !mine->cgroup) return usage;
    if (auto const memory = mine->cgroup->memory_current()) usage.memory = memory;
    return usage;
}

// Commands.

Result<> Shell::command(event::Verb verb, ProcessSelection const& which, int signo) {
    if (supervisor_.phase() != SupervisorPhase::running && verb != event::Verb::signal)
        return fail(ErrorKind::refused, "the launcher is stopping");
    std::optional<ProcessNumber> number;
    if (which.number) number = ProcessNumber{*which.number};
    dispatch(event::Command{verb, shown_[which.program], number, signo});
    settle_soon();
    return {};
}

/// Why a program is to have no process now; nullopt: it is to have some.
std::optional<std::string> Shell::why_nothing_is_to_run(ProgramId id) const {
    if (supervisor_.policy(id).count > 0) return std::nullopt;
    if (pod_.is_isolated) return "the pod is isolated: nothing is to run";
    if (active_ && !active_->configuration.run_servers) return "runServers is false: nothing is to run";
    return programs_[static_cast<std::size_t>(id)].name + " is to have no process: its count is 0";
}

Result<> Shell::start(ProcessSelection const& which) {
    if (auto why = why_nothing_is_to_run(shown_[which.program])) return fail(ErrorKind::refused, *std::move(why));
    return command(event::Verb::start, which);
}
Result<> Shell::stop(ProcessSelection const& which) { return command(event::Verb::stop, which); }
Result<> Shell::restart(ProcessSelection const& which) {
    if (auto why = why_nothing_is_to_run(shown_[which.program])) return fail(ErrorKind::refused, *std::move(why));
    return command(event::Verb::restart, which);
}
Result<> Shell::signal(ProcessSelection const& which, int signo) {
    ProgramId const id = shown_[which.program];
    bool reaches_one = false;
    for (std::uint32_t number = 1; number <= supervisor_.size(id) && !reaches_one; ++number) {
        bool const is_asked = !which.number || *which.number == number;
        reaches_one = is_asked && supervisor_.view({id, ProcessNumber{number}}).pid;
    }
    if (!reaches_one) {
        std::string const& name = programs_[static_cast<std::size_t>(id)].name;
        std::string const of = name.empty() ? "" : " of " + name;
        return fail(ErrorKind::refused, which.number ? "process " + std::to_string(*which.number) + of + " does not run"
                                                     : "no process" + of + " runs");
    }
    return command(event::Verb::signal, which, signo);
}

Result<> Shell::reload() {
    if (supervisor_.phase() != SupervisorPhase::running) return fail(ErrorKind::refused, "the launcher is stopping");
    look_again();
    if (rejection_.empty()) return {};
    return std::unexpected(Error{ErrorKind::internal, {}, "the configuration is rejected", rejection_});
}

void Shell::command_given(std::string_view command, ControlPeer const& peer) {
    log_.write(
        log::LogLevel::info, "control-command",
        std::string(command) + ", asked for by user " + std::to_string(peer.uid) + ", pid " + std::to_string(peer.pid),
        {{"command", command}, {"uid", std::int64_t{peer.uid}}, {"pid", std::int64_t{peer.pid}}});
}

void Shell::control_failed(std::string_view reason) {
    log_.write(log::LogLevel::warning, "control-failed", "control socket: " + std::string(reason), {{"error", reason}});
}

// Output.

namespace {

/// Calls `take` for each line of a chunk, without its newline.
template <class Take>
void for_each_line(std::string_view text, Take take) {
    while (!text.empty()) {
        std::size_t const end = text.find('\n');
        take(text.substr(0, end));
        if (end == std::string_view::npos) return;
        text.remove_prefix(end + 1);
    }
}

}  // namespace

Result<> Shell::output_lines(ProcessSelection const& which, OutputLineSink& sink) const {
    ProgramId const id = shown_[which.program];
    Runtime const& program = programs_[static_cast<std::size_t>(id)];
    if (!program.is_captured) return fail(ErrorKind::refused, "the output of " + program.name + " is not captured");
    struct Line {
        OutputLine line;
        std::string text;
    };
    // Forwards as they are kept, then backwards: 64 kB at most.
    std::vector<Line> lines;
    (void)output_->read_log(static_cast<std::uint32_t>(id), 0, [&](LogChunk const& chunk) {
        if (which.number && chunk.process != *which.number) return true;
        for_each_line(chunk.text, [&](std::string_view text) {
            lines.push_back(
                {{chunk.process, chunk.stream == OutputStream::err, chunk.microseconds, {}}, std::string(text)});
        });
        return true;
    });
    for (Line& line : std::views::reverse(lines)) {
        line.line.text = line.text;
        if (!sink.take(line.line)) break;
    }
    return {};
}

void Shell::tell_output(std::uint32_t program, LogChunk const& chunk) {
    if (!control_ || !control_->has_followers()) return;
    for_each_line(chunk.text, [&](std::string_view text) {
        control_->publish_output(programs_[program].name,
                                 {chunk.process, chunk.stream == OutputStream::err, chunk.microseconds, text});
    });
}

}  // namespace triton::launcher
