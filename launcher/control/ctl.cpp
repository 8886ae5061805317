#include "launcher/control/ctl.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/control/control_calls.h"
#include "launcher/control/ctl_attach.h"
#include "launcher/control/ctl_options.h"
#include "launcher/control/ctl_text.h"
#include "lib/base/duration.h"
#include "lib/base/error_kinds.h"
#include "lib/base/nearest.h"
#include "lib/base/write_all.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/varlink/connection.h"

namespace triton::launcher {

namespace {

using json::Object;
using json::printable;
using Silence = varlink::Connection::Silence;

constexpr std::string_view internal_prefix = "triton-";  // reserved for the launcher's own programs
constexpr Duration upgrade_limit = std::chrono::seconds(60);
constexpr Duration answer_limit = std::chrono::seconds(10);

Result<> print(std::string_view text) {
    if (write_all(STDOUT_FILENO, text)) return {};
    return fail(ErrorKind::internal, "write to standard output", errno_text(errno));
}

Result<> print(std::vector<std::string> const& lines) {
    std::string text;
    for (std::string const& line : lines)
        text += line;
    return print(text);
}

/// Seconds since 1970, UTC.
double wall_clock() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void complain(std::string_view text) {
    (void)write_all(STDERR_FILENO, "triton-launch ctl: " + printable(text) + "\n");  // nobody else to tell
}

/// Adds what an operator can do about a launcher that cannot be reached.
void add_advice(Error& error) {
    if (error.kind == ErrorKind::denied) {
        error.details.emplace_back(
            "Run it as the user of the launcher or as root; --control-group of the launcher lets others in.");
    } else if (error.kind != ErrorKind::timeout) {
        error.details.emplace_back(
            "Is a launcher running with --control-socket? Another path than this is given by --socket PATH "
            "or $TRITON_LAUNCH_CONTROL_SOCKET.");
    }
}

/// The value of a variable; empty when it is not set.
std::string_view variable(char const* const* envp, std::string_view name) {
    for (; *envp; ++envp) {
        std::string_view const entry = *envp;
        if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) return entry.substr(name.size() + 1);
    }
    return {};
}

/// Source: https://no-color.org.
bool is_colored(char const* const* envp) {
    std::string_view const term = variable(envp, "TERM");
    return ::isatty(STDOUT_FILENO) == 1 && variable(envp, "NO_COLOR").empty() && !term.empty() && term != "dumb";
}

/// {"program": ..., "process": ...}; the caller adds further members and the end.
json::Writer target_parameters(CtlTarget const& target) {
    json::Writer out;
    out.open('{').key("program").value(std::string_view(target.program));
    if (target.process) out.key("process").value(std::int64_t{*target.process});
    return out;
}

/// How an error of the interface, or of the protocol, reads for a person.
struct ErrorRow {
    std::string_view name;  // without its interface
    ErrorKind kind;
    std::string (*text)(json::Object const& parameters);
};
std::string process_of(json::Object const& parameters) {
    return std::to_string(number_of(parameters, "process").value_or(0));
}
std::string program_of(json::Object const& parameters) { return shown_program(text_of(parameters, "program")); }
std::string reason_of(json::Object const& parameters) { return text_of(parameters, "reason"); }
std::string unknown_command(json::Object const&) {
    return "the running launcher does not know this command; is it older?";
}

constexpr std::array<ErrorRow, 7> launcher_errors{{
    {"NoSuchProgram", ErrorKind::not_found,
     [](json::Object const& parameters) { return "there is no program " + program_of(parameters); }},
    {"NoSuchProcess", ErrorKind::not_found,
     [](json::Object const& parameters) {
         return program_of(parameters) + " has no process " + process_of(parameters);
     }},
    {"NotReached", ErrorKind::refused,
     [](json::Object const& parameters) {
         return "process " + process_of(parameters) + " of " + program_of(parameters) + " is " +
                text_of(parameters, "state");
     }},
    {"TooManyClients", ErrorKind::busy,
     [](json::Object const&) { return std::string("the launcher has too many clients already"); }},
    {"Refused", ErrorKind::refused, reason_of},
    {"Failed", ErrorKind::internal, reason_of},
    {"BadMessage", ErrorKind::internal, reason_of},
}};
constexpr std::array<ErrorRow, 3> service_errors{{
    {"PermissionDenied", ErrorKind::denied,
     [](json::Object const&) { return std::string("the launcher does not let this user in"); }},
    {"MethodNotFound", ErrorKind::unsupported, unknown_command},
    {"InterfaceNotFound", ErrorKind::unsupported, unknown_command},
}};

ErrorRow const* find_error(std::string_view error) {
    std::size_t const dot = std::min(error.rfind('.'), error.size());
    std::string_view const interface = error.substr(0, dot);
    std::span<ErrorRow const> rows;
    if (interface == launcher_interface) rows = launcher_errors;
    if (interface == varlink::service_interface) rows = service_errors;
    for (ErrorRow const& row : rows) {
        if (row.name == error.substr(dot + 1)) return &row;
    }
    return nullptr;
}

Error explain(varlink::Reply const& reply) {
    Error error;
    if (ErrorRow const* const row = find_error(reply.error)) {
        error.kind = row->kind;
        error.reason = row->text(reply.parameters);
    } else {
        error.reason = "the launcher answered " + reply.error + " " + json_text(reply.parameters);
    }
    for (json::Node const& detail : list_of(reply.parameters, "details")) {
        if (auto const* const text = detail.get<std::string>()) error.details.push_back(*text);
    }
    return error;
}

}  // namespace

