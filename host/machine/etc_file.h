#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::machine {

/// Replaces etc/<name> below the root directory of a machine, which may be running and may have put anything there. A
/// link in its place is replaced, and no link on the way leads out of the root. The file gets the owner of /etc. If it
/// has that content already it stays. Errors: those of the system calls, "write <root>/etc/<name>".
Result<> write_etc_file(std::string const& root, std::string const& name, std::string_view text);

}  // namespace triton::machine
