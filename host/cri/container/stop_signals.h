#pragma once

#include <string>

namespace triton::cri {

/// The number of a signal of the interface's enumeration; 0: the runtime's default.
int number_of_signal(int value);
/// The reverse; 0 for what has none.
int value_of_signal(int number);

/// The stop signal of a container: that of the request, else of the image ("SIGQUIT", "3"), else SIGTERM.
int stop_signal_of(int requested, std::string const& of_image);

}  // namespace triton::cri