/// Carries out one command, from what it asks for to what it prints.
class Ctl {
public:
    Ctl(CtlOptions options, bool is_colored) : options_(std::move(options)), is_colored_(is_colored) {
        if (options_.timeout) deadline_ = std::chrono::steady_clock::now() + *options_.timeout;
    }

    Result<> run();

    // The commands. A row of ctl_commands() names each.
    Result<> status();
    Result<> describe();
    Result<> history();
    Result<> start();
    Result<> stop();
    Result<> restart();
    Result<> signal();
    Result<> reload();
    Result<> logs();
    Result<> attach();
    Result<> events();
    Result<> wait();
    Result<> top();
    Result<> upgrade();
    Result<> stage();
    Result<> version();
    Result<> names();
    Result<> commands();
    Result<> help();

    /// After run() without an error.
    [[nodiscard]] int exit_code() const { return exit_code_; }

private:
    using Programs = std::vector<json::Object>;

    /// How long to wait for a reply: one that the launcher owes at once, or one to something that has yet to happen. In
    /// the second case greet() first asks the launcher something else, so that one that hangs is noticed.
    enum class Patience : std::uint8_t { answer, event };

    [[nodiscard]] Result<varlink::Connection> connect() const;
    Result<varlink::Reply> any(varlink::Connection& connection, Patience patience);
    Result<varlink::Reply> next(varlink::Connection& connection, Patience patience);
    Result<json::Object> ask(varlink::Connection& connection, std::string_view method,
                             std::string_view parameters = "{}", Patience patience = Patience::answer);
    Result<> greet(varlink::Connection& connection);
    enum class With : std::uint8_t { status, history };
    Result<Programs> programs(varlink::Connection& connection, std::vector<CtlTarget> const& targets,
                              With with = With::status);
    using IsApt = bool (*)(json::Object const& program);
    Result<std::vector<CtlTarget>> targets(varlink::Connection& connection, IsApt is_apt = nullptr);
    Error explained(varlink::Connection& connection, varlink::Reply const& reply);
    Error with_suggestion(Error error, varlink::Connection& connection, std::string const& program);

    Result<> command(std::string_view method);
    Result<> tell_rejection(varlink::Connection& connection);
    Result<> command(varlink::Connection& connection, std::string_view method, CtlTarget const& target, bool is_alone);
    Result<> with_others(varlink::Connection& connection, std::string_view method, CtlTarget const& target,
                         json::Array const& others);

    template <class Again, class Show>
    Result<> stream(std::string_view method, std::string const& first, Again const& again, Show const& show);

    CtlOptions options_;
    std::vector<CtlTarget> members_;  // of a command, with those of its groups
    std::vector<CtlTarget> started_;  // of these, because others require them
    int exit_code_ = 0;               // of attach: the process's
    bool is_colored_;
    std::optional<TimePoint> deadline_;
};

Result<varlink::Connection> Ctl::connect() const {
    auto connection = varlink::Connection::connect(options_.socket, options_.timeout.value_or(answer_limit));
    if (!connection) add_advice(connection.error());
    if (!connection && connection.error().kind != ErrorKind::timeout)
        connection.error().kind = ErrorKind::unavailable;  // whatever has kept us from the launcher
    return connection;
}

/// The next reply, an error or not.
Result<varlink::Reply> Ctl::any(varlink::Connection& connection, Patience patience) {
    bool const has_default = !deadline_ && patience == Patience::answer;
    auto const deadline = has_default ? std::chrono::steady_clock::now() + answer_limit : deadline_;
    auto reply = connection.reply(deadline);
    if (!reply && reply.error() == Silence::timed_out) {
        return fail(ErrorKind::timeout, has_default
                                            ? "the launcher has not answered for " + format_duration(answer_limit)
                                            : std::string("timed out"));
    }
    if (!reply) return fail(ErrorKind::unavailable, "the launcher has closed the connection");
    return std::move(*reply);
}

Result<varlink::Reply> Ctl::next(varlink::Connection& connection, Patience patience) {
    varlink::Reply reply = TRY(any(connection, patience));
    if (!reply.error.empty()) return std::unexpected(explained(connection, reply));
    return reply;
}

