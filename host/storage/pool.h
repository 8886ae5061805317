#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/storage/names.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

enum class Backend : std::uint8_t {
    zfs,        ///< a dataset for each tree
    btrfs,      ///< a subvolume for each tree
    reflink,    ///< a directory for each tree; copies share their blocks (XFS, bcachefs)
    directory,  ///< a directory for each tree; copies are copies
};

/// "zfs", "btrfs", "reflink", "directory".
std::string_view name_of(Backend backend);
/// Errors: `invalid`: "unknown storage backend "lvm" (known: zfs, btrfs, reflink, directory)".
Result<Backend> parse_backend(std::string_view name);

struct Settings {
    /// None: what the pool was made as; a new one is `zfs` when a dataset is given, else the best that the path can
    /// have.
    std::optional<Backend> backend = {};
    std::string path = {};     ///< directory of the pool; made when it is missing. ZFS: where its dataset is mounted
    std::string dataset = {};  ///< ZFS: the dataset below which all trees are, "tank/triton"; its zpool exists
    /// How long one operation waits for what is busy, and for a child process that does not move data.
    std::chrono::milliseconds patience = std::chrono::seconds(30);
};

/// The size of a tree. All in bytes, as the file system counts them.
struct Usage {
    std::uint64_t used = 0;        ///< what destroying it and its snapshots would give back
    std::uint64_t referenced = 0;  ///< what its files take, whether or not others share the blocks
    std::optional<std::uint64_t> quota = {};

    bool operator==(Usage const&) const = default;
};

/// A snapshot of a tree, as far as the backend knows it.
struct SnapshotFacts {
    SnapshotName name;
    std::optional<std::int64_t> created_at = {};  ///< microseconds of the wall clock; none: the file system forgets it
    std::optional<std::uint64_t> used = {};       ///< bytes that deleting it would give back; only ZFS counts them
};

struct Space {
    std::uint64_t total = 0;
    std::uint64_t free = 0;                         ///< for us: less what the file system keeps back
    std::optional<std::uint64_t> inodes_free = {};  ///< none: the file system makes them as they are needed

    bool operator==(Space const&) const = default;
};

/// How ZFS is to keep a tree; what is not set is as in the dataset above.
struct Tuning {
    std::optional<std::string> compression = {};
    std::optional<std::uint64_t> record_size = {};
    std::optional<std::uint64_t> most_filesystems = {};
    std::optional<std::uint64_t> most_snapshots = {};

    bool operator==(Tuning const&) const = default;
};

/// Keys are `triton:[a-z_]+`. Values are of 1 to 1,000 printable ASCII characters.
using Properties = std::map<std::string, std::string, std::less<>>;

/// Trees of files, each of which can be snapshot, cloned and destroyed as one thing.
///
/// Every operation either happens or does not, also when its process is killed in the middle: what is built is built
/// under a name of the pool's own and gets its name last; what is destroyed loses its name first. What a killed process
/// leaves takes room until recover() gives that back, and it is never listed. So any operation can simply be done
/// again. Several processes may use one pool at once; those that touch one tree wait for each other, at most for
/// Settings::patience, and then fail with `busy`.
///
/// No operation follows a symbolic link inside a tree, and none leaves the file system of the pool.
///
/// Kinds of errors, beside those at the functions: `not_found` a tree or a snapshot that does not exist, `exists` one
/// that would be made and is there already, `busy`, `unavailable` no space or no inode left, or the pool is not there
/// now, `timeout` a child process that did not end, `unsupported` what this backend or file system cannot do,
/// `corrupt` a tree that is not as the pool leaves it.
class Pool {
public:
    virtual ~Pool() = default;
    Pool(Pool const&) = delete;
    Pool& operator=(Pool const&) = delete;

    [[nodiscard]] virtual Backend kind() const = 0;
    /// Whether a clone takes neither the time nor the room of its files' content.
    [[nodiscard]] bool clones_are_free() const { return kind() != Backend::directory; }

    /// An empty tree: one directory, mode 0755, of root. Errors: `exists`; `refused` when a tree would be inside
    /// another.
    virtual Result<> make(TreeName const& tree) = 0;
    /// A tree with the content of a snapshot, which it does not share with anybody as far as writing goes. Its
    /// properties and its quota do not come along.
    virtual Result<> clone(TreeName const& from, SnapshotName const& snapshot, TreeName const& to) = 0;
    virtual Result<> snapshot(TreeName const& tree, SnapshotName const& name) = 0;
    /// The same of a tree that is needed for its clones only, for nothing on every backend: where a snapshot is a copy,
    /// the content moves into it, and the tree is empty afterwards. Killed in the middle, the tree may be empty without
    /// the snapshot. The caller makes the content durable before.
    virtual Result<> freeze(TreeName const& tree, SnapshotName const& name) { return snapshot(tree, name); }
    /// It stays the same snapshot for streams. Errors: `exists`.
    virtual Result<> rename_snapshot(TreeName const& tree, SnapshotName const& from, SnapshotName const& to) = 0;
    /// Errors: `busy`, with the clones that need it (ZFS).
    virtual Result<> delete_snapshot(TreeName const& tree, SnapshotName const& name) = 0;
    /// Makes the content what it was. Nothing may be using it meanwhile; descriptors of open() are stale afterwards.
    /// Errors: `refused` on ZFS when there are later snapshots, which it would have to destroy.
    virtual Result<> rollback(TreeName const& tree, SnapshotName const& name) = 0;
    /// Its snapshots, properties and quota come along. Errors: `exists`; `busy` while it is in use (ZFS: mounted and
    /// held open).
    virtual Result<> rename(TreeName const& from, TreeName const& to) = 0;
    /// With its snapshots. Errors: `busy`, with the clones that need it, or with what has it open (ZFS).
    virtual Result<> destroy(TreeName const& tree) = 0;

