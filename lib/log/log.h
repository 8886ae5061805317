#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/rfc3339.h"

namespace triton::log {

class LineOutput;
class LogOutput;

enum class LogLevel : std::uint8_t { trace, debug, info, warning, error, off };
/// "warning", as it is written and configured.
std::string_view name_of(LogLevel level);
enum class LogFormat : std::uint8_t { automatic, text, json };

/// One member of a log record beside its message. The name is a literal; the value is borrowed for the call. A duration
/// is written in seconds, to the millisecond.
struct LogField {
    std::string_view name;
    std::variant<bool, std::int64_t, Duration, std::string_view, std::span<std::string const>> value;
};

/// One line an event, on standard output and, when asked for, in a file too: text or JSON.
///
/// Nothing here blocks and nothing here fails: lines wait in a bounded buffer until flush() and are written as far as
/// the reader takes them. Lines that do not fit are dropped and counted, and the count is reported when there is room.
/// Of a list of texts, as much is written as a line has room for ("and 17 more").
class Log {
public:
    struct Settings {
        LogLevel level = LogLevel::info;
        LogFormat format = LogFormat::automatic;  ///< text on a terminal, JSON elsewhere
        std::string path;                         ///< of the file; empty: none
        std::uint64_t max_size = 0;               ///< of the file: at this it becomes PATH.1; 0: it grows for ever
        int console = 1;                          ///< standard output, or where it goes instead; borrowed
        std::string termination_path{};           ///< for leave_termination_message(); empty: none
        std::size_t longest_text = 0;             ///< a longer message or field is cut off there; 0: none is
    };

    /// `console`: what other writers share with this log (it outlives the log); null: an output of its own.
    explicit Log(Settings const& settings, LogOutput* console = nullptr);
    ~Log();
    Log(Log const&) = delete;
    Log& operator=(Log const&) = delete;

    [[nodiscard]] bool is_enabled(LogLevel level) const;
    using Listener = std::function<void(LogLevel level, std::string_view record)>;
    /// `listener` gets each record of level info and above, whatever the settings say, as one JSON object in one line
    /// without its newline. It must not write to this log. Empty: there is no listener, and nothing is rendered.
    void listen(Listener listener) { listener_ = std::move(listener); }
    void write(LogLevel level, std::string_view event, std::string_view message, std::span<LogField const> fields);
    void write(LogLevel level, std::string_view event, std::string_view message,
               std::initializer_list<LogField> fields = {}) {
        write(level, event, message, std::span(fields.begin(), fields.size()));
    }

    /// Opens the file that the settings name; while that fails, lines for it wait. Errors: those of open(2).
    Result<> open_file();
    /// Its descriptor, borrowed; -1: it is not open.
    [[nodiscard]] int file() const;
    /// Reopens it under its name if it was renamed or removed, or unconditionally. Returns whether it did.
    Result<bool> reopen_file(bool in_any_case);
    /// From now on its lines go there, those that wait first, and the file is closed. `writer`: borrowed until another
    /// call; null: there is no file any more.
    void let_write_file(LineOutput* writer);

    /// From now on each record is written at once, as far as the reader takes it: for programs whose work has no rounds
    /// that end with a flush(). `on_blocked` is called when the console has not taken everything.
    void write_at_once(std::function<void()> on_blocked) { on_blocked_ = std::move(on_blocked); }

    /// For a program that ends with a failure: the latest errors, whatever the level, for Kubernetes. See
    /// lib/log/termination_message.h.
    void leave_termination_message(int exit_code) const;

    /// Writes waiting lines.
    void flush();
    /// The same, and waits for a reader that is slow, at most that long: for the end, when nothing else is left to do.
    void drain(milliseconds limit);
    /// The console has not taken everything: call flush() when it is writable.
    [[nodiscard]] bool is_blocked() const;
    /// Where the console goes; borrowed.
    [[nodiscard]] int console() const { return settings_.console; }
    /// Lines are not written yet, to the console or to the file that is written here.
    [[nodiscard]] bool has_pending() const;

private:
    struct Sink;

    void append(Sink& sink, std::string_view time, LogLevel level, std::string_view event, std::string_view message,
                std::span<LogField const> fields);
    void tend_file();
    void remember_error(std::string_view message);

    Settings settings_;
    std::string line_;    // the latest record
    std::string errors_;  // the messages of the latest ones, a line each
    TimeText time_text_;
    Listener listener_;
    std::function<void()> on_blocked_;
    struct Outputs;
    std::unique_ptr<Outputs> outputs_;
};

}  // namespace triton::log
