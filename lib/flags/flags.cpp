#include "lib/flags/flags.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "lib/base/duration.h"
#include "lib/base/nearest.h"
#include "lib/base/signal_names.h"
#include "lib/base/size.h"

namespace triton::flags {

namespace {

std::string unknown_option(Program const& program, Flags const& flags, std::string const& given,
                           std::string_view elsewhere) {
    if (!elsewhere.empty()) return given + " is an option of " + std::string(elsewhere);
    std::vector<std::string> names{"--help", "--version"};
    for (Flag const& flag : flags) {
        names.push_back("--" + std::string(flag.name));
        if (!flag.alias.empty()) names.push_back("--" + std::string(flag.alias));
    }
    std::vector<std::string_view> const views(names.begin(), names.end());
    std::string text = "unknown option " + given;
    if (auto const meant = nearest(given, views)) return text.append("; did you mean ").append(*meant).append("?");
    return text.append("; see ").append(program.name).append(" --help");
}

/// Applies a flag's value, and puts the flag's name before an error.
Result<> apply(Flag const& flag, std::string const& name, std::string const& value) {
    Result<> result = flag.apply(value);
    if (!result) result = fail(result.error().kind, name + ": " + result.error().text());
    return result;
}

/// Whether Kubernetes has made the variable for a Service of the program's name. `name`: without the prefix.
bool is_of_service(std::string_view name) {
    auto const is_or_begins = [name](std::string_view with) {
        return name.starts_with(with) && (name.size() == with.size() || name[with.size()] == '_');
    };
    return name == "SERVICE_HOST" || is_or_begins("SERVICE_PORT") || is_or_begins("PORT");
}

Result<> apply_environment(Program const& program, Flags const& flags) {
    // Most containers have none of our variables, so this is one pass over the environment, not one for each flag.
    std::vector<char const*> ours;
    for (char const* const* entry = program.environment; entry && *entry; ++entry) {
        if (std::string_view(*entry).starts_with(program.variable_prefix)) ours.push_back(*entry);
    }
    if (ours.empty()) return {};
    ours.push_back(nullptr);
    for (Flag const& flag : flags) {
        std::string const name = variable_name(program, flag.name);
        char const* const value = variable(ours.data(), name);
        // A variable that is set but empty counts as not set: pod specs with optional values do that.
        if (value && *value) TRY(apply(flag, name, value));
    }
    return {};
}

}  // namespace

Apply into(std::string& target) {
    return [&target](std::string const& text) -> Result<> {
        if (text.empty()) return fail("must not be empty");
        target = text;
        return {};
    };
}

Apply into_key_prefix(std::string& target) {
    return [&target](std::string const& text) -> Result<> {
        if (text.contains('.') && !text.contains('/'))
            return fail("\"" + text + "\" has no / at its end: \"" + text + "/\"");
        return into(target)(text);
    };
}

Apply into(Duration& target) {
    return [&target](std::string const& text) -> Result<> {
        auto const duration = parse_duration(text);
        if (!duration) return fail("\"" + text + "\" is not a duration (for example 500ms, 10s, 1m30s)");
        if (*duration > longest_duration) return fail("\"" + text + "\" is longer than a year");
        target = *duration;
        return {};
    };
}

Apply into_size_or_none(std::uint64_t& target) {
    return [&target](std::string const& text) -> Result<> {
        auto const size = text == "none" ? std::optional<std::uint64_t>(0) : parse_size(text);
        if (!size || (*size == 0 && text != "none"))
            return fail("\"" + text + "\" is not a size (for example 64Ki, 10M) or none");
        target = *size;
        return {};
    };
}

Apply into_time_limit(Duration& target) {
    return [&target](std::string const& text) -> Result<> {
        auto const duration = parse_duration(text);
        bool const fits = duration && *duration > Duration::zero() && *duration <= std::chrono::hours(24);
        if (!fits) return fail("\"" + text + "\" is not a duration up to a day (for example 500ms, 10s, 1m30s)");
        target = *duration;
        return {};
    };
}

Result<std::uint64_t> whole_number(std::string const& text, std::uint64_t lowest, std::uint64_t highest) {
    std::uint64_t number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < lowest || number > highest) {
        return fail("\"" + text + "\" is not a whole number from " + std::to_string(lowest) + " to " +
                    std::to_string(highest));
    }
    return number;
}

Apply into(double& target, double lowest, double highest, char const* range) {
    return [&target, lowest, highest, range](std::string const& text) -> Result<> {
        // strtod(): see json::real_of(). It would also take spaces, a plus in front, hexadecimal digits and infinity.
        bool const is_decimal = !text.starts_with('+') && text.find_first_not_of("0123456789.eE+-") == text.npos;
        char* end = nullptr;
        double const number = std::strtod(text.c_str(), &end);
        bool const is_whole = !text.empty() && end == text.c_str() + text.size();
        bool const fits = is_decimal && is_whole && number >= lowest && number <= highest;
        if (!fits) return fail("\"" + text + "\" is not a number " + range);
        target = number;
        return {};
    };
}

