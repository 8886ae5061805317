#include "lib/log/log.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/place.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/log/log_output.h"

namespace triton::log {

namespace {

struct LevelRow {
    std::string_view name;
    std::string_view color;  // of the text on a terminal
};
constexpr std::array<LevelRow, 6> levels{{
    {"trace", "\033[2m"},
    {"debug", "\033[2m"},
    {"info", ""},
    {"warning", "\033[33m"},
    {"error", "\033[31m"},
    {"off", ""},
}};
static_assert(levels.size() == static_cast<std::size_t>(LogLevel::off) + 1);
constexpr std::size_t level_width = 7;

LevelRow const& row(LogLevel level) { return levels[static_cast<std::size_t>(level)]; }

std::int64_t microseconds_now() {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::floor<std::chrono::microseconds>(now).count();
}

void append_json_value(std::string& out, LogField const& field, std::size_t longest_text) {
    if (auto const* flag = std::get_if<bool>(&field.value)) {
        out += *flag ? "true" : "false";
    } else if (auto const* number = std::get_if<std::int64_t>(&field.value)) {
        out += std::to_string(*number);
    } else if (auto const* duration = std::get_if<Duration>(&field.value)) {
        out += json::Writer().value(*duration).text();
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

constexpr int kept_files = 2;  // besides the one that is being written, as in fdb-kubernetes-monitor

/// One record as it goes to its outputs; all of it is borrowed.
struct Record {
    std::string_view time;
    LevelRow const& level;
    std::string_view event;
    std::string_view message;
    std::span<LogField const> fields;
};

void render_json(std::string& out, Record const& record, std::size_t longest_text) {
    out.append(R"({"time":")").append(record.time).append(R"(","level":")").append(record.level.name);
    out.append(R"(","event":")").append(record.event).append(R"(","message":)");
    json::append_json_string(out, record.message);
    for (LogField const& field : record.fields) {
        out.append(",\"").append(field.name).append("\":");
        append_json_value(out, field, longest_text);
    }
    out += "}\n";
}

/// Renders a record as text. The message says what the fields say, so only lists are shown below it. Control characters
/// in it (from file names, for example) stay visible and harmless.
void render_text(std::string& out, Record const& record, bool is_colored) {
    out.append(record.time).append(" ");
    if (is_colored) out += record.level.color;
    out.append(record.level.name).append(level_width + 1 - record.level.name.size(), ' ');
    out += json::printable(record.message);
    for (LogField const& field : record.fields) {
        auto const* const texts = std::get_if<std::span<std::string const>>(&field.value);
        if (!texts) continue;
        for (std::string const& one : *texts) {
            out += "\n    ";
            out += json::printable(one);
        }
    }
    if (is_colored && !record.level.color.empty()) out += "\033[0m";
    out += '\n';
}

}  // namespace

/// An output of records, and their form there.
struct Log::Sink {
    Sink(LogOutput own, LogOutput* shared, bool as_json, bool colored)
        : own_output(std::move(own)), output(shared ? *shared : own_output), is_json(as_json), is_colored(colored) {}

    LogOutput own_output;
    LogOutput& output;
    bool is_json;
    bool is_colored;
};

Log::Log(Settings const& settings, LogOutput* console) : settings_(settings), size_limit_(settings.max_size) {
    if (settings_.longest_text == 0) settings_.longest_text = std::string_view::npos;
    bool const is_terminal = ::isatty(settings.console) == 1;
    bool const is_json =
        settings.format == LogFormat::json || (settings.format == LogFormat::automatic && !is_terminal);
    bool const is_colored = is_terminal && !is_json && !::getenv("NO_COLOR");
    console_ =
        std::make_unique<Sink>(console ? LogOutput{} : LogOutput{settings.console}, console, is_json, is_colored);
    // The file is for programs unless the user says otherwise.
    if (!settings.path.empty())
        file_ = std::make_unique<Sink>(LogOutput{}, nullptr, settings.format != LogFormat::text, false);
}

Log::~Log() { flush(); }

bool Log::is_enabled(LogLevel level) const { return level >= settings_.level && level != LogLevel::off; }

void Log::write(LogLevel level, std::string_view event, std::string_view message, std::span<LogField const> fields) {
    bool const is_told = listener_ && level >= LogLevel::info;
    if (!is_told && !is_enabled(level)) return;
    message = message.substr(0, settings_.longest_text);
    std::string_view const time = time_text_.at(microseconds_now());  // one time for all sinks of an event
    if (is_told) {
        line_.clear();
        render_json(line_, {time, row(level), event, message, fields}, settings_.longest_text);
        listener_(level, std::string_view(line_).substr(0, line_.size() - 1));
    }
    if (!is_enabled(level)) return;
    for (Sink* const sink : {console_.get(), file_.get()}) {
        if (sink) append(*sink, time, level, event, message, fields);
    }
    if (!on_blocked_) return;
    flush();
    if (is_blocked()) on_blocked_();
}

void Log::append(Sink& sink, std::string_view time, LogLevel level, std::string_view event, std::string_view message,
                 std::span<LogField const> fields) {
    Record const record{time, row(level), event, message, fields};
    line_.clear();
    sink.is_json ? render_json(line_, record, settings_.longest_text) : render_text(line_, record, sink.is_colored);
    sink.output.append(line_);
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

/// Looks after a file that may have been renamed or removed by log rotation, or that may be full. That is worth two
/// system calls, since lines are rare.
void Log::tend_file() {
    (void)reopen_file(false);  // until that succeeds, lines wait
    struct stat opened;
    bool const is_file =
        file_->output.fd() >= 0 && ::fstat(file_->output.fd(), &opened) == 0 && S_ISREG(opened.st_mode);
    if (size_limit_ == 0 || !is_file || opened.st_size == 0) return;
    auto const size = static_cast<std::uint64_t>(opened.st_size);
    if (size + file_->output.pending() <= size_limit_) return;
    Result<> const rotated = rotate_file();
    if (rotated) return;
    size_limit_ = size + settings_.max_size;  // so that not every line tries it again
    write(LogLevel::warning, "log-rotation-failed", rotated.error().text(), {{"error", rotated.error().text()}});
}

/// Rotates the file. Two containers of a pod may log to the same one: the holder of its lock renames it, and the other
/// finds the new file next time. The lock ends with the descriptor, which is closed when the new file replaces it.
/// Errors: those of rename(2) and open(2).
Result<> Log::rotate_file() {
    int const fd = file_->output.fd();
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return {};
    // Another process may have had the lock, and renamed the file, since we looked.
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
        sink->output.flush();
        std::uint64_t const dropped = sink->output.dropped();
        if (dropped == 0 || !sink->output.has_room(4096)) continue;
        sink->output.forget_dropped();
        std::string const message = std::to_string(dropped) + " log lines dropped: the reader was too slow";
        LogField const count{"count", static_cast<std::int64_t>(dropped)};
        append(*sink, time_text_.at(microseconds_now()), LogLevel::warning, "log-lines-dropped", message, {&count, 1});
        sink->output.flush();
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
