#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/output/log_file.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// A log file that is renamed to FILE.1 (FILE.1 to FILE.2 ..) before it grows beyond its size.
///
/// Files end at ends of lines: a line that was begun is written beyond the size, by at most `overshoot`. So is the rest
/// of what is written at once, when its files are so small that they would cost more than `most_renames`. What cannot
/// be written (a full disk) waits here.
class RotatingFile final : public LogFile {
public:
    static constexpr std::size_t overshoot = 64 * 1024;
    static constexpr std::size_t most_renames = 1024;  // some 10 ms

    using LogFile::LogFile;

    /// Opens the file, also for the first time. The program may own the directory: see Place.
    /// Errors: those of open(2), a missing directory among them; `denied` for a link of somebody else; `refused` for a
    /// file with other names; `invalid` for anything that is neither a file nor a device.
    Result<> open() override;

    void write(std::string_view text) override;
    void flush() override;
    void drain(milliseconds) override { flush(); }

    [[nodiscard]] std::size_t pending() const override { return waiting_.size() - written_; }
    [[nodiscard]] bool is_mid_line() const override { return is_mid_line_; }
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] Error const& error() const override { return error_.code != 0 ? error_ : rotation_error_; }

    [[nodiscard]] std::string_view waiting() const override { return std::string_view(waiting_).substr(written_); }
    void restore(std::string_view waiting, bool is_mid_line) override;

private:
    [[nodiscard]] std::size_t part_for_this_file(std::string_view text) const;
    std::size_t write_through(std::string_view text);
    Result<> rotate();

    UniqueFd fd_;
    std::uint64_t size_ = 0;
    std::uint64_t limit_ = 0;  // of size_; grows when the file cannot be rotated
    bool is_rotated_ = true;
    bool is_mid_line_ = false;       // of what was taken
    bool file_is_mid_line_ = false;  // of what was written
    std::string waiting_;
    std::size_t written_ = 0;  // of waiting_
    Error error_;
    Error rotation_error_;
};

}  // namespace triton::launcher
