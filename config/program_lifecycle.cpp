#include <algorithm>
#include <array>

#include "config/probe_target.h"
#include "config/program_parser.h"
#include "config/time_zone.h"
#include "lib/base/signal_text.h"

// How a program starts, restarts, stops, and how it is seen to be well.

namespace triton::config {

namespace {

constexpr std::array<std::string_view, 2> start_limit_actions{"give-up", "exit"};
constexpr std::array<std::string_view, 5> readiness_types{"notify", "fd", "exec", "tcp", "http"};
constexpr std::array<std::string_view, 2> notify_accesses{"main", "all"};
constexpr std::array<std::string_view, 3> health_types{"exec", "tcp", "http"};

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

/// For which types of its object a key means something, one bit each, and whether they cannot do without it.
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
    static constexpr std::array<KeyOfType, 7> keys{{{"fd", bits(fd)},
                                                    {"command", bits(exec), true},
                                                    {"address", bits(tcp), true},
                                                    {"url", bits(http), true},
                                                    {"interval", bits(exec, tcp, http)},
                                                    {"timeout", bits(exec, tcp, http)},
                                                    {"notifyAccess", bits(notify)}}};
    if (!present.has("type") || present.is_faulty("type")) return;
    auto const type = static_cast<std::size_t>(readiness.type);
    check_keys_of_type<Readiness>(keys, type, readiness_types[type], present, at, reading);
}

void check_health(Health const& health, Present<Health> present, json::Where const& at, Reading& reading) {
    using enum HealthType;
    static constexpr std::array<KeyOfType, 3> keys{
        {{"command", bits(exec), true}, {"address", bits(tcp), true}, {"url", bits(http), true}}};
    if (present.is_faulty("type")) return;
    auto const type = static_cast<std::size_t>(health.type);
    check_keys_of_type<Health>(keys, type, health_types[type], present, at, reading);
}

/// What a probe asks. A text is checked here, what is substituted where its value is known.
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
using ProbeAddress = json::Kind<read_target<parse_probe_address>, address_argument>;
using ProbeUrl = json::Kind<read_target<parse_probe_url>, url_argument>;

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
         .description = "With `cron`: the time zone, by its name in the IANA's database (`Europe/Berlin`), which the "
                        "container has to have (Debian's tzdata). A time that a change of the clock leaves out comes "
                        "right after it; one that it repeats comes once, but for expressions with every hour."},
        {.name = "onStart",
         .value = as<&ScheduleDraft::has_first_run, json::Boolean>,
         .description =
             "Whether there is a first run when the configuration brings the program. The default is false."},
        {.name = "missed",
         .value = as<&ScheduleDraft::missed, json::Choice<Missed, missed_names>>,
         .description = "What becomes of a run that is due while `count` processes run: `skip` leaves it out (the "
                        "default), `run` has one run, however many were missed, as soon as one of them has ended."},
    });
    return rows;
}

std::span<Field<Backoff> const> table(TableOf<Backoff>) {
    static constexpr auto rows = std::to_array<Field<Backoff>>({
        {.name = "initial",
         .value = as<&Backoff::initial, json::DurationText>,
         .description = "The delay before the second start after failures; the first one is at once."},
        {.name = "factor",
         .value = as<&Backoff::factor, json::Number<1, 1000>>,
         .description = "By this factor the delay grows."},
        {.name = "max", .value = as<&Backoff::max, json::DurationText>, .description = "The longest delay."},
        {.name = "jitter",
         .value = as<&Backoff::jitter, json::Number<0, 1>>,
         .description = "The delay varies by this share up and down."},
        {.name = "resetAfter",
         .value = as<&Backoff::reset_after, json::DurationText>,
         .description = "A run this long makes earlier failures forgotten."},
    });
    return rows;
}

std::span<Field<StartLimitDraft> const> table(TableOf<StartLimitDraft>) {
    using enum json::Need;
    static constexpr auto rows = std::to_array<Field<StartLimitDraft>>({
        {.name = "count",
         .need = required,
         .value = as<&StartLimitDraft::count, json::Integer<std::uint32_t, 1, 1000>>,
         .description = "So many starts are not too many."},
        {.name = "interval",
         .need = required,
         .value = as<&StartLimitDraft::interval, json::DurationAboveZero>,
         .description = "Within this time."},
        {.name = "action",
         .value = as<&StartLimitDraft::action, json::Choice<StartLimitAction, start_limit_actions>>,
         .description = "What follows when there are more: give the process up (the default), or end the container."},
        {.name = "exitCode",
         .value = as<&StartLimitDraft::exit_code, json::Integer<int, 1, 255>>,
         .description = "The exit code of the container then. The default is 1."},
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
         .description = "It is killed after that. The default is 10s."},
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
         .description = "How long to wait for the end before what comes next."},
    });
    return rows;
}

