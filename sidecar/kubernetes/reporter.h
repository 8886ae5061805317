#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "lib/log/log.h"
#include "sidecar/kubernetes/api_objects.h"
#include "sidecar/kubernetes/backoff.h"
#include "sidecar/kubernetes/event_correlator.h"

namespace triton::kubernetes {

/// A watched object. Each has its own connection.
enum class Watched : std::uint8_t { pod, node };

/// A call to the launcher.
enum class LauncherCall : std::uint8_t { set_pod, reload, set_reporter, get_status };

/// What happens to the reporter.
namespace heard {

/// From WatchConfiguration. The times are microseconds since 1970.
struct Configuration {
    std::optional<std::string> text;  ///< nullopt: none has been accepted yet
    Pairs environment;
    std::optional<std::int64_t> accepted_at;
    std::vector<std::string> rejection;
    std::optional<std::int64_t> rejected_at = {};  ///< nullopt: nothing is rejected, or an older launcher
};
/// From Subscribe: the members of a record of the launcher's log that mean something to us.
struct Record {
    std::string event;
    std::string message;
    std::string program;       ///< empty: the unnamed one
    std::int64_t process = 0;  ///< 0: it is not about a process
    std::string
        ending;  ///< "exit code 3", "signal SIGSEGV", "cannot execute: ..."; empty: it is about no end, or a good one
    std::optional<double> restart_in_seconds;
    std::string from;  ///< of an upgrade: versions
    std::string to;
    std::string action = {};                    ///< of one that is unhealthy: "restart", "report", "exit"
    std::optional<std::int64_t> failures = {};  ///< in a row, with this one; 0: it is none
};
/// From Subscribe, in place of records: we were too slow, or not there.
struct RecordsLost {
    std::int64_t count = 0;
};
/// From GetStatus.
struct Status {
    std::string version;
    std::int64_t pid = 0;
    bool is_ready = false;
    std::optional<double> uptime_seconds = {};  ///< over upgrades
};
/// A stream from the launcher has begun to answer, or has ended.
struct LauncherReached {};
struct LauncherLost {};
/// A call did not get through; it has to be repeated.
struct CallLost {
    LauncherCall call{};
};
/// A call was answered.
struct CallDone {
    LauncherCall call{};
};
/// With an error.
struct CallRefused {
    LauncherCall call{};
    std::string why;
    bool is_denied = false;  ///< only the launcher's own agent may make it
};

/// The answer to action::Request.
struct Response {
    std::uint64_t request = 0;
    int status = 0;
    std::optional<Duration> retry_after;
    std::string body;
};
/// No answer.
struct Unreachable {
    std::uint64_t request = 0;
    std::string why;
};

/// To action::OpenWatch: the server's 200 has come; a line; the end. Of a watch that was closed nothing more is heard.
struct WatchOpened {
    std::uint64_t watch = 0;
};
struct WatchLine {
    std::uint64_t watch = 0;
    std::string text;
};
struct WatchEnded {
    std::uint64_t watch = 0;
    int status = 0;  ///< other than 200: it was refused; 0: no answer at all; 200: it had been open
    std::optional<Duration> retry_after;
    std::string text;  ///< the body of the refusal, or why there is no answer
};

struct TimePassed {};
/// We are to end.
struct Ending {};

}  // namespace heard

using Heard = std::variant<heard::Configuration, heard::Record, heard::RecordsLost, heard::Status,
                           heard::LauncherReached, heard::LauncherLost, heard::CallLost, heard::CallDone,
                           heard::CallRefused, heard::Response, heard::Unreachable, heard::WatchOpened,
                           heard::WatchLine, heard::WatchEnded, heard::TimePassed, heard::Ending>;

/// The reporter's actions.
namespace action {

/// At most one is under way; heard::Response or heard::Unreachable follows.
struct Request {
    std::uint64_t id = 0;
    std::string_view method;
    std::string target;
    std::string_view content_type;
    std::string body;
    bool wants_metadata_only = false;  ///< of the object in the answer
    bool with_fresh_token = false;     ///< the token that was sent last has been refused: read it again
    bool operator==(Request const&) const = default;
};
/// At most one of each kind is open.
struct OpenWatch {
    Watched what{};
    std::uint64_t id = 0;
    std::string target;
    bool wants_metadata_only = false;
    bool with_fresh_token = false;
    bool operator==(OpenWatch const&) const = default;
};
struct CloseWatch {
    Watched what{};
    std::uint64_t id = 0;
    bool operator==(CloseWatch const&) const = default;
};
/// All that the pod (and its node) says. One call of each kind is under way at most; heard::CallDone, CallRefused or
/// CallLost follows.
struct SetPod {
    bool is_isolated = false;
    Duration shutdown_delay{};
    Pairs variables;
    bool operator==(SetPod const&) const = default;
};
struct Reload {
    bool operator==(Reload const&) const = default;
};
struct SetReporter {
    std::string_view state;  ///< "connecting", "ok", "failing"
    std::string detail;
    std::optional<std::int64_t> last_success;  ///< microseconds since 1970
    bool operator==(SetReporter const&) const = default;
};
struct GetStatus {
    bool operator==(GetStatus const&) const = default;
};
struct Log {
    log::LogLevel level{};
    std::string_view event;
    std::string message;
    bool operator==(Log const&) const = default;
};

}  // namespace action

using Action = std::variant<action::Request, action::OpenWatch, action::CloseWatch, action::SetPod, action::Reload,
                            action::SetReporter, action::GetStatus, action::Log>;

struct ReporterSettings {
    std::string pod_name;
    std::string pod_namespace;
    std::string node_name;  ///< empty: what the pod says
    bool watches_node = false;
    std::string readiness_gate;
    std::string annotation_prefix = "foundationdb.org/";
    std::uint64_t seed = 0;  ///< of the jitter
};

/// Decides what is reported to the cluster and when, and what follows from the pod's annotations. No clock, I/O or log.
///
/// There are five parts: the pod's annotations, its readiness condition, Events, and the watches of the pod and of its
/// node. Each of the first three has a state that is wanted and one that the API is known to have, and writes when they
/// differ; the latest state wins, what lay between is never sent. One request is under way at a time: annotations go
/// first, then the condition, then Events. What hinders the server as a whole (no answer, 429, 5xx, 401) delays all of
/// them; a refusal (403, 404, 422) only the part that it concerns.
///
/// The watches make no list before: without a resource version a watch begins with the object as it is, needs no
/// further permission, and is never older than what a list would give. It is resumed from the last version that it
/// heard of; 410 Gone begins anew.
///
/// At its end it has a second for last words: warnings that are due, since a container that ends with its program may
/// cannot be reported by others, and that the pod is not ready. Only if the API answers; with nothing to report it is
/// finished as soon as the launcher has said everything that it had to.
class Reporter {
public:
    Reporter(ReporterSettings settings, Now now);

