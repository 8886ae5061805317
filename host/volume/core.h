#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/volume/events.h"
#include "host/volume/ledger.h"
#include "host/volume/retry.h"

namespace triton::volume {

struct Settings {
    RetrySettings retry = {};
    Ledger::Settings ledger = {};
    BootTime collect_after = std::chrono::seconds(3600);  ///< `timer.gc.vdisk`
    BootTime keep_content_for{};                          ///< `timer.defer.content.delete`
    BootTime look_interval = std::chrono::seconds(5);     ///< while something waits for room or for the vault
    std::vector<std::string> publishers{"files", "vmadm", "base", "admin"};  ///< those that collection waits for
};

/// Brings what exists and what should exist together: configurations in, jobs and status out.
///
/// It is level-triggered: after each event, every object that can be affected is compared with what is wanted, and goes
/// as far as it can. No step depends on having seen an earlier event, so a lost, late or doubled answer does no harm,
/// and after a crash the rows of the database are enough.
///
///     content tree   INITIAL ─resolve─▶ RESOLVED_TAG ─fetch─▶ DOWNLOADING .. LOADING ─▶ LOADED
///     volume         what its content tree is, until LOADED ─Save(intent)─▶ CREATING_VOLUME ─build─▶ Save(made) ─▶
///     CREATED_VOLUME deletion       no configuration, no user ─Save(deleting)─▶ destroy ─▶ Save(erase)
///     snapshot       its volumes are made ─Save(intent)─▶ take ─▶ Save(made) ─▶ CREATED, and by the counter
///     ─Save(rolling back)─▶ roll back ─▶ Save(made)
///
/// Invariants, which the simulation checks: a job runs only when the row that says so is saved; one job for an object
/// at a time; states only advance; nothing that is wanted is destroyed; what nobody wants goes, or says why it does
/// not; no byte is promised twice; nothing is tried before its time.
class Core {
public:
    explicit Core(Settings settings);

    void on(Event const& event, BootTime now);
    /// The actions since the last call, in the order in which they are to be performed.
    std::vector<Action> take();
    /// When TimePassed is due; nullopt: nothing waits for time.
    [[nodiscard]] std::optional<BootTime> next() const;
    /// Whether nothing is under way, and nothing waits: the process can end.
    [[nodiscard]] bool is_settled() const;

