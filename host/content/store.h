#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/content/boot_clock.h"
#include "host/content/database.h"
#include "host/content/digest.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::content {

/// The data of a blob besides its bytes. All of it is only for display.
struct BlobFacts {
    std::string media_type = {};
    std::string source = {};  ///< where it came from, without credentials and without a query
};

struct Blob {
    Digest digest;
    std::uint64_t size = 0;
    BlobFacts facts;
    std::int64_t verified_at = 0;  ///< seconds since 1970, for showing
    bool is_pinned = false;
    std::string quarantined = {};  ///< why it may not be used; empty: it is good
};

/// A user of a blob: {"image", "<uuid>"}.
struct Owner {
    std::string kind;
    std::string id;

    auto operator<=>(Owner const&) const = default;
};

/// Why a blob is kept, or that nothing keeps it.
struct Why {
    std::optional<Blob> blob;              ///< none: the store does not have it
    std::vector<Owner> owners;             ///< references
    std::vector<std::string> leases;       ///< what is being built, by the purpose that it gave
    std::optional<std::string> collected;  ///< why the next gc() takes it; none: it does not
};

/// Room on a file system that somebody will need who does not take it now: a volume of 4 GiB in which 1 GiB is written.
struct Promise {
    std::uint64_t device = 0;  ///< st_dev of the file system, of this boot
    std::uint64_t bytes = 0;
    std::uint64_t written = 0;  ///< the part that is on disk, and hence not free any more
};

enum class LeaseId : std::int64_t {};

/// What keeps a blob from gc() from the moment that it is in the store.
struct Protection {
    std::optional<LeaseId> lease = {};  ///< until it ends, or the machine does
    std::optional<Owner> owner = {};    ///< a reference, until it is removed

    [[nodiscard]] bool is_none() const { return !lease && !owner; }
};

/// Something that gc() removes, or would remove.
struct Victim {
    enum class Kind : std::uint8_t { blob, ingest, quarantined };
    Kind kind = Kind::blob;
    std::string name;  ///< digest, or the key of an unfinished ingest
    std::uint64_t bytes = 0;
    std::string reason;  ///< "nothing refers to it"
};

struct GcSettings {
    bool dry_run = false;
    milliseconds blob_grace{};                               ///< how long a blob stays without references
    milliseconds ingest_grace = std::chrono::hours(24);      ///< how long an interrupted download stays resumable
    milliseconds quarantine_grace = std::chrono::hours(24);  ///< how long bad bytes stay for inspection
};

/// One blob that scrub() has read.
struct Scrubbed {
    Digest digest;
    std::uint64_t bytes = 0;
    std::optional<std::string> fault = {};  ///< why it is in quarantine now; none: it is good
    std::vector<Owner> owners = {};         ///< for a bad blob: what was made from it
};

struct StoreSettings {
    std::uint64_t least_free_bytes = 64 << 20;  ///< free space on the file system that an ingest does not use
    std::uint64_t least_free_inodes = 64;
};

class Store;
struct StoreState;

/// A blob on its way into the store. Its key leads to it again after any interruption. Only one Store at a time has it.
/// Dropping this keeps what is there for the next time.
class Ingest {
public:
    Ingest(Ingest&&) noexcept = default;
    Ingest& operator=(Ingest&&) noexcept = default;

    [[nodiscard]] std::string const& key() const { return key_; }
    /// The file, open for reading. Borrowed.
    [[nodiscard]] int fd() const { return data_.get(); }
    /// Opens the same file for the verifier, the only one that writes it. The caller must close it as soon as the
    /// verifier has its copy: a verifier that finds another writer refuses the file.
    /// Errors: those of open(2).
    [[nodiscard]] Result<UniqueFd> open_for_writing() const;
    /// Its directory, for the journal. Borrowed.
    [[nodiscard]] int directory() const { return directory_.get(); }

    /// Makes sure that this many bytes fit, and reserves the blocks where the file system can.
    /// Errors: `exhausted`: "cannot store <key>: 2000000 bytes are needed beside 67108864 bytes that stay free, and
    /// 400000 are free". What was promised to volumes stays free, too.
    Result<> reserve(std::uint64_t size) const;

    /// Empties it, because what was there belongs to something else. Errors: those of ftruncate(2).
    Result<> restart() const;

private:
    friend class Store;
    Ingest() = default;
    std::string key_;
    std::string name_;    // of the directory
    UniqueFd directory_;  // locked
    UniqueFd data_;
    StoreSettings settings_;  // what was promised to others stays free, too
};

/// Holds the locks of some keys. They are given back when this is destroyed, which must be before its Store, or when
/// its process dies.
class KeyLock {
public:
    KeyLock(KeyLock&&) noexcept = default;
    KeyLock& operator=(KeyLock&&) noexcept = default;
    ~KeyLock();

private:
    friend class Store;
    struct Held {
        std::string name;
        UniqueFd fd;
    };
    KeyLock() = default;
    int directory_ = -1;  // of the Store
    std::vector<Held> held_;
};

