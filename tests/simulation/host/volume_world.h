#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/volume/core.h"
#include "tests/simulation/random.h"

namespace triton::simulation {

/// A host whose users want volumes and give them up, with a pool and a database, and a volume manager that can be
/// killed after each of its effects. Jobs take their time, fail, and answer late, twice or never; the disk fills up;
/// the vault is locked; publishers restart. Everything comes from the seed. What must hold is checked all the time, and
/// the first thing that does not is kept.
class VolumeWorld {
public:
    explicit VolumeWorld(std::uint64_t seed);

    /// One thing happens, and time passes.
    void step();
    /// From now on nothing fails, and there is room. In the end everything that is wanted must exist, and nothing else.
    void settle();

    /// Empty: everything held.
    [[nodiscard]] std::string const& problem() const { return problem_; }
    [[nodiscard]] std::uint64_t created() const { return created_; }
    [[nodiscard]] std::uint64_t destroyed() const { return destroyed_; }
    [[nodiscard]] std::uint64_t kills() const { return kills_; }
    [[nodiscard]] std::uint64_t taken() const { return taken_; }
    [[nodiscard]] std::uint64_t rolled_back() const { return rolled_back_; }

private:
    struct Work {
        volume::JobId id;
        volume::Job job;
        bool is_cancelled = false;
        std::set<volume::VolumeKey> busy = {};  ///< of a snapshot: the volumes that it works on
    };
    /// A tree of the pool.
    struct OnDisk {
        bool is_complete = false;
        std::uint64_t bytes = 0;  ///< that it can take
        std::set<volume::SnapshotKey> snapshots = {};
    };
    using Object =
        std::variant<volume::VolumeConfig, volume::TreeConfig, volume::ReferenceConfig, volume::CertificatesConfig>;
    using Volumes = std::vector<volume::VolumeKey>;

    // users
    void publish_something();
    void remove_something();
    void restart_publisher();
    volume::VolumeConfig any_volume();
    volume::TreeConfig any_tree();
    volume::SnapshotConfig any_snapshot();

    // the manager
    void start_manager();
    void kill_manager();
    void send(volume::Event const& event);
    void perform(std::vector<volume::Action> const& actions);
    void perform(volume::Save const& save);
    void perform(volume::Forget const& forget);
    void perform(volume::StartJob const& start);
    void perform(volume::CancelJob const& cancel);
    void perform(volume::PublishVolume const& publish);
    void perform(volume::PublishTree const& publish);
    void perform(volume::PublishCertificates const& publish);
    void perform(volume::UnpublishCertificates const& unpublish);
    void perform(volume::PublishSnapshot const& publish);
    void perform(volume::UnpublishSnapshot const& unpublish);
    void perform(volume::UnpublishVolume const& unpublish);
    void save(volume::SnapshotRow const& row);
    void erase(volume::SnapshotKey const& key);
    void perform(volume::UnpublishTree const& unpublish);
    void perform(volume::LookAtSpace const& look);
    void perform(volume::LookAtVault const& look);
    void deliver();
    void end_job(std::size_t index);
    void take_effect(volume::Job const& job);
    void leave_half(volume::Job const& job);
    [[nodiscard]] std::uint64_t free_bytes() const;
    [[nodiscard]] bool is_wanted(volume::VolumeKey const& key) const;
    [[nodiscard]] volume::VolumeConfig const* config_of(volume::VolumeKey const& key) const;

    [[nodiscard]] bool can_load(std::string const& content) const;
    [[nodiscard]] bool waits_for_signature(volume::VolumeKey const& key) const;
    void check_start(volume::Job const& job);
    std::set<volume::VolumeKey> check_start_of_snapshot(volume::Job const& job);
    [[nodiscard]] Volumes volumes_of(volume::SnapshotKey const& key) const;
    [[nodiscard]] bool is_used(volume::VolumeKey const& key) const;
    [[nodiscard]] bool is_made(volume::VolumeKey const& key) const;
    [[nodiscard]] bool is_rolling_back(volume::VolumeKey const& key) const;
    void check_snapshots();
    void check_signature(std::string const& content);
    void check_end();
    void check_volume(volume::VolumeConfig const& config);
    [[nodiscard]] bool can_exist(volume::VolumeConfig const& config, int depth = 0) const;
    void fail(std::string text);

    Random random_;
    volume::Settings settings_;
    std::optional<volume::Core> core_;
    volume::BootTime now_{std::chrono::hours(1)};
    bool is_calm_ = false;
    bool is_unlocked_ = true;
    std::uint64_t capacity_ = 64ULL << 30;

    // durable
    std::map<volume::VolumeKey, volume::VolumeRow> rows_;
    std::map<std::string, volume::TreeRow> tree_rows_;
    std::map<volume::VolumeKey, volume::VolumeConfig> configs_;
    std::map<std::string, volume::TreeConfig> trees_;
    std::map<volume::ReferenceKey, volume::ReferenceConfig> references_;
    std::map<volume::HolderKey, volume::CertificatesConfig> holders_;
    std::map<volume::SnapshotKey, volume::SnapshotConfig> snapshots_;
    std::map<volume::SnapshotKey, volume::SnapshotRow> snapshot_rows_;
    std::set<volume::HolderKey> certificates_;    ///< that are on disk
    std::map<std::string, std::string> checked_;  ///< what the signature of content was checked for last
    std::map<volume::VolumeKey, OnDisk> disk_;
    std::set<std::string> content_;                         ///< content trees whose blobs are referenced
    std::map<std::string, std::vector<Object>> published_;  ///< what each publisher wants, whatever the database has

    // of this life of the manager
    std::vector<Work> work_;
    std::deque<volume::Event> answers_;
    std::uint64_t told_free_ = 0;  ///< what the manager knows of the disk
    std::map<volume::VolumeKey, volume::VolumeStatus> shown_;
    std::map<std::string, volume::TreeStatus> shown_trees_;
    std::map<volume::SnapshotKey, volume::SnapshotStatus> shown_snapshots_;

    std::uint64_t created_ = 0;
    std::uint64_t destroyed_ = 0;
    std::uint64_t kills_ = 0;
    std::uint64_t taken_ = 0;
    std::uint64_t rolled_back_ = 0;
    std::string problem_;
};

}  // namespace triton::simulation
