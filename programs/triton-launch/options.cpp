#include "programs/triton-launch/options.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>

#include <unistd.h>  // environ

#include "config/limits.h"
#include "launcher/plan/configuration_source.h"
#include "launcher/plan/document.h"
#include "launcher/plan/version.h"
#include "launcher/upgrade/compiled_filters.h"
#include "launcher/upgrade/upgrade_state.h"
#include "launcher/wrap/wrap.h"
#include "lib/base/nearest.h"
#include "lib/base/read_file.h"
#include "programs/triton-launch/agent_flags.h"
#include "programs/triton-launch/launch_flags.h"
#include "programs/triton-launch/stage_flags.h"

namespace triton::program {

using namespace launcher;

namespace {

constexpr std::array<Choice<Shell>, 3> shells{{{"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}}};

constexpr char const* examples = R"(Examples:
  triton-launch -- nginx -g 'daemon off;'       run one command as PID 1, as tini does
  triton-launch -g --rewrite 15:3 -- nginx      signal its whole group, and send QUIT for TERM
  triton-launch --input-dir /var/dynamic-conf --main-container-version 7.3.63 --server-count 2
                                                run two processes from /var/dynamic-conf/config.json
  triton-launch check config.json --main-container-version 7.3.63
                                                print the exact commands, or everything that is wrong
  triton-launch --mode init --output-dir /shared --copy-binary fdbserver
                                                copy a program for another container, and exit
  triton-launch --mode sidecar --output-dir /shared --copy-binary fdbserver --listen :8080
                                                the same, and serve its state over HTTP: /check_hash/bin/...

Each option is also an environment variable: --server-count is TRITON_LAUNCH_SERVER_COUNT.
Signals to the launcher: TERM, INT and QUIT stop everything in order, a second one at once; HUP reopens the log and
reloads the configuration; all others go to the processes. Manual: triton-launch(1), triton-launch-config(5).
)";

std::string wrap_help() {
    std::string text;
    for (WrapOptionRow const& row : wrap_option_rows)
        text += help_row(row.short_name, row.long_name, row.value_name, row.help);
    return text;
}

constexpr std::string_view usage =
    "Usage: triton-launch [--mode launch] [OPTIONS]        run processes from a ProcessConfiguration\n"
    "       triton-launch --mode init|sidecar [OPTIONS]    copy files for other containers; sidecar then waits\n"
    "       triton-launch [OPTIONS] -- COMMAND [ARG...]    run one command, like tini or dumb-init\n"
    "       triton-launch --input-dir DIR -- COMMAND ..    run programs of DIR, then the command in the foreground\n"
    "       triton-launch ctl COMMAND [ARG...]             query or control a running launcher\n"
    "       triton-launch check FILE [OPTIONS]             print what a configuration would run, or all its errors\n"
    "       triton-launch schema [--markdown]              print the JSON Schema of a configuration, or its reference\n"
    "       triton-launch completion bash|zsh|fish         print a completion script\n"
    "       triton-launch --help | --version\n\n";

constexpr std::array<std::string_view, 5> commands{"check", "ctl", "schema", "completion", "help"};

/// The options of both kinds of modes, without reading any: for the help, and to tell where an option belongs.
class Tables {
public:
    Tables() {
        add_launch_flags(launch, unused_.launch, text_, text_, mode_);
        add_source_flags(launch, unused_.launch.source, version_);
        add_report_flags(launch, agent_);
        add_stage_flags(stage, unused_.stage, mode_);
        add_stage_control_flags(stage, unused_.launch);
        add_agent_flags(agent, agent_);
    }
    Tables(Tables const&) = delete;
    Tables& operator=(Tables const&) = delete;

    Flags launch;
    Flags stage;
    Flags agent;  // in both kinds

private:
    Command unused_;
    AgentFlags agent_;
    ContainerVersion version_;
    std::string text_;
    Mode mode_ = Mode::launch;
};

std::string general_help() {
    Tables const tables;
    std::string text(usage);
    text.append("Options of launch mode:\n").append(help_rows(tables.launch));
    text.append("\nOptions of the modes init and sidecar:\n").append(help_rows(tables.stage));
    text.append("\nOptions of the agent, in every mode:\n").append(help_rows(tables.agent));
    text.append("\nOptions before -- COMMAND:\n").append(wrap_help());
    return text.append("\n").append(examples);
}

std::string check_help(Flags const& check_flags) {
    return "Usage: triton-launch check FILE [OPTIONS]\n\n"
           "Prints the exact command line of each process, or everything that is wrong with FILE (- for standard "
           "input).\n"
           "Exit code: 0 good, 1 not good, 2 usage.\n\n" +
           help_rows(check_flags);
}

std::string unknown_command(std::string const& given) {
    if (std::ranges::find(commands, given) != commands.end())
        return "the command comes first: triton-launch " + given + " ...";
    std::string text = "unknown command \"" + given + "\"";
    if (auto const meant = nearest(given, commands)) return text.append("; did you mean ").append(*meant).append("?");
    return text + "; to run a program: triton-launch -- " + given;
}

Command printing(std::string text) {
    Command command;
    command.kind = Command::Kind::print;
    command.text = std::move(text);
    return command;
}

/// The names, without our prefix, of all variables that mean something in some mode: containers of a pod share them.
std::vector<std::string> known_variables() {
    Tables const tables;
    Command unused;
    std::uint32_t number = 0;
    Flags check_flags;
    add_check_flags(check_flags, unused.check, number);
    flags::Program const without_prefix{{}, {}, nullptr};
    std::vector<std::string> names;
    for (Flags const* const of :
         std::initializer_list<Flags const*>{&tables.launch, &tables.stage, &tables.agent, &check_flags})
        for (Flag const& flag : *of)
            names.push_back(flags::variable_name(without_prefix, flag.name));
    for (WrapOptionRow const& row : wrap_option_rows)
        names.push_back(flags::variable_name(without_prefix, row.long_name));
    std::size_t const prefix = this_program().variable_prefix.size();
    for (std::string_view const handed_over : {upgrade_variable, filters_variable})
        names.emplace_back(handed_over.substr(prefix));
    return names;
}

std::vector<std::string> remarks_on_ours() { return flags::remarks_on_variables(this_program(), known_variables); }

std::string_view in_launch_mode(std::string_view option) {
    return find_flag(Tables().launch, option) ? "launch mode" : "";
}

std::string_view in_stage_modes(std::string_view option) {
    return find_flag(Tables().stage, option) ? "--mode init and --mode sidecar" : "";
}

Result<Command> parse_check(std::span<char const* const> arguments) {
    Command command;
    command.kind = Command::Kind::check;
    CheckOptions& check = command.check;
    ContainerVersion version;
    std::uint32_t process_number = 0;
    Flags flags;
    check.source.agent_path = default_agent_path();
    add_check_flags(flags, check, process_number);
    add_source_flags(flags, check.source, version);
    Words const words = TRY(parse_words(flags, arguments));
    if (words.wants_help) return printing(check_help(flags));
    if (words.wants_version) return printing(version_line() + "\n");
    if (words.positional.empty()) return fail("check: FILE is missing; for example: triton-launch check config.json");
    if (words.positional.size() > 1) return fail("check: one FILE only, \"" + words.positional[1] + "\" is too many");
    check.configuration_path = words.positional[0];
    if (process_number > 0) check.process_number = process_number;
    check.remarks = remarks_on_ours();
    // Outside its container, a configuration is taken to be for the container's version, unless the check is strict.
    if (Result<> const resolved = resolve_container_version(check.source, version); !resolved)
        check.source.missing_version = resolved.error().text();
    return command;
}

/// Refuses TLS where nothing would be served by it: who asks for it must not believe that he has it. Environment
/// variables are ignored instead, and so are the names that fdb-kubernetes-monitor has, which always serves.
Result<> refuse_tls_flags(std::span<char const* const> arguments) {
    Flags flags;
    AgentFlags unused;
    add_agent_flags(flags, unused);
    std::string_view before;
    for (std::string_view const argument : arguments) {
        std::string_view const name = argument.substr(0, argument.find('='));
        bool const is_of_tls = name == "--tls" || name.starts_with("--tls-");
        if (is_of_tls && before != "--agent-option" && find_flag(flags, name))
            return fail(std::string(name) + ": needs --listen");
        before = argument;
    }
    return {};
}

Result<Command> parse_launch(std::span<char const* const> arguments) {
    Command command;
    LaunchOptions& launch = command.launch;
    auto const separator =
        std::ranges::find(arguments, std::string_view("--"), [](char const* word) { return std::string_view(word); });
    if (separator != arguments.end()) {
        launch.source.command.assign(separator + 1, arguments.end());
        arguments = arguments.first(static_cast<std::size_t>(separator - arguments.begin()));
        if (launch.source.command.empty()) return fail("--: a command must follow");
        launch.exit_on_bad_configuration = true;  // whoever started the command waits for it
    }
    std::string directory = ".";
    std::string name = "config.json";
    Mode mode = Mode::launch;
    ContainerVersion version;
    AgentFlags agent;
    Flags flags;
    add_launch_flags(flags, launch, directory, name, mode);
    add_source_flags(flags, launch.source, version);
    add_agent_flags(flags, agent);
    add_report_flags(flags, agent);
    Words const words = TRY(parse_words(flags, arguments, in_stage_modes));
    if (words.wants_help) return printing(general_help());
    if (words.wants_version) return printing(version_line() + "\n");
    if (!words.positional.empty()) return fail(unknown_command(words.positional[0]));
    if (agent.listen.empty() && agent.listen_address.empty()) TRY(refuse_tls_flags(arguments));
    launch.configuration_path = name[0] == '/' ? name : directory + "/" + name;
    launch.warnings = remarks_on_ours();
    if (Result<> resolved = resolve_container_version(launch.source, version); !resolved) {
        // To run commands one does not need to know what a version is. A later configuration may need one, and is then
        // rejected.
        launch.source.read_ahead =
            std::make_shared<ReadAhead>(read_ahead(read_document(launch.configuration_path).layers));
        if (needs_container_version(*launch.source.read_ahead)) return std::unexpected(std::move(resolved.error()));
        launch.source.missing_version = resolved.error().text();
    }
    TRY(resolve_agent(agent, version.file, launch));
    return command;
}

/// Refuses options of the agent where there is none. Environment variables are ignored instead, since several
/// containers often share them.
Result<> refuse_agent_flags(std::span<char const* const> arguments) {
    Tables tables;
    launcher::LaunchOptions unused;
    add_stage_control_flags(tables.agent, unused);
    for (std::string_view const argument : arguments) {
        std::string_view const name = argument.substr(0, argument.find('='));
        if (name.starts_with("--") && find_flag(tables.agent, name))
            return fail(std::string(name) + ": needs --listen");
    }
    return {};
}

Result<Command> parse_stage(std::span<char const* const> arguments, Mode mode) {
    Command command;
    command.kind = Command::Kind::stage;
    AgentFlags agent;
    Flags flags;
    add_stage_flags(flags, command.stage, mode);
    add_stage_control_flags(flags, command.launch);
    add_agent_flags(flags, agent);
    Words const words = TRY(parse_words(flags, arguments, in_launch_mode));
    if (words.wants_help) return printing(general_help());
    if (words.wants_version) return printing(version_line() + "\n");
    if (!words.positional.empty()) return fail(unknown_command(words.positional[0]));
    command.stage.options.mode = mode == Mode::init ? sidecar::StageMode::init : sidecar::StageMode::sidecar;
    if (agent.listen.empty()) {
        TRY(refuse_agent_flags(arguments));
        command.stage.warnings = remarks_on_ours();
        return command;
    }
    command.kind = Command::Kind::launch;
    command.launch.warnings = remarks_on_ours();
    command.stage.options.same_version = sidecar::SameVersion::skips_binaries;
    command.launch.log = command.stage.log;
    if (command.stage.options.as_json) command.launch.log.console = STDERR_FILENO;
    (void)into_rewrite(command.launch.rewrite);  // by default every signal is passed on unchanged
    TRY(resolve_stage_agent(agent, command.stage.options, arguments, command.launch));
    return command;
}

/// Finds the mode first, because each mode has a table of its own. That table refuses what does not belong to the mode.
Result<Command> parse_mode(std::span<char const* const> arguments) {
    Mode mode = Mode::launch;
    if (auto const given = peek("mode", arguments)) (void)mode_flag(mode).apply(*given);
    return mode == Mode::launch ? parse_launch(arguments) : parse_stage(arguments, mode);
}

/// The command line of our own child in the modes init and sidecar with a listener: it only stages. "stage-once" is one
/// round of one kind, reported as a summary.
Result<Command> parse_own_stage(std::span<char const* const> arguments, std::optional<std::string_view> kind) {
    Mode mode = Mode::launch;
    if (auto const given = peek("mode", arguments)) (void)mode_flag(mode).apply(*given);
    if (mode == Mode::launch) return fail("stage: these are not options of the modes init and sidecar");
    Command command = TRY(parse_stage(arguments, mode));
    command.kind = Command::Kind::stage;
    command.stage.warnings.clear();  // its parent has told them
    if (!kind) return command;
    sidecar::StageOptions& options = command.stage.options;
    options.is_once = true;
    command.stage.log.termination_path.clear();  // its failure does not end the container
    command.stage.repeats_summary = options.as_json;
    options.as_json = true;
    bool const is_all = *kind == "all";
    if (!is_all && *kind != "files") {
        options.files.clear();
        options.templates.clear();
        options.require_not_empty.clear();
    }
    if (!is_all && *kind != "binaries") options.binaries.clear();
    if (!is_all && *kind != "libraries") {
        options.libraries.clear();
        options.primary_library.clear();
    }
    if (!is_all && *kind != "monitor_conf") options.monitor_conf.clear();
    return command;
}

/// The question of the running launcher to another version before that takes over; it comes with the launcher's own
/// command line.
Result<Command> parse_upgrade_check(std::span<char const* const> arguments) {
    Command command = TRY(parse_mode(arguments));
    if (command.kind != Command::Kind::launch) return fail("upgrade-check: these are not options of launch mode");
    command.kind = Command::Kind::upgrade_check;
    return command;
}

Result<Command> parse_completion(std::span<char const* const> arguments) {
    Command command;
    command.kind = Command::Kind::completion;
    if (arguments.size() != 1)
        return fail("completion: one of bash, zsh, fish is missing; for example: triton-launch completion bash");
    auto const* const shell = std::ranges::find(shells, std::string_view(arguments[0]), &Choice<Shell>::name);
    if (shell == shells.end())
        return fail("completion: there is no script for \"" + std::string(arguments[0]) +
                    "\", only for bash, zsh and fish");
    command.shell = shell->value;
    return command;
}

/// Whether somebody has typed the bare name of the program to see what it does: at a terminal, where neither options,
/// nor variables, nor a file say what to run. In a pod with a terminal the launcher waits for its configuration.
bool is_left_alone() {
    if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1) return false;
    for (char const* const* entry = environ; *entry; ++entry) {
        std::string_view const text = *entry;
        if (text.starts_with("TRITON_LAUNCH_") || text.starts_with("KUBERNETES_SERVICE_HOST=")) return false;
    }
    return ::access("config.json", F_OK) != 0;
}

Result<Command> parse_help(std::span<char const* const> about) {
    constexpr std::array<char const*, 1> help{"--help"};
    if (about.empty()) return parse_launch(help);
    std::string const name = about[0];
    if (name == "check") return parse_check(help);
    if (name == "ctl") return fail("help: triton-launch ctl --help prints the commands of ctl");
    if (std::ranges::find(commands, name) != commands.end()) return parse_launch(help);
    return fail("help: there is no command \"" + name + "\"; triton-launch --help lists all");
}

}  // namespace

bool is_option_of_launch_mode(std::string_view option) {
    Tables const tables;
    return find_flag(tables.launch, option) || find_flag(tables.agent, option);
}

Result<Command> parse_command_line(int argc, char const* const* argv) {
    std::span<char const* const> arguments(argv, static_cast<std::size_t>(argc));
    if (!arguments.empty()) arguments = arguments.subspan(1);
    std::string_view const first = arguments.empty() ? std::string_view() : arguments[0];
    if (first == "check") return parse_check(arguments.subspan(1));
    if (first == "upgrade-check") return parse_upgrade_check(arguments.subspan(1));
    if (first == "stage") return parse_own_stage(arguments.subspan(1), std::nullopt);
    if (first == "stage-once" && arguments.size() > 1) return parse_own_stage(arguments.subspan(2), arguments[1]);
    if (first == "completion") return parse_completion(arguments.subspan(1));
    if (first == "schema") {
        bool const is_page = arguments.size() == 2 && std::string_view(arguments[1]) == "--markdown";
        if (arguments.size() > 1 && !is_page) return fail("schema takes no argument but --markdown");
        Command command;
        command.kind = is_page ? Command::Kind::reference : Command::Kind::schema;
        return command;
    }
    if (first == "help") {
        return parse_help(arguments.subspan(1));
    }
    if (arguments.empty() && is_left_alone()) {
        std::string text("there is nothing to run: no command, no options, and no ./config.json\n\n");
        text.append(usage.substr(0, usage.size() - 1));
        return fail(text.append("All options: triton-launch --help"));
    }
    return parse_mode(arguments);
}

}  // namespace triton::program
