#pragma once

#include <functional>
#include <string_view>

namespace triton::program {

/// All of it, or nothing more once the reader has gone; errno then says why. Waits for a slow reader.
bool write_all(int fd, std::string_view text);

/// The same, but gives up on a reader that takes nothing when `keep_going` (asked now and then) says no. Returns false
/// then too, with errno EINTR.
bool write_while(int fd, std::string_view text, std::function<bool()> const& keep_going);

/// "triton-launch: <text>" on standard error. Returns the exit code as given.
int complain(std::string_view text, int exit_code);

/// Says that standard output could not be written, for the reason in errno. Returns 1.
int complain_of_output();

/// On standard output. Returns the exit code as given; 1, with a complaint, when it cannot be written: a script must
/// not take half of it for all.
int print(std::string_view text, int exit_code = 0);

}  // namespace triton::program
