#pragma once

#include <string>

namespace triton::launcher {

/// "0.1.0", from the build.
char const* version();
/// The commit that was built, abbreviated, with "-dirty" when the tree had changes; "unknown" outside a checkout.
char const* commit();

/// "triton-launch 0.1.0 (1a2b3c4)"
inline std::string version_line() { return std::string("triton-launch ") + version() + " (" + commit() + ")"; }

}  // namespace triton::launcher
