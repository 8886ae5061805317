#include "launcher/control/ctl_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string_view>
#include <utility>

#include "launcher/control/ctl_attach.h"
#include "launcher/control/ctl_text.h"
#include "lib/base/duration.h"
#include "lib/base/nearest.h"
#include "lib/base/signal_names.h"
#include "lib/json/text.h"

namespace triton::launcher {

namespace {

struct OptionRow {
    std::string_view name;
    char letter;             // 0: none
    std::string_view value;  // empty: a switch
    std::string_view help;
    Result<> (*apply)(CtlOptions& options, std::string const& text);
};

constexpr Duration shortest_interval = milliseconds(100);  // ctl top: one picture costs a call or two

Result<> set_duration(Duration& target, std::string const& text) {
    auto const duration = parse_duration(text);
    if (!duration || *duration > std::chrono::hours(24 * 366))
        return fail(json::quoted(text) + " is not a duration (for example 500ms, 10s, 1m30s)");
    target = *duration;
    return {};
}

Result<> set_condition(CtlOptions& options, std::string const& text) {
    static constexpr std::array<std::string_view, 4> known{"ready", "up", "down", "done"};
    if (std::ranges::find(known, text) == known.end())
        return fail(json::quoted(text) + " is not one of ready, up, down, done");
    options.condition = text;
    return {};
}

Result<> set_kind(CtlOptions& options, std::string_view text) {
    static constexpr std::array<std::string_view, 4> known{"files", "binaries", "libraries", "monitor-conf"};
    if (std::ranges::find(known, text) == known.end())
        return fail(json::quoted(text) + " is not one of files, binaries, libraries, monitor-conf");
    options.what = text;
    std::ranges::replace(options.what, '-', '_');  // no name of the interface may contain one
    return {};
}

Result<> set_lines(CtlOptions& options, std::string const& text) {
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), options.lines);
    if (error != std::errc{} || end != text.data() + text.size() || options.lines > 10'000)
        return fail(json::quoted(text) + " is not a whole number from 0 to 10000");
    return {};
}

constexpr std::array<OptionRow, 15> option_rows{{
    {"socket", 0, "PATH", "the launcher's control socket [$TRITON_LAUNCH_CONTROL_SOCKET, /run/triton-launch/control]",
     [](CtlOptions& options, std::string const& text) -> Result<> {
         options.socket = text;
         return {};
     }},
    {"json", 0, "", "print answers as JSON, for programs",
     [](CtlOptions& options, std::string const&) -> Result<> {
         options.is_json = true;
         return {};
     }},
    {"all", 0, "", "status, top: include the launcher's own programs",
     [](CtlOptions& options, std::string const&) -> Result<> {
         options.shows_all = true;
         return {};
     }},
    {"no-wait", 0, "", "start, stop, restart: do not wait until it is done",
     [](CtlOptions& options, std::string const&) -> Result<> {
         options.waits = false;
         return {};
     }},
    {"no-deps", 0, "", "start, restart: do not start required programs; fail if one does not run",
     [](CtlOptions& options, std::string const&) -> Result<> {
         options.starts_required = false;
         return {};
     }},
    {"force", 0, "", "stop: leave programs running that require it",
     [](CtlOptions& options, std::string const&) -> Result<> {
         options.is_forced = true;
         return {};
     }},
    {"with-dependents", 0, "", "stop: first stop programs that require it",
     [](CtlOptions& options, std::string const&) -> Result<> {
         options.stops_dependents = true;
         return {};
     }},
    {"timeout", 0, "DURATION", "limit for waiting; the exit code is then 4 [10s where the launcher answers at once]",
     [](CtlOptions& options, std::string const& text) -> Result<> {
         return set_duration(options.timeout.emplace(), text);
     }},
    {"for", 0, "STATE", "wait: the state: ready (default), up, down or done", set_condition},
    {"follow", 'f', "", "logs: continue with what is written from now on; attach: stay for the next process",
     [](CtlOptions& options, std::string const&) -> Result<> {
         options.follows = true;
         return {};
     }},
    {"lines", 'n', "LINES", "logs, attach: the number of last lines [10]", set_lines},
    {"detach-keys", 0, "KEYS", "attach: keys that leave the program running [ctrl-p,ctrl-q]",
     [](CtlOptions& options, std::string const& text) -> Result<> {
         options.detach_keys = TRY(parse_keys(text));
         return {};
     }},
    {"read-only", 0, "", "attach: only watch",
     [](CtlOptions& options, std::string const&) -> Result<> {
         options.is_read_only = true;
         return {};
     }},
    {"interval", 0, "DURATION", "top: time between two refreshes [1s]",
     [](CtlOptions& options, std::string const& text) -> Result<> {
         TRY(set_duration(options.interval, text));
         if (options.interval < shortest_interval) return fail(json::quoted(text) + " is less than 100ms");
         return {};
     }},
    {"help", 'h', "", "print the commands and options",
     [](CtlOptions& options, std::string const&) -> Result<> {
         options.wants_help = true;
         return {};
     }},
}};

Result<CtlTarget> parse_target(std::string_view text) {
    CtlTarget target;
    if (text.starts_with('@') && text.size() > 1) {
        if (text.contains(':')) return fail(json::quoted(text) + " is not @GROUP: a group has no numbers");
        target.program = text.substr(1);
        target.is_group = true;
        return target;
    }
    std::size_t const colon = text.rfind(':');
    std::string_view const name = text.substr(0, colon);
    if (colon != std::string_view::npos) {
        std::string_view const digits = text.substr(colon + 1);
        std::uint32_t number = 0;
        auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
        if (error != std::errc{} || end != digits.data() + digits.size() || number == 0)
            return fail(json::quoted(text) + " is not NAME or NAME:NUMBER");
        target.process = number;
    }
    if (name.empty()) return fail(json::quoted(text) + " is not NAME or NAME:NUMBER; the unnamed program is \"-\"");
    if (name != "-") target.program = name;
    return target;
}

template <class Rows>
std::string did_you_mean(std::string_view word, Rows const& rows, std::string_view dashes = {}) {
    std::vector<std::string_view> names;
    for (auto const& row : rows)
        names.push_back(row.name);
    auto const meant = nearest(word, names);
    if (!meant) return "; triton-launch ctl --help lists all";
    return "; did you mean " + std::string(dashes) + std::string(*meant) + "?";
}

bool is_everywhere(OptionRow const& row) {
    static constexpr std::array<std::string_view, 4> names{"socket", "json", "timeout", "help"};
    return std::ranges::find(names, row.name) != names.end();
}

/// The words and options of a command line, before it is known what they mean together.
struct Words {
    std::vector<std::string_view> plain;
    std::vector<OptionRow const*> used;
};

Result<OptionRow const*> find_option(std::string_view word) {
    bool const is_long = word.starts_with("--");
    std::string_view const name = is_long ? word.substr(2, word.find('=') - 2) : word.substr(1, 1);
    for (OptionRow const& row : option_rows) {
        if (is_long ? row.name == name : row.letter != 0 && row.letter == name.front()) return &row;
    }
    return fail("unknown option " + json::shown(word.substr(0, word.find('='))) +
                did_you_mean(name, option_rows, "--"));
}

/// -fn20, -f -n 20, --lines=20, --lines 20
Result<Words> split(std::span<char const* const> arguments, CtlOptions& options) {
    Words words;
    bool takes_options = true;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        std::string_view word = arguments[i];
        if (!takes_options || word.size() < 2 || word.front() != '-' || word[1] == ':') {  // -:2 is a target
            words.plain.push_back(word);
            continue;
        }
        if (word == "--") {
            takes_options = false;
            continue;
        }
        std::string letters;  // the rest of a group of letters
        do {
            OptionRow const* const row = TRY(find_option(letters.empty() ? word : std::string_view(letters)));
            bool const is_long = letters.empty() && word.starts_with("--");
            std::string_view const rest = is_long ? "" : (letters.empty() ? word : std::string_view(letters)).substr(2);
            std::string const shown = is_long ? "--" + std::string(row->name) : std::string("-") + row->letter;
            std::size_t const equals = is_long ? word.find('=') : std::string_view::npos;
            std::string value;
            if (row->value.empty()) {
                if (equals != std::string_view::npos) return fail(shown + " takes no value");
                letters = rest.empty() ? "" : "-" + std::string(rest);
            } else {
                if (equals != std::string_view::npos) {
                    value = word.substr(equals + 1);
                } else if (!rest.empty()) {
                    value = rest;
                } else if (i + 1 < arguments.size()) {
                    value = arguments[++i];
                } else {
                    return fail(shown + " needs a value (" + std::string(row->value) + ")");
                }
                letters.clear();
            }
            words.used.push_back(row);
            if (auto const applied = row->apply(options, value); !applied)
                return fail(shown + ": " + applied.error().text());
        } while (!letters.empty());
    }
    return words;
}

