#pragma once

#include <string_view>

#include <sys/types.h>

namespace triton {

/// Takes off the signal that came to us with this error of a write: SIGPIPE with EPIPE, SIGXFSZ with EFBIG. Who
/// blocks all signals and reads them would take it for one from outside, and pass it on. Leaves errno as it is.
void take_signal_of(int write_error);
/// write(2) without that signal.
ssize_t write_quietly(int fd, std::string_view text);
/// All of it, or nothing more once the reader has gone; errno then says why. Waits for a slow reader: not for a
/// supervisor's loop. Without the signals as well.
bool write_all(int fd, std::string_view text);

}  // namespace triton