std::span<Field<Readiness> const> table(TableOf<Readiness>) {
    using enum json::Need;
    static constexpr auto rows = std::to_array<Field<Readiness>>({
        {.name = "type",
         .need = required,
         .value = as<&Readiness::type, json::Choice<ReadinessType, readiness_types>>,
         .description =
             "How it is seen that a process is ready: `READY=1` to `$NOTIFY_SOCKET` (sd_notify(3)), a newline written "
             "to a "
             "descriptor, a command that succeeds, a TCP connection that is accepted, or an HTTP request with a status "
             "from 200 to 399. The last two are tried by the agent."},
        {.name = "fd",
         .value = as<&Readiness::fd, json::Integer<int, 3, 65535>>,
         .description = "Type fd: the number of the descriptor. The default is 3."},
        {.name = "command",
         .value = as<&Readiness::command, Command>,
         .description = "Type exec: the command. Exit code 0 means ready."},
        {.name = "address",
         .value = as<&Readiness::address, ProbeAddress>,
         .description =
             "Type tcp: where to connect, as `HOST:PORT`. The host is an IPv4 address, an IPv6 address in brackets, or "
             "`localhost`."},
        {.name = "url",
         .value = as<&Readiness::url, ProbeUrl>,
         .description = "Type http: what to ask for, as `http://HOST:PORT/PATH` or `https://..`, whose certificate is "
                        "not checked. "
                        "The host is as above, the port 80 or 443 when there is none."},
        {.name = "interval",
         .value = as<&Readiness::interval, json::DurationAboveZero>,
         .description = "Types exec, tcp, http: the time from the end of one try to the next. The default is 1s."},
        {.name = "timeout",
         .value = as<&Readiness::timeout, json::DurationAboveZero>,
         .description = "Types exec, tcp, http: the longest time of one try. The default is 1s."},
        {.name = "notifyAccess",
         .value = as<&Readiness::notify_access, json::Choice<NotifyAccess, notify_accesses>>,
         .description =
             "Type notify: whose messages count, those of the process itself (the default) or of all that it started."},
    });
    return rows;
}

std::span<Field<Health> const> table(TableOf<Health>) {
    static constexpr auto rows = std::to_array<Field<Health>>({
        {.name = "type",
         .value = as<&Health::type, json::Choice<HealthType, health_types>>,
         .description = "How to look: by a command (the default), by a TCP connection, or by an HTTP request, as for "
                        "the readiness."},
        {.name = "command",
         .value = as<&Health::command, Command>,
         .description = "Type exec: the command that looks. Exit code 0 means healthy."},
        {.name = "address",
         .value = as<&Health::address, ProbeAddress>,
         .description = "Type tcp: where to connect, as for the readiness."},
        {.name = "url",
         .value = as<&Health::url, ProbeUrl>,
         .description = "Type http: what to ask for, as for the readiness."},
        {.name = "interval",
         .value = as<&Health::interval, json::DurationAboveZero>,
         .description = "The time from the end of one look to the next. The default is 10s."},
        {.name = "timeout",
         .value = as<&Health::timeout, json::DurationAboveZero>,
         .description = "The longest time of one look. The default is 5s."},
        {.name = "retries",
         .value = as<&Health::retries, json::Integer<std::uint32_t, 1, 65535>>,
         .description = "So many failures in a row make a process unhealthy. The default is 3."},
        {.name = "startPeriod",
         .value = as<&Health::start_period, json::DurationText>,
         .description = "For so long after a start failures do not count. The default is 0s."},
        {.name = "action",
         .value = as<&Health::action, json::Choice<HealthAction, health_action_names>>,
         .description = "What follows: restart the process (the default), only report it, or end the container."},
    });
    return rows;
}

namespace {

/// 143 is an exit code, "TERM" a signal.
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

/// The list at a key. `others`: the ends of the other list, which none may be among.
void parse_ends(json::Node const& node, json::Where const& at, std::vector<End> const& others, std::vector<End>& ends,
                Reading& reading) {
    auto const* const array = expect<json::Array>("an array", node, at, reading);
    if (!array) return;
    for (std::size_t i = 0; i < array->size(); ++i) {
        json::Where const end_at{&at, i};
        auto const end = read_end((*array)[i], end_at, reading);
        if (!end) continue;
        auto const place = std::ranges::lower_bound(ends, *end);
        if (place != ends.end() && *place == *end) {
            reading.problems.add(end_at, end_text(*end) + " is named twice");
        } else if (std::ranges::binary_search(others, *end)) {
            reading.problems.add(end_at, end_text(*end) + " is a success code, too");
        } else {
            ends.insert(place, *end);  // among at most 255 codes and 64 signals
        }
    }
}

}  // namespace

void parse_success_codes(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    parse_ends(node, at, {}, program.success_ends, reading);
}

void parse_permanent_codes(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    parse_ends(node, at, program.success_ends, program.permanent_ends, reading);
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
    auto const* const array = expect<json::Array>("an array", node, at, reading);
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
    program.health = read_object<Health, check_health>(node, at, reading);
}

}  // namespace triton::config
