#include "launcher/rooms/control_port.h"

#include <algorithm>
#include <charconv>
#include <ranges>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include "config/substitution.h"
#include "launcher/control/process_usage.h"
#include "launcher/plan/version.h"
#include "launcher/rooms/helper_commands.h"
#include "lib/base/error_kinds.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

/// Until a socket is tried again for which there was no descriptor or memory.
constexpr std::chrono::seconds patience{10};

LastExit exit_of_status(int status) {
    if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
    return {.code = WEXITSTATUS(status)};
}

std::string text_of(process::IdOrName const& id) {
    if (auto const* const number = std::get_if<std::uint32_t>(&id)) return std::to_string(*number);
    return std::get<std::string>(id);
}

std::string_view restart_name(config::RestartWhen when) {
    return config::restart_names[static_cast<std::size_t>(when)];
}

/// The file of an output; of numbered files the first and the last one.
std::string file_text(config::Output const& output, std::uint32_t count) {
    if (output.syslog) return "syslog " + output.syslog->address;
    if (output.own_stream == config::OwnStream::out) return "/dev/stdout";
    if (output.own_stream == config::OwnStream::err) return "/dev/stderr";
    if (!output.has_file()) return "captured";
    if (!output.is_numbered()) return *output.file;
    auto const names = config::numbered_path(*output.file_argument);
    std::string first = names.arguments(ProcessNumber{1}).front();
    if (count <= 1) return first;
    return first + " to " + names.arguments(ProcessNumber{count}).front();
}

/// The working directory; of numbered directories the first and the last one.
std::string directory_text(process::StartPlan const& start, std::uint32_t count) {
    std::string first = start.working_directory(ProcessNumber{1});
    if (!start.numbered().directory || count <= 1) return first;
    return first + " to " + start.working_directory(ProcessNumber{count});
}

std::string output_text(config::Output const& output, std::uint32_t count) {
    if (!output.error.empty()) {
        config::Output plain = output;
        plain.error.clear();
        return output_text(plain, count) + "; stderr: " + output_text(output.error.front(), count);
    }
    switch (output.kind) {
        case config::OutputKind::inherit: return "inherit";
        case config::OutputKind::null: return "null";
        case config::OutputKind::program: return "to " + output.to;
        case config::OutputKind::captured: return file_text(output, count);
    }
    std::unreachable();
}

/// The group that a name or a number means; none when the name is empty. Errors: "--control-group: no group \"x\" in
/// /etc/group".
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

ControlPort::ControlPort(LaunchOptions const& options, EventLoop& loop, log::Log& log, ControlLine& line,
                         Rooms const& rooms)
    : options_(options),
      loop_(loop),
      log_(log),
      line_(line),
      rooms_(rooms),
      timer_(loop,
             [this] {
                 if (line_.server()) line_.server()->time_passed();
             }),
      again_(loop, [this] { open(std::nullopt); }) {}

ControlPort::~ControlPort() {
    log_.listen(nullptr);
    line_.connect(nullptr);
}

// The socket.

void ControlPort::serve(std::unique_ptr<ControlServer> server) {
    line_.connect(std::move(server));
    tell_records();  // including the records of this round
}

/// Leaves the closing of connections to another process: descriptors that a client has sent may be slow to close.
varlink::Closer ControlPort::closer() {
    return [this](UniqueFd connection) { rooms_.channels.quarantine().close(std::move(connection)); };
}

