#pragma once

#include <string>

namespace triton {

/// "SIGTERM", "SIGRTMIN+3"; "signal 32" for those without a name.
std::string signal_text(int signo);

}  // namespace triton
