#include "launcher/services/schedules.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include <sys/timerfd.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

std::int64_t wall_second() {
    timespec now{};
    (void)::clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

}  // namespace

Schedules::Entry* Schedules::find(ProgramId program) {
    auto const entry = std::ranges::find(entries_, program, &Entry::program);
    return entry == entries_.end() ? nullptr : &*entry;
}

/// The next second that the entry's calendar names.
std::optional<std::int64_t> Schedules::next_after(Entry const& entry, std::int64_t second) {
    auto const& calendar = std::get<config::CronExpression>(entry.schedule.when);
    return entry.zone ? config::next_after(calendar, *entry.zone, second) : config::next_after(calendar, second);
}

Result<> Schedules::set(ProgramId program, config::Schedule const& schedule,
                        std::shared_ptr<config::TimeZone const> zone, TimePoint now) {
    Entry* const known = find(program);
    bool const has_same_clock = known && (known->zone == zone || (known->zone && zone && *known->zone == *zone));
    if (has_same_clock && known->schedule == schedule) return {};
    Entry entry{program, schedule, std::move(zone), {}, {}};
    bool const is_due = !known && schedule.has_first_run;
    if (auto const* const every = std::get_if<config::Milliseconds>(&schedule.when)) {
        entry.due = is_due ? now : now + *every;
    } else {
        TRY(open_timer());
        entry.due_at_second = is_due ? wall_second() : next_after(entry, wall_second());
    }
    if (known) {
        *known = std::move(entry);
    } else {
        entries_.push_back(std::move(entry));
    }
    arm_timer();
    return {};
}

void Schedules::remove(ProgramId program) {
    if (std::erase_if(entries_, [&](Entry const& entry) { return entry.program == program; }) > 0) arm_timer();
}

std::optional<Duration> Schedules::next_run_in(ProgramId program, TimePoint now) const {
    auto const entry = std::ranges::find(entries_, program, &Entry::program);
    if (entry == entries_.end()) return std::nullopt;
    if (std::holds_alternative<config::Milliseconds>(entry->schedule.when))
        return std::max(entry->due - now, Duration{});
    if (!entry->due_at_second) return std::nullopt;
    return std::chrono::seconds(std::max<std::int64_t>(*entry->due_at_second - wall_second(), 0));
}

std::optional<TimePoint> Schedules::next_deadline() const {
    std::optional<TimePoint> next;
    for (Entry const& entry : entries_) {
        if (!std::holds_alternative<config::Milliseconds>(entry.schedule.when)) continue;
        if (!next || entry.due < *next) next = entry.due;
    }
    return next;
}

void Schedules::time_passed(TimePoint now) {
    for (Entry& entry : entries_) {
        auto const* const every = std::get_if<config::Milliseconds>(&entry.schedule.when);
        if (!every || entry.due > now) continue;
        entry.due += *every;
        if (entry.due <= now) entry.due = now + *every;  // we were stopped meanwhile: missed runs are not made up for
        due_(entry.program);
    }
}

std::vector<Schedules::NextRun> Schedules::next_runs() const {
    std::vector<NextRun> runs;
    for (Entry const& entry : entries_) {
        bool const is_interval = std::holds_alternative<config::Milliseconds>(entry.schedule.when);
        if (is_interval || entry.due_at_second) runs.push_back({entry.program, entry.due, entry.due_at_second});
    }
    return runs;
}

void Schedules::import_next_run(NextRun const& next) {
    Entry* const entry = find(next.program);
    if (!entry) return;
    if (std::holds_alternative<config::Milliseconds>(entry->schedule.when)) {
        entry->due = next.when;
    } else if (next.second) {
        // The clock may have been set back meanwhile.
        auto const from_now = next_after(*entry, wall_second());
        entry->due_at_second = from_now ? std::min(*from_now, *next.second) : *next.second;
        arm_timer();  // fires at once if that time has passed
    }
}

Result<> Schedules::open_timer() {
    if (timer_) return {};
    UniqueFd timer{::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK)};
    int const err = errno;
    if (!timer) return fail(err, "make a timer for the schedule");
    timer_watch_ = TRY(loop_.on_readable(timer.get(), [this] { timer_fired(); }));
    timer_ = std::move(timer);
    return {};
}

/// Sets the timer for the next run of a calendar. TFD_TIMER_CANCEL_ON_SET also wakes us when somebody sets the clock:
/// the next run is then at another time. Source: timerfd_create(2).
void Schedules::arm_timer() {
    if (!timer_) return;
    std::optional<std::int64_t> next;
    for (Entry const& entry : entries_) {
        if (entry.due_at_second && (!next || *entry.due_at_second < *next)) next = entry.due_at_second;
    }
    itimerspec when{};
    if (next) when.it_value.tv_sec = *next;
    constexpr int flags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
    if (::timerfd_settime(timer_.get(), flags, &when, nullptr) == 0 || errno != ECANCELED) return;
    // Somebody has set the clock since the last look, and this call has taken the news of it. The timer fires at once.
    was_clock_set_ = true;
    when.it_value = {0, 1};
    (void)::timerfd_settime(timer_.get(), flags, &when, nullptr);
}

void Schedules::timer_fired() {
    std::uint64_t expirations = 0;
    bool const is_cancelled = ::read(timer_.get(), &expirations, sizeof expirations) < 0 && errno == ECANCELED;
    bool const was_clock_set = std::exchange(was_clock_set_, false) || is_cancelled;
    std::int64_t const now = wall_second();
    for (Entry& entry : entries_) {
        auto const* const calendar = std::get_if<config::CronExpression>(&entry.schedule.when);
        if (!calendar || !entry.due_at_second) continue;
        bool const is_due = *entry.due_at_second <= now;
        // After the clock was set back the same minute comes again, and its run comes with it.
        if (is_due || was_clock_set) entry.due_at_second = next_after(entry, now);
        if (is_due) due_(entry.program);
    }
    arm_timer();
}

}  // namespace triton::launcher
