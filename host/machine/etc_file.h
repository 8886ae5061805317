#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::machine {

/// Replaces etc/<name> below the root directory of a machine, which may run and may have put anything there: a link in
/// its place is replaced, and none on the way leads out of the root. The file belongs to whom /etc belongs. One that
/// says the same already stays. Errors: those of the system calls, "write <root>/etc/<name>".
Result<> write_etc_file(std::string const& root, std::string const& name, std::string_view text);

}  // namespace triton::machine
