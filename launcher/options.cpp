#include "launcher/options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <span>
#include <string_view>

#include "base/read_file.h"
#include "base/signal_names.h"
#include "config/duration.h"
#include "config/nearest.h"
#include "launcher/version.h"
#include "launcher/wrap.h"

namespace triton::launcher {

namespace {

using Apply = std::function<Result<>(std::string const&)>;

/// One option: what reads its value, and what --help, the environment and the error messages call it.
///
/// A table and a loop instead of CLI11: that library costs 0.2 to 0.3 ms at each start and 1.0 MB of the binary, a
/// third of what a container's start may cost us and two fifths of our size limit. See ARCHITECTURE.md.
struct Flag {
    std::string_view name;   // without its dashes
    std::string_view alias;  // the shipped spelling; empty: none
    char short_name;         // 0: none
    std::string_view value;  // what --help calls it; empty: a switch, whose text is "true" or "false"
    std::string_view help;
    Apply apply;
};
using Flags = std::vector<Flag>;

std::string environment_name(Flag const& flag) {
    std::string name = "TRITON_LAUNCH_";
    for (char const c : flag.name)
        name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    return name;
}

// The values of flags, each from text to its type, once.

Apply into(std::string& target) {
    return [&target](std::string const& text) -> Result<> {
        if (text.empty()) return fail("must not be empty");
        target = text;
        return {};
    };
}

Apply into(Duration& target) {
    return [&target](std::string const& text) -> Result<> {
        auto const duration = config::parse_duration(text);
        if (!duration) return fail("\"" + text + "\" is not a duration (for example 500ms, 10s, 1m30s)");
        if (*duration > longest_duration) return fail("\"" + text + "\" is longer than a year");
        target = *duration;
        return {};
    };
}

Apply into(std::uint32_t& target, std::uint32_t lowest, std::uint32_t highest) {
    return [&target, lowest, highest](std::string const& text) -> Result<> {
        std::uint32_t number = 0;
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc{} || end != text.data() + text.size() || number < lowest || number > highest) {
            return fail("\"" + text + "\" is not a whole number from " + std::to_string(lowest) + " to " +
                        std::to_string(highest));
        }
        target = number;
        return {};
    };
}

Apply into(double& target, double lowest, double highest, char const* range) {
    return [&target, lowest, highest, range](std::string const& text) -> Result<> {
        double number = 0;
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        // written so that NaN is refused too
        bool const fits =
            error == std::errc{} && end == text.data() + text.size() && number >= lowest && number <= highest;
        if (!fits) return fail("\"" + text + "\" is not a number " + range);
        target = number;
        return {};
    };
}

/// `or_none`: "none" is accepted and becomes 0.
Apply into_signal(int& target, bool or_none = false) {
    return [&target, or_none](std::string const& text) -> Result<> {
        if (or_none && text == "none") {
            target = 0;
            return {};
        }
        int const signo = parse_signal(text.data(), text.data() + text.size());
        if (signo < 0) return fail("\"" + text + "\" is not a signal (for example TERM, 15, RTMIN+3)");
        target = signo;
        return {};
    };
}

template <class T>
struct Choice {
    std::string_view name;
    T value;
};

template <class T, std::size_t N>
Apply into_choice(T& target, std::array<Choice<T>, N> const& choices) {
    return [&target, choices](std::string const& text) -> Result<> {
        std::array<std::string_view, N> names;
        std::ranges::transform(choices, names.begin(), &Choice<T>::name);
        auto const row = std::ranges::find(choices, text, &Choice<T>::name);
        if (row != choices.end()) {
            target = row->value;
            return {};
        }
        std::string reason = "unknown value \"" + text + "\"";
        if (auto const meant = config::nearest(text, names)) {
            reason.append("; did you mean \"").append(*meant).append("\"?");
        } else {
            reason += " (known:";
            for (std::string_view const name : names)
                reason.append(" ").append(name);
            reason += ")";
        }
        return fail(std::move(reason));
    };
}

constexpr std::array<Choice<LogLevel>, 6> log_levels{{{"trace", LogLevel::trace},
                                                      {"debug", LogLevel::debug},
                                                      {"info", LogLevel::info},
                                                      {"warning", LogLevel::warning},
                                                      {"error", LogLevel::error},
                                                      {"off", LogLevel::off}}};
constexpr std::array<Choice<LogFormat>, 3> log_formats{
    {{"auto", LogFormat::automatic}, {"text", LogFormat::text}, {"json", LogFormat::json}}};
constexpr std::array<Choice<config::VersionMatch>, 2> version_matches{
    {{"exact", config::VersionMatch::exact}, {"protocol", config::VersionMatch::protocol}}};
constexpr std::array<Choice<bool>, 2> check_formats{{{"text", false}, {"json", true}}};
constexpr std::array<Choice<Shell>, 3> shells{{{"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}}};
// The design's name and the shipped one.
constexpr std::array<Choice<bool>, 2> modes{{{"launch", true}, {"launcher", true}}};

Apply into_switch(bool& target) {
    return [&target](std::string const& text) -> Result<> {
        constexpr std::array<Choice<bool>, 8> words{{{"true", true},
                                                     {"1", true},
                                                     {"yes", true},
                                                     {"on", true},
                                                     {"false", false},
                                                     {"0", false},
                                                     {"no", false},
                                                     {"off", false}}};
        return into_choice(target, words)(text);
    };
}

/// A:B, repeatable; in the environment several with blanks between.
Apply into_rewrite(std::array<std::uint8_t, 65>& rewrite) {
    for (std::size_t signo = 0; signo < rewrite.size(); ++signo)
        rewrite[signo] = static_cast<std::uint8_t>(signo);
    return [&rewrite](std::string const& text) -> Result<> {
        for (char const* at = text.data(); *at;) {
            char const* const end = std::find_if(at, text.data() + text.size(), [](char c) { return c == ' '; });
            int from = 0;
            int to = 0;
            if (end != at && !parse_rewrite(at, end, from, to)) {
                return fail("\"" + std::string(at, end) +
                            "\" is not SIGNAL:SIGNAL (for example 15:3; SIGNAL:0 drops it)");
            }
            rewrite[static_cast<std::size_t>(from)] = static_cast<std::uint8_t>(to);
            at = *end ? end + 1 : end;
        }
        return {};
    };
}

/// What launch mode and check share.
struct SourceFlags {
    std::string main_container_version;
    std::string version_file = "/var/fdb/version";
};

void add_source_flags(Flags& flags, SourceOptions& source, SourceFlags& version) {
    source.binary.own_path = "/usr/bin/fdbserver";
    source.binary.shared_directory = "/var/fdb/shared-binaries";
    Flag const rows[] = {
        {"main-container-version", "", 0, "VERSION", "version of this container's own binary",
         into(version.main_container_version)},
        {"version-file", "", 0, "FILE", "where that version stands otherwise (default: /var/fdb/version)",
         into(version.version_file)},
        {"version-match", "", 0, "RULE",
         "exact: the own binary only for its own version (default); protocol: for all that speak its protocol",
         into_choice(source.binary.match, version_matches)},
        {"fdbserver-path", "binary-path", 0, "FILE", "the container's own binary (default: /usr/bin/fdbserver)",
         into(source.binary.own_path)},
        {"shared-binary-dir", "", 0, "DIR",
         "other versions: DIR/bin/VERSION/NAME or DIR/VERSION/NAME (default: /var/fdb/shared-binaries)",
         into(source.binary.shared_directory)},
        {"additional-env-file", "", 0, "FILE", "name=value lines for substitution, before the environment",
         into(source.environment_file)},
        {"export-env-file", "", 0, "", "put those values into the processes' environment too",
         into_switch(source.export_environment_file)},
        {"server-count", "process-count", 0, "N", "how many processes, unless the configuration says (default: 1)",
         into(source.server_count, 0, 65535)},
    };
    flags.insert(flags.end(), std::begin(rows), std::end(rows));
}

void add_launch_flags(Flags& flags, LaunchOptions& options, std::string& directory, std::string& name, bool& mode) {
    RestartPolicy& restart = options.supervisor.restart;
    Flag const rows[] = {
        {"mode", "", 0, "MODE", "launch (default), or launcher", into_choice(mode, modes)},
        {"input-dir", "", 0, "DIR", "directory of the configuration (default: .)", into(directory)},
        {"input-monitor-conf", "", 0, "NAME", "the configuration's name in it (default: config.json)", into(name)},
        {"exit-on-bad-config", "", 0, "", "end with 1 when the first configuration is bad; do not wait for a good one",
         into_switch(options.exit_on_bad_configuration)},
        {"restart-delay", "", 0, "DURATION",
         "before the second restart after failures; the first is at once (default: 1s)", into(restart.delay)},
        {"restart-max-delay", "", 0, "DURATION", "the delay grows up to this (default: 60s)", into(restart.max_delay)},
        {"restart-factor", "", 0, "FACTOR", "by this factor (default: 2)",
         into(restart.factor, 1, 1000, "from 1 to 1000")},
        {"restart-jitter", "", 0, "SHARE", "and varies by this share up and down (default: 0.1)",
         into(restart.jitter, 0, 1, "from 0 to 1")},
        {"restart-reset-after", "", 0, "DURATION", "a run this long forgets earlier failures (default: 60s)",
         into(restart.reset_after)},
        {"restart-minimum-run", "", 0, "DURATION", "exit code 0 after a run this long is no failure (default: 1s)",
         into(restart.minimum_run)},
        {"stop-signal", "", 0, "SIGNAL", "what ends a process (default: TERM)",
         into_signal(options.supervisor.stop_signal)},
        {"stop-timeout", "", 0, "DURATION", "then SIGKILL, for each process (default: 10s)",
         into(options.supervisor.stop_timeout)},
        {"stop-limit", "", 0, "DURATION", "for the whole stop; then the launcher ends anyway (default: 30s)",
         into(options.supervisor.stop_limit)},
        {"rewrite", "", 'r', "A:B", "take signal A for signal B; B may be 0: drop it (may be repeated)",
         into_rewrite(options.rewrite)},
        {"kill-group", "", 'g', "", "stop signals and forwarded ones go to each process's group",
         into_switch(options.kill_group)},
        {"orphan-signal", "", 0, "SIGNAL",
         "what the processes get when the launcher dies and is not PID 1, or none (default: TERM)",
         into_signal(options.orphan_signal, true)},
        {"parent-death-signal", "", 'p', "SIGNAL", "what the launcher gets when its parent dies",
         into_signal(options.parent_death_signal)},
        {"log-level", "", 0, "LEVEL", "trace, debug, info (default), warning, error or off",
         into_choice(options.log.level, log_levels)},
        {"log-format", "", 0, "FORMAT", "text, json, or auto: text on a terminal (default: auto)",
         into_choice(options.log.format, log_formats)},
        {"log-path", "", 0, "FILE", "log to this file as well; opened again on SIGHUP and when it was renamed",
         into(options.log.path)},
    };
    flags.insert(flags.end(), std::begin(rows), std::end(rows));
}

void add_check_flags(Flags& flags, CheckOptions& options, std::uint32_t& process_number) {
    Flag const rows[] = {
        {"process-number", "", 0, "N", "only that process (default: all)", into(process_number, 1, 65535)},
        {"strict", "", 0, "", "also check what depends on this machine: the binary", into_switch(options.is_strict)},
        {"format", "", 0, "FORMAT", "text (default) or json", into_choice(options.as_json, check_formats)},
    };
    flags.insert(flags.end(), std::begin(rows), std::end(rows));
}

Result<> resolve_container_version(SourceOptions& source, SourceFlags const& flags) {
    source.binary.container_version = flags.main_container_version;
    if (!flags.main_container_version.empty()) return {};
    auto text = read_file(flags.version_file, 4096);
    if (!text) {
        return fail("--main-container-version is missing, and so is the version file: " + text.error().text);
    }
    auto const is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
    while (!text->empty() && is_blank(text->back()))
        text->pop_back();
    text->erase(text->begin(), std::ranges::find_if_not(*text, is_blank));
    if (text->empty())
        return fail("--main-container-version is missing, and the version file " + flags.version_file + " is empty");
    source.binary.container_version = *text;
    return {};
}

constexpr char const* examples = R"(Examples:
  triton-launch -- nginx -g 'daemon off;'       run one command as PID 1, as tini does
  triton-launch -g --rewrite 15:3 -- nginx      signals to its whole group, TERM as QUIT
  triton-launch --input-dir /var/dynamic-conf --main-container-version 7.3.63 --server-count 2
                                                run two processes from /var/dynamic-conf/config.json
  triton-launch check config.json --main-container-version 7.3.63
                                                print the exact commands, or everything that is wrong

Each option is also an environment variable: --server-count is TRITON_LAUNCH_SERVER_COUNT.
Signals to the launcher: TERM, INT, QUIT stop all in order, twice: at once; HUP opens the log again and reads the
configuration again; all others go to the processes. Manual: triton-launch(1), triton-launch-config(5).
)";

std::string help_row(char short_name, std::string_view name, std::string_view value, std::string_view help) {
    std::string row = "  ";
    if (short_name) row.append("-").append(1, short_name).append(", ");
    row.append("--").append(name);
    if (!value.empty()) row.append(" ").append(value);
    row.resize(std::max<std::size_t>(row.size() + 2, 36), ' ');
    return row.append(help).append("\n");
}

std::string help_rows(Flags const& flags) {
    std::string text;
    for (Flag const& flag : flags) {
        text += help_row(flag.short_name, flag.name, flag.value, flag.help);
        if (!flag.alias.empty()) text += help_row(0, flag.alias, flag.value, "the same");
    }
    return text;
}

std::string wrap_help() {
    std::string text;
    for (WrapOptionRow const& row : wrap_option_rows)
        text += help_row(row.short_name, row.long_name, row.value_name, row.help);
    return text;
}

constexpr std::string_view usage =
    "Usage: triton-launch [--mode launch] [OPTIONS]        processes from a ProcessConfiguration\n"
    "       triton-launch [OPTIONS] -- COMMAND [ARG...]    one command, as tini or dumb-init\n"
    "       triton-launch check FILE [OPTIONS]             what a configuration would run, or all that is wrong\n"
    "       triton-launch schema                           the JSON Schema of a configuration\n"
    "       triton-launch completion bash|zsh|fish         a completion script\n"
    "       triton-launch --help | --version\n\n";

constexpr std::array<std::string_view, 4> commands{"check", "schema", "completion", "help"};

std::string general_help(Flags const& launch_flags) {
    std::string text(usage);
    text.append("Options of launch mode:\n").append(help_rows(launch_flags));
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

std::string unknown_option(Flags const& flags, std::string const& given) {
    std::vector<std::string> names{"--help", "--version"};
    for (Flag const& flag : flags) {
        names.push_back("--" + std::string(flag.name));
        if (!flag.alias.empty()) names.push_back("--" + std::string(flag.alias));
    }
    std::vector<std::string_view> const views(names.begin(), names.end());
    std::string text = "unknown option " + given;
    if (auto const meant = config::nearest(given, views))
        return text.append("; did you mean ").append(*meant).append("?");
    return text + "; see triton-launch --help";
}

std::string unknown_command(std::string const& given) {
    std::string text = "unknown command \"" + given + "\"";
    if (auto const meant = config::nearest(given, commands))
        return text.append("; did you mean ").append(*meant).append("?");
    return text + "; to run a program: triton-launch -- " + given;
}

/// Adds the flag's name to what is wrong with its value.
Result<> apply(Flag const& flag, std::string const& name, std::string const& value) {
    Result<> result = flag.apply(value);
    if (!result) result.error().text = name + ": " + result.error().text;
    return result;
}

Result<> apply_environment(Flags const& flags) {
    for (Flag const& flag : flags) {
        std::string const name = environment_name(flag);
        char const* const value = std::getenv(name.c_str());
        // Set but empty means not set, as pod specs with optional values have it.
        if (value && *value) TRY(apply(flag, name, value));
    }
    return {};
}

Flag const* find_flag(Flags const& flags, std::string_view given) {
    for (Flag const& flag : flags) {
        bool const is_long = given.starts_with("--") &&
                             (given.substr(2) == flag.name || (!flag.alias.empty() && given.substr(2) == flag.alias));
        bool const is_short = given.size() == 2 && given[0] == '-' && flag.short_name && given[1] == flag.short_name;
        if (is_long || is_short) return &flag;
    }
    return nullptr;
}

/// The words of a command line: flags are applied, the others returned. --help and --version end the reading.
struct Words {
    std::vector<std::string> positional;
    bool wants_help = false;
    bool wants_version = false;
};

Result<Words> parse_words(Flags const& flags, std::span<char const* const> arguments) {
    Words words;
    TRY(apply_environment(flags));
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        std::string const argument = arguments[at];
        if (argument == "--help" || argument == "-h") words.wants_help = true;
        if (argument == "--version" || argument == "-V") words.wants_version = true;
        if (words.wants_help || words.wants_version) return words;
        if (argument.size() < 2 || argument[0] != '-') {
            words.positional.push_back(argument);
            continue;
        }
        std::size_t const equals = argument.starts_with("--") ? argument.find('=') : std::string::npos;
        std::string const name = argument.substr(0, equals);
        Flag const* const flag = find_flag(flags, name);
        if (!flag) return fail(unknown_option(flags, name));
        if (equals != std::string::npos) {
            TRY(apply(*flag, name, argument.substr(equals + 1)));
        } else if (flag->value.empty()) {
            TRY(apply(*flag, name, "true"));
        } else if (at + 1 < arguments.size()) {
            TRY(apply(*flag, name, arguments[++at]));
        } else {
            return fail(name + ": " + std::string(flag->value) + " is missing");
        }
    }
    return words;
}

Command print(std::string text) {
    Command command;
    command.kind = Command::Kind::print;
    command.text = std::move(text);
    return command;
}

Result<Command> parse_check(std::span<char const* const> arguments) {
    Command command;
    command.kind = Command::Kind::check;
    CheckOptions& check = command.check;
    SourceFlags version;
    std::uint32_t process_number = 0;
    Flags flags;
    add_check_flags(flags, check, process_number);
    add_source_flags(flags, check.source, version);
    Words const words = TRY(parse_words(flags, arguments));
    if (words.wants_help) return print(check_help(flags));
    if (words.wants_version) return print(version_line() + "\n");
    if (words.positional.empty()) return fail("check: FILE is missing; for example: triton-launch check config.json");
    if (words.positional.size() > 1) return fail("check: one FILE only, \"" + words.positional[1] + "\" is too many");
    check.configuration_path = words.positional[0];
    if (process_number > 0) check.process_number = process_number;
    // Away from its container a configuration is taken for the version that the container has.
    if (Result<> const resolved = resolve_container_version(check.source, version); !resolved && check.is_strict)
        return std::unexpected(resolved.error());
    return command;
}

Result<Command> parse_launch(std::span<char const* const> arguments) {
    Command command;
    LaunchOptions& launch = command.launch;
    std::string directory = ".";
    std::string name = "config.json";
    bool mode_is_launch = true;
    SourceFlags version;
    Flags flags;
    add_launch_flags(flags, launch, directory, name, mode_is_launch);
    add_source_flags(flags, launch.source, version);
    Words const words = TRY(parse_words(flags, arguments));
    if (words.wants_help) return print(general_help(flags));
    if (words.wants_version) return print(version_line() + "\n");
    if (!words.positional.empty()) return fail(unknown_command(words.positional[0]));
    launch.configuration_path = name[0] == '/' ? name : directory + "/" + name;
    TRY(resolve_container_version(launch.source, version));
    // The operator's way to ask for node labels.
    if (char const* const node_watch = std::getenv("ENABLE_NODE_WATCH");
        node_watch && std::string_view(node_watch) == "true") {
        launch.warnings.emplace_back("ENABLE_NODE_WATCH: this version does not read labels of the node");
    }
    return command;
}

Result<Command> parse_completion(std::span<char const* const> arguments) {
    Command command;
    command.kind = Command::Kind::completion;
    if (arguments.size() != 1)
        return fail("completion: one of bash, zsh, fish is missing; for example: triton-launch completion bash");
    Result<> const result = into_choice(command.shell, shells)(arguments[0]);
    if (!result) return fail("completion: " + result.error().text);
    return command;
}

}  // namespace

std::string version_line() { return std::string("triton-launch ") + version() + " (" + commit() + ")"; }

Result<Command> parse_command_line(int argc, char const* const* argv) {
    std::span<char const* const> arguments(argv, static_cast<std::size_t>(argc));
    if (!arguments.empty()) arguments = arguments.subspan(1);
    std::string_view const first = arguments.empty() ? std::string_view() : arguments[0];
    if (first == "check") return parse_check(arguments.subspan(1));
    if (first == "completion") return parse_completion(arguments.subspan(1));
    if (first == "schema") {
        if (arguments.size() > 1) return fail("schema takes no arguments");
        Command command;
        command.kind = Command::Kind::schema;
        return command;
    }
    if (first == "help") {
        constexpr std::array<char const*, 1> help{"--help"};
        bool const of_check = arguments.size() > 1 && std::string_view(arguments[1]) == "check";
        return of_check ? parse_check(help) : parse_launch(help);
    }
    return parse_launch(arguments);
}

}  // namespace triton::launcher
