#pragma once

#include <string>
#include <string_view>

namespace triton {

/// Returns the texts with a separator between them: "a, b, c".
template <typename Texts>
std::string joined(Texts const& texts, std::string_view separator = " ") {
    std::string all;
    for (bool is_first = true; std::string_view const text : texts) {
        if (!is_first) all.append(separator);
        all.append(text);
        is_first = false;
    }
    return all;
}

}  // namespace triton