/// The error of a reply; of a process that has failed with how it has.
Error Ctl::explained(varlink::Connection& connection, varlink::Reply const& reply) {
    Error error = explain(reply);
    std::string const state = text_of(reply.parameters, "state");
    if (reply.error != launcher_name("NotReached") || (state != "failed" && state != "backoff")) return error;
    auto const number = number_of(reply.parameters, "process");
    CtlTarget target{text_of(reply.parameters, "program"), {}};
    if (number) target.process = static_cast<std::uint32_t>(*number);
    auto const found = programs(connection, {target});
    if (!found || found->empty()) return error;
    json::Array const& processes = list_of(found->front(), "processes");
    auto const* const process = processes.empty() ? nullptr : processes.front().get<json::Object>();
    if (process && !object_of(*process, "last_exit").empty())
        error.reason.append(" (").append(last_exit_text(*process)).append(")");
    return error;
}

Result<> Ctl::greet(varlink::Connection& connection) {
    connection.call(varlink::service_name("GetInfo"), "{}", false);
    TRY(next(connection, Patience::answer));
    return {};
}

Result<json::Object> Ctl::ask(varlink::Connection& connection, std::string_view method, std::string_view parameters,
                              Patience patience) {
    if (patience == Patience::event) TRY(greet(connection));
    connection.call(launcher_name(method), parameters, false);
    return TRY(next(connection, patience)).parameters;
}

/// Adds a suggestion: an unknown name that is close to a known one was probably mistyped.
Error Ctl::with_suggestion(Error error, varlink::Connection& connection, std::string const& program) {
    if (error.kind != ErrorKind::not_found) return error;
    auto const status = ask(connection, "GetStatus");
    if (!status) return error;
    std::vector<std::string_view> known;
    bool has_unnamed = false;  // that of a configuration without "programs"
    for (json::Node const& name : list_of(object_of(*status, "launcher"), "programs")) {
        auto const* const text = name.get<std::string>();
        if (text && text->empty()) has_unnamed = true;
        if (text && !text->empty()) known.push_back(*text);
    }
    bool const is_known = std::ranges::find(known, program) != known.end();  // then the process is the unknown one
    if (auto const meant = is_known ? std::nullopt : nearest(program, known)) {
        error.reason.append("; did you mean ").append(printable(*meant)).append("?");
    } else if (has_unnamed && !is_known && !program.empty()) {
        error.reason += "; the program of this configuration has no name: it is -, and its processes are -:1 and so on";
    }
    return error;
}

Result<Ctl::Programs> Ctl::programs(varlink::Connection& connection, std::vector<CtlTarget> const& targets, With with) {
    Programs found;
    for (std::size_t i = 0; i < std::max<std::size_t>(1, targets.size()); ++i) {
        json::Writer parameters;
        targets.empty() ? void(parameters.open('{')) : void(parameters = target_parameters(targets[i]));
        if (with == With::history) parameters.key("history").value(true);
        connection.call(launcher_name("List"), parameters.close('}').text(), true);
        for (bool goes_on = true; goes_on;) {
            auto reply = next(connection, Patience::answer);
            if (!reply) {
                return std::unexpected(
                    with_suggestion(reply.error(), connection, targets.empty() ? "" : targets[i].program));
            }
            goes_on = reply->continues;
            merge_programs(found, reply->parameters);
        }
    }
    return found;
}

/// What the command line names, with programs in the place of their groups. Of a group with members for which there is
/// something to do these alone are meant: who names the others by their own names is told why not.
Result<std::vector<CtlTarget>> Ctl::targets(varlink::Connection& connection, IsApt is_apt) {
    auto const is_group = [](CtlTarget const& target) { return target.is_group || target == CtlTarget{"all", {}}; };
    if (std::ranges::none_of(options_.targets, is_group)) return options_.targets;
    Programs const known = TRY(programs(connection, {}));
    std::vector<CtlTarget> all;
    for (CtlTarget const& target : options_.targets) {
        bool const is_everybody =
            !target.is_group && is_group(target) &&
            std::ranges::none_of(known, [](json::Object const& one) { return text_of(one, "name") == "all"; });
        if (!target.is_group && !is_everybody) {
            all.push_back(target);
            continue;
        }
        std::vector<json::Object const*> members;
        for (json::Object const& program : known) {
            json::Array const& groups = list_of(program, "groups");
            bool const is_member = std::ranges::any_of(groups, [&](json::Node const& group) {
                auto const* const name = group.get<std::string>();
                return name && *name == target.program;
            });
            bool const is_meant = is_everybody ? !flag_of(program, "internal") : is_member;
            if (is_meant) members.push_back(&program);
        }
        if (members.empty() && !is_everybody)
            return fail(ErrorKind::not_found, "there is no group " + printable(target.program));
        bool const selects =
            is_apt && std::ranges::any_of(members, [&](json::Object const* member) { return is_apt(*member); });
        for (json::Object const* const member : members)
            if (!selects || is_apt(*member)) all.push_back({text_of(*member, "name"), {}});
    }
    return all;
}

