#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace triton {

/// A line of /proc/PID/mountinfo. Source: proc_pid_mountinfo(5).
struct MountLine {
    std::string_view root;      ///< which directory of the file system is mounted; escaped
    std::string_view point;     ///< where; escaped
    std::string_view optional;  ///< "shared:1 master:2", or empty
    std::string_view type;      ///< "ext4"
    std::string_view source;    ///< escaped
};

/// nullopt: the line is cut, or is of another format.
std::optional<MountLine> parse_mount_line(std::string_view line);

/// Decodes a path of mountinfo, which writes blanks, tabs, newlines and backslashes as \ooo.
std::string unescape_mount_path(std::string_view text);

/// The mount that `path`, which is absolute and normalised, lies on; of several at one place the last, which is on top.
/// nullopt: none of the text. The result refers to the text.
std::optional<MountLine> mount_above(std::string_view mountinfo, std::string_view path);

}  // namespace triton
