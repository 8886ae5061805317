#include "launcher/rooms/agent_host.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/children/own_program.h"
#include "launcher/rooms/helper_commands.h"
#include "lib/base/duration.h"
#include "lib/base/read_file.h"
#include "lib/json/lookup.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

constexpr milliseconds time_to_stage = std::chrono::minutes(10);
constexpr std::size_t longest_summary = 64 << 20;
constexpr Duration time_to_read = std::chrono::seconds(10);  // for the agent, which is told little

/// Opens the directory to hand it on, and makes it when it is missing: what is staged goes there later.
Result<UniqueFd> open_output(std::string const& path) {
    for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
        (void)::mkdir(path.substr(0, slash).c_str(), 0755);
    (void)::mkdir(path.c_str(), 0755);
    UniqueFd directory{::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    int const err = errno;
    if (!directory) return fail(err, "open the output directory " + path);
    return directory;
}

/// From the summary of --format json; see sidecar/summary.h.
std::optional<StagingAnswer> read_summary(std::string_view text) {
    json::Limits limits;
    limits.document_bytes = longest_summary;
    limits.values = longest_summary;
    json::ProblemList problems(1);
    auto const node = json::read_json(text, limits, problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    auto const* const files = object ? json::value_of<json::Array>(*object, "files") : nullptr;
    auto const* const errors = object ? json::value_of<json::Array>(*object, "errors") : nullptr;
    if (!files || !errors) return std::nullopt;
    StagingAnswer answer;
    for (json::Node const& file : *files) {
        if (auto const* const name = json::value_of<std::string>(file, "path")) answer.files.push_back(*name);
    }
    for (json::Node const& error : *errors) {
        if (auto const* const line = error.get<std::string>()) answer.errors.push_back(*line);
    }
    return answer;
}

OutputKey output_of(NetworkProbes::Key key) {
    ProcessId const id = process_of_helper(key);
    return {static_cast<std::uint32_t>(id.program), static_cast<std::uint32_t>(id.number)};
}

}  // namespace

AgentHost::AgentHost(LaunchOptions const& options, SourceOptions const& source, char const* const* environment,
                     EventLoop& loop, log::Log& log, Supervisor const& supervisor, Channels& channels,
                     Children& children, ControlLine const& line, Listener& listener)
    : options_(options),
      source_(source),
      environment_(environment),
      loop_(loop),
      log_(log),
      supervisor_(supervisor),
      channels_(channels),
      children_(children),
      line_(line),
      listener_(listener),
      probes_({.send =
                   [this](std::uint64_t id, NetworkProbes::Probe const& probe) {
                       line_.send_probe(
                           {id, probe.kind, probe.target, probe.timeout, probe.headers, probe.status, probe.service});
                       watch_lines(id, probe);
                   },
               .cancel = [this](std::uint64_t id) { line_.cancel_probe(id); },
               .done =
                   [this](NetworkProbes::Key key, NetworkProbes::Verdict const& verdict) {
                       if (channels_.lines()) channels_.lines()->end(output_of(key));
                       listener_.probe_ended(key, verdict);
                   },
               .late = [this] { tell_of_late_agent(); }},
              static_cast<std::uint64_t>(steady_clock::now().time_since_epoch().count())),
      probe_timer_(loop, [this] {
          probes_.time_passed(steady_clock::now());
          arm();
      }) {}

// The program.

Result<> AgentHost::prepare() {
    if (plan_) return {};
    AgentPlan planned = TRY(plan_agent(options_.agent, source_, environment_));
    if (!link_) {
        link_ = TRY(AgentLink::create(
            loop_, channels_.quarantine(),
            [this](UniqueFd connection) { listener_.agent_connected(std::move(connection)); }));
    }
    TRY(channels_.syslog_relay().open());
    if (!options_.agent.output_directory.empty()) output_ = TRY(open_output(options_.agent.output_directory));
    TRY(channels_.open_sockets(planned.plan->sockets));
    plan_ = std::move(planned.plan);
    program_ = std::move(planned.program);
    return {};
}

bool AgentHost::is_needed(Accepted const* configuration) const {
    return options_.agent.is_wanted || (configuration && configuration->needs_agent());
}

void AgentHost::add_descriptors(std::vector<int>& listen) const {
    listen.push_back(link_->descriptor());
    listen.push_back(channels_.syslog_relay().messages());
    listen.push_back(channels_.syslog_relay().answers());
    if (output_) listen.push_back(output_.get());
}

// The pod.

void AgentHost::set_pod(PodState state) {
    if (!options_.agent.is_reporting) return;
    PodState const before = std::exchange(pod_, std::move(state));
    listener_.pod_told(pod_, pod_.variables != before.variables);
    if (pod_.shutdown_delay != before.shutdown_delay) {
        std::string const delay = format_duration(pod_.shutdown_delay);
        log_.write(log::LogLevel::info, "shutdown-delay", "a stop of this container now takes " + delay + " at least",
                   {{"delay", std::string_view(delay)}});
    }
    if (pod_.is_isolated == before.is_isolated) return;
    log_.write(
        log::LogLevel::warning, pod_.is_isolated ? "isolated" : "isolation-ended",
        pod_.is_isolated ? "the pod is isolated: nothing runs until that ends" : "the pod is no longer isolated");
    listener_.isolation_changed();
}

std::optional<ReporterStatus> AgentHost::reporter(bool runs) const {
    if (!options_.agent.is_reporting) return reporter_;
    ReporterStatus status = reporter_.value_or(ReporterStatus{"connecting", "the agent has not started yet", {}});
    if (!runs) {
        status.state = "failing";
        status.detail = "the agent does not run";
    } else if (line_.agent_deaf_for() > time_to_read) {
        status.state = "failing";
        status.detail = "the agent does not answer";
    }
    return status;
}

// Probes over the network.

/// Sends a pattern first and then its lines.
void AgentHost::watch_lines(std::uint64_t id, NetworkProbes::Probe const& probe) const {
    if (probe.kind == config::ProbeKind::log && channels_.lines())
        channels_.lines()->begin(output_of(probe.key), id, probe.stream);
}

void AgentHost::run_probe(NetworkProbes::Key key, HelperPlan const& helper, ProcessNumber number) {
    NetworkProbe const& network = *helper.network;
    NetworkProbes::Probe probe{.key = key,
                               .kind = network.kind,
                               .target = network.target.arguments(number).front(),
                               .timeout = helper.timeout,
                               .headers = {},
                               .status = network.status,
                               .service = network.service,
                               .stream = network.stream};
    if (network.headers) probe.headers = network.headers->arguments(number);
    probes_.run(std::move(probe), steady_clock::now());
    arm();
}

bool AgentHost::cancel_probe(NetworkProbes::Key key) {
    bool const was_there = probes_.cancel(key);
    if (was_there) arm();
    return was_there;
}

void AgentHost::probes_wanted(bool is_wanted) {
    if (channels_.lines()) channels_.lines()->clear();
    probes_.set_listening(is_wanted, steady_clock::now());
    arm();
}

/// Says it once until the agent answers again.
void AgentHost::tell_of_late_agent() {
    if (std::exchange(is_agent_late_, true)) return;
    log_.write(log::LogLevel::warning, "agent-late",
               "the agent has not answered in time; it is asked again, and no process counts as unhealthy for that");
}

void AgentHost::probe_result(std::uint64_t id, bool ok, std::string_view detail) {
    is_agent_late_ = false;
    probes_.result(id, ok, detail);
    arm();
}

// Stagings.

Result<> AgentHost::stage(StagingKind what, std::uint64_t ticket) {
    if (options_.built_in.stage_once.empty())
        return fail(ErrorKind::refused, "there is nothing to copy in launch mode");
    if (supervisor_.phase() != SupervisorPhase::running) return fail(ErrorKind::refused, "the launcher is stopping");
    Children::Key key = first_own_key;
    while (std::ranges::find(stagings_, key, &Staging::key) != stagings_.end())
        ++key;
    if (key == aside_key) return fail(ErrorKind::refused, "too many copies are under way");
    stagings_.push_back({key, ticket, {}});
    children_.run_command(key, time_to_stage, [&]() -> Result<pid_t> { return start_staging(what, stagings_.back()); });
    return {};
}

/// Starts the agent's staging. Its summary goes to a file in memory: it may be long, and so nobody has to read while it
/// is written. For --format json the child also gets our standard output, as its standard input.
Result<pid_t> AgentHost::start_staging(StagingKind what, Staging& staging) {
    std::vector<std::string> words = options_.built_in.stage_once;
    words.insert(words.begin() + 1, std::string(staging_kind_names[static_cast<std::size_t>(what)]));
    auto const plan = TRY(own_program(environment_, words));
    staging.summary = UniqueFd{::memfd_create("triton-launch-summary", MFD_CLOEXEC)};
    int const err = errno;
    if (!staging.summary) return fail(err, "make a memory file for the summary");
    return children_.spawn_command(plan, ProcessNumber{1},
                                   {.in = STDOUT_FILENO, .out = staging.summary.get(), .err = STDERR_FILENO});
}

void AgentHost::staging_ended(Children::Key key, Children::Outcome const& outcome) {
    auto const found = std::ranges::find(stagings_, key, &Staging::key);
    if (found == stagings_.end()) return;  // it belongs to the version before us
    Staging const staging = std::move(*found);
    stagings_.erase(found);
    if (outcome.how == process::CommandRunner::How::exited && ::lseek(staging.summary.get(), 0, SEEK_SET) == 0) {
        auto const text = read_open_file(staging.summary.get(), "the summary", longest_summary);
        auto answer = text ? read_summary(*text) : std::nullopt;
        if (answer) return line_.answer_stage(staging.ticket, std::move(*answer));
    }
    std::string reason = "the copying has failed: ";
    switch (outcome.how) {
        case process::CommandRunner::How::exited: reason += "exit code " + std::to_string(outcome.code); break;
        case process::CommandRunner::How::signalled: reason += "signal " + std::to_string(outcome.code); break;
        case process::CommandRunner::How::timed_out:
            reason += "it took longer than " + format_duration(time_to_stage);
            break;
        case process::CommandRunner::How::cancelled: reason += "it was cancelled"; break;
        case process::CommandRunner::How::not_started: reason += outcome.error.text(); break;
    }
    line_.answer_stage(staging.ticket, fail(ErrorKind::internal, std::move(reason)));
}

// For an upgrade.

void AgentHost::save(UpgradeState& state) const {
    if (link_) state.agent_link = link_->export_state();
    state.probes = probes_.waiting();
    state.pod = pod_;
}

void AgentHost::restore(UpgradeState const& state, Accepted const* active) {
    if (state.agent_link.ours >= 0) {
        auto link = AgentLink::adopt(loop_, channels_.quarantine(), state.agent_link,
                                     [this](UniqueFd connection) { listener_.agent_connected(std::move(connection)); });
        if (link) link_ = std::move(*link);
    }
    if (!is_needed(active)) return;
    if (Result<> const prepared = prepare(); !prepared) {
        log_.write(log::LogLevel::error, "agent-failed", "the agent is no longer there: " + prepared.error().text(),
                   {{"error", std::string_view(prepared.error().text())}});
    }
}

void AgentHost::restore_probes(UpgradeState& state) {
    for (NetworkProbes::Probe& probe : state.probes)
        probes_.run(std::move(probe), steady_clock::now());
    arm();
}

}  // namespace triton::launcher