    /// Its consequences. References into the event are not kept.
    std::vector<Action> handle(Heard const& heard, Now now);

    /// When heard::TimePassed is due; nullopt: nothing waits for time.
    [[nodiscard]] std::optional<TimePoint> deadline() const { return deadline_; }

    /// After heard::Ending: nothing is left that we should stay for.
    [[nodiscard]] bool is_finished() const { return is_finished_; }

    struct Annotations {
        std::string configuration;
        std::string environment;
        bool operator==(Annotations const&) const = default;
    };

private:
    enum class Part : std::uint8_t { pod_watch, annotations, condition, events, node_watch };
    static constexpr std::size_t parts = 5;
    static constexpr Duration patience = std::chrono::seconds(10);  ///< with what may never be known
    static constexpr Part part_of(Watched what) { return what == Watched::pod ? Part::pod_watch : Part::node_watch; }

    /// How one part fares.
    struct Health {
        std::string failure;  ///< empty: nothing is known to be wrong
        std::string told;     ///< the last that the log has
        std::optional<TimePoint> told_at;
        bool is_denied = false;  ///< reported already
        std::optional<TimePoint> retry_at;
        Backoff backoff{std::chrono::seconds(10), std::chrono::minutes(5)};  ///< after refusals
    };
    struct Watch {
        enum class State : std::uint8_t { closed, opening, open };
        State state = State::closed;
        std::uint64_t id = 0;
        std::string resource_version;  ///< where it continues; empty: with the object as it is
        bool has_opened = false;       ///< at least once
        bool has_bookmarks = false;
        bool has_fresh_token = false;  ///< this try
        bool wants_fresh_token = false;
        std::uint32_t short_lives = 0;  ///< in a row
        TimePoint opened_at;
        TimePoint heard_at;
        std::optional<TimePoint> gone_at;  ///< the last 410
        Duration timeout{};                ///< the server ends it by then
        std::optional<TimePoint> retry_at;
        Backoff backoff{std::chrono::milliseconds(500), std::chrono::seconds(30)};
    };
    struct InFlight {
        std::uint64_t id = 0;
        Part part{};
        Annotations annotations;
        bool condition = false;
        EventRecord event;
        bool has_fresh_token = false;
    };
    /// The data of a failing process.
    struct Crashes {
        std::int64_t count = 0;  // in a row
        std::string cause;       // what the launcher is about to end it for; empty: nothing
    };

