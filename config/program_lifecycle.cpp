#include <algorithm>
#include <array>

#include "config/probe_target.h"
#include "config/program_parser.h"
#include "config/time_zone.h"
#include "lib/base/http_field.h"
#include "lib/base/signal_text.h"

// How a program starts, restarts and stops, and how its health is checked.

namespace triton::config {

namespace {

constexpr std::array<std::string_view, 2> start_limit_actions{"give-up", "exit"};
constexpr std::array<std::string_view, 7> readiness_types{"notify", "fd", "exec", "tcp", "http", "grpc", "log"};
constexpr std::array<std::string_view, 2> log_streams{"stdout", "stderr"};
constexpr std::array<std::string_view, 2> notify_accesses{"main", "all"};
constexpr std::array<std::string_view, 4> health_types{"exec", "tcp", "http", "grpc"};

void parse_cron_key(json::Node const& node, json::Where const& at, ScheduleDraft& draft, Reading& reading) {
    auto const text = read_text(node, at, reading);
    if (!text) return;
    auto cron = parse_cron(*text);
    if (cron) {
        draft.cron = *cron;
    } else {
        reading.problems.add(at, json::quoted(*text) + ": " + cron.error());
    }
}

void check_schedule(ScheduleDraft const&, Present<ScheduleDraft> present, json::Where const& at, Reading& reading) {
    if (present.has("every") == present.has("cron")) reading.problems.add(at, "needs either every or cron");
    if (present.has("timeZone") && !present.has("cron"))
        reading.warnings.add(json::Where{&at, "timeZone"}, "has no effect without cron");
}

void parse_time_zone(json::Node const& node, json::Where const& at, ScheduleDraft& draft, Reading& reading) {
    auto name = read_text(node, at, reading);
    if (!name) return;
    if (!is_time_zone_name(*name)) {
        reading.problems.add(at, json::quoted(*name) + " is not the name of a time zone (for example Europe/Berlin)");
    } else {
        draft.time_zone = std::move(*name);
    }
}

void check_backoff(Backoff const& backoff, Present<Backoff>, json::Where const& at, Reading& reading) {
    if (backoff.initial && backoff.max && *backoff.initial > *backoff.max)
        reading.problems.add(json::Where{&at, "initial"}, "is longer than max");
}

void check_start_limit(StartLimitDraft const& limit, Present<StartLimitDraft> present, json::Where const& at,
                       Reading& reading) {
    if (present.has("exitCode") && limit.action != StartLimitAction::exit)
        reading.warnings.add(json::Where{&at, "exitCode"}, "has no effect unless action is \"exit\"");
}

constexpr json::Shape time_zone_shape{.types = "string", .pattern = "^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$"};

/// The types of its object for which a key has a meaning, one bit each, and whether they require it.
struct KeyOfType {
    std::string_view name;
    unsigned types;
    bool is_required = false;
};

template <class... Types>
constexpr unsigned bits(Types... types) {
    return (0U | ... | (1U << static_cast<unsigned>(types)));
}

template <class Object>
void check_keys_of_type(std::span<KeyOfType const> keys, std::size_t type, std::string_view type_name,
                        Present<Object> present, json::Where const& at, Reading& reading) {
    for (KeyOfType const& key : keys) {
        bool const is_used = (key.types >> type & 1U) != 0;
        if (present.has(key.name) && !is_used)
            reading.warnings.add(json::Where{&at, key.name}, std::string("has no effect for type ").append(type_name));
        if (!present.has(key.name) && is_used && key.is_required)
            reading.problems.add(json::Where{&at, key.name}, std::string("required for type ").append(type_name));
    }
}

void check_readiness(Readiness const& readiness, Present<Readiness> present, json::Where const& at, Reading& reading) {
    using enum ReadinessType;
    static constexpr auto keys = std::to_array<KeyOfType>({{"fd", bits(fd)},
                                                           {"command", bits(exec), true},
                                                           {"address", bits(tcp, grpc), true},
                                                           {"url", bits(http), true},
                                                           {"headers", bits(http)},
                                                           {"status", bits(http)},
                                                           {"service", bits(grpc)},
                                                           {"interval", bits(exec, tcp, http, grpc)},
                                                           {"timeout", bits(exec, tcp, http, grpc)},
                                                           {"pattern", bits(log), true},
                                                           {"stream", bits(log)},
                                                           {"notifyAccess", bits(notify)}});
    if (!present.has("type") || present.is_faulty("type")) return;
    auto const type = static_cast<std::size_t>(readiness.type);
    check_keys_of_type<Readiness>(keys, type, readiness_types[type], present, at, reading);
}

void check_health(Health const& health, Present<Health> present, json::Where const& at, Reading& reading) {
    using enum HealthType;
    static constexpr auto keys = std::to_array<KeyOfType>({{"command", bits(exec), true},
                                                           {"address", bits(tcp, grpc), true},
                                                           {"url", bits(http), true},
                                                           {"headers", bits(http)},
                                                           {"status", bits(http)},
                                                           {"service", bits(grpc)}});
    if (present.is_faulty("type")) return;
    auto const type = static_cast<std::size_t>(health.type);
    check_keys_of_type<Health>(keys, type, health_types[type], present, at, reading);
}

/// What a probe asks for. Plain text is checked here, substituted text where its value is known.
template <auto parse_target>
std::optional<Argument> read_target(json::Node const& node, json::Where const& at, Reading& reading) {
    auto argument = read_argument(node, at, reading);
    if (!argument || argument->type != ArgumentType::literal) return argument;
    auto const target = parse_target(argument->value);
    if (target) return argument;
    reading.problems.add(at, target.error());
    return std::nullopt;
}

constexpr json::Shape address_argument{
    .types = "string or object", .pattern = "^[^:].*:[0-9]+$", .section = "Argument", .further = argument_or_null};
constexpr json::Shape url_argument{
    .types = "string or object", .pattern = "^https?://[^/?#]", .section = "Argument", .further = argument_or_null};
constexpr json::Shape pattern_argument{
    .types = "string or object", .shortest = 1, .longest = 1024, .section = "Argument", .further = argument_or_null};
using LogPattern = json::Kind<read_target<parse_log_pattern>, pattern_argument>;
using ProbeAddress = json::Kind<read_target<parse_probe_address>, address_argument>;
using ProbeUrl = json::Kind<read_target<parse_probe_url>, url_argument>;

constexpr std::size_t most_headers = 32;
constexpr std::size_t most_service_bytes = 256;
constexpr std::string_view token_pattern = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";
constexpr json::Shape headers_shape{.types = "object", .elements = &a_program_argument, .names = token_pattern};

/// Whether a header field says how the message itself is made: those fields are ours.
bool is_of_message(std::string_view name) {
    static constexpr auto names = std::to_array<std::string_view>(
        {"connection", "content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"});
    return std::ranges::any_of(names, [name](std::string_view ours) { return are_same_letters(ours, name); });
}

std::optional<Headers> read_headers(json::Node const& node, json::Where const& at, Reading& reading) {
    auto const* const json =
        expect<json::Object>(R"(an object, for example {"Accept": "text/plain"})", node, at, reading);
    if (!json) return std::nullopt;
    if (json->size() > most_headers) {
        reading.problems.add(at, "more than " + std::to_string(most_headers) + " fields");
        return std::nullopt;
    }
    Headers headers;
    for (json::Member const& member : *json) {
        json::Where const field_at{&at, std::string_view(member.key)};
        if (member.key.empty() || !std::ranges::all_of(member.key, is_token_character)) {
            reading.problems.add(field_at, "is not the name of a field of HTTP");
        } else if (is_of_message(member.key)) {
            reading.problems.add(field_at, "is part of how the request is sent, and cannot be set");
        }
        headers.emplace_back(member.key, parse_argument(member.node, field_at, reading));
    }
    return headers;
}

template <class Probe>
void parse_headers(json::Node const& node, json::Where const& at, Probe& probe, Reading& reading) {
    if (auto headers = read_headers(node, at, reading)) probe.headers = std::move(*headers);
}

constexpr json::Shape status_range_shape{.types = "integer or string", .pattern = "^[1-5][0-9]{2}(-[1-5][0-9]{2})?$"};
constexpr json::Shape status_shape{.types = "integer or string or array",
                                   .pattern = "^[1-5][0-9]{2}(-[1-5][0-9]{2})?$",
                                   .fewest = 1,
                                   .elements = &status_range_shape};

/// Parses "204" or "200-299".
std::optional<StatusRange> parse_status_range(std::string_view text) {
    auto const code = [](std::string_view digits) -> std::uint16_t {
        if (digits.size() != 3 || digits[0] < '1' || digits[0] > '5') return 0;
        std::uint16_t value = 0;
        for (char const c : digits) {
            if (c < '0' || c > '9') return 0;
            value = static_cast<std::uint16_t>(value * 10 + (c - '0'));
        }
        return value;
    };
    std::size_t const dash = text.find('-');
    StatusRange range{code(text.substr(0, dash)), 0};
    range.last = dash == text.npos ? range.first : code(text.substr(dash + 1));
    if (range.first == 0 || range.last < range.first) return std::nullopt;
    return range;
}

std::optional<StatusRange> read_status_range(json::Node const& node, json::Where const& at, Reading& reading) {
    if (std::string const* const text = node.get<std::string>()) {
        auto const range = parse_status_range(*text);
        if (!range)
            reading.problems.add(at, json::quoted(*text) + " is neither a status (200) nor a range of them (200-299)");
        return range;
    }
    if (node.kind() != "number") {
        reading.problems.add(at, std::string("expected a status or a range of them, found ").append(node.kind()));
        return std::nullopt;
    }
    auto const status = json::read_integer_within(node, at, 100, 599, reading);
    if (!status) return std::nullopt;
    return StatusRange{static_cast<std::uint16_t>(*status), static_cast<std::uint16_t>(*status)};
}

template <class Probe>
void parse_status(json::Node const& node, json::Where const& at, Probe& probe, Reading& reading) {
    constexpr std::size_t most_ranges = 16;
    auto const* const array = node.get<json::Array>();
    if (!array) {
        if (auto const range = read_status_range(node, at, reading)) probe.status.push_back(*range);
        return;
    }
    if (array->empty()) reading.problems.add(at, "must not be empty");
    if (array->size() > most_ranges)
        return reading.problems.add(at, "more than " + std::to_string(most_ranges) + " ranges");
    for (std::size_t i = 0; i < array->size(); ++i) {
        if (auto const range = read_status_range((*array)[i], json::Where{&at, i}, reading))
            probe.status.push_back(*range);
    }
}

constexpr json::Shape stream_shape{.types = "string", .choices = log_streams};

void parse_log_stream(json::Node const& node, json::Where const& at, Readiness& readiness, Reading& reading) {
    std::string const* const name = expect_string(node, at, reading);
    if (!name) return;
    auto const* const found = std::ranges::find(log_streams, *name);
    if (found == log_streams.end())
        return reading.problems.add(at, json::quoted(*name) + " is neither stdout nor stderr");
    readiness.stream = found == log_streams.begin() ? LogStream::out : LogStream::err;
}

constexpr json::Shape service_shape{.types = "string", .longest = most_service_bytes};

template <class Probe>
void parse_service(json::Node const& node, json::Where const& at, Probe& probe, Reading& reading) {
    std::string const* const name = expect_string(node, at, reading);
    if (!name) return;
    if (name->size() > most_service_bytes)
        return reading.problems.add(at, "longer than " + std::to_string(most_service_bytes) + " bytes");
    probe.service = *name;
}

void parse_check_name(json::Node const& node, json::Where const& at, Health& health, Reading& reading) {
    std::string const* const name = expect_string(node, at, reading);
    if (!name) return;
    if (!is_name(*name)) return reading.problems.add(at, std::string(name_rule));
    health.name = *name;
}

constexpr json::Shape paths_shape{.types = "array", .fewest = 1, .elements = &a_program_argument};

void parse_watched_paths(json::Node const& node, json::Where const& at, WatchedFiles& files, Reading& reading) {
    constexpr std::size_t most_paths = 32;
    auto const* const array = json::expect_array(node, at, reading);
    if (!array) return;
    if (array->empty()) reading.problems.add(at, "must not be empty");
    if (array->size() > most_paths)
        return reading.problems.add(at, "more than " + std::to_string(most_paths) + " files");
    for (std::size_t i = 0; i < array->size(); ++i) {
        json::Where const path_at{&at, i};
        auto path = read_argument((*array)[i], path_at, reading);
        if (!path) continue;
        if (path->type == ArgumentType::literal && !path->value.starts_with('/'))
            reading.problems.add(path_at, "must be an absolute path");
        files.paths.push_back(std::move(*path));
    }
}

}  // namespace

std::span<Field<ScheduleDraft> const> table(TableOf<ScheduleDraft>) {
    static constexpr auto rows = std::to_array<Field<ScheduleDraft>>({
        {.name = "every",
         .value = as<&ScheduleDraft::every, json::DurationAboveZero>,
         .description = "The time from one start to the next."},
        {.name = "cron",
         .value = {&json::some_text, parse_cron_key},
         .description = "When to start, in UTC or `timeZone`: minute, hour, day of the month, month and day of the "
                        "week, as in crontab(5), or "
                        "`@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`."},
        {.name = "timeZone",
         .value = {&time_zone_shape, parse_time_zone},
         .description = "With `cron`: the time zone, by its name in the IANA database (`Europe/Berlin`), which the "
                        "container must have (Debian's tzdata). A time that a clock change skips is run right after "
                        "it; a time that it repeats is run once, except for expressions with every hour."},
        {.name = "onStart",
         .value = as<&ScheduleDraft::has_first_run, json::Boolean>,
         .description =
             "Whether there is a first run when the configuration introduces the program. The default is false."},
        {.name = "missed",
         .value = as<&ScheduleDraft::missed, json::Choice<Missed, missed_names>>,
         .description =
             "What happens to a run that is due while `count` processes run: `skip` leaves it out (the default); `run` "
             "makes a single run, however many were missed, as soon as one of them has ended."},
    });
    return rows;
}

std::span<Field<Backoff> const> table(TableOf<Backoff>) {
    static constexpr auto rows = std::to_array<Field<Backoff>>({
        {.name = "initial",
         .value = as<&Backoff::initial, json::DurationText>,
         .description = "The delay before the second restart after failures; the first one is at once."},
        {.name = "factor",
         .value = as<&Backoff::factor, json::Number<1, 1000>>,
         .description = "The factor by which the delay grows."},
        {.name = "max", .value = as<&Backoff::max, json::DurationText>, .description = "The longest delay."},
        {.name = "jitter",
         .value = as<&Backoff::jitter, json::Number<0, 1>>,
         .description = "The delay varies by this share up and down."},
        {.name = "resetAfter",
         .value = as<&Backoff::reset_after, json::DurationText>,
         .description = "Earlier failures are forgotten after a run this long."},
        {.name = "always",
         .value = as<&Backoff::always, json::Boolean>,
         .description = "Whether each restart waits: the first one after failures, and one after a success, for "
                        "`initial`. The default is false."},
    });
    return rows;
}

std::span<Field<StartLimitDraft> const> table(TableOf<StartLimitDraft>) {
    using enum json::Need;
    static constexpr auto rows = std::to_array<Field<StartLimitDraft>>({
        {.name = "count",
         .need = required,
         .value = as<&StartLimitDraft::count, json::Integer<std::uint32_t, 1, 1000>>,
         .description = "How many starts are allowed."},
        {.name = "interval",
         .need = required,
         .value = as<&StartLimitDraft::interval, json::DurationAboveZero>,
         .description = "The time within which they are counted."},
        {.name = "action",
         .value = as<&StartLimitDraft::action, json::Choice<StartLimitAction, start_limit_actions>>,
         .description = "What happens when there are more: give the process up (the default), or end the container."},
        {.name = "exitCode",
         .value = as<&StartLimitDraft::exit_code, json::Integer<int, 1, 255>>,
         .description = "The exit code of the container in that case. The default is 1."},
    });
    return rows;
}

std::span<Field<Hook> const> table(TableOf<Hook>) {
    using enum json::Need;
    static constexpr auto rows = std::to_array<Field<Hook>>({
        {.name = "command",
         .need = required,
         .value = as<&Hook::command, Command>,
         .description = "The command, its program first."},
        {.name = "timeout",
         .value = as<&Hook::timeout, json::DurationAboveZero>,
         .description = "The command is killed after this time. The default is 10s."},
    });
    return rows;
}

std::span<Field<StopStep> const> table(TableOf<StopStep>) {
    using enum json::Need;
    static constexpr auto rows = std::to_array<Field<StopStep>>({
        {.name = "signal", .need = required, .value = as<&StopStep::signal, Signal>, .description = "The signal."},
        {.name = "wait",
         .need = required,
         .value = as<&StopStep::wait, json::DurationText>,
         .description = "How long to wait for the end before the next step."},
    });
    return rows;
}

std::span<Field<Readiness> const> table(TableOf<Readiness>) {
    using enum json::Need;
    static constexpr auto rows = std::to_array<Field<Readiness>>({
        {.name = "type",
         .need = required,
         .value = as<&Readiness::type, json::Choice<ReadinessType, readiness_types>>,
         .description = "How it is determined that a process is ready: `READY=1` sent to `$NOTIFY_SOCKET` "
                        "(sd_notify(3)), a newline written to a descriptor, a command that succeeds, a TCP connection "
                        "that is accepted, an HTTP request answered with a good status, the answer `SERVING` of gRPC's "
                        "health checking protocol, or a line of its captured output that matches a pattern. The agent "
                        "does the last four."},
        {.name = "fd",
         .value = as<&Readiness::fd, json::Integer<int, 3, 65535>>,
         .description = "Type fd: the number of the descriptor. The default is 3."},
        {.name = "command",
         .value = as<&Readiness::command, Command>,
         .description = "Type exec: the command. Exit code 0 means ready."},
        {.name = "address",
         .value = as<&Readiness::address, ProbeAddress>,
         .description = "Types tcp, grpc: where to connect, as `HOST:PORT`. The host is an IPv4 address, an IPv6 "
                        "address in brackets, or "
                        "`localhost`."},
        {.name = "url",
         .value = as<&Readiness::url, ProbeUrl>,
         .description = "Type http: what to request, as `http://HOST:PORT/PATH` or `https://..`, whose certificate is "
                        "not checked. The host is as above; the port defaults to 80 or 443."},
        {.name = "headers",
         .value = {&headers_shape, parse_headers<Readiness>},
         .description = "Type http: further header fields of the request and their values, which are Arguments: "
                        "`{\"Host\": \"www.example.org\"}`."},
        {.name = "status",
         .value = {&status_shape, parse_status<Readiness>},
         .description = "Type http: the good statuses, as one, as a range (`\"200-299\"`) or as a list of both. The "
                        "default is `\"200-399\"`."},
        {.name = "service",
         .value = {&service_shape, parse_service<Readiness>},
         .description = "Type grpc: the service to check. Absent: the server as a whole."},
        {.name = "interval",
         .value = as<&Readiness::interval, json::DurationAboveZero>,
         .description =
             "Types exec, tcp, http, grpc: the time from the end of one try to the next. The default is 1s."},
        {.name = "timeout",
         .value = as<&Readiness::timeout, json::DurationAboveZero>,
         .description = "Types exec, tcp, http, grpc: the time limit of one try. The default is 1s."},
        {.name = "pattern",
         .value = as<&Readiness::pattern, LogPattern>,
         .description =
             "Type log: a regular expression (RE2) that has to match some part of a line. `output` has to be "
             "captured. At most 1024 bytes; only the first 4096 bytes of a line are compared."},
        {.name = "stream",
         .value = {&stream_shape, parse_log_stream},
         .description = "Type log: only the lines of this stream count. Absent: those of both."},
        {.name = "notifyAccess",
         .value = as<&Readiness::notify_access, json::Choice<NotifyAccess, notify_accesses>>,
         .description = "Type notify: whose messages count: those of the process itself (the default), or also of "
                        "everything that it started."},
    });
    return rows;
}

std::span<Field<Health> const> table(TableOf<Health>) {
    static constexpr auto rows = std::to_array<Field<Health>>({
        {.name = "name",
         .value = {&name_shape, parse_check_name},
         .description = "The check's name in the log. Required in a list."},
        {.name = "type",
         .value = as<&Health::type, json::Choice<HealthType, health_types>>,
         .description = "How to check: with a command (the default), a TCP connection, an HTTP request, or gRPC, as "
                        "for readiness."},
        {.name = "command",
         .value = as<&Health::command, Command>,
         .description = "Type exec: the command that checks. Exit code 0 means healthy."},
        {.name = "address",
         .value = as<&Health::address, ProbeAddress>,
         .description = "Types tcp, grpc: where to connect, as for readiness."},
        {.name = "url",
         .value = as<&Health::url, ProbeUrl>,
         .description = "Type http: what to request, as for readiness."},
        {.name = "headers",
         .value = {&headers_shape, parse_headers<Health>},
         .description = "Type http: further header fields, as for readiness."},
        {.name = "status",
         .value = {&status_shape, parse_status<Health>},
         .description = "Type http: the good statuses, as for readiness."},
        {.name = "service",
         .value = {&service_shape, parse_service<Health>},
         .description = "Type grpc: the service, as for readiness."},
        {.name = "interval",
         .value = as<&Health::interval, json::DurationAboveZero>,
         .description = "The time from the end of one check to the next. The default is 10s."},
        {.name = "timeout",
         .value = as<&Health::timeout, json::DurationAboveZero>,
         .description = "The time limit of one check. The default is 5s."},
        {.name = "retries",
         .value = as<&Health::retries, json::Integer<std::uint32_t, 1, 65535>>,
         .description = "How many failures in a row make a process unhealthy. The default is 3."},
        {.name = "startPeriod",
         .value = as<&Health::start_period, json::DurationText>,
         .description = "How long after a start failures do not count. The default is 0s."},
        {.name = "action",
         .value = as<&Health::action, json::Choice<HealthAction, health_action_names>>,
         .description = "What follows: restart the process (the default), only report it, or end the container. A "
                        "reported process is not ready until the check succeeds again."},
    });
    return rows;
}

std::span<Field<WatchedFiles> const> table(TableOf<WatchedFiles>) {
    using enum json::Need;
    static constexpr auto rows = std::to_array<Field<WatchedFiles>>({
        {.name = "paths",
         .need = required,
         .value = {&paths_shape, parse_watched_paths},
         .description = "The files and directories: absolute paths, whose last part may be a pattern (glob(7)), or "
                        "Arguments. They need not exist yet. Links are followed, so that changes of a mounted "
                        "Secret are seen. Of a directory every change of an entry counts."},
        {.name = "action",
         .value = as<&WatchedFiles::action, json::Choice<FilesAction, files_actions>>,
         .description = "What a change means: `restart` (the default) or `signal`, which sends `reloadSignal`."},
        {.name = "quietTime",
         .value = as<&WatchedFiles::quiet_time, json::DurationText>,
         .description = "The action follows when there was no further change for this long. The default is 1s."},
    });
    return rows;
}

namespace {

/// Reads an end: 143 is an exit code, "TERM" a signal.
std::optional<End> read_end(json::Node const& node, json::Where const& at, Reading& reading) {
    if (node.get<std::string>()) {
        auto const signal = read_signal(node, at, reading);
        return signal ? std::optional(static_cast<End>(signal_end + *signal)) : std::nullopt;
    }
    if (node.kind() != "number") {
        reading.problems.add(at, std::string("expected an exit code or a signal, found ").append(node.kind()));
        return std::nullopt;
    }
    auto const code = json::read_integer_within(node, at, 1, 255, reading);
    return code ? std::optional(static_cast<End>(*code)) : std::nullopt;
}

std::string end_text(End end) {
    return end < signal_end ? "exit code " + std::to_string(end) : signal_text(end - signal_end);
}

/// The list of ends at a key. `others`: the ends of the other list, which must have none in common with it.
std::vector<End> read_ends(json::Node const& node, json::Where const& at, std::vector<End> const& others,
                           Reading& reading) {
    std::vector<End> ends;
    auto const* const array = json::expect_array(node, at, reading);
    if (!array) return ends;
    for (std::size_t i = 0; i < array->size(); ++i) {
        json::Where const end_at{&at, i};
        auto const end = read_end((*array)[i], end_at, reading);
        if (!end) continue;
        auto const place = std::ranges::lower_bound(ends, *end);
        if (place != ends.end() && *place == *end) {
            reading.problems.add(end_at, end_text(*end) + " is named twice");
        } else if (std::ranges::binary_search(others, *end)) {
            reading.problems.add(end_at, end_text(*end) + " is also a success code");
        } else {
            ends.insert(place, *end);  // among at most 255 codes and 64 signals
        }
    }
    return ends;
}

}  // namespace

void parse_success_codes(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.success_ends = read_ends(node, at, {}, reading);
}

void parse_permanent_codes(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.permanent_ends = read_ends(node, at, program.success_ends, reading);
}

void parse_schedule(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    auto const draft = read_object<ScheduleDraft, check_schedule>(node, at, reading);
    if (!draft || (!draft->every && !draft->cron)) return;
    program.schedule = Schedule{
        .when = {}, .time_zone = draft->time_zone, .has_first_run = draft->has_first_run, .missed = draft->missed};
    if (draft->every) program.schedule->when = *draft->every;
    if (draft->cron) program.schedule->when = *draft->cron;
}

void parse_backoff(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    if (auto backoff = read_object<Backoff, check_backoff>(node, at, reading)) program.backoff = *backoff;
}

void parse_start_limit(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    auto const draft = read_object<StartLimitDraft, check_start_limit>(node, at, reading);
    if (!draft) return;
    program.start_limit = {.count = draft->count, .interval = draft->interval};
    if (draft->action == StartLimitAction::exit) program.start_limit->exit_code = draft->exit_code;
}

void parse_pre_stop(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.pre_stop = read_object<Hook>(node, at, reading);
}

void parse_on_failure(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.on_failure = read_object<Hook>(node, at, reading);
}

void parse_on_success(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.on_success = read_object<Hook>(node, at, reading);
}

void parse_on_stop(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.on_stop = read_object<Hook>(node, at, reading);
}

void parse_stop_sequence(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    constexpr std::size_t most_steps = 16;
    auto const* const array = json::expect_array(node, at, reading);
    if (!array) return;
    if (array->empty()) reading.problems.add(at, "must not be empty");
    if (array->size() > most_steps)
        return reading.problems.add(at, "more than " + std::to_string(most_steps) + " signals");
    for (std::size_t i = 0; i < array->size(); ++i) {
        if (auto step = read_object<StopStep>((*array)[i], json::Where{&at, i}, reading))
            program.stop_sequence.push_back(*step);
    }
}

void parse_readiness(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.readiness = read_object<Readiness, check_readiness>(node, at, reading);
}

void parse_health(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    auto const* const array = node.get<json::Array>();
    if (!array) {
        if (node.kind() != "object")
            return reading.problems.add(at, std::string("expected an object or an array, found ").append(node.kind()));
        if (auto health = read_object<Health, check_health>(node, at, reading))
            program.health.push_back(std::move(*health));
        return;
    }
    if (array->empty()) reading.problems.add(at, "must not be empty");
    if (array->size() > most_health_checks)
        return reading.problems.add(at, "more than " + std::to_string(most_health_checks) + " checks");
    for (std::size_t i = 0; i < array->size(); ++i) {
        json::Where const check_at{&at, i};
        auto health = read_object<Health, check_health>((*array)[i], check_at, reading);
        if (!health) continue;
        json::Where const name_at{&check_at, "name"};
        if (health->name.empty()) {
            reading.problems.add(name_at, "required for one of several checks");
        } else if (std::ranges::find(program.health, health->name, &Health::name) != program.health.end()) {
            reading.problems.add(name_at, json::quoted(health->name) + " is named twice");
        }
        program.health.push_back(std::move(*health));
    }
}

void parse_files(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.files = read_object<WatchedFiles>(node, at, reading);
}

}  // namespace triton::config
