#include "sidecar/kubernetes/reporter.h"

#include <algorithm>

#include <openssl/evp.h>

#include "lib/base/digits.h"
#include "lib/base/joined.h"
#include "lib/json/reader.h"
#include "lib/json/text.h"
#include "sidecar/control/control_reply.h"
#include "sidecar/kubernetes/go_values.h"

namespace triton::kubernetes {

namespace {

constexpr Duration call_retry = std::chrono::seconds(1);  // for a call that got lost
constexpr Duration status_gap = std::chrono::milliseconds(100);
constexpr Duration retell = std::chrono::minutes(1);  // between different failures of the same part
constexpr std::uint32_t crash_loop = 3;               // failures in a row
constexpr std::size_t most_crashes = 4096;
constexpr Duration last_words = std::chrono::seconds(1);
constexpr std::array<std::string_view, 4> call_names{"SetPod", "Reload", "SetReporter", "GetStatus"};

// The launcher takes this many in one SetPod. With more it would refuse the whole call, including isolation and delay.
constexpr std::size_t most_variables = 1000;
constexpr std::size_t most_variable_bytes = 64 << 10;  // names and values together

/// The value of an annotation; a missing one counts as empty.
std::string text_of(ObjectView const& pod, std::string_view name) {
    std::string const* const value = pod.annotation(name);
    return value ? *value : std::string();
}

/// Returns "web:2" or "process 2", as in the launcher's log.
std::string who(heard::Record const& record) {
    if (record.process == 0) return record.program;
    std::string const number = std::to_string(record.process);
    return record.program.empty() ? "process " + number : record.program + ":" + number;
}

/// The launcher's message about a process without its name; the whole message if the name is not in it. In messages a
/// program with only one process has no number.
std::string without_name(heard::Record const& record) {
    for (std::string const& name : {who(record), record.program}) {
        if (!name.empty() && record.message.starts_with(name + " ")) return record.message.substr(name.size() + 1);
    }
    return record.message;
}

/// Whether a version is older. Versions of one kind of object are growing numbers. Source: Kubernetes API concepts,
/// "Resource versions" (1.35). Anything else is never older.
bool is_older(std::string_view version, std::string_view other) {
    auto const is_number = [](std::string_view text) { return !text.empty() && std::ranges::all_of(text, &is_digit); };
    if (!is_number(version) || !is_number(other)) return false;
    return version.size() != other.size() ? version.size() < other.size() : version < other;
}

/// The same digest as sha256sum(1) of the file; empty when there is no memory.
std::string sha256_of(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned int size = 0;
    std::string shown;
    if (::EVP_Digest(text.data(), text.size(), bytes.data(), &size, ::EVP_sha256(), nullptr) != 1) return shown;
    for (unsigned int i = 0; i < size; ++i) {
        shown += "0123456789abcdef"[bytes[i] >> 4];
        shown += "0123456789abcdef"[bytes[i] & 15];
    }
    return shown;
}

/// Names a configuration: "configuration 7.3.63 (sha256 0b5e...)".
std::string shown_configuration(std::string_view text) {
    std::string shown = "configuration";
    json::ProblemList problems{1};
    auto const node = json::read_json(text, {}, problems);
    std::string const version = node && node->get<json::Object>() ? json::text_of(*node, "version") : std::string();
    if (!version.empty()) shown.append(" ").append(json::shown(version));
    return shown.append(" (sha256 ").append(sha256_of(text)).append(")");
}

}  // namespace

Reporter::Reporter(ReporterSettings settings, Now now)
    : settings_(std::move(settings)),
      wanted_{settings_.annotation_prefix, settings_.readiness_gate},
      random_(settings_.seed),
      now_(now),
      began_(now.time) {}

std::vector<Action> Reporter::handle(Heard const& heard, Now now) {
    now_ = now;
    std::visit([this](auto const& one) { on(one); }, heard);
    settle();
    return std::exchange(actions_, {});
}

bool Reporter::is_due(TimePoint when) {
    if (when <= now_.time) return true;
    deadline_ = std::min(deadline_.value_or(when), when);
    return false;
}

/// Looks again at everything that waits. By is_due() each part says until when it waits.
void Reporter::settle() {
    deadline_.reset();
    if (ends_at_) return say_last_words();
    keep_watching(Watched::pod);
    keep_watching(Watched::node);
    judge_poke();
    tell_load();
    write();
    call_launcher();
}

// What the launcher says

void Reporter::on(heard::Configuration const& configuration) {
    std::optional<Annotations> desired;
    if (configuration.text) {
        Pairs environment = configuration.environment;
        std::ranges::sort(environment);
        desired = Annotations{*configuration.text, json_object(environment)};
    }
    bool const is_load = desired && (desired != desired_ || configuration.accepted_at != accepted_at_);
    if (desired != desired_ && !annotations_since_) annotations_since_ = now_.time;
    if (desired != desired_) {
        rewrite_at_.reset();
        // The server has refused the old text, not the new one.
        if (!health(Part::annotations).is_denied) health(Part::annotations).retry_at.reset();
    }
    desired_ = std::move(desired);
    accepted_at_ = configuration.accepted_at;
    has_configuration_ = true;
    is_load_untold_ = is_load_untold_ || is_load;
    if (is_load && !is_first_load_) tell_load();  // each load separately, though several may come before the next write
    bool const is_rejected_again = configuration.rejected_at && configuration.rejected_at != rejected_at_;
    if ((is_rejected_again || configuration.rejection != rejection_) && !configuration.rejection.empty())
        events_.observe(true, "ConfigurationRejected", "rejected: " + joined(configuration.rejection, "; "), now_);
    rejection_ = configuration.rejection;
    rejected_at_ = configuration.rejected_at;
}

/// Reports a load. The first one that we hear of may be old: if the pod has it already, an agent before us has reported
/// it.
void Reporter::tell_load() {
    if (!is_load_untold_ || !desired_) return;
    if (is_first_load_) {
        if (!is_pod_seen_ && !is_due(began_ + patience)) return;
        is_first_load_ = false;
        if (is_pod_seen_ && !written_ && seen_ == desired_) {
            is_load_untold_ = false;
            return;
        }
    }
    is_load_untold_ = false;
    events_.observe(false, "ConfigurationLoaded", shown_configuration(desired_->configuration) + " is active", now_);
}

/// Reports that the server refuses this content, for example because it is too long. Writing is tried again, since the
/// pod may lose other annotations meanwhile, but the event is sent only once.
void Reporter::tell_refused(Annotations const& annotations, std::string const& why) {
    std::string digest = sha256_of(annotations.configuration) + sha256_of(annotations.environment);
    if (refused_ == digest) return;
    refused_ = std::move(digest);
    std::string const what = shown_configuration(annotations.configuration);
    events_.observe(true, "AnnotationsRefused", what + " cannot be written to the pod: " + why, now_);
}

void Reporter::on(heard::Record const& record) {
    if (record.event == "process-exited" || record.event == "process-start-failed") {
        crashed(record);
    } else if (record.event == "process-unhealthy" || record.event == "process-timed-out") {
        remember_cause(record);
        events_.observe(true, "Unhealthy", record.message, now_);
    } else if (record.event == "process-oom-killed") {
        events_.observe(true, "OOMKilled", record.message, now_);
    } else if (record.event == "process-gave-up") {
        events_.observe(true, "StartLimitHit", record.message, now_);
    } else if (record.event == "upgrade-done") {
        lost_at_.reset();
        events_.observe(false, "LauncherUpgraded", "upgraded from " + record.from + " to " + record.to, now_);
    }
    if (!settings_.readiness_gate.empty()) wants_status_ = true;
}

/// What they said is not known: an end that somebody waits for, a crash, that the pod is not ready.
void Reporter::on(heard::RecordsLost const& lost) {
    log(log::LogLevel::warning, "records-lost",
        std::to_string(lost.count) + " records of the launcher were lost: events in Kubernetes may be missing");
    crashes_.clear();
    wants_status_ = true;
}

/// Counts crashes. An older launcher does not say how many there were: it restarts at once what has run well, as a
/// rule, and a delay means that it has not.
void Reporter::crashed(heard::Record const& record) {
    std::string process = who(record);
    if (!record.restart_in_seconds) {
        crashes_.erase(process);
        return;
    }
    Crashes& crashes = crashes_of(process);
    std::string const cause = std::exchange(crashes.cause, {});
    crashes.count = record.failures.value_or(*record.restart_in_seconds > 0 ? crashes.count + 1 : 1);
    if (crashes.count < crash_loop) return;
    process.append(" keeps failing: ").append(cause.empty() ? record.ending : cause);
    events_.observe(true, "CrashLooping", process, now_);
}

/// Remembers why the launcher stops a process. The process then ends by the launcher's signal, which does not tell the
/// reason.
void Reporter::remember_cause(heard::Record const& record) {
    if (record.action != "report") crashes_of(who(record)).cause = without_name(record);
}

Reporter::Crashes& Reporter::crashes_of(std::string const& process) {
    if (crashes_.size() > most_crashes) crashes_.clear();
    return crashes_[process];
}

/// Notices an upgrade: the launcher's connections end, but its pid stays the same. The record of it comes before
/// anybody can listen again. In another container a launcher that has crashed has the same pid again, but has begun
/// only after that.
void Reporter::on(heard::Status const& status) {
    using Seconds = std::chrono::duration<double>;
    bool const is_upgraded =
        launcher_ && lost_at_ && launcher_->pid == status.pid &&
        (!status.uptime_seconds || Seconds(*status.uptime_seconds) > Seconds(now_.time - *lost_at_));
    lost_at_.reset();
    if (is_upgraded) {
        events_.observe(false, "LauncherUpgraded", "upgraded from " + launcher_->version + " to " + status.version,
                        now_);
    }
    bool const has_changed = launcher_ && launcher_->is_ready != status.is_ready;
    if ((!launcher_ || has_changed) && !condition_since_) condition_since_ = now_.time;
    launcher_ = status;
}

void Reporter::on(heard::LauncherReached const&) {
    is_reached_ = true;
    wants_status_ = true;
    pod_sent_.reset();
    reporter_sent_.reset();
    is_stranger_ = false;
    refusals_ = {};
}

void Reporter::on(heard::LauncherLost const&) {
    is_reached_ = false;
    lost_at_ = now_.time;
    status_asked_at_.reset();
}

void Reporter::on(heard::CallLost const& lost) {
    is_calling_[static_cast<std::size_t>(lost.call)] = false;
    if (ends_at_) return;
    calls_retry_at_ = now_.time + call_retry;
    switch (lost.call) {
        case LauncherCall::set_pod: pod_sent_.reset(); return;
        case LauncherCall::set_reporter: reporter_sent_.reset(); return;
        case LauncherCall::reload: wants_reload_ = true; return;
        case LauncherCall::get_status: wants_status_ = true; return;
    }
}

void Reporter::on(heard::CallDone const& done) {
    is_calling_[static_cast<std::size_t>(done.call)] = false;
    refusals_[static_cast<std::size_t>(done.call)].clear();
}

/// An agent that runs as an ordinary program may look, but the launcher accepts nothing from it.
void Reporter::on(heard::CallRefused const& refused) {
    auto const call = static_cast<std::size_t>(refused.call);
    is_calling_[call] = false;
    if (refused.is_denied && (refused.call == LauncherCall::set_pod || refused.call == LauncherCall::set_reporter)) {
        is_stranger_ = true;
        if (std::exchange(is_stranger_told_, true)) return;
        return log(log::LogLevel::warning, "launcher-refused",
                   "the launcher has not started this agent and accepts nothing from it: isolation, the delay of the "
                   "shutdown and labels of the node have no effect, and its status does not show this reporter");
    }
    std::string why = "the launcher refuses " + std::string(call_names[call]) + ": " + refused.why;
    if (refusals_[call] == why) return;
    refusals_[call] = why;
    log(log::LogLevel::warning, "launcher-refused", std::move(why));
}

void Reporter::call(LauncherCall call, Action action) {
    is_calling_[static_cast<std::size_t>(call)] = true;
    actions_.push_back(std::move(action));
}

/// Calls the launcher, with at most one call of each kind under way: later changes go with the next one.
void Reporter::call_launcher() {
    if (!is_reached_) return;
    if (calls_retry_at_ && !is_due(*calls_retry_at_)) return;
    calls_retry_at_.reset();
    auto const is_free = [this](LauncherCall kind) { return !is_calling_[static_cast<std::size_t>(kind)]; };
    if (!is_stranger_ && is_free(LauncherCall::set_pod)) tell_pod();
    if (wants_reload_ && is_free(LauncherCall::reload)) {
        wants_reload_ = false;
        call(LauncherCall::reload, action::Reload{});
    }
    if (wants_status_ && is_free(LauncherCall::get_status) &&
        (ends_at_ || !status_asked_at_ || is_due(*status_asked_at_ + status_gap))) {
        wants_status_ = false;
        status_asked_at_ = now_.time;
        call(LauncherCall::get_status, action::GetStatus{});
    }
    if (!is_stranger_ && is_free(LauncherCall::set_reporter)) tell_health();
}

// The end

/// Begins the end. News from before it may still be on its way; it has all come when the launcher has answered.
void Reporter::on(heard::Ending const&) {
    if (ends_at_) return;
    ends_at_ = now_.time + last_words;
    wants_status_ = true;
}

void Reporter::say_last_words() {
    is_finished_ = is_finished_ || is_server_away() || is_due(*ends_at_);
    if (is_finished_) return;
    call_launcher();
    if (!in_flight_) (void)(write_event() || write_condition());
    bool const is_asking = is_calling_[static_cast<std::size_t>(LauncherCall::get_status)];
    bool const is_sending = in_flight_ && (in_flight_->part == Part::condition ||
                                           (in_flight_->part == Part::events && in_flight_->event.is_warning));
    is_finished_ = !is_asking && !is_sending && !(in_flight_ && has_last_words());
    if (is_finished_) deadline_.reset();
}

/// Whether something is to be sent after the request that is under way.
bool Reporter::has_last_words() const {
    auto const may_go = [this](Part part) { return !health(part).retry_at || *health(part).retry_at <= now_.time; };
    bool const has_event = may_go(Part::events) && events_.next(now_.time, EventCorrelator::Kind::warnings);
    return has_event || (may_go(Part::condition) && wants_condition());
}

/// Whether the server is gone, or was never there. A refusal to let us watch the pod is an answer, too.
bool Reporter::is_server_away() const {
    Health const& watch = health(Part::pod_watch);
    bool const is_watch_broken = !watch.failure.empty() && !watch.is_denied;
    return !last_success_ || is_watch_broken || (server_retry_at_ && *server_retry_at_ > now_.time);
}

/// Tells the launcher about the pod, with the labels of the node. It waits for the labels, since "none" would revoke
/// those that the launcher has, but not for long, and not if they cannot be had.
void Reporter::tell_pod() {
    if (!is_pod_seen_) return;
    if (settings_.watches_node && !variables_ && health(Part::node_watch).failure.empty() && !is_due(began_ + patience))
        return;
    action::SetPod pod{is_isolated_, shutdown_delay_, variables_.value_or(Pairs{})};
    if (pod_sent_ == pod) return;
    pod_sent_ = pod;
    call(LauncherCall::set_pod, std::move(pod));
}

void Reporter::tell_health() {
    action::SetReporter now{"ok", {}, last_success_};
    auto const broken = std::ranges::find_if(health_, [](Health const& one) { return !one.failure.empty(); });
    auto const refused = std::ranges::find_if(refusals_, [](std::string const& why) { return !why.empty(); });
    if (broken != health_.end() || refused != refusals_.end()) {
        now.state = "failing";
        now.detail = broken != health_.end() ? broken->failure : *refused;
    } else if (!watch_of(Watched::pod).has_opened) {
        now.state = "connecting";
    }
    if (reporter_sent_ == now) return;
    reporter_sent_ = now;
    call(LauncherCall::set_reporter, std::move(now));
}

// What the pod says

void Reporter::pod_seen(ObjectView const& pod) {
    if (is_older(pod.resource_version, pod_version_)) return;  // the watch and our own writes overtake each other
    if (pod.uid != pod_uid_) another_pod(pod.uid);
    pod_version_ = pod.resource_version;
    is_pod_seen_ = true;
    if (std::exchange(is_pod_gone_, false)) {
        for (Part const part : {Part::annotations, Part::condition, Part::events})
            part_works(part);
    }
    if (!pod.node_name.empty()) pod_node_ = pod.node_name;
    annotations_seen(annotations_of(pod));
    if (!settings_.readiness_gate.empty()) seen_condition_ = pod.condition;
    auto const isolated = parse_go_bool(text_of(pod, "isolate-process-group"));
    is_isolated_ = isolated.value_or(false);
    check_readable(pod, "isolate-process-group", isolated.has_value(), "true or false");
    auto const delay = parse_go_duration(text_of(pod, "delay-shutdown"));
    shutdown_delay_ = std::max(Duration::zero(), delay.value_or(Duration::zero()));
    check_readable(pod, "delay-shutdown", delay && *delay >= Duration::zero(), "a duration such as 60s or 1m30s");
    std::string const* const poke = pod.annotation("outdated-config-map-seen");
    take_poke(poke);
    check_readable(pod, "outdated-config-map-seen", poke && parse_unix_seconds(*poke), "a Unix time in seconds");
}

/// Reports an annotation that cannot be read, once for each value. It counts as if it were missing.
void Reporter::check_readable(ObjectView const& pod, std::string_view name, bool is_good, std::string_view wanted) {
    std::string const* const value = pod.annotation(name);
    std::string& told = unreadable_[std::string(name)];
    if (!value || value->empty() || is_good) {
        told.clear();
        return;
    }
    std::string text = settings_.annotation_prefix + std::string(name) + " is " + json::quoted(*value);
    text.append(", not ").append(wanted);
    if (std::exchange(told, text) != text) events_.observe(true, "AnnotationUnreadable", text, now_);
}

Reporter::Annotations Reporter::annotations_of(ObjectView const& pod) {
    return {text_of(pod, "launcher-current-configuration"), text_of(pod, "launcher-environment")};
}

/// Somebody has made the pod again under the same name: what we knew was about the old one.
void Reporter::another_pod(std::string const& uid) {
    if (!pod_uid_.empty()) events_.forget_written(now_);
    pod_uid_ = uid;
    seen_.reset();
    written_.reset();
    refused_.clear();
    sent_.reset();
    seen_condition_.reset();
    contested_at_.reset();
    rewrite_at_.reset();
}

void Reporter::pod_gone() {
    is_pod_gone_ = true;
    seen_.reset();
    written_.reset();
    seen_condition_.reset();
    part_failed(Part::annotations, "there is no pod " + settings_.pod_namespace + "/" + settings_.pod_name);
    retry_slowly(Part::annotations);
}

/// Writes again what somebody else has changed, first at once, then less and less often: a second launcher with the
/// same pod would do the same to us.
void Reporter::annotations_seen(Annotations found) {
    if (found == sent_) written_ = sent_;  // learnt from the watch before the answer, or without one
    bool const was_ours = seen_ && written_ && *seen_ == *written_;
    bool const is_contested = was_ours && found != *written_;
    if (is_contested) {
        if (!contested_at_ || now_.time - *contested_at_ > 2 * std::chrono::minutes(5)) {
            contest_backoff_.reset();
            rewrite_at_ = now_.time;
            log(log::LogLevel::warning, "annotations-changed",
                "somebody else has changed the launcher's annotations; writing them again");
        } else {
            rewrite_at_ = now_.time + contest_backoff_.after_failure(random_);
        }
        contested_at_ = now_.time;
    }
    seen_ = std::move(found);
    if (desired_ && seen_ != desired_ && !annotations_since_) annotations_since_ = now_.time;
}

void Reporter::take_poke(std::string const* value) {
    auto const poke = value ? parse_unix_seconds(*value) : std::nullopt;
    if (!poke || poke == poke_) return;
    poke_before_ = std::exchange(poke_, poke);
    is_poke_new_ = true;
}

/// Judges each value once: whether it is later than the last load. The writer's clock may be behind ours, so a value
/// that is later than the one before it also counts as a new request.
void Reporter::judge_poke() {
    if (!is_poke_new_ || !has_configuration_) return;
    is_poke_new_ = false;
    bool const is_after_load = !accepted_at_ || *poke_ > *accepted_at_ / 1'000'000;
    if (!is_after_load && !(poke_before_ && *poke_ > *poke_before_)) return;
    wants_reload_ = true;
    log(log::LogLevel::info, "reload-requested", "the pod's annotation asks for the configuration to be read again");
}

void Reporter::node_seen(ObjectView const& node) {
    std::map<std::string, std::string> all;
    for (auto const& [key, value] : node.labels)
        all.insert_or_assign(node_label_variable(key), value);
    Pairs variables;
    std::size_t bytes = 0;
    for (auto const& [name, value] : all) {
        bytes += name.size() + value.size();
        if (variables.size() == most_variables || bytes > most_variable_bytes) break;
        variables.emplace_back(name, value);
    }
    std::size_t const left_out = all.size() - variables.size();
    if (left_out > 0 && left_out != left_out_) {
        log(log::LogLevel::warning, "labels-left-out",
            "of the node's labels " + std::to_string(left_out) +
                " are left out, the last ones by name: the launcher "
                "takes " +
                std::to_string(most_variables) + " variables of " + std::to_string(most_variable_bytes) +
                " bytes in all");
    }
    left_out_ = left_out;
    variables_ = std::move(variables);
}

std::string const& Reporter::node_name() const { return settings_.node_name.empty() ? pod_node_ : settings_.node_name; }

/// Whether all that we read is in the metadata; two things are not. A node's images alone are 50 kB, sent
/// every 5 minutes.
bool Reporter::wants_metadata_only() const {
    return settings_.readiness_gate.empty() && (!settings_.watches_node || !settings_.node_name.empty());
}

// Health

namespace {

struct PartRow {
    std::string_view what;
    std::string_view resource;
};
constexpr std::array<PartRow, 5> part_rows{{{"the pod cannot be watched", "pods"},
                                            {"the pod's annotations cannot be written", "pods"},
                                            {"the pod's condition cannot be written", "pods/status"},
                                            {"events cannot be written", "events"},
                                            {"the node cannot be watched", "nodes"}}};

}  // namespace

void Reporter::log(log::LogLevel level, std::string_view event, std::string message) {
    actions_.push_back(action::Log{level, event, std::move(message)});
}

/// Logs a failure that lasts once, and one that keeps changing at most once a minute.
void Reporter::part_failed(Part part, std::string why, log::LogLevel level) {
    Health& one = health(part);
    one.failure = std::string(part_rows[static_cast<std::size_t>(part)].what) + ": " + why;
    bool const is_told = one.told_at && (one.told == one.failure || now_.time - *one.told_at < retell);
    if (is_told) return;
    one.told = one.failure;
    one.told_at = now_.time;
    log(level, "kubernetes-failing", one.failure);
}

void Reporter::part_works(Part part) {
    Health& one = health(part);
    bool const had_failed = !one.failure.empty();
    one = Health{};
    if (had_failed) {
        log(log::LogLevel::info, "kubernetes-works-again",
            std::string(part_rows[static_cast<std::size_t>(part)].what) + ": no longer so");
    }
}

void Reporter::retry_slowly(Part part) {
    health(part).retry_at = now_.time + health(part).backoff.after_failure(random_);
}

/// Handles a refusal. RBAC has its own words. Others are also called forbidden: by an admission plugin or policy, or in
/// a namespace that is being deleted.
/// Source: k8s.io/apiserver, pkg/endpoints/handlers/responsewriters, forbiddenMessage.
void Reporter::part_denied(Part part, std::string_view verb, ApiStatus const& status) {
    Health& one = health(part);
    std::string_view const resource = part_rows[static_cast<std::size_t>(part)].resource;
    std::string const rbac = "cannot " + std::string(verb) + " resource \"" + std::string(resource) + "\"";
    bool const is_permission = status.message.find(rbac) != std::string::npos;
    std::string why = status.message.empty() ? "HTTP status 403" : status.message;
    if (is_permission) {
        why = "permission missing: verb \"" + std::string(verb) + "\" on resource \"" + std::string(resource) + "\"";
        if (part != Part::node_watch) why += " in namespace \"" + settings_.pod_namespace + "\"";
    }
    if (is_permission && !std::exchange(one.is_denied, true)) {
        one.failure = one.told = std::string(part_rows[static_cast<std::size_t>(part)].what) + ": " + why;
        one.told_at = now_.time;
        log(log::LogLevel::error, "permission-missing", one.failure + " (" + status.message + ")");
        if (part != Part::events) events_.observe(true, "MissingPermission", one.failure, now_);
    } else {
        part_failed(part, std::move(why));
    }
    retry_slowly(part);
}

}  // namespace triton::kubernetes