void ControlPort::open(std::optional<varlink::HandedSocket> adopted) {
    if (!options_.control_socket.empty()) {
        auto opened = [&]() -> Result<std::unique_ptr<ControlServer>> {
            auto group = control_group(options_.control_group);
            if (!group) {
                if (!adopted) return std::unexpected(group.error());
                // Without a server on it nobody could command us any more, not even to mend this.
                log_.write(log::LogLevel::error, "control-failed",
                           group.error().text() + "; only root and the launcher's own user can command it",
                           {{"error", std::string_view(group.error().text())}});
                group.emplace(std::nullopt);
            }
            ControlSettings settings{.path = options_.control_socket,
                                     .mode = options_.control_mode,
                                     .group = *group,
                                     .adopted = adopted,
                                     .close = closer(),
                                     .keeps_for_agent = options_.agent.is_reporting};
            return ControlServer::create(loop_, std::move(settings), *this);
        }();
        if (opened) return serve(std::move(*opened));
        // What the system lacks now, it may have later. The agent's way does without a socket, and is not given up for
        // it.
        bool const is_tried_again = is_shortage(opened.error().kind) && !rooms_.agent.plan();
        if (is_tried_again) again_.arm(steady_clock::now() + patience);
        // A socket that was asked for is missed; the directory of the default one does not exist in many containers.
        log_.write(options_.is_control_asked_for ? log::LogLevel::error : log::LogLevel::info, "control-failed",
                   "no control socket: " + opened.error().text() + (is_tried_again ? "; trying again in 10s" : ""),
                   {{"error", std::string_view(opened.error().text())}});
    }
    if (rooms_.agent.plan()) open_for_agent();
}

void ControlPort::open_for_agent() {
    if (line_.server()) return;
    ControlSettings settings{.close = closer(), .keeps_for_agent = options_.agent.is_reporting};
    auto opened = ControlServer::create(loop_, std::move(settings), *this);
    if (opened) serve(std::move(*opened));
}

void ControlPort::end_round() {
    if (!line_.server()) return;
    line_.server()->end_round();
    arm();
    tell_records();
}

void ControlPort::arm() {
    if (line_.server()) timer_.arm(line_.server()->next_deadline());
}

/// Sends records to the socket's clients, as long as somebody wants them.
void ControlPort::tell_records() {
    if (line_.server()->wants_records() == tells_records_) return;
    tells_records_ = !tells_records_;
    log_.listen(tells_records_ ? log::Log::Listener([this](log::LogLevel level, std::string_view record) {
        line_.server()->publish(record, level >= log::LogLevel::warning);
    })
                               : nullptr);
}

void ControlPort::save(UpgradeState& state) const {
    if (line_.server() && line_.server()->socket().fd >= 0) state.control = line_.server()->socket();
}

// What is asked.

LauncherStatus ControlPort::launcher() const {
    bool const is_active = rooms_.keeper.active() != nullptr;
    return {.version = std::string(version()),
            .pid = ::getpid(),
            .uptime = steady_clock::now() - rooms_.life.began(),
            .phase = is_stopping() ? "stopping" : "running",
            .configuration_path = options_.configuration_path,
            .has_configuration = is_active,
            .is_ready = is_active && rooms_.supervisor.is_ready(),
            .rejection = rooms_.keeper.ledger().rejection(),
            .configuration_changes = rooms_.keeper.ledger().changes(),
            .configuration_time = rooms_.keeper.ledger().accepted_at(),
            .is_isolated = rooms_.agent.pod().is_isolated,
            .reporter = rooms_.agent.reporter(agent_runs())};
}

bool ControlPort::agent_runs() const {
    if (!rooms_.agent.plan()) return false;  // a free entry of the table has no plan, either
    auto const& programs = rooms_.table.entries();
    auto const agent = std::ranges::find(programs, rooms_.agent.plan(), &ProgramTable::Entry::plan);
    if (agent == programs.end()) return false;
    ProgramId const id{static_cast<std::uint32_t>(agent - programs.begin())};
    return rooms_.supervisor.view({id, ProcessNumber{1}}).pid.has_value();
}

std::optional<std::size_t> ControlPort::find_program(std::string_view name) const {
    auto const& shown = rooms_.table.shown();
    auto const found = std::ranges::find_if(shown, [&](ProgramId id) { return rooms_.table[id].name == name; });
    if (found == shown.end()) return std::nullopt;
    return static_cast<std::size_t>(found - shown.begin());
}

