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
    /// None: as the pool was made. A new one is `zfs` when a dataset is given, else the best that the path supports.
    std::optional<Backend> backend = {};
    std::string path = {};     ///< directory of the pool, made if missing. ZFS: mount point of its dataset
    std::string dataset = {};  ///< ZFS: the dataset below which all trees are, "tank/triton"; its zpool exists
    /// How long an operation waits for something busy, or for a child process that does not move data.
    std::chrono::milliseconds patience = std::chrono::seconds(30);
};

/// The size of a tree, in bytes as counted by the file system.
struct Usage {
    std::uint64_t used = 0;        ///< what destroying it and its snapshots would free
    std::uint64_t referenced = 0;  ///< what its files take, including blocks that others share
    std::optional<std::uint64_t> quota = {};

    bool operator==(Usage const&) const = default;
};

/// What the backend knows about a snapshot of a tree.
struct SnapshotFacts {
    SnapshotName name;
    std::optional<std::int64_t> created_at = {};  ///< microseconds of the wall clock; none: not kept
    std::optional<std::uint64_t> used = {};       ///< bytes that deleting it would free; only ZFS counts them
};

struct Space {
    std::uint64_t total = 0;
    std::uint64_t free = 0;                         ///< available to us, without the file system's reserve
    std::optional<std::uint64_t> inodes_free = {};  ///< none: the file system makes inodes when needed

    bool operator==(Space const&) const = default;
};

/// How ZFS keeps a tree; what is not set comes from the dataset above.
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
/// Every operation either happens completely or not at all, even when its process is killed: something new is built
/// under a private name and gets its real name last, and something that is destroyed loses its name first. Leftovers of
/// a killed process take room until recover() frees it, and are never listed. So any operation can simply be repeated.
/// Several processes may use one pool at once. Those that use the same tree wait for each other, at most for
/// Settings::patience, and then fail with `busy`.
///
/// No operation follows a symbolic link inside a tree, and none leaves the file system of the pool.
///
/// Kinds of errors, besides those at the functions: `not_found` a tree or a snapshot that does not exist, `exists` one
/// that should be made but exists, `busy`, `exhausted` no space or inode left, `unavailable` the pool is not there now,
/// `timeout` a child process that did not end, `unsupported` something that this backend or file system cannot do,
/// `corrupt` a tree that is not in a state in which the pool leaves it.
class Pool {
public:
    virtual ~Pool() = default;
    Pool(Pool const&) = delete;
    Pool& operator=(Pool const&) = delete;

    [[nodiscard]] virtual Backend kind() const = 0;
    /// Whether a clone takes neither time nor room for the content of files.
    [[nodiscard]] bool clones_are_free() const { return kind() != Backend::directory; }

    /// Makes an empty tree: one directory with mode 0755, owned by root. Errors: `exists`; `refused` when a tree would
    /// be inside another.
    virtual Result<> make(TreeName const& tree) = 0;
    /// Makes a tree with the content of a snapshot; writes to either do not affect the other. Properties and quota are
    /// not copied.
    virtual Result<> clone(TreeName const& from, SnapshotName const& snapshot, TreeName const& to) = 0;
    virtual Result<> snapshot(TreeName const& tree, SnapshotName const& name) = 0;
    /// Makes a snapshot of a tree that is needed only for its clones, in a way that costs nothing on any backend. Where
    /// a snapshot is a copy, the content moves into it, and the tree is empty afterwards. If killed in the middle, the
    /// tree may be empty without the snapshot. The caller must make the content durable before.
    virtual Result<> freeze(TreeName const& tree, SnapshotName const& name) { return snapshot(tree, name); }
    /// Renames a snapshot; for streams it remains the same. Errors: `exists`.
    virtual Result<> rename_snapshot(TreeName const& tree, SnapshotName const& from, SnapshotName const& to) = 0;
    /// Errors: `busy`, with the clones that need it (ZFS).
    virtual Result<> delete_snapshot(TreeName const& tree, SnapshotName const& name) = 0;
    /// Looks for what keeps snapshots from being deleted, before the first of them is. Errors: `busy`, with a clone
    /// that needs one of them, or one that somebody holds (ZFS).
    virtual Result<> check_unused(TreeName const& tree, std::vector<SnapshotName> const& snapshots);
    /// Restores the content of a snapshot. Nothing may be using the tree meanwhile; descriptors of open() are stale
    /// afterwards.
    /// Errors: `refused` on ZFS when there are later snapshots, which it would have to destroy.
    virtual Result<> rollback(TreeName const& tree, SnapshotName const& name) = 0;
    /// Renames a tree with its snapshots, properties and quota. Errors: `exists`; `busy` while it is in use (ZFS:
    /// mounted and held open).
    virtual Result<> rename(TreeName const& from, TreeName const& to) = 0;
    /// Destroys a tree with its snapshots. Errors: `busy`, with the clones that need it, or with what has it open
    /// (ZFS).
    virtual Result<> destroy(TreeName const& tree) = 0;