namespace {

/// A member of an object.
std::string programs_json(std::vector<json::Object> const& programs) {
    std::string text = R"("programs":[)";
    for (json::Object const& program : programs)
        text += (text.ends_with('[') ? "" : ",") + json_text(program);
    return text + "]";
}

}  // namespace

Result<> Ctl::status() {
    varlink::Connection connection = TRY(connect());
    std::vector<CtlTarget> const asked = TRY(targets(connection));
    Programs found = TRY(programs(connection, asked));
    bool const is_all = options_.targets.empty();
    json::Object const status = is_all ? TRY(ask(connection, "GetStatus")) : json::Object{};
    json::Object const& launcher = object_of(status, "launcher");
    if (options_.is_json) {
        return print("{" + programs_json(found) + (is_all ? ",\"launcher\":" + json_text(launcher) : "") + "}\n");
    }
    if (is_all && !options_.shows_all) drop_internal(found);
    std::vector<std::string> lines = status_lines(found, is_colored_);
    auto notes = launcher_lines(launcher, wall_clock());
    if (!notes.empty()) lines.emplace_back("\n");
    std::ranges::move(notes, std::back_inserter(lines));
    return print(lines);
}

Result<> Ctl::describe() {
    varlink::Connection connection = TRY(connect());
    CtlTarget const& target = options_.targets.front();
    auto const described = ask(connection, "Describe", target_parameters(target).close('}').text());
    if (!described) return std::unexpected(with_suggestion(described.error(), connection, target.program));
    auto listed = programs(connection, options_.targets, With::history);
    if (!listed) listed = programs(connection, options_.targets);  // an older launcher has no history
    Programs const found = TRY(std::move(listed));
    json::Object const& description = object_of(*described, "description");
    if (options_.is_json) {
        std::string const program = found.empty() ? "{}" : json_text(found.front());
        return print(R"({"program":)" + program + R"(,"description":)" + json_text(description) + "}\n");
    }
    TRY(print(description_text(description, found.empty() ? json::Object{} : found.front()) + "\n"));
    TRY(print(status_lines(found, is_colored_)));
    return print(check_lines(found, wall_clock()));
}

Result<> Ctl::history() {
    varlink::Connection connection = TRY(connect());
    Programs const found = TRY(programs(connection, TRY(targets(connection)), With::history));
    if (options_.is_json) return print("{" + programs_json(found) + "}\n");
    return print(history_lines(found, is_colored_));
}

namespace {

/// "db, cache"
std::string listed(json::Array const& names) {
    std::string all;
    for (json::Node const& name : names) {
        auto const* const text = name.get<std::string>();
        if (text) all.append(all.empty() ? "" : ", ").append(shown_program(*text));
    }
    return all;
}

template <typename Is>
bool has_process(json::Object const& program, Is is_meant) {
    return std::ranges::any_of(list_of(program, "processes"), [&](json::Node const& node) {
        auto const* const process = node.get<json::Object>();
        return process && is_meant(*process);
    });
}

bool runs(json::Object const& program) {
    return has_process(program, [](json::Object const& process) { return number_of(process, "pid").has_value(); });
}

bool is_held(json::Object const& program) {
    return has_process(program, [](json::Object const& process) { return text_of(process, "state") == "held"; });
}

/// A schedule that waits for its time is not stopped; a run in between is asked for by name.
bool waits_for_its_time(json::Object const& program) {
    return text_of(program, "kind") == "scheduled" && !runs(program) && !is_held(program);
}

bool is_to_run(json::Object const& program) {
    return number_of(program, "wanted").value_or(1) > 0 && !waits_for_its_time(program);
}

/// As for a restart, but another run is not begun beside one that is under way, either.
bool is_to_start(json::Object const& program) {
    return is_to_run(program) && (text_of(program, "kind") != "scheduled" || is_held(program));
}

}  // namespace

/// Sends the command to one target after the other; when one fails, the rest is not touched.
Result<> Ctl::command(std::string_view method) {
    varlink::Connection connection = TRY(connect());
    bool const is_stop = method == "Stop";
    bool const is_alone = !is_stop || !options_.is_forced;
    if (!is_stop) TRY(tell_rejection(connection));
    members_ = TRY(targets(connection, is_stop             ? nullptr
                                       : method == "Start" ? is_to_start
                                                           : is_to_run));
    for (CtlTarget const& target : members_) {
        if (std::ranges::find(started_, target) == started_.end()) TRY(command(connection, method, target, is_alone));
    }
    return {};
}

/// Whoever has changed the configuration and restarts a program expects that it runs with the change.
Result<> Ctl::tell_rejection(varlink::Connection& connection) {
    json::Object const status = TRY(ask(connection, "GetStatus"));
    json::Array const& reasons = list_of(object_of(status, "launcher"), "rejection");
    auto const* const first = reasons.empty() ? nullptr : reasons.front().get<std::string>();
    if (!first) return {};
    complain("the newest configuration was rejected, so the one before it is used: " + *first +
             (reasons.size() > 1 ? " (and " + std::to_string(reasons.size() - 1) + " more; reload prints all)" : ""));
    return {};
}

