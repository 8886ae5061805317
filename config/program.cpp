#include "config/program.h"

#include <algorithm>
#include <unordered_set>

#include "config/program_parser.h"

namespace triton::config {

namespace {

constexpr std::size_t longest_version = 255;  // NAME_MAX: it becomes one component of a path

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }
bool is_program_character(char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; }

bool depends_on_number(Argument const& argument) {
    return argument.type == ArgumentType::process_number || std::ranges::any_of(argument.values, depends_on_number);
}

/// One program while it is checked as a whole.
struct Subject {
    Program const& program;
    Present<Program> present;
    json::Where const& at;
    Reading& reading;

    [[nodiscard]] bool has(std::string_view key) const { return present.has(key); }
    void problem(std::string_view key, std::string reason) const {
        reading.problems.add(json::Where{&at, key}, std::move(reason));
    }
    void warn(std::string_view key, std::string reason) const {
        reading.warnings.add(json::Where{&at, key}, std::move(reason));
    }
};

void check_command(Subject const& subject) {
    if (!subject.has("command")) {
        if (!subject.has("version") && !subject.reading.has_version)
            subject.problem("command", "required when there is no version");
        return;
    }
    if (subject.has("version")) subject.warn("version", "has no effect together with command");
    auto const& command = subject.program.command;
    if (command.empty() || !depends_on_number(command.front())) return;
    json::Where const command_at{&subject.at, "command"};
    subject.reading.problems.add(json::Where{&command_at, std::size_t{0}},
                                 "the program cannot depend on the number of the process");
}

void check_kind(Subject const& subject) {
    bool const is_one_shot = subject.program.one_shot;
    bool const is_scheduled = subject.has("schedule");
    if (is_one_shot && is_scheduled) subject.problem("schedule", "cannot be used together with oneShot");
    if ((is_one_shot || is_scheduled) && subject.has("restart") && subject.program.restart == RestartWhen::always) {
        subject.problem("restart", std::string("\"always\" cannot be used together with ") +
                                       (is_one_shot ? "oneShot" : "schedule"));
    }
    if (subject.has("backoff") && subject.program.restart == RestartWhen::never)
        subject.warn("backoff", "has no effect when restart is \"never\"");
}

void check_runs(Subject const& subject) {
    bool const runs_once = subject.program.one_shot || subject.has("schedule");
    if (subject.has("timeout") && !runs_once) subject.warn("timeout", "has no effect without oneShot or schedule");
    if (subject.has("onStop") && !subject.program.one_shot) subject.warn("onStop", "has no effect without oneShot");
    if (subject.has("onSuccess") && !runs_once && subject.program.restart == RestartWhen::always)
        subject.warn("onSuccess", "has no effect when restart is \"always\"");
}

/// A terminal is all three streams, and only the launcher reads what is written to it.
void check_tty(Subject const& subject) {
    if (!subject.program.tty) return;
    if (subject.has("stdin")) subject.problem("stdin", "cannot be used together with tty");
    json::Where const output_at{&subject.at, "output"};
    Output const& output = subject.program.output;
    if (output.kind == OutputKind::program)
        subject.reading.problems.add(json::Where{&output_at, "to"}, "cannot be used together with tty");
    if (!output.error.empty())
        subject.reading.problems.add(json::Where{&output_at, "stderr"}, "cannot be used together with tty");
}

void check_surroundings(Subject const& subject) {
    Program const& program = subject.program;
    if (program.stdin_.kind == StdinKind::inherit && program.count.value_or(1) > 1)
        subject.problem("stdin", "only one process can have the launcher's own");
}

void check_pid_file(Subject const& subject) {
    auto const& file = subject.program.pid_file;
    if (!file) return;
    if (subject.program.one_shot || subject.has("schedule"))
        subject.problem("pidFile", "cannot be used together with oneShot or schedule");
    if (subject.program.tty) subject.problem("pidFile", "cannot be used together with tty");
    if (file->type == ArgumentType::literal && !file->value.starts_with('/'))
        subject.problem("pidFile", "must be an absolute path");
    if (subject.program.count.value_or(1) > 1 && !depends_on_number(*file))
        subject.problem("pidFile", "has to depend on the number of the process, of which there are several");
}

void check_stop(Subject const& subject) {
    if (!subject.has("stopSequence")) return;
    for (std::string_view const key : {"stopSignal", "stopTimeout"}) {
        if (subject.has(key)) subject.problem(key, "cannot be used together with stopSequence");
    }
}

void check_change(Subject const& subject) {
    Program const& program = subject.program;
    bool const is_signalled =
        program.on_change == OnChange::signal || (program.files && program.files->action == FilesAction::signal);
    if (subject.has("reloadSignal") && !is_signalled)
        subject.warn("reloadSignal", "has no effect unless onConfigurationChange or files.action is \"signal\"");
    if (!program.files) return;
    json::Where const files_at{&subject.at, "files"};
    if (std::ranges::any_of(program.files->paths, depends_on_number))
        subject.reading.problems.add(json::Where{&files_at, "paths"}, "cannot depend on the number of the process");
    if (subject.has("schedule")) subject.warn("files", "has no effect with schedule");
}

void check_numbers(Subject const& subject) {
    bool const is_scheduled = subject.has("schedule");
    if (is_scheduled && subject.has("order")) subject.warn("order", "has no effect with schedule");
    if (is_scheduled && subject.has("maxUnavailable")) subject.warn("maxUnavailable", "has no effect with schedule");
}

/// Checks that the lines to be looked at come to us, and that the stream is known.
void check_log_readiness(Subject const& subject) {
    Output const& output = subject.program.output;
    LogStream const stream = subject.program.readiness->stream;
    json::Where const readiness_at{&subject.at, "readiness"};
    auto const problem = [&](std::string_view key, std::string_view text) {
        subject.reading.problems.add(json::Where{&readiness_at, key}, std::string(text));
    };
    switch (output.kind) {
        case OutputKind::captured: break;
        case OutputKind::inherit: return problem("type", "needs captured output, and output is \"inherit\"");
        case OutputKind::null: return problem("type", "needs captured output, and output is \"null\"");
        case OutputKind::program: return problem("type", "needs captured output, and output goes to another program");
    }
    if (stream == LogStream::both) return;
    if (output.error.empty()) {
        if (output.file && output.format == OutputFormat::raw)
            problem("stream", "cannot be told: output.file in format raw has both streams in one");
    } else if (stream == LogStream::err && output.error.front().kind != OutputKind::captured) {
        problem("stream", "stderr is not captured: output.stderr leads it elsewhere");
    }
}

void check_readiness_keys(Subject const& subject) {
    auto const& readiness = subject.program.readiness;
    if (subject.has("startTimeout") && !subject.has("readiness") && !subject.has("pidFile"))
        subject.warn("startTimeout", "has no effect without readiness");
    if (subject.has("watchdog") && (!readiness || readiness->type != ReadinessType::notify))
        subject.problem("watchdog", "needs readiness of type \"notify\"");
    if (readiness && readiness->type == ReadinessType::log) check_log_readiness(subject);
    std::size_t const count = subject.program.sockets.size();
    bool const is_taken = readiness && readiness->type == ReadinessType::fd && std::cmp_less(readiness->fd, 3 + count);
    if (!is_taken) return;
    json::Where const readiness_at{&subject.at, "readiness"};
    std::string const range = count == 1 ? "3" : "3 to " + std::to_string(2 + count);
    subject.reading.problems.add(json::Where{&readiness_at, "fd"},
                                 std::to_string(readiness->fd) + " is taken: the sockets get " + range);
}

/// Whether there is a filter at all; the profile "none" alone is not one.
bool filters(process::SeccompSettings const& seccomp) {
    return seccomp.profile != process::SeccompProfile::none || !seccomp.allow.empty() || !seccomp.deny.empty();
}

/// The key that implies noNewPrivileges; empty when no key does.
std::string_view implies_no_new_privileges(Program const& program) {
    if (program.seccomp && filters(*program.seccomp)) return "seccomp";
    return program.landlock ? "landlock" : std::string_view{};
}

void check_privileges(Subject const& subject) {
    std::string_view const reason = implies_no_new_privileges(subject.program);
    if (!reason.empty() && subject.has("noNewPrivileges") && !subject.program.no_new_privileges)
        subject.problem("noNewPrivileges", std::string("cannot be false together with ").append(reason));
}

void check_program(Program& program, Present<Program> present, json::Where const& at, Reading& reading) {
    bool const runs_once = program.one_shot || present.has("schedule");
    if (runs_once && !present.has("restart")) program.restart = RestartWhen::never;
    Subject const subject{program, present, at, reading};
    check_command(subject);
    check_kind(subject);
    check_runs(subject);
    check_stop(subject);
    check_surroundings(subject);
    check_tty(subject);
    check_pid_file(subject);
    check_change(subject);
    check_numbers(subject);
    check_readiness_keys(subject);
    check_privileges(subject);
    if (!implies_no_new_privileges(program).empty()) program.no_new_privileges = true;
}

void parse_members(json::Object const& json, json::Where const& at, std::vector<Box<Program>>& programs,
                   Reading& reading) {
    std::size_t const limit = reading.limits.programs;
    std::unordered_set<std::string_view> names;
    programs.reserve(std::min(json.size(), limit));
    for (json::Member const& member : json) {
        json::Where const program_at{&at, std::string_view(member.key)};
        if (programs.size() == limit) {
            reading.problems.add(program_at, "more than " + std::to_string(limit) + " programs");
            return;
        }
        if (!is_name(member.key)) {
            reading.problems.add(program_at, std::string(name_rule));
        } else if (member.key.starts_with(reserved_prefix)) {
            reading.problems.add(program_at, "names that begin with " + json::quoted(reserved_prefix) +
                                                 " are reserved for the launcher");
        }
        if (reading.may_repeat_keys && !names.insert(member.key).second) continue;  // the JSON reader has reported it
        Program& program = programs.emplace_back();  // even if it is wrong, others may name it
        read_object_into<check_program>(program, member.node, program_at, reading);
        program.name = member.key;
    }
}

/// Limits the processes of all programs together, since a container can hold, and we can show, only so many. Programs
/// that runServers false keeps from running count, too: a document must not become wrong by it.
void check_counts(std::vector<Box<Program>>& programs, json::Where const& at, Reading& reading) {
    std::size_t total = 0;
    for (Program const& program : programs)
        total += program.count.value_or(1);
    std::size_t const limit = reading.limits.processes;
    if (total <= limit) return;
    reading.problems.add(at, std::to_string(total) + " processes in all: more than " + std::to_string(limit));
    // Nothing of the document will run, and the remaining checks of each process must not take long.
    for (Program& program : programs)
        program.count.reset();
}

}  // namespace

