#include "programs/imgadm/progress_output.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/write_all.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "lib/text/width.h"

namespace triton::program {

namespace {

constexpr std::string_view erase_line = "\r\x1b[K";
constexpr auto sample = std::chrono::milliseconds(500);
constexpr double weight_of_the_newest = 0.4;
constexpr char waiting_text[] = ", waiting to try again: ";

std::size_t terminal_columns() {
    winsize size{};
    return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string shown_seconds(std::uint64_t seconds) {
    if (seconds < 120) return std::to_string(seconds) + " s";
    if (seconds < 7200) return std::to_string(seconds / 60) + " min";
    return std::to_string(seconds / 3600) + " h";
}

}  // namespace

std::uint64_t RateMeter::update(std::uint64_t done, TimePoint now) {
    if (!is_started_ || done < done_at_from_) {
        is_started_ = true;
        from_ = now;
        done_at_from_ = done;
        rate_ = 0;
        return 0;
    }
    auto const passed = now - from_;
    if (passed >= sample) {
        double const newest = static_cast<double>(done - done_at_from_) / std::chrono::duration<double>(passed).count();
        rate_ = rate_ == 0 ? newest : rate_ + weight_of_the_newest * (newest - rate_);
        from_ = now;
        done_at_from_ = done;
    }
    return static_cast<std::uint64_t>(rate_);
}

std::string shown_bytes(std::uint64_t bytes) {
    static constexpr std::array<std::string_view, 5> units{"bytes", "KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) return std::to_string(bytes) + " bytes";
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f", value);
    return std::string(text.data()) + " " + std::string(units[unit]);
}

std::string progress_line(image::Progress const& progress, std::uint64_t bytes_per_second, std::size_t columns) {
    std::string line(image::name_of(progress.phase));
    if (progress.done > 0 || progress.total > 0) {
        line += "  " + shown_bytes(progress.done);
        if (progress.total > 0) line += " of " + shown_bytes(progress.total);
        if (bytes_per_second > 0) line += ", " + shown_bytes(bytes_per_second) + "/s";
        if (bytes_per_second > 0 && progress.total > progress.done)
            line += ", " + shown_seconds((progress.total - progress.done) / bytes_per_second + 1) + " left";
    }
    line += ": " + text::printable(progress.image);
    if (!progress.waiting_for.empty()) line += waiting_text + text::printable(progress.waiting_for);
    return std::string(text::prefix_of_width(line, columns));
}

ProgressOutput::ProgressOutput(ProgressMode mode, bool is_quiet)
    : mode_(mode),
      is_quiet_(is_quiet),
      has_colours_(::isatty(STDERR_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr) {
    if (mode_ == ProgressMode::automatic)
        mode_ = ::isatty(STDERR_FILENO) == 1 && !is_quiet ? ProgressMode::line : ProgressMode::none;
}

ProgressOutput::~ProgressOutput() { clear(); }

void ProgressOutput::show(std::string const& line) {
    (void)write_all(STDERR_FILENO, line);  // that nobody reads it is not a reason to stop
}

void ProgressOutput::clear() {
    if (!is_line_shown_) return;
    is_line_shown_ = false;
    show(std::string(erase_line));
}

void ProgressOutput::progress(image::Progress const& progress) {
    bool const is_new = progress.phase != phase_ || progress.image != image_;
    if (is_new) {
        phase_ = progress.phase;
        image_ = progress.image;
        waited_for_.clear();
        meter_ = RateMeter();
    }
    bool const is_new_wait = !progress.waiting_for.empty() && progress.waiting_for != waited_for_;
    if (is_new_wait) waited_for_ = progress.waiting_for;
    std::uint64_t const rate = meter_.update(progress.done, std::chrono::steady_clock::now());
    switch (mode_) {
        case ProgressMode::line:
            is_line_shown_ = true;
            show(std::string(erase_line) + progress_line(progress, rate, terminal_columns() - 1));
            return;
        case ProgressMode::lines:
            if (is_new || is_new_wait)
                show("imgadm: " + std::string(image::name_of(progress.phase)) + ": " + text::printable(progress.image) +
                     (is_new_wait ? waiting_text + text::printable(progress.waiting_for) : "") + "\n");
            return;
        case ProgressMode::json: {
            json::Writer out;
            out.open('{')
                .member("event", "progress")
                .member("phase", image::name_of(progress.phase))
                .member("image", progress.image)
                .member("done", progress.done)
                .member("total", progress.total)
                .member("bytesPerSecond", rate);
            if (!progress.waiting_for.empty()) out.member("waitingFor", progress.waiting_for);
            out.close('}');
            show(std::move(out).text() + "\n");
            return;
        }
        case ProgressMode::automatic:
        case ProgressMode::none: return;
    }
}

void ProgressOutput::message(std::string_view text) {
    if (is_quiet_) return;
    clear();
    (void)write_all(STDOUT_FILENO, text::printable(text) + "\n");  // the command's work does not depend on its reader
}

void ProgressOutput::warning(std::string_view text) {
    clear();
    if (mode_ == ProgressMode::json) {
        json::Writer out;
        out.open('{').member("event", "warning").member("message", text).close('}');
        show(std::move(out).text() + "\n");
        return;
    }
    show((has_colours_ ? "\x1b[33mimgadm: warning:\x1b[0m " : "imgadm: warning: ") + text::printable(text) + "\n");
}

}  // namespace triton::program
