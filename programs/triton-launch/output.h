#pragma once

#include <functional>
#include <string_view>

namespace triton::program {

/// As write_all(), but gives up on a reader that takes nothing when `keep_going` (asked now and then) says no. Returns
/// false then too, with errno EINTR.
bool write_while(int fd, std::string_view text, std::function<bool()> const& keep_going);

/// "triton-launch: <text>" on standard error. Returns the exit code as given.
int complain(std::string_view text, int exit_code);

/// Says that standard output could not be written, for the reason in errno. Returns 1.
int complain_of_output();

/// On standard output. Returns the exit code as given; 1, with a complaint, when it cannot be written: a script must
/// not take half of it for all.
int print(std::string_view text, int exit_code = 0);

}  // namespace triton::program