/// Blobs by their digests: files that never change, and a database that says what they are and who needs them.
///
///     content.db              facts, references, leases, pins, unfinished ingests; tables of host/image beside them
///     blobs/sha256/<hex>      mode 0400; verified before it had this name
///     ingest/<name>/data      what is on its way; <name> is the SHA-256 of its key
///     quarantine/<hex>.<n>    what was found to be bad
///     locks/<name>            one for each key that is in use
///
/// Bytes become durable before their row does, and a row is removed before its file. Each step is recorded in the
/// database before it is done, so that open() can finish what a crash has interrupted. A Store belongs to one thread;
/// other threads and processes open the same directory themselves. Functions that move files (commit, gc, scrub,
/// quarantine) must not be called within a transaction.
class Store {
public:
    /// Makes what is missing, brings the database up to date and finishes what was interrupted: the work is bounded by
    /// what was in progress then, and no content is read.
    /// Errors: those of mkdir(2) and open(2); `corrupt` for a database that is not ours, and nothing is changed then.
    static Result<Store> open(std::string const& directory, StoreSettings const& settings = {});
    Store(Store&&) noexcept;
    Store& operator=(Store&&) = delete;
    ~Store();

    /// For the tables of host/image: an image and its references change in one transaction.
    Database& database();
    [[nodiscard]] std::string const& directory() const;

    /// A good blob; nothing when it is not there, is in quarantine, or its file is gone.
    Result<std::optional<Blob>> find(Digest const& digest);
    /// Opens a blob's bytes for reading. Errors: `not_found`: "the content store does not have sha256:...".
    Result<UniqueFd> open_blob(Digest const& digest);
    /// All blobs, including bad ones, by digest.
    Result<std::vector<Blob>> list();

    /// Waits until this process has the locks of all keys, taken in sorted order. `cancel`: a descriptor that becomes
    /// readable when we are to give up; -1: none.
    /// Errors: `timeout`: "<key> is being imported by another process"; `refused`: "cancelled".
    Result<KeyLock> lock(std::vector<std::string> keys, TimePoint deadline, int cancel = -1);

    /// Begins or resumes the ingest with this key: for a blob whose digest is known, the digest's text. Waits for
    /// another Store that has it, as lock() does; the blob may be in the store afterwards.
    Result<Ingest> begin_ingest(std::string_view key, TimePoint deadline, int cancel = -1);
    /// Gives a verified ingest its name and then its row, durably, and protects it in the same step: no crash leaves
    /// the row without its reference. If a good blob is already there, it stays and the ingest is dropped.
    /// Errors: those of fsync(2), rename(2) and the database; the ingest can then be resumed.
    Result<Blob> commit(Ingest ingest, Digest const& digest, BlobFacts const& facts, Protection const& protection = {});
    /// Drops an ingest. Errors: those of unlink(2).
    Result<> abandon(Ingest ingest);

    /// Adds references to blobs of the store. Each counts once for each owner. Errors: `not_found` when one is missing;
    /// then nothing is changed.
    Result<> add_references(Owner const& owner, std::span<Digest const> digests);
    /// Removes all references of the owner; there may be none.
    Result<> remove_references(Owner const& owner);
    /// Removes one reference; there may be none.
    Result<> remove_reference(Owner const& owner, Digest const& digest);
    Result<std::vector<Owner>> owners(Digest const& digest);
    Result<std::vector<Digest>> referenced_by(Owner const& owner);

    /// Makes a lease that protects what is being built for this long. It runs by the boot-time clock: no step of the
    /// wall clock ends it, and a reboot does. `purpose`: "import of docker.io/library/alpine:3.20", for why(). `owner`:
    /// a key of lock(); as long as somebody has that lock the lease lives, also when its process was stopped and could
    /// not renew it. Empty: only the time counts.
    Result<LeaseId> make_lease(std::string_view purpose, milliseconds duration, std::string_view owner = {});
    Result<> renew_lease(LeaseId lease, milliseconds duration);
    /// Puts a blob under a lease. Returns whether the store has the blob.
    Result<bool> protect(LeaseId lease, Digest const& digest);
    /// The same for a lease, a reference, or both.
    Result<bool> protect(Protection const& protection, Digest const& digest);
    Result<> end_lease(LeaseId lease);

    /// Promises room: from then on no ingest on that file system takes it. The same key again changes the promise.
    Result<> promise(std::string_view key, Promise const& promise);
    Result<> end_promise(std::string_view key);

    /// Pins a blob, so that it is never collected. Errors: `not_found`.
    Result<> pin(Digest const& digest);
    Result<> unpin(Digest const& digest);

    Result<Why> why(Digest const& digest);

    /// Removes everything that nothing needs. Returns what was removed.
    Result<std::vector<Victim>> gc(GcSettings const& settings = {});

    /// Removes one blob at once, unless something needs it. Returns whether it was removed.
    Result<bool> discard(Digest const& digest);

    /// Checks the database, then reads every blob with idle priority of processor and disk, and quarantines bad ones.
    /// One that is in quarantine already, and that something refers to, is still bad: nothing of it is read. A file
    /// without a row, because the database was lost, gets one if its content is what its name says. `call` is called
    /// after each blob, and may return false to end this. `cancel` as of lock(). Errors: `corrupt` for the database;
    /// `refused`: "cancelled".
    Result<> scrub(std::function<bool(Scrubbed const&)> const& call, int cancel = -1);

    /// Takes a blob out of use, but keeps its bytes for inspection. References stay, and fetching it again repairs it.
    /// Errors: `not_found`.
    Result<> quarantine(Digest const& digest, std::string_view reason);

private:
    explicit Store(std::unique_ptr<StoreState> state);
    std::unique_ptr<StoreState> state_;
};

}  // namespace triton::content