ProgramStatus ControlPort::program(std::size_t index) const {
    ProgramId const id = rooms_.table.shown()[index];
    ProgramTable::Entry const& program = rooms_.table[id];
    ProgramPolicy const& policy = rooms_.supervisor.policy(id);
    return {
        .name = program.name,
        .kind = policy.kind,
        .wanted = program.is_configured ? policy.count : 0,
        .processes = rooms_.supervisor.size(id),
        .is_ready = rooms_.supervisor.is_ready(id),
        .next_run_in = rooms_.programs.next_run_in(id),
        .version = program.versions.empty() ? std::string() : program.versions.back(),
        .is_internal = policy.auxiliary,
        .groups = program.plan ? std::vector<std::string>(program.plan->settings->groups) : std::vector<std::string>()};
}

ProgramDescription ControlPort::describe(std::size_t index) const {
    ProgramTable::Entry const& program = rooms_.table[rooms_.table.shown()[index]];
    Accepted const* const active = rooms_.keeper.active();
    config::Program const& settings = program.plan->settings;
    ProgramDescription description{
        .version = settings.version.value_or(active ? active->configuration.version : std::string()),
        .command = {},
        .working_directory = {},
        .user = settings.user ? text_of(*settings.user) : "",
        .restart = std::string(restart_name(settings.restart)),
        .after = settings.after,
        .requires_ = settings.requires_,
        .binds_to = settings.binds_to,
        .sockets = {},
        .output = output_text(settings.output, program.plan->policy.count)};
    if (process::StartPlan const* const start = program.plan->start.get()) {
        description.working_directory = directory_text(*start, program.plan->policy.count);
        description.command = start->command().arguments(ProcessNumber{1});
        description.command.insert(description.command.begin(), start->name());
    }
    for (config::ListenSocket const& socket : settings.sockets)
        description.sockets.push_back(socket.name + " " + config::format_socket_address(socket.address));
    return description;
}

ProcessStatus ControlPort::process(std::size_t index, std::uint32_t number) const {
    ProcessId const id{rooms_.table.shown()[index], ProcessNumber{number}};
    ProcessView const view = rooms_.supervisor.view(id);
    TimePoint const now = steady_clock::now();
    ProcessStatus status;
    status.number = number;
    status.state = view.state;
    status.is_beyond_reach = view.signal_error != 0;
    status.is_unwell = view.state == ProcessState::up && !view.is_ready;
    if (view.pid) {
        status.pid = static_cast<pid_t>(*view.pid);
        status.uptime = now - view.since;
        status.version = rooms_.table[id.program].version_of(number);
    }
    if (view.since != TimePoint{}) status.since_start = now - view.since;
    status.starts = view.starts;
    if (view.last_error) {
        status.last_exit = exit_of(id, *view.last_error);
    } else if (view.last_status) {
        status.last_exit = exit_of_status(*view.last_status);
    }
    if (status.last_exit && view.last_end) status.since_end = now - *view.last_end;
    if (view.restart_at) status.restart_in = std::max(*view.restart_at - now, Duration{});
    if (ProgramTable::Instance const* const mine = rooms_.table.find_instance(id)) {
        status.status_text = mine->status;
        if (status.last_exit) status.last_exit->was_oom_killed = mine->was_oom_killed;
    }
    return status;
}

LastExit ControlPort::exit_of(ProcessId id, process::SpawnError const& error) const {
    auto const& plan = rooms_.table[id.program].plan;
    std::string const what = process::stage_text(error.stage, plan ? plan->start.get() : nullptr, id.number);
    return {.error = "cannot " + what + ": " + errno_text(error.code)};
}

ProcessPast ControlPort::past(std::size_t index, std::uint32_t number) const {
    ProcessId const id{rooms_.table.shown()[index], ProcessNumber{number}};
    ProcessPast past;
    for (EndRecord const* const end : rooms_.history.ends_of(id)) {
        PastEnd& one = past.ends.emplace_back(end->time, end->run);
        one.exit = end->error_code != 0
                       ? exit_of(id, {static_cast<process::SpawnStage>(end->error_stage), end->error_code})
                       : exit_of_status(end->status);
        one.exit.was_oom_killed = end->was_oom_killed;
        if (end->was_asked_for || end->fault != Fault::none)
            one.reason = end_reason_names[static_cast<std::size_t>(end->fault)];
    }
    auto const& plan = rooms_.table[id.program].plan;
    for (ProbeRecord const* const result : rooms_.history.results_of(id)) {
        auto const check = check_of(static_cast<Helper>(result->helper));
        std::string name = check ? "health" : "readiness";
        bool const is_named = check && plan && *check < plan->settings->health.size();
        if (is_named && !plan->settings->health[*check].name.empty()) name += " " + plan->settings->health[*check].name;
        past.checks.push_back({std::move(name), result->time, result->is_ok, result->why, result->output});
    }
    std::ranges::stable_sort(past.checks, {}, &PastCheck::check);
    return past;
}

