#include "lib/log/log.h"

#define FMT_HEADER_ONLY 1
// Digits are not grouped here; the macro is fmt's way to be told so, and keeps std::locale with its 0.6 MB out.
#define FMT_STATIC_THOUSANDS_SEPARATOR ','
#define SPDLOG_FMT_EXTERNAL 1
#define SPDLOG_NO_THREAD_ID 1  // there is one thread, and each record would ask the kernel for its number

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/place.h"
#include "lib/json/text.h"
#include "lib/log/log_output.h"

namespace triton::log {

namespace {

struct LevelRow {
    spdlog::level::level_enum spdlog;
    std::string_view name;
    std::string_view color;  // of the text on a terminal
};
constexpr std::array<LevelRow, 6> levels{{
    {spdlog::level::trace, "trace", "\033[2m"},
    {spdlog::level::debug, "debug", "\033[2m"},
    {spdlog::level::info, "info", ""},
    {spdlog::level::warn, "warning", "\033[33m"},
    {spdlog::level::err, "error", "\033[31m"},
    {spdlog::level::off, "off", ""},
}};

LevelRow const& row(LogLevel level) { return levels[static_cast<std::size_t>(level)]; }

/// fmt, not snprintf: shortest text, and no locale.
void append_number(std::string& out, double value) { fmt::format_to(std::back_inserter(out), "{}", value); }

void append_json_value(std::string& out, LogField const& field, std::size_t longest_text) {
    if (auto const* flag = std::get_if<bool>(&field.value)) {
        out += *flag ? "true" : "false";
    } else if (auto const* number = std::get_if<std::int64_t>(&field.value)) {
        fmt::format_to(std::back_inserter(out), "{}", *number);
    } else if (auto const* real = std::get_if<double>(&field.value)) {
        append_number(out, *real);
    } else if (auto const* text = std::get_if<std::string_view>(&field.value)) {
        json::append_json_string(out, text->substr(0, longest_text));
    } else {
        char separator = '[';
        auto const texts = std::get<std::span<std::string const>>(field.value);
        if (texts.empty()) out += separator;
        for (std::string const& one : texts) {
            out += std::exchange(separator, ',');
            json::append_json_string(out, one);
        }
        out += ']';
    }
}

std::string_view const time_pattern = "%Y-%m-%dT%H:%M:%S.%fZ";

/// A terminal shows what the message says; control characters in it (from file names, say) stay visible and harmless.
void append_printable(std::string& out, std::string_view text) {
    for (char const c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
        } else {
            out += c;
        }
    }
}

}  // namespace

/// A spdlog sink in front of a LogOutput. Which of the two renderings of a record it takes is its pattern's matter.
class Log::Sink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
    LogOutput own_;

public:
    Sink(LogOutput own, LogOutput* shared, bool as_json, bool colored)
        : own_(std::move(own)), output(shared ? *shared : own_), is_json(as_json), is_colored(colored) {
        std::string pattern = is_json ? R"({"time":")" : "";
        pattern.append(time_pattern).append(is_json ? R"(",%v})" : " %v");
        set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc, "\n"));
    }

    LogOutput& output;
    bool const is_json;
    bool const is_colored;

    void write(spdlog::log_clock::time_point time, LevelRow const& level, std::string const& payload) {
        log(message(time, level, payload));
    }
    /// The line, with its newline, valid until the next one. The output has no part in it.
    std::string_view render(spdlog::log_clock::time_point time, LevelRow const& level, std::string const& payload) {
        line_.clear();
        formatter_->format(message(time, level, payload), line_);
        return {line_.data(), line_.size()};
    }

protected:
    void sink_it_(spdlog::details::log_msg const& message) override {
        line_.clear();
        formatter_->format(message, line_);
        output.append({line_.data(), line_.size()});
    }
    void flush_() override { output.flush(); }

private:
    static spdlog::details::log_msg message(spdlog::log_clock::time_point time, LevelRow const& level,
                                            std::string const& payload) {
        return {time, spdlog::source_loc{}, spdlog::string_view_t{}, level.spdlog, payload};
    }

    spdlog::memory_buf_t line_;
};

