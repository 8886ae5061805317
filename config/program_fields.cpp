#include <array>
#include <unordered_set>

#include "config/program_parser.h"

// The keys of a program, in the order of their problems. Those that are objects have files of their own.

namespace triton::config {

namespace {

constexpr std::array<std::string_view, 3> restart_choices{"always", "on-failure", "never"};
constexpr std::array<std::string_view, 2> stop_scopes{"process", "tree"};
constexpr std::array<std::string_view, 3> change_choices{"keep", "restart", "signal"};
constexpr std::array<std::string_view, 2> environment_words{"inherit", "clean"};  // in the order of EnvironmentFrom

constexpr std::string_view argument_map =
    R"(,"propertyNames":{"pattern":"^[^=\\u0000]+$"},"additionalProperties":{"$ref":"#/$defs/ProgramArgument"})";
constexpr std::string_view words_or_names =
    R"(,"anyOf":[{"enum":["inherit","clean",null]},{"type":"array"}],"items":{"type":"string","pattern":"^[^=\\u0000]+$"})";
constexpr std::string_view ids_or_names =
    R"(,"items":{"type":["string","integer"],"minLength":1,"minimum":0,"maximum":4294967294})";
constexpr std::string_view names_of_programs = R"(,"items":{"type":"string"})";

void parse_program_version(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    std::string const* const version = expect_string(node, at, reading);
    if (!version) return;
    if (std::string fault = version_fault(*version); !fault.empty()) reading.problems.add(at, std::move(fault));
    program.version = *version;
}

bool is_variable_name(std::string_view name) { return !name.empty() && !name.contains('='); }

void parse_environment(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    auto const* const json = expect<json::Object>("an object", node, at, reading);
    if (!json) return;
    for (json::Member const& member : *json) {
        json::Where const variable_at{&at, std::string_view(member.key)};
        if (!is_variable_name(member.key))
            reading.problems.add(variable_at, "is no name of a variable: it is empty or has a =");
        if (++reading.argument_count > reading.limits.arguments) {
            std::string const limit = std::to_string(reading.limits.arguments);
            reading.problems.add(variable_at, "more than " + limit + " arguments in all");
            return;
        }
        program.environment.emplace_back(member.key, parse_argument(member.node, variable_at, reading));
    }
}

std::optional<std::string> read_variable_name(json::Node const& node, json::Where const& at, Reading& reading) {
    std::string const* const name = expect_string(node, at, reading);
    if (!name) return std::nullopt;
    if (is_variable_name(*name)) return *name;
    reading.problems.add(at, json::quoted(*name) + " is no name of a variable: it is empty or has a =");
    return std::nullopt;
}

void parse_environment_from(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    if (node.get<std::string>()) {
        auto const word = read_choice<EnvironmentFrom, environment_words>(node, at, reading);
        if (word) program.environment_from = *word;
    } else if (node.get<json::Array>()) {
        program.environment_from = EnvironmentFrom::listed;
        program.environment_names = *read_list<read_variable_name>(node, at, reading);
    } else {
        reading.problems.add(at, std::string("expected a string or an array, found ").append(node.kind()));
    }
}

/// Names of programs, each once. Whether they exist is seen when all programs are read.
std::optional<std::vector<std::string>> read_program_names(json::Node const& node, json::Where const& at,
                                                           Reading& reading) {
    auto const* const array = expect<json::Array>("an array", node, at, reading);
    if (!array) return std::nullopt;
    std::vector<std::string> names;
    std::unordered_set<std::string_view> known;
    for (std::size_t i = 0; i < array->size(); ++i) {
        json::Where const name_at{&at, i};
        std::string const* const name = expect_string((*array)[i], name_at, reading);
        if (!name) continue;
        if (known.insert(*name).second) {
            names.push_back(*name);
        } else {
            reading.problems.add(name_at, json::quoted(*name) + " is named twice");
        }
    }
    return names;
}

void parse_program_count(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.count = read_count(node, at, reading);
}

}  // namespace

template <>
std::span<Field<Program> const> fields_of() {
    using enum Need;
    static constexpr std::array<Field<Program>, 44> rows{{
        {"version", optional, "string", version_text,
         "The version that decides which binary is used, when there is no `command`. The default is that of the "
         "document.",
         parse_program_version},
        {"command", optional, "array", program_command,
         "The program and its first arguments. The program is a path, or a name without a slash that is looked for in "
         "`PATH`; the number of the process cannot be a part of it.",
         as_command<&Program::command>},
        {"arguments", optional, "array", program_arguments, "The arguments that follow.",
         into<&Program::arguments, read_arguments>},
        {"count", optional, "integer", count_range,
         "How many processes; for a schedule, how many at the same time. The default is 1.", parse_program_count},
        {"environment", optional, "object", argument_map,
         "Variables and their values, which are Arguments. They replace those that are inherited.", parse_environment},
        {"environmentFrom", optional, "string or array", words_or_names,
         "Which variables of the launcher a process inherits: `inherit` (all of them, the default), `clean` (none), or "
         "those named in a list.",
         parse_environment_from},
        {"workingDirectory", optional, "string", absolute_path, "Where a process starts, within `rootDirectory`.",
         as_path<&Program::working_directory>},
        {"rootDirectory", optional, "string", absolute_path, "What a process sees as `/`.",
         as_path<&Program::root_directory>},
        {"user", optional, "string or integer", id_or_name, "The user, by name or number.",
         as_id_or_name<&Program::user>},
        {"group", optional, "string or integer", id_or_name,
         "The group. The default is that of the user, when the user is a name.", as_id_or_name<&Program::group>},
        {"supplementaryGroups", optional, "array", ids_or_names,
         "Further groups. The default is those of the user in `/etc/group`, when the user is a name, else none.",
         into<&Program::supplementary_groups, read_list<read_id_or_name>>},
        {"umask", optional, "string", octal_text, "The file mode creation mask in octal digits: `0027`.",
         into<&Program::umask, read_octal_up_to<0777>>},
        {"oneShot", optional, "boolean", "", "It runs to its end, and exit code 0 is success. The default is false.",
         as_boolean<&Program::one_shot>},
        {"schedule", optional, "object", R"(,"$ref":"#/$defs/Schedule")",
         "It is started by the clock. A start that is due while `count` processes run is skipped and reported.",
         parse_schedule},
        {"restart", optional, "string", "",
         "When a process that has ended is started again. The default is always; with `oneShot` or `schedule` it is "
         "never.",
         into<&Program::restart, read_choice<RestartWhen, restart_choices>>, 0, 0, restart_choices},
        {"backoff", optional, "object", R"(,"$ref":"#/$defs/Backoff")",
         "How long to wait before starting again. What is absent is as the command line says.", parse_backoff},
        {"startLimit", optional, "object", R"(,"$ref":"#/$defs/StartLimit")", "When starting again is given up.",
         parse_start_limit},
        {"critical", optional, "boolean", "",
         "The container ends when a process ends and is not started again. The default is false.",
         as_boolean<&Program::critical>},
        {"stopSignal", optional, "string", signal_text,
         "The signal that ends a process. The default is that of the command line, else `TERM`.",
         as_signal<&Program::stop_signal>},
        {"stopTimeout", optional, "string", duration_text,
         "After that it is killed; 0s: at once. The default is that of the command line, else 10s.",
         as_duration<&Program::stop_timeout>},
        {"stopScope", optional, "string", "",
         "Who gets the signal: the process alone (the default), or all that it started too.",
         into<&Program::stop_scope, read_choice<StopScope, stop_scopes>>, 0, 0, stop_scopes},
        {"drainDelay", optional, "string", duration_text, "The time to wait before a stop begins. The default is 0s.",
         as_duration<&Program::drain_delay>},
        {"preStop", optional, "object", R"(,"$ref":"#/$defs/Hook")", "A command that runs before the signal is sent.",
         parse_pre_stop},
        {"onConfigurationChange", optional, "string", "",
         "What a changed entry means for a process that runs: nothing until its next start (the default), a restart, "
         "or `reloadSignal`.",
         into<&Program::on_change, read_choice<OnChange, change_choices>>, 0, 0, change_choices},
        {"reloadSignal", optional, "string", signal_text,
         "The signal with which a process is told of a change. The default is `HUP`.",
         as_signal<&Program::reload_signal>},
        {"onFailure", optional, "object", R"(,"$ref":"#/$defs/Hook")",
         "A command that runs when a process is given up, or has failed and is not started again.", parse_on_failure},
        {"after", optional, "array", names_of_programs,
         "Programs that are waited for: until each is ready, has succeeded, failed, or was stopped.",
         into<&Program::after, read_program_names>},
        {"requires", optional, "array", names_of_programs,
         "Programs that it cannot do without: it starts when each is ready or, run once, has succeeded.",
         into<&Program::requires_, read_program_names>},
        {"readiness", optional, "object", R"(,"$ref":"#/$defs/Readiness")",
         "How a process tells that it is ready. Absent: it is when it has started.", parse_readiness},
        {"startTimeout", optional, "string", duration_text,
         "A process that is not ready by then is killed and counts as failed. Absent: there is no limit.",
         as_duration_above_zero<&Program::start_timeout>},
        {"watchdog", optional, "string", duration_text,
         "A process that sends no `WATCHDOG=1` for that long gets `ABRT` and is restarted. It needs readiness of type "
         "notify.",
         as_duration_above_zero<&Program::watchdog>},
        {"health", optional, "object", R"(,"$ref":"#/$defs/Health")", "How it is seen whether a process is still well.",
         parse_health},
        {"limits", optional, "object", R"(,"$ref":"#/$defs/Limits")", "Limits of setrlimit(2).", parse_limits},
        {"nice", optional, "integer", R"(,"minimum":-20,"maximum":19)", "The nice value.",
         into<&Program::nice, read_integer<int, -20, 19>>},
        {"oomScoreAdj", optional, "integer", R"(,"minimum":-1000,"maximum":1000)",
         "The higher, the sooner it is killed when memory runs out.",
         into<&Program::oom_score_adj, read_integer<int, -1000, 1000>>},
        {"cpuAffinity", optional, "string", R"(,"pattern":"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$")",
         "The CPUs on which it may run: `0-3,6`.", parse_cpu_affinity},
        {"cgroup", optional, "object", R"(,"$ref":"#/$defs/Cgroup")",
         "What each process, with all that it starts, may use. It needs a delegated cgroup of version 2.",
         parse_cgroup},
        {"capabilities", optional, "object", R"(,"$ref":"#/$defs/Capabilities")",
         "Its capabilities (capabilities(7)), with or without `CAP_`.", parse_capabilities},
        {"noNewPrivileges", optional, "boolean", "",
         "No file that it executes gives it more rights (set-user-ID, file capabilities). `seccomp` and `landlock` "
         "imply it. The default is false.",
         as_boolean<&Program::no_new_privileges>},
        {"seccomp", optional, "object", R"(,"$ref":"#/$defs/Seccomp")", "Which system calls it may make.",
         parse_seccomp},
        {"landlock", optional, "object", R"(,"$ref":"#/$defs/Landlock")",
         "The only files that it may use (landlock(7)).", parse_landlock},
        {"parentDeathSignal", optional, "string", signal_text,
         "The signal that a process gets when the launcher dies. The default is that of the command line.",
         as_signal<&Program::parent_death_signal>},
        {"output", optional, "string or object",
         R"(,"anyOf":[{"enum":["inherit","null",null]},{"type":"object"}],"$ref":"#/$defs/Output")",
         "Where stdout and stderr go: `inherit` (the launcher's own, the default), `null` (nowhere), or through the "
         "launcher.",
         parse_output},
        {"sockets", optional, "array", R"(,"items":{"type":"object","$ref":"#/$defs/Socket"})",
         "Listening sockets and FIFOs that the launcher makes once and passes by the `LISTEN_FDS` protocol "
         "(sd_listen_fds(3)).",
         parse_sockets},
    }};
    return rows;
}

}  // namespace triton::config
