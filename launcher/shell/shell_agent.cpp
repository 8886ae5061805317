#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/limits.h"
#include "config/substitution.h"
#include "launcher/plan/agent_plan.h"
#include "launcher/shell/shell.h"
#include "lib/base/duration.h"
#include "lib/base/read_file.h"
#include "lib/json/reader.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

constexpr milliseconds time_to_stage = std::chrono::minutes(10);
constexpr std::size_t longest_summary = 64 << 20;

/// Opened to be handed on, made when it is missing: what is staged comes there later.
Result<UniqueFd> open_output(std::string const& path) {
    for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
        (void)::mkdir(path.substr(0, slash).c_str(), 0755);
    (void)::mkdir(path.c_str(), 0755);
    UniqueFd directory{::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    int const err = errno;
    if (!directory) return fail(err, "open the output directory " + path);
    return directory;
}

json::Array const* list_in(json::Object const& object, std::string_view key) {
    auto const found = std::ranges::find(object, key, &json::Member::key);
    return found == object.end() ? nullptr : found->node.get<json::Array>();
}

/// From the summary of --format json; see sidecar/summary.h.
std::optional<StagingAnswer> read_summary(std::string_view text) {
    json::Limits limits;
    limits.document_bytes = longest_summary;
    limits.values = longest_summary;
    json::ProblemList problems(1);
    auto const node = json::read_json(text, limits, problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    auto const* const files = object ? list_in(*object, "files") : nullptr;
    auto const* const errors = object ? list_in(*object, "errors") : nullptr;
    if (!files || !errors) return std::nullopt;
    StagingAnswer answer;
    for (json::Node const& file : *files) {
        auto const* const about = file.get<json::Object>();
        auto const path =
            about ? std::ranges::find(*about, "path", &json::Member::key) : json::Object::const_iterator{};
        if (!about || path == about->end()) continue;
        if (auto const* const name = path->node.get<std::string>()) answer.files.push_back(*name);
    }
    for (json::Node const& error : *errors) {
        if (auto const* const line = error.get<std::string>()) answer.errors.push_back(*line);
    }
    return answer;
}

}  // namespace

/// Whatever may keep the agent from running, before anything depends on it. Nothing happens when it is there.
Result<> Shell::prepare_agent() {
    if (agent_plan_) return {};
    AgentPlan planned = TRY(plan_agent(options_.agent, source_, environment_));
    if (!agent_link_) {
        agent_link_ =
            TRY(AgentLink::create(loop_, [this](UniqueFd connection) { agent_connected(std::move(connection)); }));
    }
    if (!options_.agent.output_directory.empty()) agent_output_ = TRY(open_output(options_.agent.output_directory));
    TRY(sockets_.open(planned.plan->sockets));
    agent_plan_ = std::move(planned.plan);
    agent_program_ = std::move(planned.program);
    return {};
}

void Shell::agent_connected(UniqueFd connection) {
    open_control_for_agent();  // a configuration may have asked for the agent after our start
    if (control_) control_->adopt(std::move(connection), ControlRole::agent);
}

/// In the order of its plan's names.
void Shell::hand_over_to_agent(Runtime& program) {
    program.listen.push_back(agent_link_->descriptor());
    if (agent_output_) program.listen.push_back(agent_output_.get());
}

/// A plan for a program of our own family with these arguments. `path` empty: for ourselves.
Result<std::shared_ptr<process::StartPlan const>> Shell::own_program(std::vector<std::string> const& words,
                                                                     std::string path) const {
    std::vector<config::Argument> arguments;
    for (std::string const& word : words)
        arguments.push_back({.value = word});
    auto command = config::substitute(arguments, {}, config::Variables({}, nullptr), 1);
    if (!command) return fail("make a command: " + command.error().front().text());
    std::vector<std::string> environment;
    for (char const* const* entry = environment_; *entry; ++entry)
        environment.emplace_back(*entry);
    if (path.empty()) path = "/proc/self/exe";
    return std::make_shared<process::StartPlan const>(std::move(path), std::move(environment), std::move(*command));
}

// Staging. We copy nothing ourselves: that is a child's work, which may be slow and may fail.

Result<> Shell::stage(StagingKind what, std::uint64_t ticket) {
    if (options_.built_in.stage_once.empty())
        return fail(ErrorKind::refused, "there is nothing to copy in launch mode");
    if (supervisor_.phase() != SupervisorPhase::running) return fail(ErrorKind::refused, "the launcher is stopping");
    process::CommandRunner::Key key = first_own_key;
    while (std::ranges::find(stagings_, key, &Staging::key) != stagings_.end())
        ++key;
    if (key == upgrade_key) return fail(ErrorKind::refused, "too many copies are under way");
    stagings_.push_back({key, ticket, {}});
    helpers_.run(key, time_to_stage, steady_clock::now(),
                 [&]() -> Result<pid_t> { return start_staging(what, stagings_.back()); });
    arm_helpers();
    return {};
}

/// Its summary goes to a file in memory: it may be long, and nobody has to read while it is written. For --format json
/// it has our standard output, too, as its standard input.
Result<pid_t> Shell::start_staging(StagingKind what, Staging& staging) {
    std::vector<std::string> words = options_.built_in.stage_once;
    words.insert(words.begin() + 1, std::string(staging_kind_names[static_cast<std::size_t>(what)]));
    auto const plan = TRY(own_program(words));
    staging.summary = UniqueFd{::memfd_create("triton-launch-summary", MFD_CLOEXEC)};
    int const err = errno;
    if (!staging.summary) return fail(err, "make a memory file for the summary");
    auto const pid = spawner_.spawn(plan, ProcessNumber{1},
                                    {.in = STDOUT_FILENO, .out = staging.summary.get(), .err = STDERR_FILENO});
    if (!pid) return fail(pid.error().code, process::stage_text(pid.error().stage, plan.get()));
    return static_cast<pid_t>(*pid);
}

void Shell::staging_ended(process::CommandRunner::Key key, process::CommandRunner::Outcome const& outcome) {
    auto const found = std::ranges::find(stagings_, key, &Staging::key);
    if (found == stagings_.end()) return;  // of the version before us
    Staging const staging = std::move(*found);
    stagings_.erase(found);
    if (!control_) return;
    if (outcome.how == process::CommandRunner::How::exited && ::lseek(staging.summary.get(), 0, SEEK_SET) == 0) {
        auto const text = read_open_file(staging.summary.get(), "the summary", longest_summary);
        auto answer = text ? read_summary(*text) : std::nullopt;
        if (answer) return control_->answer_stage(staging.ticket, std::move(*answer));
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
    control_->answer_stage(staging.ticket, fail(ErrorKind::internal, std::move(reason)));
}

// Probes over the network.

void Shell::run_network_probe(process::CommandRunner::Key key, HelperPlan const& helper, ProcessNumber number) {
    probes_.run({key, helper.network->kind, helper.network->target.arguments(number).front(), helper.timeout},
                steady_clock::now());
    arm_probes();
}

void Shell::probes_wanted(bool is_wanted) {
    probes_.set_listening(is_wanted, steady_clock::now());
    arm_probes();
}

void Shell::probe_result(std::uint64_t id, bool ok, std::string_view detail) {
    probes_.result(id, ok, detail);
    arm_probes();
}

// What the cluster is told, and what it says.

ActiveConfiguration Shell::active_configuration() const {
    ActiveConfiguration active{.sequence = configuration_sequence_,
                               .text = {},
                               .environment = {},
                               .accepted_at = {},
                               .rejection = rejection_,
                               .rejected_at = {}};
    if (!rejection_.empty()) active.rejected_at = rejection_time_;
    if (active_) {
        active.text = active_->text;
        active.environment = active_->environment;
        active.accepted_at = configuration_time_;
    }
    return active;
}

void Shell::set_reporter(ReporterStatus status) { reporter_status_ = std::move(status); }

void Shell::set_pod(PodState state) {
    if (!options_.agent.is_reporting) return;
    PodState const before = std::exchange(pod_, std::move(state));
    if (!std::exchange(is_pod_known_, true) && waits_for_labels_) ask_for_reload();
    if (pod_.variables != before.variables) {
        source_.variables = pod_.variables;
        ask_for_reload();
    }
    if (pod_.shutdown_delay != before.shutdown_delay) {
        std::string const delay = format_duration(pod_.shutdown_delay);
        log_.write(log::LogLevel::info, "shutdown-delay",
                   "from a stop on, this container stays for " + delay + " at least",
                   {{"delay", std::string_view(delay)}});
    }
    if (pod_.is_isolated == before.is_isolated) return;
    log_.write(log::LogLevel::warning, pod_.is_isolated ? "isolated" : "isolation-ended",
               pod_.is_isolated ? "the pod is isolated: nothing is to run until that ends"
                                : "the pod is not isolated any more");
    activate_again();
}

/// The same programs, as something else has become of them than their configuration says.
void Shell::activate_again() {
    if (supervisor_.phase() != SupervisorPhase::running) return;
    if (Result<> const done = activate(std::nullopt); !done)
        log_.write(log::LogLevel::error, "internal-error", done.error().text());
}

/// Whether the container stays for a while although everything has ended.
bool Shell::begin_linger() {
    if (!stay_until_ || *stay_until_ <= steady_clock::now() || stop_requests_ > 1) return false;
    linger_timer_.arm(stay_until_);
    return true;
}

}  // namespace triton::launcher