Result<> Ctl::command(varlink::Connection& connection, std::string_view method, CtlTarget const& target,
                      bool is_alone) {
    auto const reply = [&]() -> Result<varlink::Reply> {
        if (options_.waits) TRY(greet(connection));
        json::Writer parameters = target_parameters(target);
        parameters.key("wait").value(options_.waits);
        if (is_alone) parameters.key("alone").value(true);
        connection.call(launcher_name(method), parameters.close('}').text(), false);
        return any(connection, options_.waits ? Patience::event : Patience::answer);
    }();
    if (reply && reply->error.empty()) return {};
    bool const is_older = reply && is_alone && reply->error == varlink::service_name("InvalidParameter") &&
                          text_of(reply->parameters, "parameter") == "alone";
    if (is_older) return command(connection, method, target, false);  // it never looks at whom else this concerns
    if (reply && reply->error == launcher_name("NotAlone"))
        return with_others(connection, method, target, list_of(reply->parameters, "programs"));
    Error error = with_suggestion(reply ? explained(connection, *reply) : reply.error(), connection, target.program);
    error.reason = target_text(target) + ": " + error.text();
    error.attempted.clear();
    return std::unexpected(std::move(error));
}

/// The launcher has named further programs that the command concerns, in the order in which to stop or to start them.
Result<> Ctl::with_others(varlink::Connection& connection, std::string_view method, CtlTarget const& target,
                          json::Array const& others) {
    bool const is_start = method != "Stop";
    std::string const name = target_text(target);
    bool const are_asked_for = std::ranges::all_of(others, [this](json::Node const& other) {
        auto const* const text = other.get<std::string>();
        return text && std::ranges::find(members_, CtlTarget{*text, {}}) != members_.end();
    });
    if (!are_asked_for && is_start && !options_.starts_required)
        return fail(ErrorKind::refused,
                    name + " requires " + listed(others) + ", not running; without --no-deps started first");
    if (!are_asked_for && !is_start && !options_.stops_dependents)
        return fail(ErrorKind::refused, name + " is required by " + listed(others) +
                                            "; --with-dependents stops these first, --force leaves them running");
    for (json::Node const& other : others) {
        auto const* const text = other.get<std::string>();
        if (!text) continue;
        if (!are_asked_for)
            complain((is_start ? "first starting " : "first stopping ") + shown_program(*text) +
                     (is_start ? ", which is required by " : ", which requires ") + name);
        TRY(command(connection, is_start ? "Start" : "Stop", CtlTarget{*text, {}}, false));
        if (is_start) started_.push_back(CtlTarget{*text, {}});
    }
    return command(connection, method, target, false);
}

Result<> Ctl::signal() {
    varlink::Connection connection = TRY(connect());
    for (CtlTarget const& target : TRY(targets(connection, runs))) {
        std::string const parameters =
            target_parameters(target).key("signal").value(std::string_view(options_.signal)).close('}').text();
        auto const done = ask(connection, "Signal", parameters);
        if (!done) return std::unexpected(with_suggestion(done.error(), connection, target.program));
    }
    return {};
}

Result<> Ctl::reload() {
    varlink::Connection connection = TRY(connect());
    TRY(ask(connection, "Reload", "{}", Patience::event));  // a long document takes time
    return {};
}

/// Makes a call with "more" that lasts until the launcher ends. After an upgrade has cut it off, the call is repeated
/// with the parameters that `again` returns.
template <class Again, class Show>
Result<> Ctl::stream(std::string_view method, std::string const& first, Again const& again, Show const& show) {
    varlink::Connection connection = TRY(connect());
    connection.call(launcher_name(method), first, true);
    for (bool is_answered = false;;) {
        auto const reply = next(connection, is_answered ? Patience::event : Patience::answer);
        if (reply) {
            is_answered = true;
            if (auto const lost = number_of(reply->parameters, "lost"))
                complain(std::to_string(*lost) + " lost: they came faster than they were read");
            TRY(show(reply->parameters));
            if (!reply->continues) return {};
            continue;
        }
        if (reply.error().kind != ErrorKind::unavailable || !is_answered) return std::unexpected(reply.error());
        // An upgrade keeps the listening socket: where nobody listens any more, the launcher has ended, which is not a
        // failure.
        auto next_connection = varlink::Connection::connect(options_.socket, options_.timeout.value_or(answer_limit));
        if (!next_connection) return {};
        connection = std::move(*next_connection);
        connection.call(launcher_name(method), again(), true);
        is_answered = false;
        // A launcher that ends cuts off its last connections before it answers them.
        auto const greeting = next(connection, Patience::answer);
        if (!greeting && greeting.error().kind == ErrorKind::unavailable) return {};
        if (!greeting) return std::unexpected(greeting.error());
        is_answered = true;
        TRY(show(greeting->parameters));
    }
}