ProcessUsage ControlPort::usage(std::size_t index, std::uint32_t number) const {
    ProcessId const id{rooms_.table.shown()[index], ProcessNumber{number}};
    auto const pid = rooms_.supervisor.view(id).pid;
    if (!pid) return {};
    ProcessUsage usage = read_process_usage(static_cast<pid_t>(*pid));
    ProgramTable::Instance const* const mine = rooms_.table.find_instance(id);
    if (!mine || !mine->cgroup) return usage;
    if (auto const memory = mine->cgroup->memory_current()) usage.memory = memory;
    return usage;
}

// Who is concerned by whom.

namespace {

using Edges = std::vector<std::vector<ProgramId>>;  // by program

/// All programs that the edges lead to from one program, each after those that its own edges lead to. The stack is
/// explicit, because a document may name a chain as long as its limits allow.
std::vector<ProgramId> reached(Edges const& edges, ProgramId from) {
    struct Step {
        ProgramId program;
        std::size_t next = 0;
    };
    std::vector<ProgramId> order;
    std::vector<bool> is_known(edges.size());
    std::vector<Step> path{{from}};
    while (!path.empty()) {
        Step& step = path.back();
        auto const& others = edges[static_cast<std::size_t>(step.program)];
        if (step.next == others.size()) {
            if (path.size() > 1) order.push_back(step.program);
            path.pop_back();
            continue;
        }
        ProgramId const other = others[step.next++];
        if (is_known[static_cast<std::size_t>(other)]) continue;
        is_known[static_cast<std::size_t>(other)] = true;
        path.push_back({other});
    }
    return order;
}

/// The states that the wanted processes of each program are in. A program may have many processes, and many others may
/// require it, so each process is looked at once.
class StatesOfAll {
public:
    StatesOfAll(ProgramTable const& table, Supervisor const& supervisor) : states_(table.size()) {
        for (std::size_t at = 0; at < states_.size(); ++at) {
            ProgramId const id{static_cast<std::uint32_t>(at)};
            if (!table[id].is_configured) continue;
            std::uint32_t const last = std::min(supervisor.policy(id).count, supervisor.size(id));
            for (std::uint32_t number = 1; number <= last; ++number)
                states_[at] |= bit(supervisor.state({id, ProcessNumber{number}}));
        }
    }

    /// Whether a process of the program is in one of these.
    [[nodiscard]] bool has(ProgramId id, std::initializer_list<ProcessState> states) const {
        return std::ranges::any_of(
            states, [&](ProcessState state) { return (states_[static_cast<std::size_t>(id)] & bit(state)) != 0; });
    }

private:
    static std::uint32_t bit(ProcessState state) { return std::uint32_t{1} << static_cast<unsigned>(state); }

    std::vector<std::uint32_t> states_;  // a bit for each ProcessState
};

}  // namespace

