#include "launcher/plan/remarks.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <string_view>

#include <linux/capability.h>
#include <unistd.h>

#include "config/environment_file.h"
#include "lib/process/capabilities.h"

namespace triton::launcher {

namespace {

constexpr std::array<std::string_view, 6> shells{"sh", "bash", "dash", "ash", "ksh", "zsh"};

// Of what they get as words, they replace parts themselves.
constexpr std::array<std::string_view, 6> replacers{"envsubst", "awk", "gawk", "mawk", "perl", "make"};

struct Customary {
    std::string_view program;
    std::string_view signal;
};
// Source: the official images of these programs on Docker Hub.
constexpr std::array<Customary, 8> customary_signals{{{"nginx", "QUIT"},
                                                      {"php-fpm", "QUIT"},
                                                      {"httpd", "WINCH"},
                                                      {"httpd-foreground", "WINCH"},
                                                      {"apache2", "WINCH"},
                                                      {"apache2-foreground", "WINCH"},
                                                      {"haproxy", "USR1"},
                                                      {"postgres", "INT"}}};

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// A script without what is quoted: an x for each character of that.
std::string without_quotes(std::string_view script) {
    std::string plain;
    char quote = 0;
    for (std::size_t at = 0; at < script.size(); ++at) {
        char const c = script[at];
        if (c == '\\' && quote != '\'' && at + 1 < script.size()) {
            plain += "xx";
            ++at;
        } else if (quote != 0) {
            if (c == quote) quote = 0;
            plain += 'x';
        } else if (c == '\'' || c == '"') {
            quote = c;
            plain += 'x';
        } else {
            plain += c;
        }
    }
    return plain;
}

bool has_word(std::string_view text, std::string_view word) {
    for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
        auto const is_edge = [&](std::size_t where) {
            return where >= text.size() || std::string_view(" \t\n;&|(){}").find(text[where]) != std::string_view::npos;
        };
        if ((at == 0 || is_edge(at - 1)) && is_edge(at + word.size())) return true;
    }
    return false;
}

/// Whether a command runs beside the shell: "a & b", "a | b", but not "a && b", "a || b" or "a 2>&1".
bool has_operator(std::string_view plain, char which) {
    for (std::size_t at = plain.find(which); at != std::string_view::npos; at = plain.find(which, at + 1)) {
        char const before = at > 0 ? plain[at - 1] : ' ';
        char const after = at + 1 < plain.size() ? plain[at + 1] : ' ';
        bool const is_redirection = before == '>' || before == '<' || after == '>';
        if (before != which && after != which && !is_redirection) return true;
    }
    return false;
}

/// What comes last in a script: the command behind the last separator, without blanks before it.
std::string_view last_command(std::string_view plain) {
    while (!plain.empty() && (is_blank(plain.back()) || plain.back() == '\n' || plain.back() == ';'))
        plain.remove_suffix(1);
    auto const is_separator = [plain](std::size_t at) {
        bool const is_redirection = at > 0 && (plain[at - 1] == '>' || plain[at - 1] == '<');  // "2>&1"
        return std::string_view("\n;&|").contains(plain[at]) && !is_redirection;
    };
    std::size_t begin = plain.size();
    while (begin > 0 && !is_separator(begin - 1))
        --begin;
    plain.remove_prefix(begin);
    while (!plain.empty() && is_blank(plain.front()))
        plain.remove_prefix(1);
    return plain;
}

/// "${NAME}", "${NAME:-other}" or "$(NAME)" in a word.
std::optional<std::string> reference_in(std::string_view word) {
    for (std::size_t at = word.find('$'); at != std::string_view::npos; at = word.find('$', at + 1)) {
        std::string_view const rest = word.substr(at);
        if (rest.size() < 2 || (rest[1] != '{' && rest[1] != '(')) continue;
        bool const is_braced = rest[1] == '{';
        std::size_t const end = rest.find(is_braced ? '}' : ')');
        if (end == std::string_view::npos) continue;
        std::string_view name = rest.substr(2, end - 2);
        if (is_braced) name = name.substr(0, name.find(':'));
        if (config::is_variable_name(name)) return std::string(rest.substr(0, end + 1));
    }
    return std::nullopt;
}

std::vector<std::string> words_of(ProgramPlan const& plan) {
    std::vector<std::string> words = plan.start->command().arguments(ProcessNumber{1});
    words.insert(words.begin(), plan.start->program());
    return words;
}

std::string place_of(ProgramPlan const& plan) {
    return plan.settings->name.empty() ? "" : "programs." + plan.settings->name + ": ";
}

}  // namespace

