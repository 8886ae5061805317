#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::launcher {

/// A file that takes the lines of programs, in order. What it cannot take yet waits here, up to `capacity`.
class LogFile {
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

    explicit LogFile(Settings settings) : settings_(std::move(settings)) {}
    virtual ~LogFile() = default;

    /// Opens the file again under its name (SIGHUP, after somebody renamed it). Unless it can be opened the one that
    /// was open stays. Errors: see RotatingFile::open().
    virtual Result<> open() = 0;

    /// Takes all of `text`, which has whole lines and at most one that is not ended, at its end. Check has_room()
    /// first.
    virtual void write(std::string_view text) = 0;
    /// Tries again to write waiting text.
    virtual void flush() = 0;
    /// Before the launcher ends: the same, at most that long where it may come to wait for others.
    virtual void drain(milliseconds limit) = 0;

    [[nodiscard]] bool has_room(std::size_t bytes) const { return pending() + bytes <= capacity; }
    /// Bytes that were taken, and are not known to be in the file.
    [[nodiscard]] virtual std::size_t pending() const = 0;
    /// Whether the last byte taken did not end a line.
    [[nodiscard]] virtual bool is_mid_line() const = 0;
    /// Why something waits, or why the file could not be rotated and grows beyond its size; code 0: all is well.
    [[nodiscard]] virtual Error const& error() const = 0;
    [[nodiscard]] Settings const& settings() const { return settings_; }

    /// The text that is pending, to be given to restore() of another instance.
    [[nodiscard]] virtual std::string_view waiting() const = 0;
    virtual void restore(std::string_view waiting, bool is_mid_line) = 0;

    // Of a file that another process writes, see FarFile.
    [[nodiscard]] virtual bool has_writer() const { return false; }
    /// `call` is called when something is not pending any more, or error() has changed. It may drop this.
    virtual void when_moved(std::function<void()> /*call*/) {}
    /// The writer ends when all is written. Text that comes later has another one for itself.
    virtual void let_writer_end() {}
    struct Handover {
        int channel = -1;      ///< to the writer, borrowed; -1: there is none
        std::size_t sent = 0;  ///< of waiting(), from its beginning
    };
    /// For an upgrade.
    [[nodiscard]] virtual Handover handover() const { return {}; }

protected:
    LogFile(LogFile const&) = default;
    LogFile(LogFile&&) = default;
    LogFile& operator=(LogFile const&) = default;
    LogFile& operator=(LogFile&&) = default;

private:
    Settings settings_;
};

}  // namespace triton::launcher
