#include "host/storage/properties.h"

#include <algorithm>
#include <cstddef>

namespace triton::storage {

namespace {

constexpr std::string_view prefix = "triton:";
constexpr std::size_t longest_key = 64;
constexpr std::size_t longest_value = 1000;  // old ZFS accepts 1,023

bool is_key(std::string_view key) {
    if (!key.starts_with(prefix) || key.size() == prefix.size() || key.size() > longest_key) return false;
    return std::ranges::all_of(key.substr(prefix.size()), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

bool is_value(std::string_view value) {
    return value.size() <= longest_value && std::ranges::all_of(value, [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

Result<> check_property(std::string_view key, std::string_view value) {
    if (!is_key(key))
        return fail("a property's key is triton:[a-z_]+ of at most " + std::to_string(longest_key) + " characters");
    if (!is_value(value))
        return fail("the value of " + std::string(key) + " must have at most " + std::to_string(longest_value) +
                    " characters, all of them printable ASCII");
    return {};
}

std::string print_properties(Properties const& properties) {
    std::string text;
    for (auto const& [key, value] : properties)
        text += key + ' ' + value + '\n';
    return text;
}

Result<Properties> parse_properties(std::string_view text) {
    Properties properties;
    while (!text.empty()) {
        std::size_t const end = text.find('\n');
        std::string_view const line = text.substr(0, end);
        std::size_t const space = line.find(' ');
        bool const is_line = end != text.npos && space != line.npos;
        if (!is_line || !check_property(line.substr(0, space), line.substr(space + 1)))
            return fail(ErrorKind::corrupt, "the properties of the tree are not lines of a key and a value");
        properties.emplace(line.substr(0, space), line.substr(space + 1));
        text.remove_prefix(end + 1);
    }
    return properties;
}

}  // namespace triton::storage