namespace {

constexpr int kept_files = 2;  // beside the one that is written to, as fdb-kubernetes-monitor has it

void render_json(std::string& out, LevelRow const& level, std::string_view event, std::string_view message,
                 std::span<LogField const> fields, std::size_t longest_text) {
    out.append(R"("level":")").append(level.name).append(R"(","event":")").append(event).append(R"(","message":)");
    json::append_json_string(out, message);
    for (LogField const& field : fields) {
        out.append(",\"").append(field.name).append("\":");
        append_json_value(out, field, longest_text);
    }
}

/// The message says what the fields say; only lists are shown below it.
void render_text(std::string& out, LevelRow const& level, bool is_colored, std::string_view message,
                 std::span<LogField const> fields) {
    if (is_colored) out += level.color;
    fmt::format_to(std::back_inserter(out), "{:<7} ", level.name);
    append_printable(out, message);
    for (LogField const& field : fields) {
        auto const* const texts = std::get_if<std::span<std::string const>>(&field.value);
        if (!texts) continue;
        for (std::string const& one : *texts) {
            out += "\n    ";
            append_printable(out, one);
        }
    }
    if (is_colored && !level.color.empty()) out += "\033[0m";
}

}  // namespace

Log::Log(Settings const& settings, LogOutput* console) : settings_(settings), size_limit_(settings.max_size) {
    if (settings_.longest_text == 0) settings_.longest_text = std::string_view::npos;
    bool const is_terminal = ::isatty(settings.console) == 1;
    bool const is_json =
        settings.format == LogFormat::json || (settings.format == LogFormat::automatic && !is_terminal);
    bool const is_colored = is_terminal && !is_json && !::getenv("NO_COLOR");
    console_ =
        std::make_shared<Sink>(console ? LogOutput{} : LogOutput{settings.console}, console, is_json, is_colored);
    // The file is for programs unless the user says otherwise.
    if (!settings.path.empty())
        file_ = std::make_shared<Sink>(LogOutput{}, nullptr, settings.format != LogFormat::text, false);
}

Log::~Log() { flush(); }

bool Log::is_enabled(LogLevel level) const { return level >= settings_.level && level != LogLevel::off; }

void Log::write(LogLevel level, std::string_view event, std::string_view message, std::span<LogField const> fields) {
    message = message.substr(0, settings_.longest_text);
    if (listener_ && level >= LogLevel::info) tell_listener(level, event, message, fields);
    if (!is_enabled(level)) return;
    auto const now = spdlog::log_clock::now();  // one event, one time
    for (Sink* const sink : {console_.get(), file_.get()}) {
        if (!sink) continue;
        payload_.clear();
        if (sink->is_json) {
            render_json(payload_, row(level), event, message, fields, settings_.longest_text);
        } else {
            render_text(payload_, row(level), sink->is_colored, message, fields);
        }
        sink->write(now, row(level), payload_);
    }
    if (!on_blocked_) return;
    flush();
    if (is_blocked()) on_blocked_();
}

void Log::tell_listener(LogLevel level, std::string_view event, std::string_view message,
                        std::span<LogField const> fields) {
    payload_.clear();
    render_json(payload_, row(level), event, message, fields, settings_.longest_text);
    if (!records_) records_ = std::make_shared<Sink>(LogOutput{}, nullptr, true, false);
    std::string_view line = records_->render(spdlog::log_clock::now(), row(level), payload_);
    line.remove_suffix(1);
    listener_(level, line);
}

Result<> Log::open_file() {
    if (!file_) return {};
    auto const place = Place::find(settings_.path, Place::LastLink::follow);
    if (!place) return about("open the log file " + settings_.path, place.error());
    // O_NONBLOCK: a FIFO without a reader is an error, not a wait. It does nothing to a regular file.
    UniqueFd fd = place->open(O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_NONBLOCK, 0644);
    int const err = errno;
    if (!fd) return fail(err, "open the log file " + settings_.path);
    file_->output.replace(std::move(fd));
    return {};
}

