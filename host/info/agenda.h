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

/// Something to be read.
struct Job {
    std::uint64_t number = 0;
    std::optional<std::string> machine = {};  ///< its name; nullopt: a scan, which finds out what machines there are
    Parts parts = {};
    std::string why = {};
    bool is_refresh = false;  ///< nothing has asked for it: what it finds was missed
    bool is_slow = false;     ///< the machine has taken its time before
};

/// The machines to read again, and when. Many notifications of one machine are one job (see WorkQueue); a full refresh
/// is a scan, and then a job for each machine that it finds. Waiters are answered by jobs that have begun after
/// the question, so that they see what was there when it was asked.
///
/// Times are those of a monotonic clock. Several jobs may be under way at once, but no two that read the host's parts,
/// or the launcher's, of one machine: the launcher's have a queue of their own, because a machine can delay them.
class Agenda {
public:
    struct Settings {
        Duration refresh_every = std::chrono::minutes(5);  ///< after the one before is complete
        WorkQueue::Settings queue = {};
    };
    Agenda() : Agenda(Settings{}) {}
    explicit Agenda(Settings settings) : settings_(settings), host_(settings.queue), launchers_(settings.queue) {}

    /// Something was noticed of a machine. `why`: "file", "unit".
    void want(std::string_view machine, Parts parts, std::string_view why);
    /// A full refresh now. `is_loss`: notifications are known to be lost, so one that is under way is not enough.
    void want_scan(std::string_view why, bool is_loss);

    /// The job to begin now, of which only these parts can be read: who reads launchers asks for nothing else. Scans
    /// are for whoever reads stored parts. nullopt: there is none; see next_at().
    std::optional<Job> next(TimePoint now, Parts readable = all_parts);
    /// When next() may have something because time has passed; to be asked after next() has had nothing.
    [[nodiscard]] std::optional<TimePoint> next_at(Parts readable = all_parts) const;

    struct Found {
        bool has_failed = false;                     ///< it is tried again later
        bool is_answer = false;                      ///< for those who wait, even so: that nothing is there
        std::span<std::string const> machines = {};  ///< of a scan: all that there are or that the cache has
        std::size_t bytes = 0;                       ///< of the event that has come of it
        Duration took = {};                          ///< as far as it was the machine that took it
    };
    /// The job has ended and its findings are in the cache. Returns who need not wait any longer.
    std::vector<Ticket> finished(Job const& job, Found const& found, TimePoint now);

    /// Asks to be told when these parts of a machine were read by jobs that begin after this call. A job that fails is
    /// not enough, for it shows what was before. After most_failures, which take half a minute, a waiter is answered
    /// all the same: whoever asks has a limit of its own, and nobody is kept for ever.
    static constexpr std::size_t most_failures = 5;
    Ticket wait(std::string_view machine, Parts parts = host_parts);
    /// The same of all machines: a scan that succeeds, and then what the host knows of each machine, as far as that can
    /// be read. Each is tried once, at once: one that is tried again later, or that pauses, holds nobody up. A scan
    /// that fails is tried again, most_failures times in all.
    Ticket wait_all();
    /// Cancels a wait.
    void forget(Ticket ticket);

    struct Queue {
        std::size_t targeted = 0;   ///< machines that wait because something was noticed
        std::size_t refresh = 0;    ///< that wait to be refreshed
        std::size_t delayed = 0;    ///< that wait for their time
        std::size_t launchers = 0;  ///< that wait for a look at their launcher, for whichever reason
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
        std::set<std::uint64_t> jobs = {};  ///< that must finish
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
    std::multimap<std::string, Ticket, std::less<>> unbegun_;  ///< machines for which somebody waits

    std::optional<std::string> scan_wanted_;    ///< why
    std::optional<TimePoint> scan_not_before_;  ///< after one that has failed
    Duration scan_retry_ = {};
    std::optional<TimePoint> refresh_at_;
    bool is_refreshing_ = false;
    bool is_scanning_ = false;
    std::set<std::string, std::less<>> left_;  ///< machines of the refresh of which no job has begun yet
    std::uint64_t refreshes_ = 0;              ///< that have begun

    std::uint64_t last_job_ = 0;
    std::uint64_t last_ticket_ = 0;
};

}  // namespace triton::info
