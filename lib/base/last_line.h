#pragma once

#include <string>
#include <string_view>

namespace triton {

/// The last line of a program's output, which by convention says why it has failed.
inline std::string last_line(std::string_view text) {
    while (text.ends_with('\n'))
        text.remove_suffix(1);
    return std::string(text.substr(text.rfind('\n') + 1));
}

}  // namespace triton