Result<CtlCommand const*> find_command(std::string_view name) {
    std::span<CtlCommand const> const commands = ctl_commands();
    auto const row = std::ranges::find(commands, name, &CtlCommand::name);
    if (row == commands.end()) return fail("unknown command " + json::shown(name) + did_you_mean(name, commands));
    return &*row;
}

bool is_of(OptionRow const& option, CtlCommand const& command) {
    return is_everywhere(option) || command.options.contains(" " + std::string(option.name) + " ");
}

Result<> take_words(CtlCommand const& row, std::span<std::string_view const> words, CtlOptions& options) {
    std::string const usage = "; usage: triton-launch ctl " + std::string(row.usage);
    auto const missing = [&usage](std::string_view what) { return fail(std::string(what) + " is missing" + usage); };
    std::size_t most = words.size();
    switch (row.takes) {
        case CtlTakes::nothing: most = 0; break;
        case CtlTakes::path:
            if (words.empty() || words.front().empty()) return missing("the path of the new launcher");
            options.path = words.front();
            return words.size() > 1 ? fail("one path is enough" + usage) : Result<>();
        case CtlTakes::maybe_kind:
            if (words.empty()) return {};
            if (words.size() > 1) return fail("one kind at a time, or none for all of them" + usage);
            return set_kind(options, words.front());
        case CtlTakes::maybe_command:
            if (words.empty()) return {};
            if (words.size() > 1) return fail("one command at a time, or none for all of them" + usage);
            options.command = TRY(find_command(words.front()));
            options.wants_help = true;
            return {};
        case CtlTakes::one_target: most = 1; [[fallthrough]];
        case CtlTakes::targets:
            if (words.empty()) return missing("the name of a program");
            break;
        case CtlTakes::signal_and_targets: {
            if (words.empty()) return missing("the signal");
            std::string_view const name = words.front();
            if (parse_signal(name.data(), name.data() + name.size()) < 0)
                return fail(json::quoted(name) + " is not a signal (for example TERM, 15, RTMIN+3)" + usage);
            options.signal = name;
            words = words.subspan(1);
            most = words.size();
            if (words.empty()) return missing("the name of a program");
            break;
        }
        case CtlTakes::maybe_targets: break;
    }
    if (words.size() > most) return fail("unexpected argument " + json::shown(words[most]) + usage);
    for (std::string_view const word : words)
        options.targets.push_back(TRY(parse_target(word)));
    if (row.takes == CtlTakes::one_target && options.targets.front().is_group)
        return fail(std::string(row.name) + " takes one program, not a group" + usage);
    return {};
}

}  // namespace