    // Events.
    void on(heard::Configuration const& configuration);
    void on(heard::Record const& record);
    void on(heard::RecordsLost const& lost);
    void on(heard::Status const& status);
    void on(heard::LauncherReached const&);
    void on(heard::LauncherLost const&);
    void on(heard::CallLost const& lost);
    void on(heard::CallDone const& done);
    void on(heard::CallRefused const& refused);
    void on(heard::Response const& response);
    void on(heard::Unreachable const& unreachable);
    void on(heard::WatchOpened const& opened);
    void on(heard::WatchLine const& line);
    void on(heard::WatchEnded const& ended);
    void on(heard::TimePassed const&) {}
    void on(heard::Ending const&);

    // Requests.
    void on_success(InFlight const& flight, std::string const& body);
    void on_refusal(InFlight const& flight, ApiStatus const& status);
    void on_event_refusal(EventRecord const& event, ApiStatus const& status);
    void tell_refused(Annotations const& annotations, std::string const& why);
    void server_failed(Part part, std::string why, std::optional<Duration> retry_after, bool is_overload);
    void write();
    [[nodiscard]] bool wants_annotations() const;
    [[nodiscard]] bool wants_condition() const;
    bool may_write(Part part);
    bool write_annotations();
    bool write_condition();
    bool write_event();
    void forget_old_failures();
    bool may_tell_events();
    void send(action::Request request, InFlight flight);
    [[nodiscard]] std::string pod_path() const;

    // Watches.
    Watch& watch_of(Watched what) { return watches_[static_cast<std::size_t>(what)]; }
    [[nodiscard]] std::optional<Watched> watched_by(std::uint64_t id) const;
    void keep_watching(Watched what);
    void open_watch(Watched what);
    void close_watch(Watched what);
    void watch_broke(Watched what, std::string why, std::optional<Duration> retry_after = std::nullopt);
    void watch_ran_out(Watched what);
    void version_gone(Watched what);
    void watch_heard(Watched what, WatchEvent const& event);
    void pod_seen(ObjectView const& pod);
    void another_pod(std::string const& uid);
    void pod_gone();
    void node_seen(ObjectView const& node);
    static Annotations annotations_of(ObjectView const& pod);
    void annotations_seen(Annotations found);
    void check_readable(ObjectView const& pod, std::string_view name, bool is_good, std::string_view wanted);
    void take_poke(std::string const* value);
    [[nodiscard]] std::string const& node_name() const;
    [[nodiscard]] bool wants_metadata_only() const;

    // Health and log.
    Health& health(Part part) { return health_[static_cast<std::size_t>(part)]; }
    [[nodiscard]] Health const& health(Part part) const { return health_[static_cast<std::size_t>(part)]; }
    void part_failed(Part part, std::string why, log::LogLevel level = log::LogLevel::warning);
    void part_works(Part part);
    void part_denied(Part part, std::string_view verb, ApiStatus const& status);
    void retry_slowly(Part part);
    void log(log::LogLevel level, std::string_view event, std::string message);

