#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// A log file that is renamed to FILE.1 (FILE.1 to FILE.2 ..) before it grows beyond its size.
///
/// Files end at ends of lines: a line that was begun is written beyond the size, by at most `overshoot`. What cannot
/// be written (a full disk) waits here, in order, up to `capacity`.
class RotatingFile {
public:
    struct Settings {
        std::string path;
        std::uint64_t max_size = 10 << 20;  ///< at least 1
        std::uint32_t max_files = 5;        ///< FILE.1 to FILE.max_files; 0: a full file is removed
        std::optional<mode_t> mode =
            {};  ///< of FILE, even an existing one; absent: 0644 less the umask when it is made
        bool operator==(Settings const&) const = default;
    };
    static constexpr std::size_t capacity = 256 * 1024;
    static constexpr std::size_t overshoot = 64 * 1024;

    explicit RotatingFile(Settings settings) : settings_(std::move(settings)) {}

    /// Opens the file, or opens it again under its name (SIGHUP, after somebody renamed it). Unless it can be opened
    /// the one that was open stays. The program may own the directory: see Place.
    /// Errors: those of open(2), a missing directory among them; `denied` for a link of somebody else; `refused` for a
    /// file with other names; `invalid` for anything that is neither a file nor a device.
    Result<> open();

    /// Takes all of `text`, which has whole lines and at most one that is not ended, at its end. Check has_room()
    /// first.
    void write(std::string_view text);
    /// Tries again to write waiting text.
    void flush();

    [[nodiscard]] bool has_room(std::size_t bytes) const { return pending() + bytes <= capacity; }
    [[nodiscard]] std::size_t pending() const { return waiting_.size() - written_; }
    /// Whether the last byte taken did not end a line.
    [[nodiscard]] bool is_mid_line() const { return is_mid_line_; }
    [[nodiscard]] Settings const& settings() const { return settings_; }
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// Why something waits, or why the file could not be rotated and grows beyond its size; code 0: all is well.
    [[nodiscard]] Error const& error() const { return error_.code != 0 ? error_ : rotation_error_; }

    /// The waiting text, to be given to restore() of another instance.
    [[nodiscard]] std::string_view waiting() const { return std::string_view(waiting_).substr(written_); }
    void restore(std::string_view waiting, bool is_mid_line);

private:
    [[nodiscard]] std::size_t part_for_this_file(std::string_view text) const;
    std::size_t write_through(std::string_view text);
    Result<> rotate();

    Settings settings_;
    UniqueFd fd_;
    std::uint64_t size_ = 0;
    std::uint64_t limit_ = 0;  // of size_; grows when the file cannot be rotated
    bool is_regular_ = true;
    bool is_mid_line_ = false;       // of what was taken
    bool file_is_mid_line_ = false;  // of what was written
    std::string waiting_;
    std::size_t written_ = 0;  // of waiting_
    Error error_;
    Error rotation_error_;
};

}  // namespace triton::launcher