Result<> Ctl::logs() {
    CtlTarget const& target = options_.targets.front();
    bool is_one = target.process.has_value();
    if (!is_one) {
        varlink::Connection connection = TRY(connect());
        Programs const found = TRY(programs(connection, options_.targets));
        is_one = found.empty() || list_of(found.front(), "processes").size() <= 1;
    }
    auto const parameters = [&](std::int64_t lines, std::optional<std::int64_t> after) {
        json::Writer out = target_parameters(target);
        out.key("lines").value(lines).key("follow").value(options_.follows);
        if (after) out.key("after").value(*after);
        return out.close('}').text();
    };
    std::int64_t last = -1;  // sequence of the last line that was shown
    using Source = std::pair<std::int64_t, std::string>;
    std::optional<Source> begun;  // the process and stream whose line goes on
    auto const where_it_ended = [&] { return last < 0 ? parameters(0, {}) : parameters(most_log_lines, last); };
    auto const show = [&](json::Object const& reply) -> Result<> {
        std::string text;
        auto const end_begun = [&] {
            if (begun) text += '\n';
            begun.reset();
        };
        if (flag_of(reply, "missing") || number_of(reply, "lost")) end_begun();
        // The lines of all processes of a program are kept together: those that are gone may be of others.
        std::string_view const claim = target.process ? "may be" : "are";
        if (flag_of(reply, "missing"))
            complain("lines " + std::string(claim) +
                     " missing here: they were written during an upgrade and are no longer kept");
        last = std::max(last, number_of(reply, "end").value_or(last));
        for (json::Node const& node : list_of(reply, "lines")) {
            auto const* const line = node.get<json::Object>();
            if (!line) continue;
            last = number_of(*line, "sequence").value_or(last);
            if (options_.is_json) {
                text += json_text(*line) + '\n';
                continue;
            }
            Source const from{number_of(*line, "process").value_or(0), text_of(*line, "stream")};
            if (begun != from) {
                end_begun();
                if (!is_one) text += std::to_string(from.first) + ": ";
            }
            text += text_of(*line, "text");
            begun = from;
            if (!flag_of(*line, "partial")) end_begun();
        }
        return print(text);
    };
    Result<> const done = stream("Logs", parameters(options_.lines, {}), where_it_ended, show);
    if (begun) TRY(print("\n"));
    return done;
}

/// Attaches once; UserTerminal joins both sides. The caller repeats it after an upgrade has cut it off.
Result<> Ctl::attach() {
    using End = UserTerminal::End;
    CtlTarget const& target = options_.targets.front();
    std::optional<UserTerminal> user;
    for (std::int64_t lines = options_.lines;; lines = 0) {
        varlink::Connection connection = TRY(connect());
        json::Writer parameters = target_parameters(target);
        parameters.key("lines").value(lines).key("read_only").value(options_.is_read_only);
        parameters.key("follow").value(options_.follows).close('}');
        connection.call_for_upgrade(launcher_name("Attach"), parameters.text());
        auto const reply = next(connection, Patience::answer);
        if (!reply) {
            user.reset();
            return std::unexpected(with_suggestion(reply.error(), connection, target.program));
        }
        std::string const name = shown_program(text_of(reply->parameters, "program")) + ":" +
                                 std::to_string(number_of(reply->parameters, "process").value_or(1));
        if (user)
            user->say("the launcher was upgraded: attached again");
        else
            user.emplace(
                UserTerminal::Settings{name, options_.detach_keys, options_.is_read_only, options_.follows, deadline_});
        std::string received = connection.take_received();
        UserTerminal::Outcome const outcome = user->run(std::move(connection).take(), std::move(received));
        if (outcome.end == End::upgraded) continue;
        if (outcome.end == End::detached && ::isatty(STDIN_FILENO) == 1) user->say("detached from " + name);
        user.reset();
        switch (outcome.end) {
            case End::process_ended:
                exit_code_ = WIFSIGNALED(outcome.status) ? 128 + WTERMSIG(outcome.status) : WEXITSTATUS(outcome.status);
                return {};
            case End::signalled: exit_code_ = 128 + outcome.status; return {};
            case End::upgraded:
            case End::detached: return {};
            case End::timed_out: return fail(ErrorKind::timeout, "timed out");
            case End::over: return fail(ErrorKind::not_found, name + ": " + outcome.reason);
            case End::closed: return fail(ErrorKind::unavailable, "the launcher has closed the connection");
        }
    }
}

Result<> Ctl::events() {
    bool is_again = false;
    return stream(
        "Subscribe", "{}",
        [&is_again] {
            is_again = true;
            return std::string("{}");
        },
        [this, &is_again](json::Object const& reply) -> Result<> {
            if (std::exchange(is_again, false)) complain("events may be missing here: the connection was lost");
            json::Object const& event = object_of(reply, "event");
            if (event.empty()) return {};
            return print(options_.is_json ? json_text(event) + "\n" : event_text(event));
        });
}

