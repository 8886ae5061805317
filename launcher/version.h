#pragma once

namespace triton::launcher {

/// "0.1.0", from the build.
char const* version();
/// The commit that was built, abbreviated, with "-dirty" when the tree had changes; "unknown" outside a checkout.
char const* commit();

}  // namespace triton::launcher
