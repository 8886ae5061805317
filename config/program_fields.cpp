#include <array>
#include <unordered_set>

#include "config/program_parser.h"

// The keys of a program, in the order of their problems. Keys that are objects have files of their own.

namespace triton::config {

namespace {

constexpr std::array<std::string_view, 2> environment_words{"inherit", "clean"};  // in the order of EnvironmentFrom

constexpr std::array<std::string_view, 2> stdin_words{"null", "inherit"};  // in the order of StdinKind

constexpr std::string_view variable_name_pattern = R"(^[^=\u0000]+$)";
constexpr json::Shape environment_shape{
    .types = "object", .elements = &a_program_argument, .names = variable_name_pattern};
constexpr json::Shape variable_name{.types = "string", .pattern = variable_name_pattern};
constexpr json::Shape environment_from_shape{
    .types = "string or array", .words = environment_words, .elements = &variable_name};
constexpr json::Shape program_name{.types = "string"};
constexpr json::Shape group_names{.types = "array", .elements = &name_shape};
constexpr json::Shape end_shape{.types = "integer or string"};
constexpr json::Shape ends_shape{.types = "array", .elements = &end_shape};
constexpr json::Shape program_names{.types = "array", .elements = &program_name};
constexpr json::Shape schedule_shape = json::object_shape("Schedule");
constexpr json::Shape backoff_shape = json::object_shape("Backoff");
constexpr json::Shape start_limit_shape = json::object_shape("StartLimit");
constexpr json::Shape stop_step_shape = json::object_shape("StopStep");
constexpr json::Shape stop_sequence_shape{.types = "array", .fewest = 1, .elements = &stop_step_shape};
constexpr json::Shape hook_shape = json::object_shape("Hook");
constexpr json::Shape readiness_shape = json::object_shape("Readiness");
constexpr json::Shape health_check_shape = json::object_shape("Health");
constexpr json::Shape health_shape{
    .types = "object or array",
    .elements = &health_check_shape,
    .section = "Health",
    .further =
        R"("anyOf":[{"type":"object","$ref":"#/$defs/Health"},{"type":"array","minItems":1,"maxItems":8},{"type":"null"}])"};
constexpr json::Shape files_shape = json::object_shape("Files");
constexpr json::Shape limits_shape = json::object_shape("Limits");
constexpr json::Shape cgroup_shape = json::object_shape("Cgroup");
constexpr json::Shape capabilities_shape = json::object_shape("Capabilities");
constexpr json::Shape seccomp_shape = json::object_shape("Seccomp");
constexpr json::Shape landlock_shape = json::object_shape("Landlock");
constexpr json::Shape cpu_list_shape{.types = "string", .pattern = "^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"};
constexpr json::Shape environment_file_shape{
    .types = "string or object",
    .section = "EnvironmentFile",
    .further = R"("anyOf":[{"$ref":"#/$defs/ProgramArgument"},{"$ref":"#/$defs/EnvironmentFile"}])"};
constexpr json::Shape environment_files_shape{.types = "string or array or object",
                                              .elements = &environment_file_shape};
constexpr json::Shape working_directory_shape{
    .types = "string or object", .pattern = "^/", .section = "Argument", .further = argument_or_null};
constexpr json::Shape stdin_shape{.types = "string or object", .words = stdin_words, .definition = "Stdin"};
constexpr json::Shape tty_shape{.types = "boolean or object", .definition = "Tty"};
constexpr json::Shape output_shape{.types = "string or object", .words = output_words, .definition = "Output"};
constexpr json::Shape socket_shape = json::object_shape("Socket");
constexpr json::Shape sockets_shape{.types = "array", .elements = &socket_shape};

void parse_program_version(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    std::string const* const version = expect_string(node, at, reading);
    if (!version) return;
    if (std::string fault = version_fault(*version); !fault.empty()) reading.problems.add(at, std::move(fault));
    program.version = *version;
}

bool is_key_of_environment(std::string_view name) { return !name.empty() && !name.contains('='); }

void parse_environment(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    auto const* const json = expect<json::Object>(R"(an object, for example {"NAME": "value"})", node, at, reading);
    if (!json) return;
    for (json::Member const& member : *json) {
        json::Where const variable_at{&at, std::string_view(member.key)};
        if (!is_key_of_environment(member.key))
            reading.problems.add(variable_at, "is not the name of a variable: it is empty or has a =");
        if (++reading.argument_count > reading.limits.arguments) {
            std::string const limit = std::to_string(reading.limits.arguments);
            reading.problems.add(variable_at, "more than " + limit + " arguments in all");
            return;
        }
        program.environment.emplace_back(member.key, parse_argument(member.node, variable_at, reading));
    }
}

std::optional<std::string> read_variable_name(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const name = expect_string(node, at, reading);
    if (!name) return std::nullopt;
    if (is_key_of_environment(*name)) return *name;
    reading.problems.add(at, json::quoted(*name) + " is not the name of a variable: it is empty or has a =");
    return std::nullopt;
}

using VariableName = json::Kind<read_variable_name, variable_name>;

void parse_environment_from(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    if (node.get<std::string>()) {
        auto const word = json::Choice<EnvironmentFrom, environment_words>::read(node, at, reading);
        if (word) program.environment_from = *word;
    } else if (node.get<json::Array>()) {
        program.environment_from = EnvironmentFrom::listed;
        program.environment_names = *json::List<VariableName>::read(node, at, reading);
    } else {
        reading.problems.add(at, std::string("expected a string or an array, found ").append(node.kind()));
    }
}

void parse_environment_file_path(json::Node const& node, json::Where const& at, EnvironmentSource& source,
                                 Reading& reading) {
    if (auto path = read_argument(node, at, reading)) source.path = std::move(*path);
}

void parse_working_directory(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    if (node.get<std::string>()) {
        program.working_directory = json::Path::read(node, at, reading);
    } else if (node.get<json::Object>()) {
        program.working_directory_argument = read_argument(node, at, reading);
    } else {
        reading.problems.add(at, std::string("expected a string or an object, found ").append(node.kind()));
    }
}

std::optional<EnvironmentSource> read_environment_file(json::Node const& node, json::Where const& at,
                                                       Reading& reading) {
    auto const* const members = node.get<json::Object>();
    bool const has_path = members && std::ranges::find(*members, "path", &json::Member::key) != members->end();
    if (has_path) return read_object<EnvironmentSource>(node, at, reading);
    auto path = read_argument(node, at, reading);
    if (!path) return std::nullopt;
    return EnvironmentSource{.path = std::move(*path)};
}

/// A list of names, each of them once. Whether such programs exist is checked when all are read; names of groups are
/// checked here.
template <bool is_of_groups>
std::optional<std::vector<std::string>> read_names(json::Node const& node, json::Where const& at,
                                                   json::Reading& reading) {
    auto const* const array = json::expect_array(node, at, reading);
    if (!array) return std::nullopt;
    std::vector<std::string> names;
    std::unordered_set<std::string_view> known;
    for (std::size_t i = 0; i < array->size(); ++i) {
        json::Where const name_at{&at, i};
        std::string const* const name = expect_string((*array)[i], name_at, reading);
        if (!name) continue;
        if (is_of_groups && !is_name(*name)) {
            reading.problems.add(name_at, std::string(name_rule));
        } else if (known.insert(*name).second) {
            names.push_back(*name);
        } else {
            reading.problems.add(name_at, json::quoted(*name) + " is named twice");
        }
    }
    return names;
}

using ProgramNames = json::Kind<read_names<false>, program_names>;
using GroupNames = json::Kind<read_names<true>, group_names>;

}  // namespace

void parse_environment_files(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    constexpr std::size_t most_files = 16;
    auto const* const array = node.get<json::Array>();
    if (!array) {
        if (auto file = read_environment_file(node, at, reading)) program.environment_files.push_back(std::move(*file));
        return;
    }
    if (array->size() > most_files)
        return reading.problems.add(at, "more than " + std::to_string(most_files) + " files");
    for (std::size_t i = 0; i < array->size(); ++i) {
        if (auto file = read_environment_file((*array)[i], json::Where{&at, i}, reading))
            program.environment_files.push_back(std::move(*file));
    }
}

std::span<Field<EnvironmentSource> const> table(TableOf<EnvironmentSource>) {
    using enum json::Need;
    static constexpr auto rows = std::to_array<Field<EnvironmentSource>>({
        {.name = "path",
         .need = required,
         .value = {&a_program_argument, parse_environment_file_path},
         .description = "The file, an absolute path."},
        {.name = "optional",
         .value = as<&EnvironmentSource::is_optional, json::Boolean>,
         .description = "Whether it may be missing. The default is false."},
    });
    return rows;
}

std::span<Field<Stdin> const> table(TableOf<Stdin>) {
    using enum json::Need;
    static constexpr auto rows = std::to_array<Field<Stdin>>({
        {.name = "file",
         .need = required,
         .value = {&file_shape, parse_file<Stdin>},
         .description =
             "The file that a process reads from its beginning: a path or an Argument, which may depend on the number. "
             "It is opened at each start, with the launcher's rights."},
    });
    return rows;
}

void parse_stdin(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    if (node.get<std::string>()) {
        if (auto const word = json::Choice<StdinKind, stdin_words>::read(node, at, reading))
            program.stdin_.kind = *word;
        return;
    }
    if (!node.get<json::Object>()) {
        reading.problems.add(at, std::string("expected a string or an object, found ").append(node.kind()));
        return;
    }
    auto file = read_object<Stdin>(node, at, reading);
    if (!file) return;
    program.stdin_ = std::move(*file);
    program.stdin_.kind = StdinKind::file;
}

std::span<Field<Tty> const> table(TableOf<Tty>) {
    static constexpr auto rows = std::to_array<Field<Tty>>({
        {.name = "rows",
         .value = as<&Tty::rows, json::Integer<std::uint16_t, 1, 65535>>,
         .description = "Its height until somebody attaches. The default is 24."},
        {.name = "columns",
         .value = as<&Tty::columns, json::Integer<std::uint16_t, 1, 65535>>,
         .description = "Its width until somebody attaches. The default is 80."},
    });
    return rows;
}

void parse_tty(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    if (auto const* const flag = node.get<bool>()) {
        if (*flag) program.tty.emplace();
    } else if (node.get<json::Object>()) {
        program.tty = read_object<Tty>(node, at, reading);
    } else {
        reading.problems.add(at, std::string("expected a boolean or an object, found ").append(node.kind()));
    }
}

std::string advice(TableOf<Program>, std::string_view key) {
    struct Foreign {
        std::string_view key;
        std::string_view ours;
    };
    // Of docker-compose, systemd, supervisord, pm2 and Kubernetes, as far as no similar name leads there.
    static constexpr auto names = std::to_array<Foreign>({
        {"args", "arguments"},           {"autostart", "autoStart"},
        {"autorestart", "restart"},      {"cmd", "command"},
        {"cwd", "workingDirectory"},     {"depends_on", "requires"},
        {"dependsOn", "requires"},       {"directory", "workingDirectory"},
        {"entrypoint", "command"},       {"env", "environment"},
        {"env_file", "environmentFile"}, {"exec", "command"},
        {"healthcheck", "health"},       {"instances", "count"},
        {"listen", "sockets"},           {"livenessProbe", "health"},
        {"mem_limit", "cgroup"},         {"memory", "cgroup"},
        {"numprocs", "count"},           {"readinessProbe", "readiness"},
        {"replicas", "count"},           {"stop_grace_period", "stopTimeout"},
        {"stopwaitsecs", "stopTimeout"}, {"working_dir", "workingDirectory"},
        {"workdir", "workingDirectory"},
    });
    auto const* const found = std::ranges::find(names, key, &Foreign::key);
    return found == names.end() ? "" : "; did you mean " + json::quoted(found->ours) + "?";
}

std::span<Field<Program> const> table(TableOf<Program>) {
    static constexpr auto rows = std::to_array<Field<Program>>({
        {.name = "version",
         .value = {&version_shape, parse_program_version},
         .description = "The version that decides which binary is used if there is no `command`. The default is that "
                        "of the document."},
        {.name = "command",
         .value = as<&Program::command, Command>,
         .description = "The program and its first arguments. The program is a path, or a name without a slash that is "
                        "looked up in `PATH`; it cannot depend on the number of the process."},
        {.name = "arguments", .value = as<&Program::arguments, Arguments>, .description = "The arguments that follow."},
        {.name = "count",
         .value = as<&Program::count, Count>,
         .description = "How many processes; for a schedule, how many at the same time. The default is 1."},
        {.name = "groups",
         .value = as<&Program::groups, GroupNames>,
         .description = "Names under which `ctl` reaches several programs at once: `ctl restart @web`."},
        {.name = "environment",
         .value = {&environment_shape, parse_environment},
         .description = "Variables and their values, which are Arguments. They replace inherited ones."},
        {.name = "environmentFrom",
         .value = {&environment_from_shape, parse_environment_from},
         .description = "Which variables of the launcher a process inherits: `inherit` (all of them, the default), "
                        "`clean` (none), or "
                        "those named in a list."},
        {.name = "environmentFile",
         .value = {&environment_files_shape, parse_environment_files},
         .description =
             "Files of `NAME=value` lines, one or several, of which later ones win. `environment` overrides "
             "them, and they override inherited variables. They are read with the configuration, and a "
             "change of one counts as a change of the configuration. Their paths may depend on the number of the "
             "process."},
        {.name = "workingDirectory",
         .value = {&working_directory_shape, parse_working_directory},
         .description =
             "The directory in which a process starts, within `rootDirectory`: an absolute path. It may depend on the "
             "number of the process."},
        {.name = "rootDirectory",
         .value = as<&Program::root_directory, json::Path>,
         .description = "What a process sees as `/`."},
        {.name = "user", .value = as<&Program::user, NameOrId>, .description = "The user, by name or number."},
        {.name = "group",
         .value = as<&Program::group, NameOrId>,
         .description = "The group. The default is that of the user, if the user is in `/etc/passwd`."},
        {.name = "supplementaryGroups",
         .value = as<&Program::supplementary_groups, json::List<NameOrId>>,
         .description =
             "Further groups. The default is those of the user in `/etc/group` if the user is a name, otherwise none."},
        {.name = "umask",
         .value = as<&Program::umask, json::Octal<0777>>,
         .description = "The file mode creation mask in octal digits: `0027`."},
        {.name = "oneShot",
         .value = as<&Program::one_shot, json::Boolean>,
         .description = "The program runs once to its end, and exit code 0 is success. The default is false."},
        {.name = "schedule",
         .value = {&schedule_shape, parse_schedule},
         .description = "The program is started by the clock. A start that is due while `count` processes run is "
                        "skipped and reported."},
        {.name = "autoStart",
         .value = as<&Program::auto_start, json::Boolean>,
         .description = "Whether the program is started when the configuration introduces it. If not, it is held until "
                        "`ctl start`; meanwhile it neither delays the container's readiness nor keeps the container "
                        "running. The default is true."},
        {.name = "restart",
         .value = as<&Program::restart, json::Choice<RestartWhen, restart_names>>,
         .description =
             "When an ended process is restarted. The default is always; with `oneShot` or `schedule` it is never."},
        {.name = "backoff",
         .value = {&backoff_shape, parse_backoff},
         .description = "How long to wait before a restart. The defaults are those of the command line."},
        {.name = "startLimit",
         .value = {&start_limit_shape, parse_start_limit},
         .description = "When restarts are given up."},
        {.name = "critical",
         .value = as<&Program::critical, json::Boolean>,
         .description = "The container ends when a process ends and is not restarted. The default is false."},
        {.name = "successCodes",
         .value = {&ends_shape, parse_success_codes},
         .description = "Exit codes (1 to 255) and signals (`\"TERM\"`) that count as success besides exit code 0: "
                        "`[143]` for Java."},
        {.name = "permanentFailureCodes",
         .value = {&ends_shape, parse_permanent_codes},
         .description = "Exit codes and signals after which a process is not restarted, whatever `restart` says."},
        {.name = "timeout",
         .value = as<&Program::run_timeout, json::DurationAboveZero>,
         .description =
             "With `oneShot` or `schedule`: a run that takes longer is stopped, and has failed. Absent: no limit."},
        {.name = "stopSignal",
         .value = as<&Program::stop_signal, Signal>,
         .description = "The signal that ends a process. The default is that of the command line, otherwise `TERM`."},
        {.name = "stopTimeout",
         .value = as<&Program::stop_timeout, json::DurationText>,
         .description = "The process is killed after this time; 0s: at once. The default is that of the command line, "
                        "otherwise 10s."},
        {.name = "stopSequence",
         .value = {&stop_sequence_shape, parse_stop_sequence},
         .description =
             "Several signals instead of `stopSignal` and `stopTimeout`, each with its own time: `[{\"signal\": "
             "\"TERM\", \"wait\": \"5s\"}, {\"signal\": \"INT\", \"wait\": \"2s\"}]`. KILL follows the last."},
        {.name = "stopScope",
         .value = as<&Program::stop_scope, json::Choice<StopScope, stop_scope_names>>,
         .description =
             "Who gets the signal and has until `stopTimeout`: only the `process` (the default), whose other "
             "processes are killed when it ends, or the whole `tree` of everything that it started."},
        {.name = "drainDelay",
         .value = as<&Program::drain_delay, json::DurationText>,
         .description = "The time to wait before a stop begins. The default is 0s."},
        {.name = "preStop",
         .value = {&hook_shape, parse_pre_stop},
         .description = "A command that runs before the signal is sent."},
        {.name = "onConfigurationChange",
         .value = as<&Program::on_change, json::Choice<OnChange, on_change_names>>,
         .description = "What a changed entry means for a running process: nothing until its next start (the default), "
                        "a restart, or `reloadSignal`."},
        {.name = "reloadSignal",
         .value = as<&Program::reload_signal, Signal>,
         .description = "The signal that tells a process of a change. The default is `HUP`."},
        {.name = "files",
         .value = {&files_shape, parse_files},
         .description =
             "Files whose change restarts or signals the running processes: certificates, data, the program itself."},
        {.name = "order",
         .value = as<&Program::order, json::Choice<StartOrder, start_order_names>>,
         .description = "How the processes of a program start: `parallel` (the default), or `sequential`: each when "
                        "all with lower numbers are ready, have ended for good, or are held."},
        {.name = "maxUnavailable",
         .value = as<&Program::max_unavailable, json::Integer<std::uint32_t, 1, highest_count>>,
         .description =
             "A restart of all processes (by `ctl restart`, a changed configuration or changed files) takes at most "
             "this many out of service, and continues with the next when one is ready again. Absent: all at once."},
        {.name = "onFailure",
         .value = {&hook_shape, parse_on_failure},
         .description = "A command that runs when a process is given up, or has failed and is not restarted."},
        {.name = "onSuccess",
         .value = {&hook_shape, parse_on_success},
         .description = "A command that runs when a process has ended well and is not restarted, or a scheduled run "
                        "has succeeded."},
        {.name = "onStop",
         .value = {&hook_shape, parse_on_stop},
         .description =
             "With `oneShot`: a command that undoes a successful run when the program is stopped or removed, or when "
             "the container ends; after everything has stopped that depends on it and stops as well."},
        {.name = "after",
         .value = as<&Program::after, ProgramNames>,
         .description = "Programs to wait for until each is ready, has succeeded, has failed, or was stopped."},
        {.name = "requires",
         .value = as<&Program::requires_, ProgramNames>,
         .description =
             "Programs that this one depends on: it starts when each is ready or, if it is a one-shot, has succeeded."},
        {.name = "bindsTo",
         .value = as<&Program::binds_to, ProgramNames>,
         .description = "Programs that this one requires and stops with: it does not run while one of them is not "
                        "ready, and starts again when all are."},
        {.name = "before",
         .value = as<&Program::before, ProgramNames>,
         .description = "Programs that wait for this one as if their `after` named it."},
        {.name = "readiness",
         .value = {&readiness_shape, parse_readiness},
         .description = "How it is determined that a process is ready. Absent: it is ready once started."},
        {.name = "pidFile",
         .value = as<&Program::pid_file, json::Kind<read_argument, file_shape>>,
         .description = "The program forks into the background: its first process ends with exit code 0, and the first "
                        "line of this file, an absolute path within `rootDirectory`, is the pid of the process that "
                        "continues."},
        {.name = "startTimeout",
         .value = as<&Program::start_timeout, json::DurationAboveZero>,
         .description = "A process that is not ready by then is killed and counts as failed. Absent: no limit, and 90s "
                        "with `pidFile`."},
        {.name = "watchdog",
         .value = as<&Program::watchdog, json::DurationAboveZero>,
         .description = "A process that sends no `WATCHDOG=1` for this long gets `ABRT` and is restarted. It needs "
                        "readiness of type notify."},
        {.name = "health",
         .value = {&health_shape, parse_health},
         .description = "How it is checked whether a process is still healthy: one check, or a list of up to 8, each "
                        "with a `name`."},
        {.name = "limits", .value = {&limits_shape, parse_limits}, .description = "Limits of setrlimit(2)."},
        {.name = "nice", .value = as<&Program::nice, json::Integer<int, -20, 19>>, .description = "The nice value."},
        {.name = "oomScoreAdj",
         .value = as<&Program::oom_score_adj, json::Integer<int, -1000, 1000>>,
         .description = "The higher the value, the sooner the process is killed when memory runs out."},
        {.name = "cpuAffinity",
         .value = {&cpu_list_shape, parse_cpu_affinity},
         .description = "The CPUs on which it may run: `0-3,6`."},
        {.name = "cgroup",
         .value = {&cgroup_shape, parse_cgroup},
         .description = "What each process, together with everything that it starts, may use. It needs a delegated "
                        "cgroup of version 2."},
        {.name = "capabilities",
         .value = {&capabilities_shape, parse_capabilities},
         .description = "The capabilities of a process (capabilities(7)), with or without `CAP_`."},
        {.name = "noNewPrivileges",
         .value = as<&Program::no_new_privileges, json::Boolean>,
         .description = "No file that a process executes gives it more rights (set-user-ID, file capabilities). "
                        "`seccomp` and `landlock` imply it. The default is false."},
        {.name = "seccomp",
         .value = {&seccomp_shape, parse_seccomp},
         .description = "The system calls that a process may make."},
        {.name = "landlock",
         .value = {&landlock_shape, parse_landlock},
         .description = "The only files that a process may use (landlock(7))."},
        {.name = "parentDeathSignal",
         .value = as<&Program::parent_death_signal, Signal>,
         .description =
             "The signal that a process gets when the launcher dies. The default is that of the command line."},
        {.name = "stdin",
         .value = {&stdin_shape, parse_stdin},
         .description = "The standard input: `null` (nothing, the default), `inherit` (the launcher's own, and the "
                        "foreground if that is a terminal; for one program with one process), or a file."},
        {.name = "tty",
         .value = {&tty_shape, parse_tty},
         .description = "A terminal of its own for each process, as its standard input, output and error and as its "
                        "controlling terminal: `true`, or an object with its first size. `triton-launch ctl attach` "
                        "connects a person to it. The default is false."},
        {.name = "output",
         .value = {&output_shape, parse_output},
         .description = "Where stdout and stderr go: `inherit` (the launcher's own, the default), `null` (nowhere), or "
                        "through the "
                        "launcher."},
        {.name = "sockets",
         .value = {&sockets_shape, parse_sockets},
         .description = "Listening sockets and FIFOs that the launcher opens once and passes by the `LISTEN_FDS` "
                        "protocol (sd_listen_fds(3))."},
    });
    return rows;
}

}  // namespace triton::config