    [[nodiscard]] std::optional<VolumeStatus> status(VolumeKey const& key) const;
    [[nodiscard]] std::optional<TreeStatus> status(std::string_view content) const;
    /// Why a volume is not there yet, or is still there: one sentence a line, from what it is to what would help.
    [[nodiscard]] std::vector<std::string> why(VolumeKey const& key) const;
    /// Of a content tree, likewise.
    [[nodiscard]] std::vector<std::string> why(std::string_view content) const;
    [[nodiscard]] std::vector<std::string> why(HolderKey const& key) const;
    [[nodiscard]] std::vector<std::string> why(SnapshotKey const& key) const;
    /// What is known of a volume, and its configuration; nullptr: none.
    [[nodiscard]] VolumeRow const* row(VolumeKey const& key) const;
    [[nodiscard]] VolumeConfig const* config(VolumeKey const& key) const;
    [[nodiscard]] TreeConfig const* config(std::string_view content) const;
    [[nodiscard]] TreeRow const* row(std::string_view content) const;
    [[nodiscard]] CertificatesConfig const* config(HolderKey const& key) const;
    [[nodiscard]] SnapshotRow const* row(SnapshotKey const& key) const;
    [[nodiscard]] std::optional<SnapshotStatus> status(SnapshotKey const& key) const;
    [[nodiscard]] SnapshotConfig const* config(SnapshotKey const& key) const;
    /// The rows of all volumes that are made.
    [[nodiscard]] std::vector<VolumeRow> made() const;
    /// The content trees whose blobs such an owner keeps: {"contentTree", id}, or {"image", uuid}.
    [[nodiscard]] std::vector<std::string> contents_of(std::string_view kind, std::string_view id) const;
    /// The volumes that nobody claims, each with what is to become of it.
    struct Unclaimed {
        VolumeKey key;
        std::string reason;
        bool is_collectable = false;  ///< CollectAsked takes it
    };
    [[nodiscard]] std::vector<Unclaimed> unclaimed() const;
    /// The volumes whose configuration names a content tree.
    [[nodiscard]] std::vector<VolumeKey> volumes_of(std::string const& content) const;
    /// Those who use a volume.
    [[nodiscard]] std::vector<std::string> users_of(VolumeKey const& key) const;
    [[nodiscard]] std::vector<ReferenceConfig> references_to(VolumeKey const& key) const;
    [[nodiscard]] Ledger const& ledger() const { return ledger_; }

private:
    struct Running {
        JobId id;
        Job job;
        bool is_cancelled = false;
        bool is_outdated = false;  ///< the configuration has changed since: its failure says nothing
    };
    /// A change of an object's row that is on its way to the database; no row: it is erased.
    template <class Row>
    struct Saving {
        SaveId id;
        std::optional<Row> row;
    };
    struct Volume {
        std::optional<VolumeConfig> config = {};
        std::optional<VolumeRow> row = {};
        std::optional<Saving<VolumeRow>> saving = {};
        std::optional<Running> running = {};
        std::optional<VolumeStatus> published = {};
        Retry retry = {};
        SubState sub_state = SubState::none;
        std::uint64_t used = 0;
        bool is_repeated = true;      ///< its publisher has published it since its last start
        bool is_released = false;     ///< somebody who had it gave it up: no grace
        bool is_missing = false;      ///< the row says `made`, and the pool has no tree
        bool is_in_snapshot = false;  ///< the job of a snapshot works on it, and no other one may
        std::optional<BootTime> unclaimed_since = {};
    };
    struct Tree {
        std::optional<TreeConfig> config = {};
        std::optional<TreeRow> row = {};
        std::optional<Saving<TreeRow>> saving = {};
        std::optional<Running> running = {};
        std::optional<TreeStatus> published = {};
        Retry retry = {};
        State state = State::initial;
        std::uint64_t bytes = 0;
        std::uint64_t total_bytes = 0;
        bool is_repeated = true;
        std::optional<BootTime> unwanted_since = {};
    };
    /// Certificates have no row: what of them is on disk is looked at when it begins, and verified again.
    struct Holder {
        std::optional<CertificatesConfig> config = {};
        std::optional<Running> running = {};
        std::optional<CertificatesStatus> published = {};
        Retry retry = {};
        State state = State::initial;
        bool is_on_disk = false;  ///< some of them may be
        bool is_repeated = true;
    };
    struct Snapshot {
        std::optional<SnapshotConfig> config = {};
        std::optional<SnapshotRow> row = {};
        std::optional<Saving<SnapshotRow>> saving = {};
        std::optional<Running> running = {};
        std::optional<SnapshotStatus> published = {};
        Retry retry = {};
        std::set<VolumeKey> listed = {};  ///< the volumes that snapshots_of_ has it for
        std::set<VolumeKey> busy = {};    ///< those that its job works on
        bool cannot_roll_back = false;    ///< nobody wants it any more, and its rollback will never end
        bool is_repeated = true;
    };
    struct Reference {
        ReferenceConfig config;
        bool is_repeated = true;
    };

