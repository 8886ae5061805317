#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "host/info/parts.h"
#include "lib/base/clock.h"

namespace triton::info {

/// Which machines to read, and in which order. Each has one entry, however often it is asked for. Machines about which
/// something was noticed come before those that are only refreshed. After `fairness` of the former comes one of the
/// latter, so that a flood of notifications does not keep a refresh from finishing.
///
/// A machine has one job at a time, and pauses after each job has begun: its owner may cause notifications without end.
/// The pause grows with the events that it causes, because all listeners get them. A machine that somebody waits for
/// does not pause.
///
/// A machine whose job has taken long is treated separately for some time: few of them are read at once, so that the
/// others have their places. Each pauses longer after every slow job, until it has a quick one.
class WorkQueue {
public:
    struct Settings {
        Duration pause = milliseconds(50);                  ///< at least
        std::size_t bytes_a_second = std::size_t{1} << 20;  ///< of events that one machine may cause
        Duration retry = std::chrono::seconds(1);           ///< after a failed job; doubles each time
        Duration longest_retry = std::chrono::minutes(1);
        std::size_t most_machines = 100'000;
        std::size_t fairness = 8;
        Duration slow = std::chrono::seconds(1);        ///< a job that takes this long is slow
        std::size_t most_slow = 2;                      ///< jobs of slow machines at the same time
        Duration slow_pause = std::chrono::seconds(5);  ///< after a slow job; doubles each time
        Duration longest_slow_pause = std::chrono::minutes(5);
        Duration suspicion = std::chrono::minutes(10);  ///< how long a machine counts as slow, unless it is quick
    };
    explicit WorkQueue(Settings settings) : settings_(settings) {}

    enum class Urgency : std::uint8_t {
        refresh,
        awaited_refresh,  ///< in the line of refreshes, but without waiting for a pause or after a failure
        noticed,
        awaited
    };
    /// Returns false when it has too many machines to take one more.
    bool want(std::string_view machine, Parts parts, Urgency urgency, std::string_view why);

    struct Work {
        std::string machine;
        Parts parts;
        std::string why;
        bool is_refresh = false;  ///< nothing was noticed
        bool is_slow = false;     ///< the machine is a slow one
    };
    /// What to begin now.
    std::optional<Work> next(TimePoint now);
    /// When next() may return something because time has passed.
    [[nodiscard]] std::optional<TimePoint> next_at() const;
    struct End {
        bool has_failed = false;  ///< it is tried again later, or when something is noticed
        std::size_t bytes = 0;    ///< of the event that it has caused
        Duration took = {};
    };
    void finished(Work const& work, End const& end, TimePoint now);

    /// How many machines are waiting.
    struct Sizes {
        std::size_t noticed = 0;
        std::size_t refresh = 0;
        std::size_t delayed = 0;  ///< for their time
    };
    [[nodiscard]] Sizes sizes() const;

private:
    /// The line that an entry is in. Its name may still be in other lines, which then skip it.
    enum class Line : std::uint8_t { none, noticed, refresh, slow, delayed };
    struct Entry {
        Parts noticed = {};
        Parts refresh = {};
        bool is_awaited = false;
        bool is_running = false;
        bool is_running_slowly = false;
        Line line = Line::none;
        std::string why = {};
        TimePoint pauses_until = {};
        TimePoint ready_at = {};  ///< when the pause ends, or the next attempt after a failure begins
        Duration retry = {};      ///< the latest one; zero: it has not failed
        [[nodiscard]] bool wants() const { return !noticed.empty() || !refresh.empty(); }
    };
    using Entries = std::map<std::string, Entry, std::less<>>;
    struct Slow {
        TimePoint until;
        Duration pause;
    };

    static void end_retry(Entry& entry);
    void place(Entries::value_type& named);
    void delay(Entries::value_type& named);
    void end_delays(TimePoint now);
    std::deque<std::string>& names_in(Line line);
    Entries::value_type* take_from(Line line, TimePoint now);
    Entries::value_type* take_first(TimePoint now);
    Duration slow_pause(std::string const& machine, Duration took, TimePoint now);
    Work begin(Entries::value_type& named, TimePoint now);

    Settings settings_;
    Entries entries_;
    std::deque<std::string> noticed_;
    std::deque<std::string> refresh_;
    std::deque<std::string> slow_;
    std::multimap<TimePoint, std::string> delayed_;
    std::size_t noticed_in_a_row_ = 0;
    std::map<std::string, Slow, std::less<>> slow_machines_;
    std::size_t slow_running_ = 0;
};

}  // namespace triton::info
