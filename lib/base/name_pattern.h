#pragma once

#include <string_view>

namespace triton {

/// Whether a file's name matches a pattern of names as glob(7) has it, in bytes. Like fnmatch(3) with FNM_PERIOD, which
/// would link wide characters, locales and a loader of both into a static program.
bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace triton
