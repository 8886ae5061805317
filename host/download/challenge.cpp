#include "host/download/challenge.h"

#include <algorithm>
#include <utility>

#include "lib/base/http_field.h"

namespace triton::download {

namespace {

void skip_blanks(std::string_view& text) {
    while (!text.empty() && (text[0] == ' ' || text[0] == '\t'))
        text.remove_prefix(1);
}

std::string_view take_token(std::string_view& text) {
    auto const end = std::ranges::find_if_not(text, is_token_character);
    std::string_view const token = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    text.remove_prefix(token.size());
    return token;
}

/// Takes a token or a quoted string. Returns none when the text begins with neither.
std::optional<std::string> take_value(std::string_view& text) {
    if (text.empty() || text[0] != '"') {
        std::string_view const token = take_token(text);
        return token.empty() ? std::nullopt : std::optional(std::string(token));
    }
    std::string value;
    for (std::size_t i = 1; i < text.size(); ++i) {
        if (text[i] == '"') {
            text.remove_prefix(i + 1);
            return value;
        }
        if (text[i] == '\\' && i + 1 < text.size()) ++i;
        value += text[i];
    }
    return std::nullopt;
}

struct Parameter {
    std::string_view name;
    std::string value;
};

/// Takes "name = value". Returns none, and takes nothing, where another challenge begins or the text is malformed.
std::optional<Parameter> take_parameter(std::string_view& text) {
    std::string_view rest = text;
    std::string_view const name = take_token(rest);
    skip_blanks(rest);
    if (name.empty() || rest.empty() || rest[0] != '=') return std::nullopt;
    rest.remove_prefix(1);
    skip_blanks(rest);
    auto value = take_value(rest);
    if (!value) return std::nullopt;
    text = rest;
    return Parameter{name, *std::move(value)};
}

void set_parameter(Challenge& challenge, Parameter const& parameter) {
    if (are_same_letters(parameter.name, "realm")) challenge.realm = parameter.value;
    if (are_same_letters(parameter.name, "service")) challenge.service = parameter.value;
    if (are_same_letters(parameter.name, "scope")) challenge.scope = parameter.value;
}

void skip_separators(std::string_view& text) {
    while (!text.empty() && (text[0] == ' ' || text[0] == '\t' || text[0] == ','))
        text.remove_prefix(1);
}

}  // namespace

std::vector<Challenge> parse_challenges(std::string_view header) {
    std::vector<Challenge> challenges;
    for (skip_separators(header); !header.empty(); skip_separators(header)) {
        std::string_view const scheme = take_token(header);
        if (scheme.empty()) break;
        Challenge challenge;
        for (skip_separators(header); auto parameter = take_parameter(header); skip_separators(header))
            set_parameter(challenge, *parameter);
        bool const is_bearer = are_same_letters(scheme, "bearer");
        if (!is_bearer && !are_same_letters(scheme, "basic")) continue;
        challenge.scheme = is_bearer ? Challenge::Scheme::bearer : Challenge::Scheme::basic;
        challenges.push_back(std::move(challenge));
    }
    return challenges;
}

}  // namespace triton::download