Result<> Ctl::wait() {
    CtlTarget const& target = options_.targets.front();
    std::string const parameters =
        target_parameters(target).key("condition").value(std::string_view(options_.condition)).close('}').text();
    for (bool was_reached = false;;) {
        auto connection = connect();
        if (!connection && was_reached) return fail(ErrorKind::unavailable, "the launcher has ended");
        if (!connection) return std::unexpected(connection.error());
        auto const done = ask(*connection, "Wait", parameters, Patience::event);
        if (done) return {};
        if (done.error().kind != ErrorKind::unavailable)
            return std::unexpected(with_suggestion(done.error(), *connection, target.program));
        was_reached = true;  // cut off: by an upgrade, or for good
    }
}

Result<> Ctl::top() {
    bool const is_terminal = ::isatty(STDOUT_FILENO) == 1;
    CpuTimes before;
    TimePoint taken{};
    for (;;) {
        varlink::Connection connection = TRY(connect());
        json::Object const status = TRY(ask(connection, "GetStatus"));
        Programs found = TRY(programs(connection, {}));
        if (!options_.shows_all) drop_internal(found);
        TimePoint const now = std::chrono::steady_clock::now();
        double const elapsed = taken == TimePoint{} ? 0 : std::chrono::duration<double>(now - taken).count();
        taken = now;
        std::vector<std::string> lines = top_lines(found, before, elapsed, is_colored_);
        if (!is_terminal) return print(lines);
        json::Object const& launcher = object_of(status, "launcher");
        lines.insert(lines.begin(), "triton-launch " + printable(text_of(launcher, "version")) + ", " +
                                        printable(text_of(launcher, "phase")) + ", up " +
                                        short_duration(real_of(launcher, "uptime_seconds").value_or(0)) + "\n");
        winsize size{};
        bool const has_size = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
        if (has_size && lines.size() >= size.ws_row) lines.resize(size.ws_row - 1U);
        std::string picture = "\033[H";
        for (std::string& line : lines) {
            if (has_size && size.ws_col > 0) line = cut_line(line, size.ws_col);
            line.insert(line.size() - 1, "\033[K");
            picture += line;
        }
        TRY(print(picture + "\033[J"));
        auto const pause = std::chrono::ceil<milliseconds>(options_.interval).count();
        (void)::poll(nullptr, 0, static_cast<int>(std::min<milliseconds::rep>(pause, 3'600'000)));
    }
}

Result<> Ctl::upgrade() {
    if (!deadline_) deadline_ = std::chrono::steady_clock::now() + upgrade_limit;
    std::string path = options_.path;
    if (!path.starts_with('/')) {  // the launcher has another working directory
        std::array<char, 4096> here;
        if (!::getcwd(here.data(), here.size()))
            return fail(ErrorKind::internal, "find the working directory", errno_text(errno));
        path = std::string(here.data()) + "/" + path;
    }
    varlink::Connection connection = TRY(connect());
    std::string const parameters = json::Writer{}.open('{').key("path").value(std::string_view(path)).close('}').text();
    connection.call(launcher_name("Upgrade"), parameters, true);
    varlink::Reply const begun = TRY(next(connection, Patience::event));
    // The new launcher has no connections yet: the end of ours is the sign of the upgrade.
    if (auto const after = next(connection, Patience::event); !after && after.error().kind != ErrorKind::unavailable)
        return std::unexpected(after.error());
    varlink::Connection again = TRY(connect());
    json::Object const status = TRY(ask(again, "GetStatus"));
    json::Object const& launcher = object_of(status, "launcher");
    if (options_.is_json) {
        json::Writer out;
        out.open('{').key("from").value(std::string_view(text_of(begun.parameters, "from")));
        out.key("to").value(std::string_view(text_of(launcher, "version"))).close('}');
        return print(out.text() + "\n");
    }
    return print("upgraded from " + printable(text_of(begun.parameters, "from")) + " to " +
                 printable(text_of(launcher, "version")) + "\n");
}

Result<> Ctl::stage() {
    varlink::Connection connection = TRY(connect());
    std::string const parameters =
        json::Writer{}.open('{').key("what").value(std::string_view(options_.what)).close('}').text();
    json::Object const answer = TRY(ask(connection, "Stage", parameters, Patience::event));
    std::string text;
    if (options_.is_json) {
        text = json_text(answer) + "\n";
    } else {
        for (json::Node const& node : list_of(answer, "files")) {
            if (auto const* const file = node.get<std::string>()) text += printable(*file) + "\n";
        }
    }
    TRY(print(text));
    if (auto const lost = number_of(answer, "lost"))
        complain(std::to_string(*lost) + " more are not shown: the answer would be too long");
    Error error;
    error.reason = "not everything could be copied";
    for (json::Node const& node : list_of(answer, "errors")) {
        if (auto const* const line = node.get<std::string>()) error.details.push_back(*line);
    }
    if (error.details.empty()) return {};
    return std::unexpected(std::move(error));
}