/// Those, held or failed, that are reached by `requires`. What waits itself hands on what it waits for: with `to_wait`
/// only that is asked, and `after` counts, too. Else one-shots that are done hand on those whose work was undone.
std::vector<std::string> ControlPort::reached_and_stuck(std::size_t index, bool to_wait) const {
    using enum ProcessState;
    Supervisor const& supervisor = rooms_.supervisor;
    ProgramId const from = rooms_.table.shown()[index];
    StatesOfAll const all(rooms_.table, supervisor);
    auto const is_stuck = [&](ProgramId id) { return all.has(id, {held, failed}); };
    auto const is_waiting = [&](ProgramId id) { return all.has(id, {waiting}); };
    auto const is_done = [&](ProgramId id) { return !to_wait && all.has(id, {done}); };
    auto const is_undone = [&](ProgramId id) {
        return supervisor.policy(id).kind == ProgramKind::one_shot && is_stuck(id);
    };
    Edges edges(rooms_.table.size());
    for (std::size_t at = 0; at < edges.size(); ++at) {
        ProgramId const id{static_cast<std::uint32_t>(at)};
        if (!rooms_.table[id].is_configured) continue;
        ProgramPolicy const& policy = supervisor.policy(id);
        bool const has_run = id != from && is_done(id);
        for (ProgramId const other : policy.requires_) {
            bool const is_missing = has_run ? is_undone(other) : is_stuck(other) || is_waiting(other);
            if (is_missing || is_done(other)) edges[at].push_back(other);
        }
        for (ProgramId const other : policy.after) {
            if (to_wait && is_waiting(other)) edges[at].push_back(other);
        }
    }
    std::vector<std::string> names;
    for (ProgramId const id : reached(edges, from)) {
        if (is_stuck(id)) names.push_back(rooms_.table[id].name);
    }
    return names;
}

std::vector<std::string> ControlPort::missing_for(std::size_t index) const { return reached_and_stuck(index, false); }

std::vector<std::string> ControlPort::held_up_by(std::size_t index) const { return reached_and_stuck(index, true); }

/// A one-shot that has succeeded stands between its requirement and those that require it, and is undone before the
/// requirement goes.
std::vector<std::string> ControlPort::running_on(std::size_t index) const {
    using enum ProcessState;
    Supervisor const& supervisor = rooms_.supervisor;
    StatesOfAll const states(rooms_.table, supervisor);
    auto const runs = [&](ProgramId id) { return states.has(id, {starting, executing, activating, up, backoff}); };
    auto const is_done = [&](ProgramId id) { return states.has(id, {done}); };
    auto const is_undone = [&](ProgramId id) {
        return supervisor.policy(id).kind == ProgramKind::one_shot && supervisor.policy(id).has_on_stop && is_done(id);
    };
    ProgramId const from = rooms_.table.shown()[index];
    // What is undone is gone at once, also for those that are on their way out.
    auto const uses = [&](ProgramId id) {
        return is_undone(from) && (runs(id) || states.has(id, {draining, pre_stop, stopping, killing, clearing}));
    };
    Edges edges(rooms_.table.size());
    for (std::size_t at = 0; at < edges.size(); ++at) {
        ProgramId const id{static_cast<std::uint32_t>(at)};
        if (!rooms_.table[id].is_configured || (!runs(id) && !uses(id) && !is_done(id))) continue;
        for (ProgramId const required : supervisor.policy(id).requires_)
            edges[static_cast<std::size_t>(required)].push_back(id);
    }
    std::vector<ProgramId> const all = reached(edges, from);
    auto const is_concerned = [&](ProgramId id) { return id == from || std::ranges::find(all, id) != all.end(); };
    std::vector<std::string> names;
    for (ProgramId const id : all) {
        ProgramPolicy const& policy = supervisor.policy(id);
        // What is bound to all that goes stops by itself.
        bool const stays = std::ranges::any_of(policy.requires_, [&](ProgramId required) {
            return is_concerned(required) && std::ranges::find(policy.binds_to, required) == policy.binds_to.end();
        });
        bool const has_used = std::ranges::any_of(
            policy.requires_, [&](ProgramId required) { return is_concerned(required) && is_undone(required); });
        if ((runs(id) && stays) || (has_used && uses(id)) || is_undone(id)) names.push_back(rooms_.table[id].name);
    }
    return names;
}

// Commands.