    /// Limits the bytes of its files; nullopt: no limit. Snapshots do not count where the file system can tell. Removes
    /// limits of other kinds that a native tool has set and that are narrower.
    /// Errors: `unsupported`, with what the file system would need.
    virtual Result<> set_quota(TreeName const& tree, std::optional<std::uint64_t> bytes) = 0;
    /// The narrowest limit that is in force, whoever set it. None: there is none, or the file system keeps none.
    virtual Result<std::optional<std::uint64_t>> quota(TreeName const& tree) = 0;
    /// The same for many trees, without waiting for anybody who uses them. 0: no limit. A tree is missing when it does
    /// not exist, or when its file system keeps no limits.
    virtual Result<std::map<TreeName, std::uint64_t>> quotas(std::vector<TreeName> const& trees) = 0;

    /// Applies to everything that is written from now on. Errors: `unsupported` when something is to be set and the
    /// pool is not on ZFS, or its ZFS does not know the setting.
    virtual Result<> tune(TreeName const& tree, Tuning const& tuning);

    /// Sets a property; an empty value removes it. Errors: `invalid` key or value.
    virtual Result<> set_property(TreeName const& tree, std::string_view key, std::string_view value) = 0;
    virtual Result<Properties> properties(TreeName const& tree) = 0;

    /// Writes a snapshot as a stream of bytes; with `from` only the changes since that older snapshot of the same tree.
    /// Streams of btrfs, reflink and directory pools have one format, see docs/host/storage.md; those of ZFS have its
    /// own. `fd` (borrowed): a file, a pipe or a socket. Errors: `unavailable` when the reader has gone.
    virtual Result<> send(TreeName const& tree, SnapshotName const& snapshot, std::optional<SnapshotName> const& from,
                          int fd) = 0;
    /// The tree that a tree was cloned from. None: it is not a clone, or the backend does not remember (all but ZFS).
    virtual Result<std::optional<TreeName>> origin(TreeName const& tree);
    /// Writes likewise what a clone has changed since the snapshot that it was cloned from. The receiver needs that
    /// very snapshot. Errors: `unsupported` on all but ZFS; `refused` when the tree is not a clone.
    virtual Result<> send_since_origin(TreeName const& tree, SnapshotName const& snapshot, int fd);
    /// Makes a tree and its snapshot from a stream. Or brings a tree up to date that has the snapshot where the stream
    /// starts, and has not changed since. The author of the stream is trusted with the content of the tree, and with
    /// nothing outside it. Errors: `corrupt`, which leaves nothing behind; `exists`; `refused`: it starts elsewhere.
    virtual Result<> receive(TreeName const& tree, int fd) = 0;

    virtual Result<Usage> usage(TreeName const& tree) = 0;
    virtual Result<Space> space() = 0;

    virtual Result<bool> exists(TreeName const& tree) = 0;
    /// All trees of a group ("layers") or, with an empty text, of the pool, sorted.
    virtual Result<std::vector<TreeName>> list(std::string_view group) = 0;
    /// The snapshots of one tree, oldest first.
    virtual Result<std::vector<SnapshotName>> snapshots(TreeName const& tree) = 0;
    /// The same, with what is known about each.
    virtual Result<std::vector<SnapshotFacts>> snapshot_facts(TreeName const& tree) = 0;

    /// Opens its directory, for reading and as the start of openat2(2).
    virtual Result<UniqueFd> open(TreeName const& tree) = 0;
    /// Its path, even before it exists. The directories above belong to root and let nobody else through (mode 0700),
    /// because trees contain setuid programs of other systems.
    [[nodiscard]] virtual std::string path(TreeName const& tree) const = 0;
    /// The directory of a snapshot's files, which stays as long as the snapshot: what lies below overlayfs. Nobody may
    /// write there. Errors: `unsupported` on ZFS.
    virtual Result<std::string> snapshot_path(TreeName const& tree, SnapshotName const& name);

    /// Its name for zfs(8), "tank/triton/machines/a"; empty on all other backends.
    [[nodiscard]] virtual std::string dataset(TreeName const& tree) const;

    /// Removes what killed processes have left; what is being built or destroyed now is left alone. Returns a sentence
    /// for each thing that was removed. Meant for the beginning of every command that changes something.
    /// Errors: of the first thing that cannot be removed, with its path; all others are removed nevertheless.
    virtual Result<std::vector<std::string>> recover() = 0;

protected:
    Pool() = default;
};

/// Opens the pool, and makes it if it does not exist. Errors: `unsupported` when the path cannot have that backend,
/// with the reason; `refused` when the pool was made with another one; those of the file system.
Result<std::unique_ptr<Pool>> open_pool(Settings const& settings);

struct Probe {
    Backend backend = Backend::directory;
    std::vector<std::string> reasons = {};  ///< a sentence for each better backend: why it cannot be used
};

/// The best backend that a path supports; for a missing path, that of its nearest parent. `zfs` needs the dataset.
/// Leaves nothing behind.
Result<Probe> probe(std::string const& path, std::string const& dataset = {});

}  // namespace triton::storage