SignalRights SignalRights::own() {
    auto const effective = process::OwnCapabilities::read().effective;
    return {.may_signal_all = (effective >> CAP_KILL & 1) != 0, .real_user = ::getuid(), .effective_user = ::geteuid()};
}

/// dash and busybox make a child for the last command, too; bash executes it in place of the shell, if it is a simple
/// one (tried with dash 0.5.12 and bash 5.2).
bool keeps_signals_from_children(std::span<std::string const> words) {
    if (!words.empty() && base_name(words[0]) == "busybox") words = words.subspan(1);
    if (words.size() < 3 || std::ranges::find(shells, base_name(words[0])) == shells.end()) return false;
    std::size_t option = 1;
    while (option < words.size() && words[option].starts_with('-') && !words[option].ends_with('c'))
        ++option;
    if (option + 1 >= words.size() || !words[option].starts_with('-')) return false;
    std::string const plain = without_quotes(words[option + 1]);
    std::string_view const last = last_command(plain);
    if (last.empty() || last.starts_with("exec ") || has_word(plain, "trap")) return false;
    bool const replaces_itself = base_name(words[0]) == "bash" || base_name(words[0]) == "zsh";
    return !replaces_itself || has_operator(plain, '&') || has_operator(plain, '|');
}

std::optional<std::string> customary_stop_signal(std::string const& program) {
    auto const found = std::ranges::find(customary_signals, base_name(program), &Customary::program);
    if (found == customary_signals.end()) return std::nullopt;
    return std::string(found->signal);
}

std::optional<std::string> unexpanded_part(std::span<std::string const> words) {
    auto const replaces = [](std::string_view name) {
        return std::ranges::find(shells, name) != shells.end() || std::ranges::find(replacers, name) != replacers.end();
    };
    for (std::string const& word : words) {
        if (replaces(base_name(word))) return std::nullopt;
        if (auto found = reference_in(word)) return found;
    }
    return std::nullopt;
}

std::vector<std::string> remarks_on_words(Accepted const& accepted) {
    std::vector<std::string> remarks;
    for (auto const& plan : accepted.programs) {
        if (!plan->start) continue;
        auto const part = unexpanded_part(words_of(*plan));
        if (!part) continue;
        std::string const name = part->substr(2, part->find_first_of(":})") - 2);
        remarks.push_back(place_of(*plan) + "\"" + *part +
                          "\" is passed on as it is, since no shell reads the command: write {\"type\": "
                          "\"Environment\", \"source\": \"" +
                          name + "\"} for the value of the variable, inside Concatenate if it is a part of a word");
    }
    return remarks;
}

std::vector<std::string> remarks_on_stops(Accepted const& accepted) {
    std::vector<std::string> remarks;
    for (auto const& plan : accepted.programs) {
        if (!plan->start || plan->settings->name.empty()) continue;
        std::vector<std::string> const words = words_of(*plan);
        bool const runs_on = plan->policy.kind == ProgramKind::service;
        if (runs_on && plan->policy.stop_scope == StopScope::process && keeps_signals_from_children(words)) {
            remarks.push_back(
                place_of(*plan) +
                "the stop signal reaches only the shell, and what it has started is killed when the shell "
                "ends: write \"exec\" before the last command, or set \"stopScope\" to \"tree\"");
        }
        auto const customary = customary_stop_signal(words.front());
        if (customary && plan->policy.stop_signal == SIGTERM) {
            remarks.push_back(place_of(*plan) + std::string(base_name(words.front())) + " ends gracefully at " +
                              *customary +
                              ": set \"stopSignal\", and STOPSIGNAL SIGTERM in the image, whose base image " +
                              "may have SIG" + *customary);
        }
    }
    return remarks;
}

std::vector<std::string> remarks_on_rights(Accepted const& accepted, SignalRights const& rights) {
    std::vector<std::string> remarks;
    if (rights.may_signal_all) return remarks;
    for (auto const& plan : accepted.programs) {
        if (!plan->start) continue;
        auto const& user = plan->start->attributes().identity.user;
        if (!user || *user == rights.real_user || *user == rights.effective_user) continue;
        remarks.push_back(place_of(*plan) + "runs as user " + std::to_string(*user) +
                          ", which the launcher may not signal without CAP_KILL: it cannot be stopped, restarted or "
                          "told to reload, and ends only with the container");
    }
    return remarks;
}

}  // namespace triton::launcher