Result<CtlOptions> parse_ctl(int argc, char const* const* argv, std::string socket) {
    CtlOptions options;
    options.socket = std::move(socket);
    Words const words = TRY(split({argv, static_cast<std::size_t>(argc)}, options));
    if (words.plain.empty()) {
        if (options.wants_help) return options;
        return fail("the command is missing; triton-launch ctl --help lists the commands");
    }
    CtlCommand const* const row = options.command = TRY(find_command(words.plain.front()));
    if (options.wants_help) return options;
    for (OptionRow const* const used : words.used) {
        if (!is_of(*used, *row))
            return fail("--" + std::string(used->name) + " cannot be used with " + std::string(row->name));
    }
    if (options.is_forced && options.stops_dependents)
        return fail("--force and --with-dependents: leave them running, or stop them?");
    TRY(take_words(*row, std::span(words.plain).subspan(1), options));
    if (row->name == "attach" && options.is_json) return fail("--json means nothing for attach");
    if (row->name == "top" && options.is_json)
        return fail("--json means nothing for top; status --json has its numbers");
    if (row->name == "describe" && options.targets.front().process)
        return fail("describe takes a program, not one of its processes");
    return options;
}

std::string ctl_help(CtlCommand const* about) {
    if (about != nullptr && (about->usage.empty() || about->name == "help")) about = nullptr;
    std::string text = "usage: triton-launch ctl [OPTIONS] ";
    auto const line = [&text](std::string left, std::string_view right) {
        left.resize(std::max<std::size_t>(left.size() + 2, 44), ' ');
        text.append("  ").append(left).append(right).append("\n");
    };
    if (about != nullptr) {
        text.append(about->usage).append("\n\n").append(about->help).append("\n");
    } else {
        text += "COMMAND ...\n\nTalks to a running launcher.\n\nCommands:\n";
        for (CtlCommand const& row : ctl_commands()) {
            if (!row.usage.empty()) line(std::string(row.usage), row.help);
        }
    }
    if (about == nullptr || about->usage.contains("NAME")) {
        text +=
            "\nNAME is a program, NAME:N its process number N, @GROUP the programs of a group, - the program of a "
            "configuration without names.\n";
    }
    text += "\nOptions:\n";
    for (OptionRow const& row : option_rows) {
        if (about != nullptr && !is_of(row, *about)) continue;
        std::string left = row.letter != 0 ? std::string("-") + row.letter + ", " : "    ";
        left.append("--").append(row.name);
        if (!row.value.empty()) left.append(" ").append(row.value);
        line(std::move(left), row.help);
    }
    return text +
           "\nExit codes: 0 success, 1 the launcher refused or failed, 2 usage error, 3 it cannot be reached, 4 "
           "timeout.\n";
}

std::string target_text(CtlTarget const& target) {
    return shown_program(target.program) + (target.process ? ":" + std::to_string(*target.process) : "");
}

}  // namespace triton::launcher
