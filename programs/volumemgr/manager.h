#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/volume/blobs.h"
#include "host/volume/core.h"
#include "host/volume/keep/documents.h"
#include "host/volume/work/workbench.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"
#include "programs/volumemgr/board.h"
#include "programs/volumemgr/look.h"
#include "programs/volumemgr/threads.h"

namespace triton::program {

/// An unclaimed volume, for Collect.
struct Unclaimed {
    std::string key;
    std::string reason;
    bool is_collected = false;
};

/// Feeds the core with what happens, and performs what it decides: rows by the keeper, jobs by the workers, statuses on
/// the board. It belongs to the loop's thread.
class Manager {
public:
    using Done = std::function<void(Result<> const&)>;
    struct Name {
        std::string kind;
        std::string key;
    };

    Manager(EventLoop& loop, log::Log& log, volume::Settings settings, Board& board, Keeper& keeper, Workers& workers);
    ~Manager();

    /// Begins with what is in the database, and looks at the pool. `begun`: called when that is done; nothing may be
    /// asked for before, because it would be forgotten.
    void begin(volume::AllRows rows, std::function<void()> begun);

    /// Publishes, when all of it is durable. Errors: `invalid`, `exists`: another publisher's; `refused`: a second user
    /// of a file that is written; `exhausted`: too many objects; those of the database.
    void put(std::vector<volume::Config> configs, Done done);
    /// Errors: `busy`: a volume that is used; `refused`: another publisher's.
    void remove(std::string const& publisher, std::vector<Name> const& names, Done done);
    /// Snapshots: the answer comes when it is done. `refused`: a rollback under the hands of its users; `not_found`: no
    /// such volume, or it is not made yet.
    enum class SnapshotAct : std::uint8_t { make, rollback, remove };
    void act_on_snapshot(std::string const& key, SnapshotAct act, std::string const& name, Done done);
    using GotSnapshots = std::function<void(Result<std::vector<storage::SnapshotFacts>> const&)>;
    void list_snapshots(std::string const& key, GotSnapshots got);
    /// Machines hold volumes by rows of their own: takes them over as they are now, and then calls `then`.
    void follow_machines(std::function<void()> then = {});
    /// What a scrub has found, with the content trees that are fetched again.
    struct Scrubbed {
        volume::Workbench::Scrub found;
        std::vector<std::string> fetched_again;
    };
    using GotScrub = std::function<void(Result<Scrubbed> const&)>;
    /// Reads all content that volumes are made of; what is bad is fetched again. One at a time: `busy`.
    void scrub(GotScrub got);
    void restart(std::string const& publisher);
    void complete(std::string const& publisher);
    void retry();
    void set_maintenance(bool is_on);
    std::vector<Unclaimed> collect(bool is_dry_run);
    [[nodiscard]] std::vector<std::string> why(std::string_view kind, std::string const& key) const;
    /// nullptr: there is none.
    [[nodiscard]] volume::Config const* find(std::string const& kind, std::string const& key) const;

    /// To be called at the end of each round: what happened in it becomes durable together.
    void end_round();
    [[nodiscard]] bool is_settled() const;

private:
    struct Running {
        volume::Job::Kind kind = volume::Job::Kind::build;
        std::string content;  ///< of a build or fetch
        UniqueFd cancel;
        bool is_cancelled = false;
    };

    // The same functions, when what machines hold is as the database has it: it decides what is refused.
    void put_now(std::vector<volume::Config> configs, Done done);
    void remove_now(std::string const& publisher, std::vector<Name> const& names, Done done);
    void act_on_snapshot_now(std::string const& key, SnapshotAct act, std::string const& name, Done done);
    void take_over(Result<std::vector<volume::ReferenceConfig>> const& found);
    [[nodiscard]] bool has_machine(volume::VolumeKey const& key) const;

    void feed(volume::Event const& event);
    void perform(volume::Action const& action);
    void perform_save(volume::Save const& save);
    void start(volume::StartJob const& start);
    void finish(volume::JobId id, Result<volume::Answer> const& answer);
    /// What a volume takes, as it was looked at.
    struct Metric {
        volume::VolumeRow row;
        std::string path;
        std::uint64_t used = 0;
    };
    /// What a look at the space of one file system has found.
    struct SpaceFound {
        volume::SpaceSeen seen;
        std::vector<volume::Change> written;
        std::vector<Metric> metrics;
        std::uint64_t device = 0;
        Result<> problem = {};
    };
    void look_at_space(std::function<void()> then = {});
    void look_at_space_of(volume::FileSystem file_system);
    void see_space(volume::FileSystem file_system, SpaceFound found);
    void space_is_unanswered(volume::FileSystem file_system);
    void call_those_who_wait_for_space();
    void look_at_trees(volume::FileSystem file_system);
    void see_trees(volume::FileSystem file_system, Result<volume::Workbench::Found> const& found);
    void trees_are_unanswered(volume::FileSystem file_system);
    void begin_if_all_answered();
    void see_vault(volume::VaultState const& state);
    void publish(volume::VolumeStatus const& status);
    void publish(volume::TreeStatus const& status);
    void publish_references(volume::VolumeKey const& key);
    void publish_blobs();
    void publish(Metric const& metric);
    [[nodiscard]] volume::Order order_of(volume::Job const& job) const;
    [[nodiscard]] Result<volume::VolumeRow> made_row(std::string const& key) const;
    [[nodiscard]] Result<> check(volume::Config const& config) const;
    [[nodiscard]] Result<> check_reference(volume::ReferenceConfig const& config) const;
    [[nodiscard]] Result<> check_removal(std::string const& publisher, Name const& name) const;
    void tell_core(volume::Config const& config);
    void forget(Name const& name);

    EventLoop& loop_;
    log::Log& log_;
    Board& board_;
    Keeper& keeper_;
    Workers& workers_;
    volume::Core core_;
    volume::Blobs blobs_;
    EventLoop::Timer timer_;
    EventLoop::Timer writing_;                                              // of a transaction that others may join
    std::map<std::string, std::map<std::string, volume::Config>> configs_;  // by kind and key
    std::size_t config_count_ = 0;
    std::map<volume::JobId, Running> running_;
    struct Looks {
        Look trees;
        Look space;
        std::uint64_t device = 0;  // 0: not known
    };
    Looks& at(volume::FileSystem file_system) {
        return file_system == volume::FileSystem::vault ? in_vault_ : in_clear_;
    }
    /// What waits for the first look at the trees.
    struct Beginning {
        volume::Loaded loaded;
        std::map<std::string, std::vector<volume::BlobStatus>> blobs;
        std::function<void()> begun;
        std::vector<volume::TreesSeen> seen = {};
        std::set<volume::HolderKey> holders = {};
    };
    std::optional<Beginning> beginning_;
    Looks in_clear_;
    Looks in_vault_;
    std::size_t acts_ = 0;  // on snapshots, under way
    bool is_scrubbing_ = false;
    std::string vault_problem_ = "it was not looked at yet";  // as it was said last; empty: it is unlocked
    std::optional<TimePoint> looked_at_;                      // at the space of the pool
    std::vector<std::function<void()>> when_seen_;            // what waits for a look at space
    bool is_in_maintenance_ = false;
    bool has_begun_ = false;
};

}  // namespace triton::program
