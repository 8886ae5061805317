#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/volume/blobs.h"
#include "host/volume/core.h"
#include "host/volume/keep/documents.h"
#include "host/volume/work/workbench.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"
#include "programs/volumemgr/board.h"
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
    void look_at_space(std::function<void()> then = {});
    void look_at_vault();
    void see_vault(volume::VaultState const& state);
    void publish(volume::VolumeStatus const& status);
    void publish(volume::TreeStatus const& status);
    void publish_references(volume::VolumeKey const& key);
    void publish_blobs();
    /// What a volume takes, as it was looked at.
    struct Metric {
        volume::VolumeRow row;
        std::string path;
        std::uint64_t used = 0;
    };
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
    std::uint64_t device_ = 0;
    std::uint64_t vault_device_ = 0;  // 0: not known
    std::size_t acts_ = 0;            // on snapshots, under way
    bool is_looking_ = false;
    bool is_scrubbing_ = false;
    bool is_looking_at_vault_ = false;
    std::string vault_problem_ = "it was not looked at yet";  // as it was said last; empty: it is unlocked
    std::optional<TimePoint> looked_at_;                      // at space
    std::vector<std::function<void()>> when_seen_;            // what waits for that
    bool is_in_maintenance_ = false;
    bool has_begun_ = false;
};

}  // namespace triton::program
