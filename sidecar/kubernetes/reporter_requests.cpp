#include <algorithm>

#include "lib/json/text.h"
#include "sidecar/kubernetes/reporter.h"

namespace triton::kubernetes {

namespace {

constexpr Duration first_look = std::chrono::seconds(2);  // wait for a look at the pod before we write blindly
constexpr std::string_view merge_patch = "application/merge-patch+json";
constexpr std::string_view strategic_merge_patch = "application/strategic-merge-patch+json";
constexpr std::string_view manager = "?fieldManager=triton-launch";

std::string refusal_text(ApiStatus const& status) {
    std::string text = "HTTP status " + std::to_string(status.code);
    if (!status.message.empty()) text += ": " + status.message;
    return text;
}

bool is_server_trouble(int status) { return status == 408 || status == 429 || status >= 500 || status < 200; }

}  // namespace

/// Sends one request at a time, the most important first. One that has to wait does not hold up those after it.
void Reporter::write() {
    if (in_flight_) return;
    forget_old_failures();
    if (!wants_annotations() && !wants_condition() && !events_.next_at(now_.time)) return;
    if (server_retry_at_ && !is_due(*server_retry_at_)) return;
    if (write_annotations() || write_condition()) return;
    (void)write_event();
}

/// Forgets failures when nothing is left to write. Then it does not matter that an answer got lost, or that something
/// is not allowed; the latter is remembered, though.
void Reporter::forget_old_failures() {
    auto const forget = [this](Part part, bool wants) {
        Health& one = health(part);
        if (wants || one.failure.empty()) return;
        if (!one.is_denied) return part_works(part);
        one.failure.clear();
    };
    forget(Part::annotations, wants_annotations() || is_pod_gone_);
    forget(Part::condition, wants_condition());
    auto const event_at = events_.next_at(now_.time);
    forget(Part::events, event_at && *event_at <= now_.time);  // events that wait for a token have not failed
}

bool Reporter::wants_annotations() const { return desired_ && seen_ != desired_; }

bool Reporter::wants_condition() const {
    return !settings_.readiness_gate.empty() && launcher_ && seen_condition_ != is_ready();
}

/// Whether a part may be written now. What the pod already has need not be written, and the watch, if it works, tells
/// that at once.
bool Reporter::may_write(Part part) {
    if (health(part).retry_at && !is_due(*health(part).retry_at)) return false;
    return is_pod_seen_ || !health(Part::pod_watch).failure.empty() || is_due(began_ + first_look);
}

bool Reporter::write_annotations() {
    if (!wants_annotations()) annotations_since_.reset();
    if (!wants_annotations() || !may_write(Part::annotations)) return false;
    if (rewrite_at_ && !is_due(*rewrite_at_)) return false;
    if (!is_due(annotations_pace_.next(now_.time))) return false;
    annotations_pace_.written(now_.time, annotations_since_.value_or(now_.time));
    annotations_since_.reset();
    rewrite_at_.reset();
    Pairs const ours{{"launcher-current-configuration", desired_->configuration},
                     {"launcher-environment", desired_->environment}};
    InFlight flight;
    flight.part = Part::annotations;
    flight.annotations = *desired_;
    sent_ = desired_;
    send({.method = "PATCH",
          .target = pod_path().append(manager),
          .content_type = merge_patch,
          .body = annotations_patch(settings_.annotation_prefix, ours),
          .wants_metadata_only = wants_metadata_only()},
         std::move(flight));
    return true;
}

bool Reporter::write_condition() {
    if (!wants_condition()) condition_since_.reset();
    if (!wants_condition() || !may_write(Part::condition)) return false;
    if (!ends_at_ && !is_due(condition_pace_.next(now_.time))) return false;
    condition_pace_.written(now_.time, condition_since_.value_or(now_.time));
    condition_since_.reset();
    InFlight flight;
    flight.part = Part::condition;
    flight.condition = is_ready();
    send({.method = "PATCH",
          .target = pod_path().append("/status").append(manager),
          .content_type = strategic_merge_patch,
          .body = condition_patch(settings_.readiness_gate, is_ready(), now_.unix_seconds())},
         std::move(flight));
    return true;
}

/// Whether events may be sent. `kubectl describe` finds them by the pod's uid: they wait until it is known, unless it
/// cannot be.
bool Reporter::may_tell_events() {
    if (is_pod_gone_) return false;
    if (!pod_uid_.empty()) return true;
    if (!health(Part::pod_watch).is_denied) return false;
    return health(Part::annotations).is_denied || (!desired_ && is_due(began_ + patience));
}

bool Reporter::write_event() {
    auto const kind = ends_at_ ? EventCorrelator::Kind::warnings : EventCorrelator::Kind::all;
    auto const next_at = events_.next_at(now_.time, kind);
    if (!next_at || !may_tell_events()) return false;
    Health const& one = health(Part::events);
    if (one.retry_at && !is_due(*one.retry_at)) return false;
    if (!is_due(*next_at)) return false;
    auto record = events_.next(now_.time, kind);
    if (!record) return false;
    events_.begin(record->id);
    EventSource const source{settings_.pod_name, settings_.pod_namespace, pod_uid_, node_name()};
    std::string path = "/api/v1/namespaces/" + percent_encoded(settings_.pod_namespace) + "/events";
    action::Request request;
    request.method = record->is_created ? "PATCH" : "POST";
    request.target = record->is_created ? path + "/" + percent_encoded(event_name(source, *record)) : path;
    request.target.append(manager);
    request.content_type = record->is_created ? merge_patch : "application/json";
    request.body = record->is_created ? event_patch(*record) : event_body(source, *record);
    request.wants_metadata_only = true;
    InFlight flight;
    flight.part = Part::events;
    flight.event = *std::move(record);
    send(std::move(request), std::move(flight));
    return true;
}

std::string Reporter::pod_path() const {
    return "/api/v1/namespaces/" + percent_encoded(settings_.pod_namespace) + "/pods/" +
           percent_encoded(settings_.pod_name);
}

void Reporter::send(action::Request request, InFlight flight) {
    request.id = flight.id = ++last_id_;
    request.with_fresh_token = flight.has_fresh_token = std::exchange(wants_fresh_token_, false);
    in_flight_ = std::move(flight);
    actions_.push_back(std::move(request));
}

void Reporter::on(heard::Unreachable const& unreachable) {
    if (!in_flight_ || in_flight_->id != unreachable.request) return;
    InFlight const flight = *std::exchange(in_flight_, std::nullopt);
    if (flight.part == Part::events) events_.failed(flight.event.id);
    server_failed(flight.part, unreachable.why, std::nullopt, false);
}

void Reporter::on(heard::Response const& response) {
    if (!in_flight_ || in_flight_->id != response.request) return;
    InFlight const flight = *std::exchange(in_flight_, std::nullopt);
    if (response.status >= 200 && response.status < 300) return on_success(flight, response.body);
    ApiStatus const status = parse_status(response.body, response.status);
    if (status.code != 401 && !is_server_trouble(status.code)) return on_refusal(flight, status);
    if (flight.part == Part::events) events_.failed(flight.event.id);
    if (status.code == 401 && !flight.has_fresh_token) {
        wants_fresh_token_ = true;  // it may have just been replaced, so try once more at once
    } else {
        bool const is_overload = status.code == 429 || response.retry_after.has_value();
        server_failed(flight.part, refusal_text(status), response.retry_after, is_overload);
    }
}

void Reporter::server_failed(Part part, std::string why, std::optional<Duration> retry_after, bool is_overload) {
    server_retry_at_ = now_.time + server_backoff_.after_failure(random_, retry_after);
    is_overloaded_ = is_overload;
    part_failed(part, std::move(why));
}

void Reporter::on_success(InFlight const& flight, std::string const& body) {
    bool const is_event = flight.part == Part::events;
    auto const pod = is_event ? Result<ObjectView>() : parse_object(body, wanted_);
    if (!pod) return server_failed(flight.part, pod.error().text(), std::nullopt, false);
    server_retry_at_.reset();
    server_backoff_.reset();
    last_success_ = now_.unix_microseconds;
    if (flight.part == Part::annotations && annotations_of(*pod) != flight.annotations) {
        part_failed(Part::annotations, "the server has taken them, but the pod does not have them");
        return retry_slowly(Part::annotations);
    }
    part_works(flight.part);
    if (is_event) return events_.written(flight.event, now_.time);
    if (pod->uid != pod_uid_) another_pod(pod->uid);
    if (flight.part == Part::annotations) {
        written_ = flight.annotations;
        refused_.clear();
    }
    pod_seen(*pod);
    // Last words are not repeated, whatever the server has done with them.
    if (flight.part == Part::condition && (!pod->condition || ends_at_)) seen_condition_ = flight.condition;
}

/// The server has refused what was asked, so only this part is concerned.
void Reporter::on_refusal(InFlight const& flight, ApiStatus const& status) {
    if (flight.part == Part::events) return on_event_refusal(flight.event, status);
    if (status.code == 403) return part_denied(flight.part, "patch", status);
    if (status.code == 409) return server_failed(flight.part, refusal_text(status), std::nullopt, false);
    if (status.code == 404) {
        if (flight.part == Part::condition) retry_slowly(flight.part);
        return pod_gone();
    }
    if (flight.part == Part::annotations) tell_refused(flight.annotations, refusal_text(status));
    part_failed(flight.part, refusal_text(status), log::LogLevel::error);
    retry_slowly(flight.part);
}

void Reporter::on_event_refusal(EventRecord const& event, ApiStatus const& status) {
    // The event is ours: a request has succeeded whose answer got lost.
    if (status.code == 409 && !event.is_created) return events_.written(event, now_.time);
    if (status.code == 404 && event.is_created) return events_.gone(event.id, now_);
    if (status.code == 400 || status.code == 413 || status.code == 422) {
        events_.drop(event.id, now_.time);
        log(log::LogLevel::error, "event-refused", event.reason + ": " + refusal_text(status));
        return;
    }
    events_.failed(event.id);
    if (status.code == 403) return part_denied(Part::events, event.is_created ? "patch" : "create", status);
    if (status.code == 409) return server_failed(Part::events, refusal_text(status), std::nullopt, false);
    part_failed(Part::events, refusal_text(status), log::LogLevel::error);
    retry_slowly(Part::events);
}

}  // namespace triton::kubernetes
