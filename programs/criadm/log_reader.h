#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "lib/base/result.h"
#include "programs/criadm/log_file.h"

namespace triton::program {

/// A line of a container's log. See host/cri/monitor/container_log.h for the form.
struct LogLine {
    std::string_view time;
    bool is_error = false;  ///< of stderr
    bool is_piece = false;  ///< more of the line follows
    std::string_view text;
};
/// nullopt: it has not that form. `line` has no newline.
std::optional<LogLine> parse_log_line(std::string_view line);

/// Where the last `count` lines of a log begin. Pieces of a line count as one. The file may be much larger than memory.
off_t begin_of_last_lines(int log, std::int64_t count);

/// The log of a container, whose file is replaced while it grows.
class LogReader {
public:
    /// `tail`: how many lines of what is there; -1: all. Errors: those of open(2).
    static Result<LogReader> open(std::string path, std::int64_t tail);

    /// Appends to `out` what is there to read, whole lines only, up to a megabyte. Returns whether there was something.
    Result<bool> read(std::string& out);
    /// Whether another file has the name now. After the rest of this one read() goes on with those that had the name in
    /// between, and with that one: when a new file is there, the old one has all that it will have.
    bool follow_rotation();

private:
    LogReader(std::string path, LogFile file) : path_(std::move(path)), file_(std::move(file)) {}

    std::string path_;
    LogFile file_;
    std::deque<LogFile> next_;
    std::string rest_;  // behind the last newline
};

}  // namespace triton::program
