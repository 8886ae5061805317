#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::machine {

/// Writes etc/resolv.conf below the root directory of a machine, which may run and may have put anything there: a link
/// in its place is replaced, and none on the way leads out of the root. The file belongs to whom /etc belongs.
/// Errors: those of the system calls, "write <root>/etc/resolv.conf".
Result<> write_resolv_conf(std::string const& root, std::string_view text);

}  // namespace triton::machine