Result<> Ctl::version() {
    varlink::Connection connection = TRY(connect());
    json::Object const status = TRY(ask(connection, "GetStatus"));
    json::Object const& launcher = object_of(status, "launcher");
    return print(options_.is_json ? json_text(launcher) + "\n" : printable(text_of(launcher, "version")) + "\n");
}

Result<> Ctl::names() {
    varlink::Connection connection = TRY(connect());
    json::Object const status = TRY(ask(connection, "GetStatus"));
    std::string text;
    for (json::Node const& name : list_of(object_of(status, "launcher"), "programs")) {
        auto const* const word = name.get<std::string>();
        if (word && (options_.shows_all || !word->starts_with(internal_prefix))) text += shown_program(*word) + "\n";
    }
    return print(text);
}

Result<> Ctl::start() { return command("Start"); }
Result<> Ctl::stop() { return command("Stop"); }
Result<> Ctl::restart() { return command("Restart"); }
Result<> Ctl::help() { return print(ctl_help(options_.wants_help ? options_.command : nullptr)); }

/// Prints one command and its help a line, with a tab between them: for shell completion, which needs no launcher.
Result<> Ctl::commands() {
    std::string text;
    for (CtlCommand const& row : ctl_commands()) {
        if (!row.usage.empty()) text.append(row.name).append("\t").append(row.help).append("\n");
    }
    return print(text);
}

Result<> Ctl::run() { return options_.wants_help ? help() : (this->*options_.command->run)(); }

std::span<CtlCommand const> ctl_commands() {
    using enum CtlTakes;
    static constexpr std::array<CtlCommand, 19> commands{{
        {"status", maybe_targets, " all ", "status [NAME[:N]...]", "show a table of what runs", &Ctl::status},
        {"describe", one_target, "", "describe NAME", "show everything about one program", &Ctl::describe},
        {"history", maybe_targets, "", "history [NAME[:N]...]", "show when and why processes ended", &Ctl::history},
        {"start", targets, " no-wait no-deps ", "start NAME[:N]...", "start what does not run", &Ctl::start},
        {"stop", targets, " no-wait force with-dependents ", "stop NAME[:N]...", "stop, and hold until started again",
         &Ctl::stop},
        {"restart", targets, " no-wait no-deps ", "restart NAME[:N]...", "stop and start again, one after the other",
         &Ctl::restart},
        {"signal", signal_and_targets, "", "signal SIGNAL NAME[:N]...", "send a signal", &Ctl::signal},
        {"reload", nothing, "", "reload", "read the configuration again", &Ctl::reload},
        {"logs", one_target, " follow lines ", "logs [-f] [-n LINES] NAME[:N]",
         "print the last lines of captured output, and follow it", &Ctl::logs},
        {"attach", one_target, " follow lines detach-keys read-only ", "attach [-f] [-n LINES] NAME[:N]",
         "connect to the terminal of a process", &Ctl::attach},
        {"events", nothing, "", "events", "print what happens, as it happens", &Ctl::events},
        {"wait", one_target, " for ", "wait NAME[:N] [--for ready|up|down|done]", "wait for a state", &Ctl::wait},
        {"top", nothing, " interval all ", "top", "show CPU time and memory, refreshed on a terminal", &Ctl::top},
        {"upgrade", path, "", "upgrade PATH", "replace the launcher while it runs", &Ctl::upgrade},
        {"stage", maybe_kind, "", "stage [files|binaries|libraries|monitor-conf]",
         "copy again what the launcher's command line says", &Ctl::stage},
        {"version", nothing, "", "version", "print the version of the running launcher", &Ctl::version},
        {"__names", nothing, " all ", "", "", &Ctl::names},  // for shell completion
        {"__commands", nothing, "", "", "", &Ctl::commands},
        {"help", maybe_command, "", "help [COMMAND]", "print the commands and options, or those of one command",
         &Ctl::help},
    }};
    return commands;
}

int ctl_main(int argc, char** argv, char** envp) try {
    std::string_view const socket = variable(envp, "TRITON_LAUNCH_CONTROL_SOCKET");
    Result<CtlOptions> options =
        parse_ctl(argc - 2, argv + 2, std::string(socket.empty() ? "/run/triton-launch/control" : socket));
    if (!options) {
        complain(options.error().text());
        return row_of(options.error().kind).exit_code;
    }
    bool const is_quiet = options->command && options->command->usage.empty();  // a shell that completes shows nothing
    Ctl ctl(std::move(*options), is_colored(envp));
    auto const done = ctl.run();
    if (done) return ctl.exit_code();
    int const exit_code = row_of(done.error().kind).exit_code;
    if (is_quiet) return exit_code;
    complain(done.error().text());
    for (std::string const& detail : done.error().details)
        (void)write_all(STDERR_FILENO, "    " + printable(detail) + "\n");
    return exit_code;
} catch (std::exception const& error) {
    complain(error.what());
    return row_of(ErrorKind::internal).exit_code;
}

}  // namespace triton::launcher
