#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace triton::cri::stream {

inline constexpr int first_version_with_objects = 4;  ///< of channel.k8s.io

/// How a command has ended, as clients want it on the error stream. `is_object`: protocol v4 and later have JSON, with
/// the exit code as a cause ExitCode; before it there was a text, and nothing when all was well.
std::string command_status(Result<std::int64_t> const& exit_code, bool is_object);

struct TerminalSize {
    std::int64_t width = 0;
    std::int64_t height = 0;
    bool operator==(TerminalSize const&) const = default;
};

/// Reads what comes on the stream for sizes: objects {"Width":80,"Height":24} without anything between them. What is
/// none is passed over.
class TerminalSizes {
public:
    /// Returns the last size that is complete: those before it were of a moment.
    std::optional<TerminalSize> receive(std::string_view bytes);

private:
    std::string object_;
};

}  // namespace triton::cri::stream
