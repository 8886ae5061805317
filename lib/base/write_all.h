#pragma once

#include <string_view>

namespace triton {

/// All of it, or nothing more once the reader has gone; errno then says why. Waits for a slow reader: not for a
/// supervisor's loop.
bool write_all(int fd, std::string_view text);

}  // namespace triton
