#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "config/program.h"
#include "config/time_zone.h"
#include "launcher/supervisor/supervisor.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// When the runs of scheduled programs are due: intervals by monotonic time, calendars by wall time and its jumps.
class Schedules {
public:
    using Due = std::function<void(ProgramId)>;
    /// `loop` outlives this. `due` is called once for each program whose time has come, however often it was missed.
    Schedules(EventLoop& loop, Due due) : loop_(loop), due_(std::move(due)) {}

    /// The first run of an interval is one interval from now. Nothing changes for a program that has this schedule.
    /// Errors: those of timerfd_create(2).
    /// `zone`: of its calendar; null: UTC. One that is new and has a first run is due at once.
    Result<> set(ProgramId program, config::Schedule const& schedule, std::shared_ptr<config::TimeZone const> zone,
                 TimePoint now);
    void remove(ProgramId program);

    /// Until the next run. nullopt: the program has no schedule, or none that comes.
    [[nodiscard]] std::optional<Duration> next_run_in(ProgramId program, TimePoint now) const;

    /// When the next interval is over; calendars have a timer of their own.
    [[nodiscard]] std::optional<TimePoint> next_deadline() const;
    void time_passed(TimePoint now);

    /// For an upgrade: when the next run of each is. A calendar's may be due already, and must not be skipped.
    struct NextRun {
        ProgramId program{};
        TimePoint when{};                    // an interval's
        std::optional<std::int64_t> second;  // a calendar's, since 1970
    };
    [[nodiscard]] std::vector<NextRun> next_runs() const;
    /// After set().
    void import_next_run(NextRun const& next);

private:
    struct Entry {
        ProgramId program{};
        config::Schedule schedule;
        std::shared_ptr<config::TimeZone const> zone;  // null: UTC
        TimePoint due{};                               // an interval's
        std::optional<std::int64_t> due_at_second;     // a calendar's, since 1970
    };
    Entry* find(ProgramId program);
    static std::optional<std::int64_t> next_after(Entry const& entry, std::int64_t second);
    Result<> open_timer();
    void arm_timer();
    void timer_fired();

    EventLoop& loop_;
    Due due_;
    std::vector<Entry> entries_;
    UniqueFd timer_;
    bool was_clock_set_ = false;  // as setting the timer has found out
    EventLoop::Watch timer_watch_;
};

}  // namespace triton::launcher
