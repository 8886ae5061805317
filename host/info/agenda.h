#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/info/parts.h"
#include "host/info/work_queue.h"
#include "lib/base/clock.h"

namespace triton::info {

/// A waiter's number.
enum class Ticket : std::uint64_t {};

/// Something to read.
struct Job {
    std::uint64_t number = 0;
    std::optional<std::string> machine = {};  ///< its name; nullopt: a scan, which finds out which machines exist
    Parts parts = {};
    std::string why = {};
    bool is_refresh = false;  ///< nothing has asked for it, so what it finds was missed
    bool is_slow = false;     ///< the machine was slow before
};

/// The machines to read again, and when. Many notifications about one machine are one job (see WorkQueue). A full
/// refresh is a scan and then one job for each machine that it finds. Waiters are answered by jobs that begin after the
/// question, so they see the state of that time or later.
///
/// Times are those of a monotonic clock. Several jobs may run at once, but no two that read the host's parts of one
/// machine, or the launcher's. The launcher's parts have their own queue, because a machine can delay them.
class Agenda {
public:
    struct Settings {
        Duration refresh_every = std::chrono::minutes(5);  ///< after the one before is complete
        WorkQueue::Settings queue = {};
    };
    Agenda() : Agenda(Settings{}) {}
    explicit Agenda(Settings settings) : settings_(settings), host_(settings.queue), launchers_(settings.queue) {}

    /// Something about a machine was noticed. `why`: "file", "unit".
    void want(std::string_view machine, Parts parts, std::string_view why);
    /// Asks for a full refresh now. `is_loss`: notifications are known to be lost, so a refresh that has already begun
    /// is not enough.
    void want_scan(std::string_view why, bool is_loss);

    /// The job to begin now, if the caller can read these parts: callers for launchers ask only for that part. Scans
    /// are for callers that read stored parts. nullopt: none; see next_at().
    std::optional<Job> next(TimePoint now, Parts readable = all_parts);
    /// When next() may return a job because time has passed. To be called after next() has returned nothing.
    [[nodiscard]] std::optional<TimePoint> next_at(Parts readable = all_parts) const;

    struct Found {
        bool has_failed = false;                     ///< it is tried again later
        bool is_answer = false;                      ///< enough for those who wait, although nothing was read
        std::span<std::string const> machines = {};  ///< for a scan: all that exist or that the cache has
        std::size_t bytes = 0;                       ///< of the event that it has caused
        Duration took = {};                          ///< the part of the time that the machine has caused
    };
    /// To be called when the job has ended and its findings are in the cache. Returns the tickets that need not wait
    /// any longer.
    std::vector<Ticket> finished(Job const& job, Found const& found, TimePoint now);

    /// Waits until these parts of a machine have been read by jobs that begin after this call. A failed job is not
    /// enough, because it shows the old state. After most_failures, which take half a minute, the waiter is answered
    /// all the same: callers have their own limits, and nobody waits for ever.
    static constexpr std::size_t most_failures = 5;
    Ticket wait(std::string_view machine, Parts parts = host_parts);
    /// Waits likewise for all machines: for a scan that succeeds, and then for one attempt to read the host's parts of
    /// each machine, at once. A machine that is tried again later, or that pauses, holds nobody up. A scan that fails
    /// is tried most_failures times in all.
    Ticket wait_all();
    /// Cancels a wait.
    void forget(Ticket ticket);

    struct Queue {
        std::size_t targeted = 0;   ///< machines waiting because something was noticed
        std::size_t refresh = 0;    ///< those waiting for a refresh
        std::size_t delayed = 0;    ///< those waiting for their time
        std::size_t launchers = 0;  ///< those waiting for a look at their launcher, for any reason
        std::size_t waiters = 0;
        bool is_refreshing = false;
        std::vector<Job> running = {};
    };
    [[nodiscard]] Queue queue() const;
    [[nodiscard]] bool is_refreshing() const { return is_refreshing_; }

private:
    struct Waiter {
        std::string machine = {};  ///< empty: it waits for a refresh
        Parts parts = {};
        Parts to_begin = {};                ///< of which no job has begun yet
        std::set<std::uint64_t> jobs = {};  ///< jobs that must finish
        std::size_t failures = 0;
        std::uint64_t refresh = 0;
    };
    struct Underway {
        Job job;
        std::vector<Ticket> tickets;
        bool is_of_refresh = false;
    };

    [[nodiscard]] std::optional<TimePoint> scan_at() const;
    WorkQueue& queue_of(Parts parts) { return parts.has(Part::launcher) ? launchers_ : host_; }
    bool put(std::string_view machine, Parts parts, WorkQueue::Urgency urgency, std::string_view why);
    Job begin_scan();
    Job begin(WorkQueue::Work work);
    void attach_waiters(Underway& underway);
    [[nodiscard]] bool is_refresh_awaited() const;
    void end_scan(Found const& found, TimePoint now, std::vector<Ticket>& answered);
    void count_failed_scan(std::vector<Ticket>& answered);
    bool has_to_wait_again(Ticket ticket, Waiter& waiter, Parts failed);
    void answer_waiters(Underway const& underway, bool has_failed, std::vector<Ticket>& answered);
    void end_refresh_when_complete(TimePoint now, std::vector<Ticket>& answered);

    Settings settings_;
    WorkQueue host_;
    WorkQueue launchers_;
    std::map<std::uint64_t, Underway> running_;
    std::map<Ticket, Waiter> waiters_;
    std::multimap<std::string, Ticket, std::less<>> unbegun_;  ///< by machine: who waits for a job to begin

    std::optional<std::string> scan_wanted_;    ///< why a scan is wanted
    std::optional<TimePoint> scan_not_before_;  ///< after one that has failed
    Duration scan_retry_ = {};
    std::optional<TimePoint> refresh_at_;
    bool is_refreshing_ = false;
    bool is_scanning_ = false;
    std::set<std::string, std::less<>> left_;  ///< machines of the refresh whose job has not begun
    std::uint64_t refreshes_ = 0;              ///< how many have begun

    std::uint64_t last_job_ = 0;
    std::uint64_t last_ticket_ = 0;
};

}  // namespace triton::info
