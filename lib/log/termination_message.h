#pragma once

#include <string>
#include <string_view>

namespace triton::log {

/// Where Kubernetes reads why a container has ended (terminationMessagePath), unless a pod says otherwise.
inline constexpr char const* default_termination_path = "/dev/termination-log";

/// Writes the end of `text` there, at most 4096 bytes, if there is such a file and nobody has written to it: a program
/// may have said more. Only to a regular file of one name. Nobody is told of an error: outside of a pod there is no
/// file.
void leave_termination_message(std::string const& path, std::string_view text);

}  // namespace triton::log
