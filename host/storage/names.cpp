#include "host/storage/names.h"

#include <algorithm>
#include <optional>

#include "lib/json/text.h"

namespace triton::storage {

namespace {

constexpr bool is_alphanumeric(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

constexpr bool is_allowed(char c) { return is_alphanumeric(c) || c == '_' || c == '.' || c == ':' || c == '-'; }

/// What is wrong with one component, if anything. A dot in front is reserved for the pool, and a dash would look like
/// an option.
std::optional<std::string_view> problem_of_component(std::string_view text) {
    if (text.empty()) return "it has an empty component";
    if (!is_alphanumeric(text.front())) return "a component must begin with a letter or a digit";
    if (!std::ranges::all_of(text, is_allowed)) return "only letters, digits and _ . : - may be in it";
    return std::nullopt;
}

/// The same for a snapshot, in which SmartOS allows one character more.
std::optional<std::string_view> problem_of_snapshot(std::string_view text) {
    if (text.empty()) return "it is empty";
    if (!is_alphanumeric(text.front())) return "it must begin with a letter or a digit";
    bool const is_known = std::ranges::all_of(text, [](char c) { return is_allowed(c) || c == '%'; });
    if (!is_known) return "only letters, digits and _ . : - % may be in it";
    return std::nullopt;
}

/// Refuses a text that is not a name. It may come from anywhere: it is shown no longer than a name, and without
/// anything that a terminal would obey.
std::unexpected<Error> not_a_name(std::string_view what, std::string_view text, std::string_view problem) {
    return fail(json::quoted(text, TreeName::most_characters) + " is not a name of a " + std::string(what) + ": " +
                std::string(problem));
}

}  // namespace

Result<TreeName> TreeName::parse(std::string_view text) {
    if (text.size() > most_characters)
        return not_a_name("tree", text, "it has more than " + std::to_string(most_characters) + " characters");
    std::size_t components = 0;
    for (std::size_t begin = 0; begin <= text.size(); ++components) {
        std::size_t const slash = std::min(text.find('/', begin), text.size());
        if (auto const problem = problem_of_component(text.substr(begin, slash - begin)))
            return not_a_name("tree", text, *problem);
        begin = slash + 1;
    }
    if (components > most_components)
        return not_a_name("tree", text, "it has more than " + std::to_string(most_components) + " components");
    return TreeName(text);
}

Result<SnapshotName> SnapshotName::parse(std::string_view text) {
    if (text.size() > most_characters)
        return not_a_name("snapshot", text, "it has more than " + std::to_string(most_characters) + " characters");
    if (auto const problem = problem_of_snapshot(text)) return not_a_name("snapshot", text, *problem);
    return SnapshotName(text);
}

}  // namespace triton::storage
