#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::cri::monitor {

inline constexpr std::size_t log_piece_bytes = 16 * 1024;

/// The lines of one stream of a program, in the form that kubelet reads:
///
///     2026-11-28T15:50:00.123456789Z stdout F a whole line, or the end of one
///     2026-11-28T15:50:00.123456789Z stdout P a piece of a long line, more of which follows
///
/// A line that is not complete is kept until it is, up to a piece; its last bytes are written when the stream ends.
class LogStream {
public:
    /// "stdout" or "stderr".
    explicit LogStream(std::string_view name) : name_(name) {}

    /// Appends to `out` what can be written of `bytes`, all with one time.
    void add(std::string_view bytes, std::int64_t nanoseconds, std::string& out);
    /// The rest, as a whole line.
    void end(std::int64_t nanoseconds, std::string& out);

private:
    void write(std::string_view text, char tag, std::string_view time, std::string& out) const;

    std::string_view name_;
    std::string rest_;
};

/// Nanoseconds since 1970 of the wall clock.
std::int64_t wall_nanoseconds();
/// "2026-11-28T15:50:00.123456789Z". Source: RFC 3339, section 5.6.
std::string log_time(std::int64_t nanoseconds);

/// The log of a container: both streams in one file. What cannot be written, as on a full disk, is thrown away, so that
/// the program goes on.
class ContainerLog {
public:
    /// Empty: nothing is kept. The directory is made if it is missing.
    static Result<ContainerLog> open(std::string path);

    LogStream& output() { return output_; }
    LogStream& errors() { return errors_; }
    void write(std::string_view text);
    /// Opens it by its name. Errors: those of open(2); it writes on into the old file then.
    Result<> reopen();

private:
    explicit ContainerLog(std::string path) : path_(std::move(path)) {}

    std::string path_;
    UniqueFd file_;
    bool is_cut_ = false;  // a line was written in part
    LogStream output_{"stdout"};
    LogStream errors_{"stderr"};
};

}  // namespace triton::cri::monitor