    // events
    void apply(Loaded const& event);
    void apply(TreesSeen const& event);
    void apply(Put const& event);
    void apply(Removed const& event);
    void apply(PublisherRestarted const& event);
    void apply(PublisherComplete const& event);
    void apply(JobProgress const& event);
    void apply(JobDone const& event);
    void apply(JobFailed const& event);
    void apply(JobCancelled const& event);
    void apply(Saved const& event);
    void apply(SaveFailed const& event);
    void apply(SpaceSeen const& event);
    void apply(VaultSeen const& event);
    void apply(MaintenanceSet const& event);
    void apply(RetryAsked const& event);
    void apply(CollectAsked const& event);
    void apply(ContentLost const& event);
    void apply(CertificatesSeen const& event);
    void apply(CertificatesLost const& event);
    void apply(TimePassed const& event);
    void put(VolumeConfig const& config);
    void put(TreeConfig const& config);
    void put(ReferenceConfig const& config);
    void put(CertificatesConfig const& config);
    void put(SnapshotConfig const& config);
    void remove(VolumeKey const& key);
    void remove(std::string const& id);
    void remove(ReferenceKey const& key);
    void remove(HolderKey const& key);
    void remove(SnapshotKey const& key);

    // core_volumes.cpp
    void update(VolumeKey const& key, Volume& volume);
    void advance(VolumeKey const& key, Volume& volume);
    void begin(VolumeKey const& key, Volume& volume);
    void maintain(Volume& volume);
    void take_away(VolumeKey const& key, Volume& volume);
    [[nodiscard]] bool is_locked_away(VolumeKey const& key, Volume const& volume) const;
    void count_unclaimed(Volume& volume);
    void done(VolumeKey const& key, Volume& volume);
    void save(VolumeKey const& key, Volume& volume, std::optional<VolumeRow> row);
    void start(Volume& volume, Job job);
    void fail(Volume& volume, Failure failure);
    void publish(VolumeKey const& key, Volume& volume);
    [[nodiscard]] Format format_for(VolumeConfig const& config) const;
    [[nodiscard]] bool is_wanted(VolumeKey const& key, Volume const& volume) const;
    [[nodiscard]] bool is_verify_only(VolumeKey const& key) const;
    [[nodiscard]] std::size_t users(VolumeKey const& key) const;
    [[nodiscard]] std::optional<std::string> writer_of(VolumeKey const& key) const;
    void note_users(VolumeKey const& key);
    [[nodiscard]] std::optional<std::string> conflict(Volume const& volume) const;
    [[nodiscard]] std::optional<State> source_state(Volume const& volume) const;
    [[nodiscard]] std::optional<Failure> lack_of_room(Volume const& volume, std::uint64_t bytes) const;
    [[nodiscard]] VolumeStatus status_of(VolumeKey const& key, Volume const& volume) const;
    [[nodiscard]] std::optional<BootTime> collect_at(Volume const& volume) const;
    [[nodiscard]] bool are_publishers_complete() const;
    void keep_promise(VolumeKey const& key, Volume const& volume);

    // core_trees.cpp
    void update(std::string const& id, Tree& tree);
    void advance(std::string const& id, Tree& tree);
    void drop_unwanted(std::string const& id, Tree& tree);
    void done(std::string const& id, Tree& tree, JobDone const& event);
    void save(std::string const& id, Tree& tree, std::optional<TreeRow> row);
    void start(Tree& tree, Job job);
    void fail(Tree& tree, Failure failure);
    void publish(std::string const& id, Tree& tree);
    [[nodiscard]] std::size_t users(std::string const& id) const;
    [[nodiscard]] TreeStatus status_of(std::string const& id, Tree const& tree) const;

    // core_certificates.cpp
    void update(HolderKey const& key, Holder& holder);
    void advance(HolderKey const& key, Holder& holder);
    void done(HolderKey const& key, Holder& holder);
    void start(Holder& holder, Job job);
    void fail(Holder& holder, Failure failure);
    void publish(HolderKey const& key, Holder& holder);
    [[nodiscard]] bool lacks_certificates(TreeConfig const& config) const;
    [[nodiscard]] bool is_unchecked(std::string const& content) const;
    void mark_signed_by(HolderKey const& key);

