#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "host/volume/ledger.h"
#include "host/volume/objects.h"
#include "host/volume/states.h"

namespace triton::volume {

enum class JobId : std::uint64_t {};
enum class SaveId : std::uint64_t {};

/// Work that takes time or may block. It is done outside of the core, by one worker, and can be repeated after a crash.
struct Job {
    enum class Kind : std::uint8_t {
        resolve,             ///< asks a registry what the name of a content tree means
        fetch,               ///< fetches and verifies a content tree, and takes references to its blobs
        drop,                ///< removes the references to the blobs of a content tree
        build,               ///< removes what an earlier attempt left, and makes the tree of a volume
        grow,                ///< raises the limit of a volume that exists
        destroy,             ///< removes the tree of a volume; there may be none
        fetch_certificates,  ///< fetches and verifies the certificates of a holder
        drop_certificates,   ///< removes them
        take_snapshot,       ///< removes what an earlier attempt left of a snapshot, and takes it of all its volumes
        roll_back,           ///< gives the volumes of a snapshot their content back
        delete_snapshot,     ///< removes a snapshot from its volumes; some may not have it
    };
    Kind kind = Kind::build;
    VolumeKey volume = {};  ///< of build, grow, destroy
    HolderKey holder = {};  ///< of certificates
    SnapshotKey snapshot = {};
    std::string content = {};  ///< of resolve, fetch, drop: the id of the content tree
    std::string digest = {};   ///< of fetch
    std::uint64_t bytes = 0;
    std::string demand = {};  ///< of fetch: the signature that is checked

    bool operator==(Job const&) const = default;
};

std::string_view name_of(Job::Kind kind);

// --- what happens ---

using Object = std::variant<VolumeConfig, TreeConfig, ReferenceConfig, CertificatesConfig, SnapshotConfig>;
using ObjectKey = std::variant<VolumeKey, std::string, ReferenceKey, HolderKey, SnapshotKey>;

/// All that is in the database, first of all events. It is one event: a row without its configuration would look
/// unwanted.
struct Loaded {
    std::vector<VolumeRow> volumes = {};
    std::vector<TreeRow> trees = {};
    std::vector<SnapshotRow> snapshots = {};
    std::vector<Object> objects = {};
};
/// The volumes that have a tree.
struct TreesSeen {
    std::set<VolumeKey> volumes;
    /// A file system that was not looked at says nothing about its volumes.
    std::set<FileSystem> looked_at{FileSystem::clear, FileSystem::vault};
};
/// The holders of whom there are certificates on disk, at the start.
struct CertificatesSeen {
    std::set<HolderKey> holders;
};
/// Certificates of a holder were found to be bad.
struct CertificatesLost {
    HolderKey holder;
};
/// A configuration was published, and is in the database.
struct Put {
    Object object;
};
/// A configuration was deleted by its publisher, and is no longer in the database.
struct Removed {
    ObjectKey object;
};
/// A publisher begins to publish everything it has.
struct PublisherRestarted {
    std::string publisher;
};
/// It has published everything it has: what it did not repeat is deleted.
struct PublisherComplete {
    std::string publisher;
};
struct JobProgress {
    JobId job;
    State state = State::downloading;     ///< of a fetch
    SubState sub_state = SubState::none;  ///< of a build
    std::uint64_t bytes = 0;
    std::uint64_t total_bytes = 0;
};
struct JobDone {
    JobId job;
    std::string digest = {};     ///< of a resolve
    std::uint64_t bytes = 0;     ///< of a fetch
    std::string image = {};      ///< of a fetch of a container
    std::string signed_by = {};  ///< of a fetch
    std::int64_t taken = 0;      ///< of a snapshot: when, in seconds since 1970
};
struct JobFailed {
    JobId job;
    Failure failure;
};
/// A job that was cancelled has ended. It may have done its work all the same.
struct JobCancelled {
    JobId job;
};
struct Saved {
    SaveId save;
};
/// Nothing of a Save is in the database.
struct SaveFailed {
    SaveId save;
    Failure failure;
};
struct SpaceSeen {
    std::map<FileSystem, std::uint64_t> free;
    std::map<VolumeKey, std::uint64_t> used;      ///< bytes of volumes; one that is missing is unknown
    std::optional<bool> is_one_file_system = {};  ///< whether the vault is on the one of the rest; none: not known
    std::set<FileSystem> looked_at{FileSystem::clear, FileSystem::vault};
};
struct VaultSeen {
    bool is_unlocked = false;
    std::string reason = {};  ///< why it is not
};
struct MaintenanceSet {
    bool is_on = false;
};
/// The operator wants everything tried again that waits.
struct RetryAsked {};
/// Content that was complete is not in the store any more: it was found to be bad, or somebody has removed it.
struct ContentLost {
    std::string content;
};
/// The operator wants what is unclaimed collected now.
struct CollectAsked {};
/// Time passed, and nothing else happened.
struct TimePassed {};

using Event = std::variant<Loaded, TreesSeen, Put, Removed, PublisherRestarted, PublisherComplete, JobProgress, JobDone,
                           JobFailed, JobCancelled, Saved, SaveFailed, SpaceSeen, VaultSeen, MaintenanceSet, RetryAsked,
                           CollectAsked, ContentLost, CertificatesSeen, CertificatesLost, TimePassed>;

// --- what is to be done, in this order ---

/// Changes the database, in one transaction. Saved or SaveFailed answers it.
struct Save {
    struct EraseVolume {
        VolumeKey key;
        bool operator==(EraseVolume const&) const = default;
    };
    struct EraseTree {
        std::string id;
        bool operator==(EraseTree const&) const = default;
    };
    struct EraseSnapshot {
        SnapshotKey key;
        bool operator==(EraseSnapshot const&) const = default;
    };
    SaveId id;
    std::variant<VolumeRow, TreeRow, SnapshotRow, EraseVolume, EraseTree, EraseSnapshot> change;
};
/// Deletes a configuration that its publisher did not repeat. If that fails, it is deleted after the next repetition.
struct Forget {
    ObjectKey object;
};
struct StartJob {
    JobId id;
    Job job;
};
struct CancelJob {
    JobId id;
};
struct PublishVolume {
    VolumeStatus status;
};
struct PublishTree {
    TreeStatus status;
};
struct PublishCertificates {
    CertificatesStatus status;
};
struct PublishSnapshot {
    SnapshotStatus status;
};
struct UnpublishVolume {
    VolumeKey key;
};
struct UnpublishTree {
    std::string id;
};
struct UnpublishCertificates {
    HolderKey key;
};
struct UnpublishSnapshot {
    SnapshotKey key;
};
/// SpaceSeen is to answer it.
struct LookAtSpace {};
/// VaultSeen is to answer it.
struct LookAtVault {};

using Action =
    std::variant<Save, Forget, StartJob, CancelJob, PublishVolume, PublishTree, PublishCertificates, PublishSnapshot,
                 UnpublishVolume, UnpublishTree, UnpublishCertificates, UnpublishSnapshot, LookAtSpace, LookAtVault>;

}  // namespace triton::volume
