#include "launcher/rooms/reload_watch.h"

#include <algorithm>
#include <utility>

#include "lib/base/duration.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

// A burst of changes is read once: the reading waits until nothing has happened for a moment, but not for ever.
constexpr Duration quiet_time = milliseconds(2);
constexpr Duration longest_burst = milliseconds(20);
constexpr Duration between_reloads = milliseconds(50);
constexpr Duration between_file_looks = std::chrono::seconds(10);

}  // namespace

ReloadWatch::ReloadWatch(EventLoop& loop, log::Log& log, std::function<void()> read, std::function<void()> burst_begins)
    : log_(log),
      burst_begins_(std::move(burst_begins)),
      watcher_(loop,
               [this] {
                   if (watcher_->take_events()) ask();
               }),
      timer_(loop, std::move(read)) {}

void ReloadWatch::read_now() {
    was_asked_ = true;
    timer_.arm(steady_clock::now());
}

void ReloadWatch::ask() {
    was_asked_ = true;
    TimePoint const now = steady_clock::now();
    bool const is_first = !timer_.is_armed();
    if (is_first) burst_began_ = now;
    TimePoint const when = std::min(now + quiet_time, burst_began_ + longest_burst);
    // The rate allows one extra look: a change soon after the start or after another change is taken at once.
    timer_.arm(std::max(when, next_look_ - between_reloads));
    if (is_first) burst_begins_();
}

bool ReloadWatch::begin_look() {
    timer_.disarm();
    last_look_ = steady_clock::now();
    next_look_ = std::max(next_look_, last_look_) + between_reloads;
    return std::exchange(was_asked_, false);
}

Result<> ReloadWatch::watch(std::vector<std::string> const& paths) {
    Result<> const watched = watcher_.watch(paths);
    if (std::exchange(has_stale_events_, false)) (void)watcher_->take_events();
    return watched;
}

void ReloadWatch::end_look(Result<> const& watched) {
    if (watched) {
        is_blind_ = false;
        return;
    }
    timer_.arm(last_look_ + between_file_looks);
    log::LogLevel const level = std::exchange(is_blind_, true) ? log::LogLevel::debug : log::LogLevel::warning;
    log_.write(level, "watch-failed",
               watched.error().text() + "; looking every " + format_duration(between_file_looks) + " instead",
               {{"error", std::string_view(watched.error().text())}});
}

void ReloadWatch::forget() {
    timer_.disarm();
    if (!std::exchange(has_forgotten_, true)) watcher_.forget();
}

}  // namespace triton::launcher