    // core_snapshots.cpp
    void update(SnapshotKey const& key, Snapshot& snapshot);
    void advance(SnapshotKey const& key, Snapshot& snapshot);
    void begin(SnapshotKey const& key, Snapshot& snapshot);
    void maintain(SnapshotKey const& key, Snapshot& snapshot);
    void take_away(SnapshotKey const& key, Snapshot& snapshot);
    void start(SnapshotKey const& key, Snapshot& snapshot, Job::Kind kind);
    void done(SnapshotKey const& key, Snapshot& snapshot, JobDone const& event);
    void release(Snapshot& snapshot);
    bool gives_up(Snapshot& snapshot, Job::Kind kind, Failure const& failure);
    void save(SnapshotKey const& key, Snapshot& snapshot, std::optional<SnapshotRow> row);
    void fail(Snapshot& snapshot, Failure failure);
    void publish(SnapshotKey const& key, Snapshot& snapshot);
    void list(SnapshotKey const& key, Snapshot& snapshot, std::vector<VolumeKey> const& volumes);
    void mark_snapshots_of(VolumeKey const& key);
    [[nodiscard]] Volume const* made_volume(VolumeKey const& key) const;
    [[nodiscard]] std::optional<VolumeKey> lacking_volume(std::vector<VolumeKey> const& volumes) const;
    [[nodiscard]] std::optional<Failure> against_rollback(SnapshotRow const& row) const;
    [[nodiscard]] std::optional<std::string> conflict(Snapshot const& snapshot) const;
    [[nodiscard]] SnapshotStatus status_of(SnapshotKey const& key, Snapshot const& snapshot) const;

    void update_marked();
    void mark(VolumeKey const& key) { marked_.insert(key); }
    void mark_tree(std::string const& id);
    void mark_waiting();
    /// Calls `act(key, object)` for the object that a job or a save belongs to; ignores answers that nobody waits for.
    template <class Act>
    void with_job(JobId job, Act const& act);
    template <class Act>
    void with_save(SaveId save, Act const& act);
    std::uint32_t random();

    Settings settings_;
    Ledger ledger_;
    BootTime now_{};
    std::map<VolumeKey, Volume> volumes_;
    std::map<std::string, Tree, std::less<>> trees_;
    std::map<ReferenceKey, Reference> references_;
    std::map<std::string, std::set<VolumeKey>, std::less<>> volumes_of_;  // by content tree
    std::map<VolumeKey, std::set<VolumeKey>> clones_of_;                  // by source
    std::map<HolderKey, Holder> holders_;
    std::map<SnapshotKey, Snapshot> snapshots_;
    std::map<VolumeKey, std::set<SnapshotKey>> snapshots_of_;
    std::map<JobId, std::variant<VolumeKey, std::string, HolderKey, SnapshotKey>> jobs_;
    std::map<SaveId, std::variant<VolumeKey, std::string, SnapshotKey>> saves_;
    std::set<VolumeKey> marked_;
    std::set<std::string> marked_trees_;
    std::set<HolderKey> marked_holders_;
    std::set<SnapshotKey> marked_snapshots_;
    std::set<VolumeKey> waiting_;  // for time, room, the vault or a claim
    std::set<std::string> waiting_trees_;
    std::set<HolderKey> waiting_holders_;
    std::set<SnapshotKey> waiting_snapshots_;
    std::map<std::string, bool> is_complete_;  // publishers
    std::vector<Action> actions_;
    bool is_unlocked_ = false;
    std::string vault_problem_ = "the vault was not looked at yet";  // while it is locked
    bool is_in_maintenance_ = false;
    std::set<FileSystem> seen_space_;    ///< Before its first answer nothing that needs room begins, and nothing fails.
    std::optional<BootTime> looked_at_;  // at space and vault
    std::uint64_t next_id_ = 1;
    std::uint64_t random_ = 0x9e3779b97f4a7c15;
};

}  // namespace triton::volume