Apply into_signal(int& target, bool or_none) {
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

Apply into_any(std::string& target) {
    return [&target](std::string const& text) -> Result<> {
        target = text;
        return {};
    };
}

Apply append_to(std::vector<std::string>& target) {
    return [&target](std::string const& text) -> Result<> {
        if (text.empty()) return fail("must not be empty");
        target.push_back(text);
        return {};
    };
}

Apply into_mode(unsigned& target) {
    return [&target](std::string const& text) -> Result<> {
        unsigned mode = 0;
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
        if (error != std::errc{} || end != text.data() + text.size() || mode > 0777)
            return fail("\"" + text + "\" is not a mode in octal, from 0 to 777 (for example 0660)");
        target = mode;
        return {};
    };
}

Apply into_path_or_none(std::string& target) {
    return [&target](std::string const& text) -> Result<> {
        if (text.empty()) return fail("must not be empty");
        target = text == "none" ? std::string() : text;
        return {};
    };
}

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

std::unexpected<Error> unknown_choice(std::string const& text, std::span<std::string_view const> known) {
    std::string reason = "unknown value \"" + text + "\"";
    if (auto const meant = nearest(text, known)) {
        reason.append("; did you mean \"").append(*meant).append("\"?");
    } else {
        reason += " (known:";
        for (std::string_view const name : known)
            reason.append(" ").append(name);
        reason += ")";
    }
    return fail(std::move(reason));
}

Apply into_switch(bool& target) {
    static constexpr std::array<Choice<bool>, 8> words{{{"true", true},
                                                        {"1", true},
                                                        {"yes", true},
                                                        {"on", true},
                                                        {"false", false},
                                                        {"0", false},
                                                        {"no", false},
                                                        {"off", false}}};
    return into_choice(target, words);
}

Flag const* find_flag(Flags const& flags, std::string_view given) {
    if (given.size() == 2 && given[0] == '-') {
        auto const found = std::ranges::find(flags, given[1], &Flag::short_name);
        return found != flags.end() && given[1] != '\0' ? &*found : nullptr;
    }
    if (!given.starts_with("--")) return nullptr;
    std::string_view const name = given.substr(2);
    if (name.empty()) return nullptr;  // as is an alias that there is not
    for (Flag const& flag : flags) {
        if (flag.name == name || flag.alias == name) return &flag;
    }
    return nullptr;
}

std::string variable_name(Program const& program, std::string_view flag) {
    std::string name(program.variable_prefix);
    for (char const c : flag)
        name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    return name;
}

std::vector<std::string> remarks_on_variables(Program const& program, std::vector<std::string> (&known)()) {
    std::string_view const prefix = program.variable_prefix;
    std::vector<std::string> remarks;
    std::vector<std::string> names;
    for (char const* const* entry = program.environment; entry && *entry; ++entry) {
        std::string_view const text(*entry);
        if (!text.starts_with(prefix)) continue;
        std::string_view const name = text.substr(prefix.size(), text.find('=') - prefix.size());
        if (names.empty()) names = known();
        if (is_of_service(name) || std::ranges::find(names, name) != names.end()) continue;
        std::string remark = "unknown variable ";
        remark.append(prefix).append(name).append(", which has no effect");
        std::vector<std::string_view> const views(names.begin(), names.end());
        if (auto const meant = nearest(name, views))
            remark.append("; did you mean ").append(prefix).append(*meant).append("?");
        remarks.push_back(std::move(remark));
    }
    return remarks;
}

char const* variable(char const* const* environment, std::string_view name) {
    for (; environment && *environment; ++environment) {
        std::string_view const entry(*environment);
        if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
            return *environment + name.size() + 1;
    }
    return nullptr;
}

Result<Words> parse_words(Program const& program, Flags const& flags, std::span<char const* const> arguments,
                          Elsewhere elsewhere) {
    Words words;
    TRY(apply_environment(program, flags));
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
        if (!flag) {
            return fail(unknown_option(program, flags, name, elsewhere ? elsewhere(name) : std::string_view()));
        }
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

std::optional<std::string> peek(Program const& program, std::string_view name, std::span<char const* const> arguments) {
    std::optional<std::string> found;
    char const* const value = variable(program.environment, variable_name(program, name));
    if (value && *value) found = value;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        std::string_view const argument = arguments[at];
        if (argument == "--") break;
        if (!argument.starts_with("--") || !argument.substr(2).starts_with(name)) continue;
        std::string_view const rest = argument.substr(2 + name.size());
        if (rest.starts_with('=')) found = rest.substr(1);
        if (rest.empty() && at + 1 < arguments.size()) found = arguments[at + 1];
    }
    return found;
}

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

}  // namespace triton::flags
