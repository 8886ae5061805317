#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace triton {

/// Files on file systems that others serve (NFS, SMB, FUSE ..): when these do not answer, whoever opens, reads or
/// writes there waits in the kernel for as long as they like.

/// Whether a path may be touched now without waiting. `look` does the same, where it harms nobody that it may wait.
using MayTouch = std::function<bool(std::string const& path, std::function<void()> const& look)>;

/// Whether an open file is such a one. True also when its file system cannot be told.
[[nodiscard]] bool may_hang(int fd);

/// Whether a path leads to such a file. False when it leads nowhere.
[[nodiscard]] bool is_far_path(std::string const& path);

/// Whether any file system that we can see is such a one. Asks the kernel, and none of them: statmount(2), or
/// proc_pid_mountinfo(5) before Linux 6.8 and under a filter of system calls. True also when neither answers.
[[nodiscard]] bool may_any_file_hang();

/// The same, of the text of /proc/self/mountinfo.
[[nodiscard]] bool has_far_mount(std::string_view mountinfo);

}  // namespace triton
