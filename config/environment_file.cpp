#include "config/environment_file.h"

#include <algorithm>
#include <map>
#include <optional>

namespace triton::config {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_character(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }
bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view without_leading_blanks(std::string_view line) {
    while (!line.empty() && is_blank(line.front()))
        line.remove_prefix(1);
    return line;
}

std::string_view without_export(std::string_view line) {
    constexpr std::string_view word = "export";
    if (!line.starts_with(word) || line.size() == word.size() || !is_blank(line[word.size()])) return line;
    return without_leading_blanks(line.substr(word.size()));
}

bool is_entry_name(std::string_view text) {
    auto const is_further = [](char c) { return c == '.' || c == '-'; };
    if (text.empty() || !(is_letter(text.front()) || is_further(text.front()))) return false;
    return std::ranges::all_of(text, [&](char c) { return is_name_character(c) || is_further(c); });
}

using Values = std::map<std::string_view, std::string_view>;  // they point into the text that is read

/// Sets the variable of a line that is neither blank nor a comment. Returns why the line has none, if so.
std::optional<std::string> read_line(std::string_view line, Values& values) {
    if (line.contains('\0')) return "contains a NUL byte";
    line = without_export(line);
    std::size_t const equals = line.find('=');
    if (equals == std::string_view::npos) return "is not of the form NAME=value";
    std::string_view const name = line.substr(0, equals);
    if (!is_entry_name(name))
        return "has no valid name before the =; a name is letters, digits, _, . and -, not a digit first";
    values.insert_or_assign(name, line.substr(equals + 1));
    return std::nullopt;
}

void read_lines(std::string_view text, Values& values, json::ProblemList& problems) {
    for (std::size_t number = 1; !text.empty(); ++number) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        line = without_leading_blanks(line);
        if (line.empty() || line.starts_with('#')) continue;
        if (auto reason = read_line(line, values)) problems.add("line " + std::to_string(number), std::move(*reason));
    }
}

}  // namespace

bool is_variable_name(std::string_view text) {
    return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, is_name_character);
}

EnvironmentFile parse_environment_file(std::string_view text, Limits const& limits) {
    if (text.size() > limits.document.document_bytes) {
        return {{}, {{"", "is larger than " + std::to_string(limits.document.document_bytes) + " bytes"}}};
    }
    Values values;
    json::ProblemList problems{limits.document.problems};
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    if (text.starts_with(byte_order_mark)) {
        problems.add("line 1", "starts with a byte order mark; save the file as UTF-8 without one");
        text.remove_prefix(byte_order_mark.size());
    }
    read_lines(text, values, problems);
    EnvironmentFile file{{}, std::move(problems).take()};
    for (auto const& [name, value] : values)
        file.values.push_back({std::string(name), std::string(value)});
    return file;
}

}  // namespace triton::config