/// Why a process that a command is about could not be signalled; nullopt: none was refused.
std::optional<std::string> ControlPort::why_beyond_reach(ProcessSelection const& which) const {
    ProgramId const id = rooms_.table.shown()[which.program];
    for (std::uint32_t number = 1; number <= rooms_.supervisor.size(id); ++number) {
        if (which.number && *which.number != number) continue;
        ProcessView const view = rooms_.supervisor.view({id, ProcessNumber{number}});
        if (view.signal_error == 0) continue;
        return "cannot signal pid " + std::to_string(static_cast<pid_t>(*view.pid)) + ": " +
               signal_error_text(view.signal_error);
    }
    return std::nullopt;
}

Result<> ControlPort::command(event::Verb verb, ProcessSelection const& which, int signo) {
    if (is_stopping() && verb != event::Verb::signal) return fail(ErrorKind::refused, "the launcher is stopping");
    std::optional<ProcessNumber> number;
    if (which.number) number = ProcessNumber{*which.number};
    rooms_.events.dispatch(event::Command{verb, rooms_.table.shown()[which.program], number, signo});
    rooms_.programs.settle_soon();
    if (auto why = why_beyond_reach(which)) return fail(ErrorKind::refused, *std::move(why));
    return {};
}

/// Why no process of a program is to run now; nullopt: some are to run.
std::optional<std::string> ControlPort::why_nothing_is_to_run(ProgramId id) const {
    if (rooms_.supervisor.policy(id).count > 0) return std::nullopt;
    if (rooms_.agent.pod().is_isolated) return "the pod is isolated: nothing may run";
    Accepted const* const active = rooms_.keeper.active();
    if (active && !active->configuration.run_servers) return "runServers is false: nothing may run";
    return std::string(shown_name(rooms_.table[id].name)) + " has no process: its count is 0";
}

namespace {

/// Whether no run of a scheduled program can begin now, nor later on account of the command: runs take all the places
/// that it is about.
bool has_no_place_for_a_run(Supervisor const& supervisor, ProgramId id, std::optional<std::uint32_t> number) {
    using enum ProcessState;
    ProgramPolicy const& policy = supervisor.policy(id);
    if (policy.kind != ProgramKind::scheduled || policy.makes_up) return false;
    for (std::uint32_t at = number.value_or(1); at <= number.value_or(policy.count); ++at) {
        if (at > supervisor.size(id)) return false;
        ProcessId const place{id, ProcessNumber{at}};
        ProcessState const state = supervisor.state(place);
        bool const runs = state == starting || state == executing || state == activating || state == up;
        bool const ends =
            state == draining || state == pre_stop || state == stopping || state == killing || state == clearing;
        if (!runs && !(ends && !supervisor.view(place).is_to_be_held)) return false;
    }
    return true;
}

}  // namespace

Result<> ControlPort::start(ProcessSelection const& which) {
    ProgramId const id = rooms_.table.shown()[which.program];
    if (auto why = why_nothing_is_to_run(id)) return fail(ErrorKind::refused, *std::move(why));
    if (has_no_place_for_a_run(rooms_.supervisor, id, which.number))
        return fail(ErrorKind::refused, "a run is under way, and another one may not begin beside it");
    return command(event::Verb::start, which);
}

Result<> ControlPort::restart(ProcessSelection const& which) {
    if (auto why = why_nothing_is_to_run(rooms_.table.shown()[which.program]))
        return fail(ErrorKind::refused, *std::move(why));
    return command(event::Verb::restart, which);
}

Result<> ControlPort::signal(ProcessSelection const& which, int signo) {
    ProgramId const id = rooms_.table.shown()[which.program];
    bool reaches_one = false;
    for (std::uint32_t number = 1; number <= rooms_.supervisor.size(id) && !reaches_one; ++number) {
        bool const is_asked = !which.number || *which.number == number;
        reaches_one = is_asked && rooms_.supervisor.view({id, ProcessNumber{number}}).pid;
    }
    if (!reaches_one) {
        std::string const& name = rooms_.table[id].name;
        std::string const of = name.empty() ? "" : " of " + name;
        return fail(ErrorKind::refused, which.number ? "process " + std::to_string(*which.number) + of + " does not run"
                                                     : "no process" + of + " runs");
    }
    return command(event::Verb::signal, which, signo);
}