    // The launcher.
    void crashed(heard::Record const& record);
    void remember_cause(heard::Record const& record);
    Crashes& crashes_of(std::string const& process);
    void tell_load();
    void judge_poke();
    void call_launcher();
    void call(LauncherCall call, Action action);
    void tell_pod();
    void tell_health();

    void settle();
    void say_last_words();
    [[nodiscard]] bool has_last_words() const;
    [[nodiscard]] bool is_server_away() const;
    [[nodiscard]] bool is_ready() const { return launcher_ && launcher_->is_ready && !ends_at_; }
    /// Whether this time has come; if not, the deadline is no later.
    bool is_due(TimePoint when);

    ReporterSettings settings_;
    Wanted wanted_;
    Random random_;
    Now now_;
    TimePoint began_;
    std::vector<Action> actions_;
    std::optional<TimePoint> deadline_;
    std::uint64_t last_id_ = 0;
    std::optional<TimePoint> ends_at_;  // at the latest
    bool is_finished_ = false;

    // News of the launcher.
    bool has_configuration_ = false;  // WatchConfiguration has answered
    std::optional<Annotations> desired_;
    std::optional<std::int64_t> accepted_at_;
    std::vector<std::string> rejection_;
    std::optional<std::int64_t> rejected_at_;
    bool is_load_untold_ = false;  // no Event yet of desired_
    bool is_first_load_ = true;    // which a previous agent may have reported
    bool is_reached_ = false;
    std::optional<TimePoint> lost_at_;  // since the last heard::Status
    std::optional<heard::Status> launcher_;
    std::unordered_map<std::string, Crashes> crashes_;  // by process

    // News of the pod.
    bool is_pod_seen_ = false;
    bool is_pod_gone_ = false;
    std::string pod_uid_;
    std::string pod_node_;
    std::string pod_version_;                        // the latest that was seen
    std::optional<Annotations> seen_;                // nullopt: unknown
    std::optional<Annotations> sent_;                // the last that went out
    std::optional<Annotations> written_;             // the last that were taken
    std::string refused_;                            // the digest of those whose refusal was reported last
    std::map<std::string, std::string> unreadable_;  // annotations of others, by name, with the latest report
    std::optional<bool> seen_condition_;             // nullopt: unknown, or none
    bool is_isolated_ = false;
    Duration shutdown_delay_{};
    std::optional<std::int64_t> poke_;         // the last one
    std::optional<std::int64_t> poke_before_;  // the one before it
    bool is_poke_new_ = false;
    std::string watched_node_;
    std::optional<Pairs> variables_;  // of the node; nullopt: unknown
    std::size_t left_out_ = 0;        // labels, in the log

    // Writing.
    std::optional<InFlight> in_flight_;
    std::optional<TimePoint> server_retry_at_;
    bool is_overloaded_ = false;  // and has said so: then only time helps
    bool wants_fresh_token_ = false;
    Backoff server_backoff_{std::chrono::milliseconds(250), std::chrono::seconds(30)};
    std::optional<TimePoint> annotations_since_;  // when there was something to write first
    std::optional<TimePoint> condition_since_;
    Pace annotations_pace_;
    Pace condition_pace_;
    std::optional<TimePoint> contested_at_;  // somebody else has changed what we wrote
    std::optional<TimePoint> rewrite_at_;
    Backoff contest_backoff_{std::chrono::seconds(1), std::chrono::minutes(5)};
    EventCorrelator events_;
    std::array<Health, parts> health_{};
    std::array<Watch, 2> watches_{};
    std::optional<std::int64_t> last_success_;

    // Calls of the launcher.
    std::optional<action::SetPod> pod_sent_;
    std::optional<action::SetReporter> reporter_sent_;
    bool wants_reload_ = false;
    bool wants_status_ = false;
    std::optional<TimePoint> status_asked_at_;
    std::array<bool, 4> is_calling_{};
    std::array<std::string, 4> refusals_{};  // why; empty: it was not refused
    bool is_stranger_ = false;               // to the launcher, which has not started us
    bool is_stranger_told_ = false;
    std::optional<TimePoint> calls_retry_at_;
};

}  // namespace triton::kubernetes
