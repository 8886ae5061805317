#include "lib/log/log.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/log/log_output.h"
#include "lib/log/shared_file.h"
#include "lib/log/termination_message.h"

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

// A record that is larger than an output's buffer would be lost: its lists are cut off before.
constexpr std::size_t longest_list = 80 << 10;  // bytes, as they are written
constexpr std::size_t longest_entry = 4 << 10;  // bytes; escaped, each may become six
static_assert(2 * (longest_list + 6 * longest_entry) < LogOutput::capacity);

/// Passes the texts of a list to `add`, which appends to `out`, and counts those that do not fit.
template <class Add>
void add_list(std::string const& out, std::span<std::string const> texts, Add add) {
    std::size_t const most = out.size() + longest_list;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        if (out.size() >= most) return add("and " + std::to_string(texts.size() - i) + " more");
        add(std::string_view(texts[i]).substr(0, longest_entry));
    }
}

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
        add_list(out, texts, [&](std::string_view one) {
            out += std::exchange(separator, ',');
            json::append_json_string(out, one);
        });
        out += ']';
    }
}

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
        add_list(out, *texts, [&](std::string_view one) {
            out += "\n    ";
            out += json::printable(one);
        });
    }
    if (is_colored && !record.level.color.empty()) out += "\033[0m";
    out += '\n';
}

}  // namespace

std::string_view name_of(LogLevel level) { return row(level).name; }

/// An output of records, and their form there.
struct Log::Sink {
    LineOutput* output;
    bool is_json;
    bool is_colored;
};

struct Log::Outputs {
    LogOutput own_console;
    LogOutput& console;
    Sink to_console;
    std::optional<SharedFile> file;
    std::optional<Sink> to_file;

    Outputs(LogOutput own, LogOutput* shared, bool as_json, bool colored)
        : own_console(std::move(own)),
          console(shared ? *shared : own_console),
          to_console{&console, as_json, colored} {}

    [[nodiscard]] std::array<Sink*, 2> all() { return {&to_console, to_file ? &*to_file : nullptr}; }
};

Log::Log(Settings const& settings, LogOutput* console) : settings_(settings) {
    if (settings_.longest_text == 0) settings_.longest_text = std::string_view::npos;
    bool const is_terminal = ::isatty(settings.console) == 1;
    bool const is_json =
        settings.format == LogFormat::json || (settings.format == LogFormat::automatic && !is_terminal);
    bool const is_colored = is_terminal && !is_json && !::getenv("NO_COLOR");
    outputs_ =
        std::make_unique<Outputs>(console ? LogOutput{} : LogOutput{settings.console}, console, is_json, is_colored);
    if (settings.path.empty()) return;
    SharedFile& file = outputs_->file.emplace(settings.path, settings.max_size);
    // The file is for programs unless the user says otherwise.
    outputs_->to_file = Sink{&file.output(), settings.format != LogFormat::text, false};
}

Log::~Log() { flush(); }

bool Log::is_enabled(LogLevel level) const { return level >= settings_.level && level != LogLevel::off; }

void Log::write(LogLevel level, std::string_view event, std::string_view message, std::span<LogField const> fields) {
    if (level == LogLevel::error && !settings_.termination_path.empty()) remember_error(message);
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
    for (Sink* const sink : outputs_->all()) {
        if (sink) append(*sink, time, level, event, message, fields);
    }
    if (!on_blocked_) return;
    flush();
    if (is_blocked()) on_blocked_();
}

/// Keeps three: how a program has failed, and that the container ends because of it.
void Log::remember_error(std::string_view message) {
    constexpr std::size_t longest_message = 1024;
    constexpr std::ptrdiff_t most = 3;
    errors_.append(message.substr(0, longest_message)).append("\n");
    if (std::ranges::count(errors_, '\n') > most) errors_.erase(0, errors_.find('\n') + 1);
}

void Log::leave_termination_message(int exit_code) const {
    if (exit_code == 0 || settings_.termination_path.empty()) return;
    log::leave_termination_message(settings_.termination_path,
                                   errors_.empty() ? "exit code " + std::to_string(exit_code) + "\n" : errors_);
}

void Log::append(Sink& sink, std::string_view time, LogLevel level, std::string_view event, std::string_view message,
                 std::span<LogField const> fields) {
    Record const record{time, row(level), event, message, fields};
    line_.clear();
    sink.is_json ? render_json(line_, record, settings_.longest_text) : render_text(line_, record, sink.is_colored);
    sink.output->append(line_);
}

Result<> Log::open_file() { return outputs_->file ? outputs_->file->open() : Result<>(); }

int Log::file() const { return outputs_->file ? outputs_->file->output().fd() : -1; }

Result<bool> Log::reopen_file(bool in_any_case) {
    if (!outputs_->file) return false;
    return outputs_->file->reopen(in_any_case);
}

void Log::let_write_file(LineOutput* writer) {
    if (!outputs_->to_file) return;
    if (writer && outputs_->file && outputs_->file->output().has_pending())
        writer->append(outputs_->file->output().waiting());
    outputs_->to_file->output = writer;
    outputs_->file.reset();
    if (!writer) outputs_->to_file.reset();
}

void Log::flush() {
    tend_file();
    for (Sink* const sink : outputs_->all()) {
        if (!sink) continue;
        sink->output->flush();
        std::uint64_t const dropped = sink->output->dropped();
        if (dropped == 0 || !sink->output->has_room(4096)) continue;
        sink->output->forget_dropped();
        std::string const message = std::to_string(dropped) + " log lines dropped: the reader was too slow";
        LogField const count{"count", static_cast<std::int64_t>(dropped)};
        append(*sink, time_text_.at(microseconds_now()), LogLevel::warning, "log-lines-dropped", message, {&count, 1});
        sink->output->flush();
    }
}

/// That is worth two system calls, since lines are rare.
void Log::tend_file() {
    if (!outputs_->file || !outputs_->file->output().has_pending()) return;
    Result<> const tended = outputs_->file->tend();
    if (tended) return;
    std::string const reason = tended.error().text();
    write(LogLevel::warning, "log-rotation-failed", reason, {{"error", std::string_view(reason)}});
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

bool Log::is_blocked() const { return outputs_->console.is_blocked(); }

bool Log::has_pending() const {
    return outputs_->console.has_pending() || (outputs_->file && outputs_->file->output().has_pending());
}

}  // namespace triton::log