Result<Reloaded> ControlPort::reload() {
    if (is_stopping()) return fail(ErrorKind::refused, "the launcher is stopping");
    rooms_.keeper.reload();
    if (rooms_.keeper.is_looking()) return Reloaded::later;
    TRY(rooms_.keeper.outcome());
    return Reloaded::now;
}

namespace {

bool has_sandbox(config::Program const& program) {
    return program.capabilities || program.no_new_privileges || program.seccomp || program.landlock;
}

}  // namespace

/// The process that a child is, or that it is a helper command of: both run with the same rights.
std::optional<ProcessId> ControlPort::process_of(pid_t pid) const {
    if (auto const id = rooms_.children.find(pid)) return id;
    auto const& commands = rooms_.children.commands();
    auto const found = std::ranges::find(commands, pid, &process::CommandRunner::Running::pid);
    if (found == commands.end() || found->key >= first_own_key) return std::nullopt;
    return process_of_helper(found->key);
}

/// Judges a program by the latest configuration, even if a process of it was started under an earlier one: only the
/// latest can be read.
ProcessOwner ControlPort::owner_of(ProgramTable::Entry const& program) const {
    if (!program.plan) return ProcessOwner::sandboxed;  // nobody knows
    if (program.plan == rooms_.agent.plan()) return ProcessOwner::agent;
    if (has_sandbox(program.plan->settings)) return ProcessOwner::sandboxed;
    return program.plan->settings->user ? ProcessOwner::other_user : ProcessOwner::program;
}

ProcessOwner ControlPort::owner_of(pid_t pid) const {
    auto const id = process_of(pid);
    return id ? owner_of(rooms_.table[id->program]) : ProcessOwner::nobody;
}

bool ControlPort::has_strangers() const {
    return std::ranges::any_of(rooms_.table.entries(), [this](ProgramTable::Entry const& program) {
        return program.plan && owner_of(program) != ProcessOwner::program;  // without one the entry is free
    });
}

bool ControlPort::has_sandboxes() const {
    return std::ranges::any_of(rooms_.table.entries(), [](ProgramTable::Entry const& program) {
        return program.plan && has_sandbox(program.plan->settings);
    });
}

void ControlPort::command_given(std::string_view command, varlink::Peer const& peer) {
    log_.write(
        log::LogLevel::info, "control-command",
        std::string(command) + ", asked for by user " + std::to_string(peer.uid) + ", pid " + std::to_string(peer.pid),
        {{"command", command}, {"uid", std::int64_t{peer.uid}}, {"pid", std::int64_t{peer.pid}}});
}

void ControlPort::control_failed(std::string_view reason) {
    log_.write(log::LogLevel::warning, "control-failed", "control socket: " + std::string(reason), {{"error", reason}});
}

// Output.

Result<ControlBackend::KeptLines> ControlPort::output_lines(ProcessSelection const& which, OutputLineSink& sink) const {
    ProgramId const id = rooms_.table.shown()[which.program];
    ProgramTable::Entry const& program = rooms_.table[id];
    if (!program.is_captured()) {
        std::string const remedy = program.name.empty() ? "" : "; \"output\": {} in its configuration would do that";
        return fail(ErrorKind::refused,
                    "the output of " + std::string(shown_name(program.name)) + " is not captured" + remedy);
    }
    struct Line {
        OutputLine line;
        std::string text;
    };
    // Read forwards as they are kept, then shown backwards: 64 kB at most.
    std::vector<Line> lines;
    (void)rooms_.channels.output()->read_log(static_cast<std::uint32_t>(id), 0, [&](LogChunk const& chunk) {
        if (which.number && chunk.process != *which.number) return true;
        for_each_output_line(chunk, [&](OutputLine const& line) { lines.push_back({line, std::string(line.text)}); });
        return true;
    });
    for (Line& line : std::views::reverse(lines)) {
        line.line.text = line.text;
        if (!sink.take(line.line)) break;
    }
    auto const kept = rooms_.channels.output()->kept(static_cast<std::uint32_t>(id));
    return KeptLines{kept.first << line_bits, kept.next << line_bits};
}

}  // namespace triton::launcher