    /// The most bytes that its files may take; nullopt: no limit. Snapshots do not count where that can be told apart.
    /// Errors: `unsupported`, with what the file system would need.
    virtual Result<> set_quota(TreeName const& tree, std::optional<std::uint64_t> bytes) = 0;
    virtual Result<std::optional<std::uint64_t>> quota(TreeName const& tree) = 0;

    /// What is written from now on is kept so. Errors: `unsupported` when there is something to set and the pool is not
    /// of ZFS, or that ZFS does not know it.
    virtual Result<> tune(TreeName const& tree, Tuning const& tuning);

    /// An empty value removes it. Errors: `invalid` key or value.
    virtual Result<> set_property(TreeName const& tree, std::string_view key, std::string_view value) = 0;
    virtual Result<Properties> properties(TreeName const& tree) = 0;

    /// Writes a snapshot as a stream of bytes, with `from` only what has changed since that older snapshot of the same
    /// tree. The streams of btrfs, reflink and directory pools are one format, which docs/host/storage.md describes;
    /// those of ZFS are ZFS's. `fd` (borrowed): a file, a pipe or a socket. Errors: `unavailable` when the reader has
    /// gone.
    virtual Result<> send(TreeName const& tree, SnapshotName const& snapshot, std::optional<SnapshotName> const& from,
                          int fd) = 0;
    /// The tree that a tree was cloned from. None: it is not a clone, or the backend does not remember (all but ZFS).
    virtual Result<std::optional<TreeName>> origin(TreeName const& tree);
    /// The same as send() of what a clone has changed since the snapshot that it was cloned from. Who receives it needs
    /// that very snapshot. Errors: `unsupported` on all but ZFS; `refused` when the tree is not a clone.
    virtual Result<> send_since_origin(TreeName const& tree, SnapshotName const& snapshot, int fd);
    /// Makes a tree and its snapshot from a stream, or brings a tree up to date that has the snapshot where the stream
    /// starts, and no change since. Whoever wrote the stream is trusted with the content of the tree and with nothing
    /// outside of it. Errors: `corrupt`, which leaves nothing behind; `exists`; `refused`: it starts elsewhere.
    virtual Result<> receive(TreeName const& tree, int fd) = 0;

    virtual Result<Usage> usage(TreeName const& tree) = 0;
    virtual Result<Space> space() = 0;

    virtual Result<bool> exists(TreeName const& tree) = 0;
    /// All trees of a group ("layers"), or of the pool ("layers" and others, empty text), sorted.
    virtual Result<std::vector<TreeName>> list(std::string_view group) = 0;
    /// The snapshots of one tree, oldest first.
    virtual Result<std::vector<SnapshotName>> snapshots(TreeName const& tree) = 0;
    /// The same with what is known of each.
    virtual Result<std::vector<SnapshotFacts>> snapshot_facts(TreeName const& tree) = 0;

    /// Its directory, for reading and as the start of openat2(2).
    virtual Result<UniqueFd> open(TreeName const& tree) = 0;
    /// Where it is, or would be. The directories above belong to root and let nobody else through (mode 0700), because
    /// trees hold other systems' setuid programs.
    [[nodiscard]] virtual std::string path(TreeName const& tree) const = 0;
    /// Its name for zfs(8), "tank/triton/machines/a"; empty on all but ZFS.
    [[nodiscard]] virtual std::string dataset(TreeName const& tree) const;

    /// What killed processes have left is removed; what is being built or destroyed now is left alone. Returns a
    /// sentence for each thing that was removed. Meant for the start of every command that changes something.
    virtual Result<std::vector<std::string>> recover() = 0;

protected:
    Pool() = default;
};

/// Opens the pool, and makes it if there is none yet. Errors: `unsupported` when the path cannot have that backend,
/// with the reason; `refused` when the pool was made with another; those of the file system.
Result<std::unique_ptr<Pool>> open_pool(Settings const& settings);

struct Probe {
    Backend backend = Backend::directory;
    std::vector<std::string> reasons = {};  ///< a sentence for each better backend: why it is not that one
};

/// The best backend that a path can have; of a path that is missing, what its nearest parent can have. `zfs` needs the
/// dataset. Leaves nothing behind.
Result<Probe> probe(std::string const& path, std::string const& dataset = {});

}  // namespace triton::storage