std::string version_fault(std::string_view version) {
    if (version.empty()) return "must not be empty";
    if (version.contains('/')) return "must not contain a slash: it becomes part of a path";
    if (version == "." || version == "..")
        return "must not be " + json::quoted(version) + ": it becomes part of a path";
    if (version.size() > longest_version) return "is longer than " + std::to_string(longest_version) + " bytes";
    return {};
}

bool is_name(std::string_view text) {
    constexpr std::size_t longest = 64;
    return !text.empty() && text.size() <= longest && is_letter_or_digit(text.front()) &&
           std::ranges::all_of(text, is_program_character);
}

void parse_programs(json::Node const& node, json::Where const& at, ProcessConfiguration& configuration,
                    Reading& reading) {
    auto const* const json =
        expect<json::Object>(R"(an object, for example {"web": {"command": ["nginx"]}})", node, at, reading);
    if (!json) return;
    reading.is_inside_programs = true;
    parse_members(*json, at, configuration.programs, reading);
    reading.is_inside_programs = false;
    check_programs(configuration.programs, at, reading);
    check_counts(configuration.programs, at, reading);
}

bool Output::operator==(Output const&) const = default;

namespace {

OwnStream own_stream_of(std::string_view path) {
    for (std::string_view const directory : {"/dev/fd/", "/proc/self/fd/"}) {
        if (!path.starts_with(directory)) continue;
        std::string_view const number = path.substr(directory.size());
        return number == "1" ? OwnStream::out : number == "2" ? OwnStream::err : OwnStream::none;
    }
    return path == "/dev/stdout" ? OwnStream::out : path == "/dev/stderr" ? OwnStream::err : OwnStream::none;
}

}  // namespace

void settle_own_stream(Output& output) {
    if (!output.file) return;
    output.own_stream = own_stream_of(*output.file);
    if (output.own_stream == OwnStream::none) return;
    output.file.reset();
    output.file_argument.reset();
}

}  // namespace triton::config
