#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.h"

namespace triton::info {

/// What a machine is made of, by where it is read.
enum class Part : std::uint8_t {
    stored = 1,     ///< its files
    unit = 2,       ///< systemd's unit
    snapshots = 4,  ///< the pool
    launcher = 8,   ///< what its launcher reports
};

class Parts {
public:
    constexpr Parts() = default;
    constexpr Parts(Part part) : bits_(static_cast<std::uint8_t>(part)) {}  // NOLINT(google-explicit-constructor)
    constexpr Parts operator|(Parts other) const { return Parts(bits_ | other.bits_); }
    constexpr Parts operator&(Parts other) const { return Parts(bits_ & other.bits_); }
    constexpr Parts without(Parts other) const { return Parts(bits_ & ~other.bits_); }
    constexpr Parts& operator|=(Parts other) { return *this = *this | other; }
    [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
    [[nodiscard]] constexpr bool has(Part part) const { return !(*this & part).empty(); }
    /// "stored, unit"
    [[nodiscard]] std::string text() const;
    bool operator==(Parts const&) const = default;

private:
    constexpr explicit Parts(int bits) : bits_(static_cast<std::uint8_t>(bits)) {}
    std::uint8_t bits_ = 0;
};
constexpr Parts operator|(Part left, Part right) { return Parts(left) | right; }
inline constexpr Parts all_parts = Part::stored | Part::unit | Part::snapshots | Part::launcher;
/// What never waits for a machine itself.
inline constexpr Parts host_parts = Part::stored | Part::unit | Part::snapshots;

/// A waiter's number.
enum class Ticket : std::uint64_t {};

/// Something to be read.
struct Job {
    std::uint64_t number = 0;
    std::optional<std::string> machine = {};  ///< its name; nullopt: a scan, which finds out what machines there are
    Parts parts = {};
    std::string why = {};
    bool is_refresh = false;  ///< nothing has asked for it: what it finds was missed
};

/// What has to be read again, and in which order. Many notifications of one machine are one job; what is known to have
/// changed goes before what is only refreshed; a full refresh is a scan, and then a job for each machine that it finds.
/// Who waits is answered by a job that has begun after the question, so that it sees what was there when it asked.
///
/// Times are those of a monotonic clock. Several jobs may be under way at once, but never two that read the same part
/// of a machine.
class Agenda {
public:
    struct Settings {
        Duration refresh_every = std::chrono::minutes(5);  ///< after the one before is complete
        Duration pause = milliseconds(50);                 ///< between two jobs of one machine; not for those who wait
        Duration retry = std::chrono::seconds(1);          ///< after a job has failed; doubles up to `longest_retry`
        Duration longest_retry = std::chrono::minutes(1);
        std::size_t most_machines = 100'000;  ///< more names than this become a scan
    };
    Agenda() : Agenda(Settings{}) {}
    explicit Agenda(Settings settings) : settings_(settings) {}

    /// Something has been noticed of a machine. `why`: "file", "unit".
    void want(std::string_view machine, Parts parts, std::string_view why);
    /// A full refresh. `is_loss`: notifications are known to be lost, so that it does not wait for its time.
    void want_scan(std::string_view why, bool is_loss);

    /// The job to begin now, of which only these parts can be read: a thread that reads launchers asks for no other.
    /// Scans are for whoever reads stored parts. nullopt: there is none; see next_at().
    std::optional<Job> next(TimePoint now, Parts readable = all_parts);
    /// When next() may have something although it has nothing now and nobody asks.
    [[nodiscard]] std::optional<TimePoint> next_at() const;

    struct Found {
        bool has_failed = false;                     ///< it is tried again later
        std::span<std::string const> machines = {};  ///< of a scan: all that there are, the known ones included
    };
    /// The job has ended and its findings are in the cache. Returns who need not wait any longer.
    std::vector<Ticket> finished(Job const& job, Found const& found, TimePoint now);

    /// Asks to be told when these parts of a machine have been read by jobs that begin after this call.
    Ticket wait(std::string_view machine, Parts parts = host_parts);
    /// The same of all machines: a scan and all that it finds.
    Ticket wait_all();
    /// Nobody is interested in it any more.
    void forget(Ticket ticket);

    struct Queue {
        std::size_t targeted = 0;  ///< machines that wait because something was noticed
        std::size_t refresh = 0;   ///< that wait to be refreshed
        std::size_t delayed = 0;   ///< that wait for their time
        std::size_t waiters = 0;
        bool is_refreshing = false;
        std::vector<Job> running = {};
    };
    [[nodiscard]] Queue queue() const;

private:
    /// What is wanted of one machine.
    struct Entry {
        Parts targeted = {};
        Parts refresh = {};
        Parts running = {};
        std::string why = {};
        std::vector<Ticket> waiters = {};
        std::optional<TimePoint> begun_at = {};
        std::optional<TimePoint> not_before = {};  ///< after a failure
        Duration retry = {};
        bool is_idle() const { return targeted.empty() && refresh.empty() && running.empty() && waiters.empty(); }
    };
    struct Waiter {
        std::optional<std::string> machine = {};
        Parts to_begin = {};
        std::set<std::uint64_t> jobs = {};  ///< that it waits for
        std::uint64_t round = 0;            ///< of refreshes, for those who wait for all
    };
    struct Underway {
        Job job;
        std::vector<Ticket> waiters = {};
    };
    using Entries = std::map<std::string, Entry, std::less<>>;

    std::optional<Job> begin_scan();
    std::optional<Job> next_of(std::deque<std::string>& names, bool is_refresh, TimePoint now, Parts readable);
    Job begin(Entries::iterator entry, bool is_refresh, Parts parts, TimePoint now);
    void end_scan(Found const& found);
    void end_machine(Job const& job, Found const& found, TimePoint now);
    void end_round_when_complete(TimePoint now, std::vector<Ticket>& answered);

    Settings settings_;
    Entries entries_;
    std::deque<std::string> targeted_;
    std::deque<std::string> refresh_;
    std::multimap<TimePoint, std::string> delayed_;
    std::map<std::uint64_t, Underway> running_;
    std::map<Ticket, Waiter> waiters_;
    std::optional<std::string> scan_wanted_;  ///< why
    std::optional<TimePoint> refresh_at_;
    std::uint64_t round_ = 0;  ///< of the refresh that is under way or was the last
    bool is_refreshing_ = false;
    std::size_t left_of_round_ = 0;
    std::uint64_t last_job_ = 0;
    std::uint64_t last_ticket_ = 0;
};

}  // namespace triton::info
