#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host/info/agenda.h"
#include "host/info/cache.h"
#include "host/info/feed.h"
#include "host/info/reader.h"
#include "tests/simulation/random.h"

namespace triton::simulation {

/// A host with machines that change, an observer that is told of it late, twice or never, whose jobs take their time or
/// fail, and subscribers of which some are slow. Everything comes from the seed. What must hold is checked all the
/// time; the first thing that does not is kept.
class InfoWorld {
public:
    struct Settings {
        std::uint64_t seed = 0;
        std::size_t machines = 12;  ///< at most
        std::size_t readers = 6;
        milliseconds longest_step{20};
        info::Feed::Bounds feed{.events = 64, .bytes = 64 << 10};
    };
    explicit InfoWorld(Settings settings);

    /// One thing happens, and time passes.
    void step();
    /// Nothing changes any more; all notifications are delivered and a refresh is made; readers take what there is.
    /// Then the cache must be what the host is.
    void settle();

    /// Empty: all is well.
    [[nodiscard]] std::string const& problem() const { return problem_; }
    /// What the pure core holds.
    [[nodiscard]] std::size_t bytes() const { return cache_.bytes() + feed_.bytes(); }
    [[nodiscard]] std::uint64_t events() const { return feed_.next() - 1; }
    [[nodiscard]] std::uint64_t answered() const { return answered_; }
    [[nodiscard]] std::uint64_t resyncs() const;

private:
    static constexpr std::array<info::Part, 4> each_part{info::Part::stored, info::Part::unit, info::Part::snapshots,
                                                         info::Part::launcher};
    /// The version of each part. All come from one counter, so that a later one is always greater.
    using Versions = std::array<std::uint64_t, 4>;
    /// What somebody knows of a machine; version 0 of the stored part: it does not exist.
    using Machines = std::map<std::string, Versions>;

    struct Subscriber {
        std::unique_ptr<info::Reader> reader = {};
        std::map<std::string, json::Node> mirror = {};  ///< what it knows of each machine
        std::string line = {};                          ///< what has come of a line
        std::uint64_t sequence = 0;
        bool is_slow = false;
    };
    struct Wait {
        std::optional<std::string> machine = {};  ///< nullopt: all
        info::Parts parts = {};
        std::uint64_t version = 0;  ///< the latest of the host when it was asked
        Machines known = {};        ///< the host then, as far as it is asked for
        std::size_t failures = 0;   ///< of jobs since
        std::size_t failed_scans = 0;
    };

    // the host
    void create();
    void remove();
    void change();
    void notify(std::string const& machine, info::Parts parts);
    void lose();

    // the observer
    void begin_jobs();
    void run(info::Job const& job);
    void end(info::Job const& job, Versions const& seen, bool has_failed, Duration took);
    void end_scan(info::Job const& job, std::vector<std::string> const& machines, bool has_failed);
    void answer(std::vector<info::Ticket> const& tickets);
    void apply(std::string const& machine);
    void wait();

    // the readers
    void add_reader();
    void read(Subscriber& subscriber, std::size_t budget);
    void take(Subscriber& subscriber, std::string const& line);
    void take_event(Subscriber& subscriber, json::Object const& event, std::string const& line);

    [[nodiscard]] bool is_all_awaited() const;
    void check_pause(info::Job const& job);
    void begin_look(info::Job const& job);
    void end_look(info::Job const& job, Duration took);
    void check_progress();
    void check_bounds();
    void check_end();
    void check_wait(Wait const& wait);
    void check_seen(std::string const& name, Wait const& wait);
    void fail(std::string text);

    void pass(Duration duration);
    void later(Duration least, Duration most, std::function<void()> what);
    std::string name_of(std::size_t number) const;
    std::optional<std::string> any_machine();
    static info::DocumentPtr document_of(std::string const& name, Versions const& versions);
    static std::size_t index_of(info::Part part);

    Settings settings_;
    Random random_;
    TimePoint now_ = TimePoint(std::chrono::hours(1));
    std::multimap<TimePoint, std::function<void()>> due_;
    std::uint64_t version_ = 0;
    bool is_calm_ = false;  ///< nothing fails and nothing is lost

    Machines host_;
    Machines seen_;  ///< what the observer has read of each part
    info::Feed feed_;
    info::Cache cache_{feed_};
    info::Agenda agenda_;
    info::SnapshotPlaces places_{2};
    bool is_loading_ = false;
    std::size_t looks_ = 0;
    std::set<std::string> slow_looks_;         ///< that are under way
    std::map<std::string, TimePoint> slow_;    ///< machines: when the latest slow look has ended
    std::set<std::string> quick_since_;        ///< machines that somebody has asked for, and found quick, since then
    std::set<std::string> asked_of_launcher_;  ///< machines that somebody has waited for since
    std::map<info::Ticket, Wait> waits_;
    std::map<std::string, TimePoint> begun_;  ///< the latest job of the host's parts
    std::set<std::string> asked_;             ///< machines that somebody has waited for since
    std::vector<Subscriber> subscribers_;
    std::uint64_t answered_ = 0;
    std::uint64_t resyncs_of_gone_ = 0;
    std::string problem_;
};

}  // namespace triton::simulation
