#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace triton::storage {

/// Runs zfs(8) as a child process.
class ZfsCommand {
public:
    /// Errors: `unsupported`: there is no such program.
    static Result<ZfsCommand> find(std::chrono::milliseconds patience);

    /// How long one call may take, in relation to the patience.
    enum class Pace : unsigned char { quick, slow, unlimited };
    struct Call {
        std::string attempted = {};               ///< for messages: "make tree layers/a"
        std::vector<std::string> arguments = {};  ///< after "zfs"
        int in = -1;                              ///< borrowed; -1: nothing
        int out = -1;                             ///< borrowed; -1: the output is returned
        Pace pace = Pace::quick;
    };
    /// Returns what it has printed. While it says that something is busy it is called again, as long as the patience
    /// lasts.
    /// Errors: of the kind that its message means, with that message as the reason; `timeout`.
    [[nodiscard]] Result<std::string> run(Call const& call) const;

private:
    ZfsCommand(std::string program, std::chrono::milliseconds patience)
        : program_(std::move(program)), patience_(patience) {}
    [[nodiscard]] Result<std::string> run_once(Call const& call) const;

    std::string program_;
    std::chrono::milliseconds patience_;
};

/// What zfs(8) says when it has made a dataset and could not mount it.
inline constexpr std::string_view made_without_mount = "successfully created, but not mounted";

/// The kind of failure that a message of zfs(8) means, with the message as one line.
Error zfs_error(std::string const& attempted, std::string_view message);

/// The tab-separated fields of each line of a call with -H.
std::vector<std::vector<std::string>> zfs_fields(std::string_view output);

}  // namespace triton::storage