Result<bool> Log::reopen_file(bool in_any_case) {
    if (!file_) return false;
    struct stat opened;
    struct stat named;
    bool const is_same = file_->output.fd() >= 0 && ::fstat(file_->output.fd(), &opened) == 0 &&
                         ::stat(settings_.path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
                         opened.st_ino == named.st_ino;
    if (is_same && !in_any_case) return false;
    TRY(open_file());
    return true;
}

/// Renamed or removed by whoever rotates it, or as large as it may become. Worth two system calls, since lines are
/// rare.
void Log::tend_file() {
    (void)reopen_file(false);  // while that fails, lines wait
    struct stat opened;
    bool const is_file =
        file_->output.fd() >= 0 && ::fstat(file_->output.fd(), &opened) == 0 && S_ISREG(opened.st_mode);
    if (size_limit_ == 0 || !is_file || opened.st_size == 0) return;
    auto const size = static_cast<std::uint64_t>(opened.st_size);
    if (size + file_->output.pending() <= size_limit_) return;
    Result<> const rotated = rotate_file();
    if (rotated) return;
    size_limit_ = size + settings_.max_size;  // not every line is to try it again
    write(LogLevel::warning, "log-rotation-failed", rotated.error().text(), {{"error", rotated.error().text()}});
}

/// Two containers of a pod may log to one file: whoever has its lock renames it, the other finds a new one next time.
/// The lock ends with the descriptor, which a new file takes the place of.
/// Errors: of rename(2) and open(2).
Result<> Log::rotate_file() {
    int const fd = file_->output.fd();
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return {};
    // Somebody else may have had the lock, and renamed the file, since we looked.
    if (TRY(reopen_file(false))) return {};
    auto const place = Place::find(settings_.path, Place::LastLink::keep);
    if (!place) {
        (void)::flock(fd, LOCK_UN);
        return about("rename the log file " + settings_.path, place.error());
    }
    for (int number = kept_files; number > 0; --number) {
        std::string const suffix = number > 1 ? "." + std::to_string(number - 1) : "";
        if (place->rename(place->name() + suffix, place->name() + "." + std::to_string(number))) continue;
        int const err = errno;
        if (err == ENOENT) continue;
        (void)::flock(fd, LOCK_UN);
        return fail(err, "rename the log file " + settings_.path + suffix);
    }
    TRY(open_file());
    size_limit_ = settings_.max_size;
    return {};
}

void Log::flush() {
    if (file_ && file_->output.has_pending()) tend_file();
    for (Sink* const sink : {console_.get(), file_.get()}) {
        if (!sink) continue;
        sink->flush();
        std::uint64_t const dropped = sink->output.dropped();
        if (dropped == 0 || !sink->output.has_room(4096)) continue;
        sink->output.forget_dropped();
        payload_.clear();
        std::string const message = std::to_string(dropped) + " log lines dropped: the reader was too slow";
        if (sink->is_json) {
            LogField const count{"count", static_cast<std::int64_t>(dropped)};
            render_json(payload_, row(LogLevel::warning), "log-lines-dropped", message, {&count, 1},
                        settings_.longest_text);
        } else {
            render_text(payload_, row(LogLevel::warning), sink->is_colored, message, {});
        }
        sink->write(spdlog::log_clock::now(), row(LogLevel::warning), payload_);
        sink->flush();
    }
}

void Log::drain(milliseconds limit) {
    auto const deadline = std::chrono::steady_clock::now() + limit;
    flush();
    while (is_blocked()) {
        auto const left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd ready{settings_.console, POLLOUT, 0};
        if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) return;
        flush();
    }
}

bool Log::is_blocked() const { return console_->output.is_blocked(); }

bool Log::has_pending() const { return console_->output.has_pending() || (file_ && file_->output.has_pending()); }

}  // namespace triton::log
