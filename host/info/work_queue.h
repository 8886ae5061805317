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

/// Which machines have to be read, and in which order. Each has one entry, however often it is asked for. What was
/// noticed goes before what is only refreshed; one of the latter comes after `fairness` of the former, so that a flood
/// of notifications does not keep a refresh from its end.
///
/// A machine is in one job at a time, and after the beginning of one it pauses: its owner may cause notifications
/// without end. The more there was to tell, the longer: its launcher may say much, and everybody's listeners are told.
/// Somebody who waits for it is not held up by the pause.
class WorkQueue {
public:
    struct Settings {
        Duration pause = milliseconds(50);                  ///< at least
        std::size_t bytes_a_second = std::size_t{1} << 20;  ///< of events that a machine may cause
        Duration retry = std::chrono::seconds(1);           ///< after a job has failed; doubles each time
        Duration longest_retry = std::chrono::minutes(1);
        std::size_t most_machines = 100'000;
        std::size_t fairness = 8;
    };
    explicit WorkQueue(Settings settings) : settings_(settings) {}

    enum class Urgency : std::uint8_t {
        refresh,
        awaited_refresh,  ///< in the line of refreshes, but neither a pause nor a failure holds it up
        noticed,
        awaited
    };
    /// Returns false when it has too many machines to take another.
    bool want(std::string_view machine, Parts parts, Urgency urgency, std::string_view why);

    struct Work {
        std::string machine;
        Parts parts;
        std::string why;
        bool is_refresh = false;  ///< nothing was noticed
    };
    /// What to begin now.
    std::optional<Work> next(TimePoint now);
    /// When next() may have something because time has passed.
    [[nodiscard]] std::optional<TimePoint> next_at() const;
    /// What has failed is tried again later, or when something new is noticed. `bytes`: of the event that has come of
    /// it.
    void finished(Work const& work, bool has_failed, std::size_t bytes, TimePoint now);

    /// How many machines wait.
    struct Sizes {
        std::size_t noticed = 0;
        std::size_t refresh = 0;
        std::size_t delayed = 0;  ///< for their time
    };
    [[nodiscard]] Sizes sizes() const;

private:
    /// The line that an entry stands in. Its name may be in others still, which pass it over.
    enum class Line : std::uint8_t { none, noticed, refresh, delayed };
    struct Entry {
        Parts noticed = {};
        Parts refresh = {};
        bool is_awaited = false;
        bool is_running = false;
        Line line = Line::none;
        std::string why = {};
        TimePoint pauses_until = {};
        TimePoint ready_at = {};  ///< when the pause ends, or when what has failed is tried again
        Duration retry = {};      ///< the latest; zero: it has not failed
        [[nodiscard]] bool wants() const { return !noticed.empty() || !refresh.empty(); }
    };
    using Entries = std::map<std::string, Entry, std::less<>>;

    static void end_retry(Entry& entry);
    void place(Entries::value_type& named);
    void delay(Entries::value_type& named);
    void end_delays(TimePoint now);
    Entries::value_type* take_first(TimePoint now);
    Work begin(Entries::value_type& named, TimePoint now);

    Settings settings_;
    Entries entries_;
    std::deque<std::string> noticed_;
    std::deque<std::string> refresh_;
    std::multimap<TimePoint, std::string> delayed_;
    std::size_t noticed_in_a_row_ = 0;
};

}  // namespace triton::info
