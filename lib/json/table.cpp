#include "lib/json/table.h"

#include "lib/base/nearest.h"

namespace triton::json {

std::string suggestion(std::string_view name, std::span<std::string_view const> known) {
    auto const meant = nearest(name, known);
    return meant ? "; did you mean " + quoted(*meant) + "?" : "";
}

std::string known_keys(std::span<std::string_view const> known) {
    constexpr std::size_t most = 16;
    if (known.size() > most) return {};
    std::string text = "; the keys are ";
    for (std::string_view const key : known) {
        if (key != known.front()) text.append(", ");
        text.append(key);
    }
    return text;
}

std::string object_with(std::span<std::string_view const> keys) {
    constexpr std::size_t most = 8;
    constexpr std::size_t first_few = 4;
    std::string text = "an object (keys: ";
    for (std::string_view const key : keys.first(keys.size() > most ? first_few : keys.size())) {
        if (key != keys.front()) text.append(", ");
        text.append(key);
    }
    return text.append(keys.size() > most ? " and more)" : ")");
}

}  // namespace triton::json
