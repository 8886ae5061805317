#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::flags {

/// No duration is longer: their sums stay far from overflow.
inline constexpr Duration longest_duration = std::chrono::hours(24 * 366);

/// Takes the value of a flag. Errors: what is wrong with it; the caller adds the flag's name.
using Apply = std::function<Result<>(std::string const&)>;

/// A text of the program itself, whose length is known when it is compiled.
struct Literal : std::string_view {
    consteval Literal(char const* text) : std::string_view(text) {}  // NOLINT(google-explicit-constructor)
};

/// One option: what reads its value, and what --help, the environment and the error messages call it.
///
/// A table and a loop instead of CLI11: that library costs 0.2 to 0.3 ms at each start and 1.0 MB of the binary, a
/// third of what a container's start may cost us and two fifths of our size limit. See ARCHITECTURE.md.
struct Flag {
    Literal name;     // without its dashes
    Literal alias;    // the shipped spelling; empty: none
    char short_name;  // 0: none
    Literal value;    // what --help calls it; empty: a switch, whose text is "true" or "false"
    Literal help;
    Apply apply;
};
using Flags = std::vector<Flag>;

/// Appends rows, which are left empty. Every container's start pays for this table, so it grows once.
inline void add(Flags& flags, std::span<Flag> rows) {
    constexpr std::size_t usual_size = 80;
    flags.reserve(std::max(flags.size() + rows.size(), usual_size));
    std::ranges::move(rows, std::back_inserter(flags));
}

// The values of flags, each from text to its type, once. The targets are borrowed.

Apply into(std::string& target);
/// Of keys of Kubernetes objects: a domain and a slash, example.org/; or the beginning of a name, as foo-, which needs
/// no domain. A domain alone would become another one's beginning: example.orglauncher-environment.
Apply into_key_prefix(std::string& target);
/// May be empty: pod specs fill it from a field that may be.
Apply into_any(std::string& target);
/// Repeatable.
Apply append_to(std::vector<std::string>& target);
Apply into(Duration& target);
/// More than none, a day at most.
Apply into_time_limit(Duration& target);
Result<std::uint64_t> whole_number(std::string const& text, std::uint64_t lowest, std::uint64_t highest);
template <std::unsigned_integral T>
Apply into(T& target, std::type_identity_t<T> lowest, std::type_identity_t<T> highest) {
    return [&target, lowest, highest](std::string const& text) -> Result<> {
        target = static_cast<T>(TRY(whole_number(text, lowest, highest)));
        return {};
    };
}
/// `range`: in words, "from 0 to 1".
Apply into(double& target, double lowest, double highest, char const* range);
/// Permission bits as chmod(1) takes them, in octal.
Apply into_mode(unsigned& target);
/// A path; "none" becomes an empty one.
Apply into_path_or_none(std::string& target);
/// `or_none`: "none" is accepted and becomes 0.
Apply into_signal(int& target, bool or_none = false);
/// A:B, repeatable; in the environment several with blanks between. Makes every signal count as itself first.
Apply into_rewrite(std::array<std::uint8_t, 65>& rewrite);
Apply into_switch(bool& target);
/// Bytes, as 64Ki or 10M; "none" becomes 0.
Apply into_size_or_none(std::uint64_t& target);

template <class T>
struct Choice {
    std::string_view name;
    T value;
};

std::unexpected<Error> unknown_choice(std::string const& text, std::span<std::string_view const> known);

/// `choices` is borrowed: a table that stays.
template <class T, std::size_t N>
Apply into_choice(T& target, std::array<Choice<T>, N>&& choices) = delete;
template <class T, std::size_t N>
Apply into_choice(T& target, std::array<Choice<T>, N> const& choices) {
    return [&target, &choices](std::string const& text) -> Result<> {
        std::array<std::string_view, N> names;
        std::ranges::transform(choices, names.begin(), &Choice<T>::name);
        auto const row = std::ranges::find(choices, text, &Choice<T>::name);
        if (row == choices.end()) return unknown_choice(text, names);
        target = row->value;
        return {};
    };
}

/// The words of a command line: flags are applied, the others returned. --help and --version end the reading.
struct Words {
    std::vector<std::string> positional;
    bool wants_help = false;
    bool wants_version = false;
};

/// Whose command line it is. All borrowed.
struct Program {
    std::string_view name;             ///< as messages call it
    std::string_view variable_prefix;  ///< "TRITON_LAUNCH_": --server-count is TRITON_LAUNCH_SERVER_COUNT
    char const* const* environment;    ///< NAME=VALUE, ended by a null pointer
};

/// The variable of a flag: TRITON_LAUNCH_SERVER_COUNT for server-count.
std::string variable_name(Program const& program, std::string_view flag);
/// Remarks on the variables with the program's prefix that mean nothing: "unknown variable TRITON_LAUNCH_SERVER_COUNTS,
/// which has no effect; did you mean TRITON_LAUNCH_SERVER_COUNT?". `known`: names without the prefix, asked for when
/// there is such a variable; most containers have none. What Kubernetes sets for a Service of the program's name is
/// left out.
std::vector<std::string> remarks_on_variables(Program const& program, std::vector<std::string> (&known)());
/// The value of a variable; nullptr: it is not set.
char const* variable(char const* const* environment, std::string_view name);

/// First the program's variables in the environment, then the command line. Set but empty means not set.
/// `elsewhere`: what an option that is not in this table belongs to, "launch mode"; empty: to nothing.
/// Errors: one line that names the flag and what is wrong with it.
using Elsewhere = std::string_view (*)(std::string_view option);
Result<Words> parse_words(Program const& program, Flags const& flags, std::span<char const* const> arguments,
                          Elsewhere elsewhere = nullptr);

/// By "--name" or "-n"; nullptr: no such flag.
Flag const* find_flag(Flags const& flags, std::string_view given);

/// What a flag has on this command line up to "--" or in the environment, without reading the rest; nullopt: nothing.
std::optional<std::string> peek(Program const& program, std::string_view name, std::span<char const* const> arguments);

std::string help_row(char short_name, std::string_view name, std::string_view value, std::string_view help);
std::string help_rows(Flags const& flags);

}  // namespace triton::flags
