#include "host/content/store.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/content/store_state.h"
#include "lib/files/copy_file.h"

namespace triton::content {

namespace {

/// `removals` and `committing` are intentions: written before the file is touched, and taken back after.
constexpr std::array<Migration, 3> migrations{{
    {R"(
CREATE TABLE blobs (
    digest TEXT PRIMARY KEY NOT NULL,
    size INTEGER NOT NULL,
    media_type TEXT NOT NULL,
    source TEXT NOT NULL,
    verified_at INTEGER NOT NULL,
    pinned INTEGER NOT NULL DEFAULT 0,
    quarantined TEXT NOT NULL DEFAULT '',
    unclaimed_boot TEXT NOT NULL,
    unclaimed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE blob_references (
    digest TEXT NOT NULL,
    owner_kind TEXT NOT NULL,
    owner_id TEXT NOT NULL,
    PRIMARY KEY (digest, owner_kind, owner_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_references_owner ON blob_references (owner_kind, owner_id);
CREATE TABLE leases (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    purpose TEXT NOT NULL,
    boot TEXT NOT NULL,
    expires INTEGER NOT NULL
) STRICT;
CREATE TABLE lease_blobs (
    lease INTEGER NOT NULL REFERENCES leases (id) ON DELETE CASCADE,
    digest TEXT NOT NULL,
    PRIMARY KEY (lease, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX lease_blobs_digest ON lease_blobs (digest);
CREATE TABLE ingests (
    key TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    committing TEXT NOT NULL DEFAULT '',
    media_type TEXT NOT NULL DEFAULT '',
    source TEXT NOT NULL DEFAULT '',
    boot TEXT NOT NULL,
    begun_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE quarantine (
    name TEXT PRIMARY KEY NOT NULL,
    digest TEXT NOT NULL,
    reason TEXT NOT NULL,
    boot TEXT NOT NULL,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE removals (hex TEXT PRIMARY KEY NOT NULL) STRICT, WITHOUT ROWID;
)"},
    {"ALTER TABLE leases ADD COLUMN owner TEXT NOT NULL DEFAULT ''"},
    {R"(
ALTER TABLE ingests ADD COLUMN owner_kind TEXT NOT NULL DEFAULT '';
ALTER TABLE ingests ADD COLUMN owner_id TEXT NOT NULL DEFAULT '';
CREATE TABLE promises (
    key TEXT PRIMARY KEY NOT NULL,
    device INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    written INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
)"},
}};

/// Errors: `denied` when it belongs to somebody else, who could change what root unpacks.
Result<> check_owner(int directory, std::string const& shown) {
    struct stat status{};
    if (::fstat(directory, &status) != 0) return fail(errno, "look at directory " + shown);
    if (status.st_uid == ::geteuid()) return {};
    return fail(ErrorKind::denied, "open the content store in " + shown,
                "it belongs to user " + std::to_string(status.st_uid));
}

Result<UniqueFd> make_directory(int root, char const* name, std::string const& path) {
    std::string const shown = path + "/" + name;
    if (::mkdirat(root, name, 0700) != 0 && errno != EEXIST) return fail(errno, "make directory " + shown);
    UniqueFd directory{::openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
    if (!directory) return fail(errno, "open directory " + shown);
    TRY(check_owner(directory.get(), shown));
    return directory;
}

Error not_found(Digest const& digest) {
    return {ErrorKind::not_found, "", "the content store does not have " + digest.text(), {}, 0};
}

Result<std::vector<Owner>> owners_of(Database& database, Digest const& digest) {
    std::vector<Owner> owners;
    Statement rows = TRY(database.query(
        "SELECT owner_kind, owner_id FROM blob_references WHERE digest = ? ORDER BY 1, 2", digest.text()));
    while (TRY(rows.step()))
        owners.push_back({rows.text(0), rows.text(1)});
    return owners;
}

}  // namespace

Store::Store(std::unique_ptr<StoreState> state) : state_(std::move(state)) {}
Store::Store(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::open(std::string const& directory, StoreSettings const& settings) {
    UniqueFd const made = TRY(files::make_directories(directory));
    UniqueFd root{::openat(made.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!root) return fail(errno, "open directory " + directory);
    TRY(check_owner(root.get(), directory));
    if (::fchmod(root.get(), 0700) != 0) return fail(errno, "change the mode of " + directory);
    Database database = TRY(Database::open(directory + "/content.db"));
    UniqueFd all_blobs = TRY(make_directory(root.get(), "blobs", directory));
    UniqueFd blobs = TRY(make_directory(all_blobs.get(), "sha256", directory + "/blobs"));
    UniqueFd ingest = TRY(make_directory(root.get(), "ingest", directory));
    UniqueFd quarantine = TRY(make_directory(root.get(), "quarantine", directory));
    UniqueFd locks = TRY(make_directory(root.get(), "locks", directory));
    auto state = std::make_unique<StoreState>(directory, settings, std::move(root), std::move(blobs), std::move(ingest),
                                              std::move(quarantine), std::move(locks), std::move(database));
    TRY(state->database.migrate("content", migrations));
    TRY(recover(*state));
    return Store(std::move(state));
}

Database& Store::database() { return state_->database; }
std::string const& Store::directory() const { return state_->path; }

Result<Blob> blob_of_row(Statement const& row) {
    Digest digest = TRY(Digest::parse(row.text(0)));
    return Blob{.digest = std::move(digest),
                .size = static_cast<std::uint64_t>(row.integer(1)),
                .facts = {.media_type = row.text(2), .source = row.text(3)},
                .verified_at = row.integer(4),
                .is_pinned = row.integer(5) != 0,
                .quarantined = row.text(6)};
}

Result<> insert_blob(StoreState& state, std::string const& digest, std::uint64_t size, BlobFacts const& facts) {
    BootTime const now = TRY(boot_time());
    TRY(
        state.database.run("INSERT INTO blobs VALUES (?, ?, ?, ?, ?, 0, '', ?, ?) ON CONFLICT (digest) DO UPDATE SET "
                           "size = excluded.size, media_type = excluded.media_type, source = excluded.source, "
                           "verified_at = excluded.verified_at, quarantined = ''",
                           digest, size, facts.media_type, facts.source, ::time(nullptr), now.boot, now.milliseconds));
    TRY(state.database.run("DELETE FROM removals WHERE hex = ?", digest.substr(digest.find(':') + 1)));
    return {};
}

Result<std::optional<Blob>> Store::find(Digest const& digest) {
    Statement row = TRY(state_->database.query(
        std::string("SELECT ").append(blob_columns).append(" FROM blobs WHERE digest = ?"), digest.text()));
    if (!TRY(row.step())) return std::nullopt;
    Blob blob = TRY(blob_of_row(row));
    struct stat status{};
    if (!blob.quarantined.empty()) return std::nullopt;
    if (::fstatat(state_->blobs.get(), digest.hex().c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) return std::nullopt;
        return fail(errno, "look at blob " + digest.text());
    }
    if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) != blob.size) return std::nullopt;
    return blob;
}

Result<UniqueFd> Store::open_blob(Digest const& digest) {
    if (!TRY(find(digest))) return std::unexpected(not_found(digest));
    UniqueFd file{::openat(state_->blobs.get(), digest.hex().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
    if (!file && errno == ENOENT) return std::unexpected(not_found(digest));
    if (!file) return fail(errno, "open blob " + digest.text());
    return file;
}

Result<std::vector<Blob>> Store::list() {
    std::vector<Blob> blobs;
    Statement rows =
        TRY(state_->database.query(std::string("SELECT ").append(blob_columns).append(" FROM blobs ORDER BY digest")));
    while (TRY(rows.step()))
        blobs.push_back(TRY(blob_of_row(rows)));
    return blobs;
}

Result<> Store::add_references(Owner const& owner, std::span<Digest const> digests) {
    Transaction transaction = TRY(state_->database.begin());
    for (Digest const& digest : digests) {
        if (!TRY(find(digest))) return std::unexpected(not_found(digest));
        TRY(state_->database.run("INSERT OR IGNORE INTO blob_references VALUES (?, ?, ?)", digest.text(), owner.kind,
                                 owner.id));
    }
    return transaction.commit();
}

Result<> Store::remove_references(Owner const& owner) {
    BootTime const now = TRY(boot_time());
    Transaction transaction = TRY(state_->database.begin());
    TRY(
        state_->database.run("UPDATE blobs SET unclaimed_boot = ?, unclaimed_at = ? WHERE digest IN "
                             "(SELECT digest FROM blob_references WHERE owner_kind = ? AND owner_id = ?)",
                             now.boot, now.milliseconds, owner.kind, owner.id));
    TRY(state_->database.run("DELETE FROM blob_references WHERE owner_kind = ? AND owner_id = ?", owner.kind,
                             owner.id));
    return transaction.commit();
}

Result<> Store::remove_reference(Owner const& owner, Digest const& digest) {
    BootTime const now = TRY(boot_time());
    Transaction transaction = TRY(state_->database.begin());
    auto const removed =
        TRY(state_->database.run("DELETE FROM blob_references WHERE digest = ? AND owner_kind = ? AND owner_id = ?",
                                 digest.text(), owner.kind, owner.id));
    if (removed == 0) return {};
    TRY(state_->database.run("UPDATE blobs SET unclaimed_boot = ?, unclaimed_at = ? WHERE digest = ?", now.boot,
                             now.milliseconds, digest.text()));
    return transaction.commit();
}

Result<> Store::promise(std::string_view key, Promise const& promise) {
    TRY(
        state_->database.run("INSERT INTO promises VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                             "device = excluded.device, bytes = excluded.bytes, written = excluded.written",
                             key, promise.device, promise.bytes, promise.written));
    return {};
}

Result<> Store::end_promise(std::string_view key) {
    TRY(state_->database.run("DELETE FROM promises WHERE key = ?", key));
    return {};
}

Result<std::vector<Owner>> Store::owners(Digest const& digest) { return owners_of(state_->database, digest); }

Result<std::vector<Digest>> Store::referenced_by(Owner const& owner) {
    std::vector<Digest> digests;
    Statement rows = TRY(state_->database.query(
        "SELECT digest FROM blob_references WHERE owner_kind = ? AND owner_id = ? ORDER BY 1", owner.kind, owner.id));
    while (TRY(rows.step()))
        digests.push_back(TRY(Digest::parse(rows.text(0))));
    return digests;
}

Result<LeaseId> Store::make_lease(std::string_view purpose, milliseconds duration, std::string_view owner) {
    BootTime const now = TRY(boot_time());
    Statement row = TRY(
        state_->database.query("INSERT INTO leases (purpose, boot, expires, owner) VALUES (?, ?, ?, ?) RETURNING id",
                               purpose, now.boot, now.milliseconds + duration.count(), owner));
    TRY(row.step());
    LeaseId const id{row.integer(0)};
    TRY(row.step());  // the change happens when the statement ends
    return id;
}

Result<> Store::renew_lease(LeaseId lease, milliseconds duration) {
    BootTime const now = TRY(boot_time());
    auto const changed =
        TRY(state_->database.run("UPDATE leases SET boot = ?, expires = ? WHERE id = ?", now.boot,
                                 now.milliseconds + duration.count(), static_cast<std::int64_t>(lease)));
    if (changed == 0) return fail(ErrorKind::not_found, "the lease has ended");
    return {};
}

Result<bool> Store::protect(LeaseId lease, Digest const& digest) {
    Transaction transaction = TRY(state_->database.begin());
    if (!TRY(find(digest))) return false;
    TRY(state_->database.run("INSERT OR IGNORE INTO lease_blobs VALUES (?, ?)", static_cast<std::int64_t>(lease),
                             digest.text()));
    TRY(transaction.commit());
    return true;
}

Result<bool> Store::protect(Protection const& protection, Digest const& digest) {
    Transaction transaction = TRY(state_->database.begin());
    if (!TRY(find(digest))) return false;
    if (protection.lease) TRY(protect(*protection.lease, digest));
    if (protection.owner) TRY(add_references(*protection.owner, {&digest, 1}));
    TRY(transaction.commit());
    return true;
}

Result<> Store::end_lease(LeaseId lease) {
    TRY(state_->database.run("DELETE FROM leases WHERE id = ?", static_cast<std::int64_t>(lease)));
    return {};
}

Result<> Store::pin(Digest const& digest) {
    if (TRY(state_->database.run("UPDATE blobs SET pinned = 1 WHERE digest = ?", digest.text())) == 0)
        return std::unexpected(not_found(digest));
    return {};
}

Result<> Store::unpin(Digest const& digest) {
    if (TRY(state_->database.run("UPDATE blobs SET pinned = 0 WHERE digest = ?", digest.text())) == 0)
        return std::unexpected(not_found(digest));
    return {};
}

Result<> Store::quarantine(Digest const& digest, std::string_view reason) {
    TRY(expect_no_transaction(*state_));
    FileLock const lock = TRY(exclusive(*state_));
    {
        // One that reads cannot begin to write while another process waits for it.
        Statement row = TRY(state_->database.query("SELECT 1 FROM blobs WHERE digest = ?", digest.text()));
        if (!TRY(row.step())) return std::unexpected(not_found(digest));
    }
    return quarantine_file(*state_, digest.hex(), reason);
}

Result<> quarantine_file(StoreState& state, std::string const& hex, std::string_view reason) {
    BootTime const now = TRY(boot_time());
    std::string const digest = "sha256:" + hex;
    Transaction transaction = TRY(state.database.begin());
    Statement row = TRY(state.database.query("SELECT count(*) FROM quarantine WHERE digest = ?", digest));
    TRY(row.step());
    std::string const name = hex + "." + std::to_string(row.integer(0) + 1) + "." + std::to_string(now.milliseconds);
    TRY(state.database.run("UPDATE blobs SET quarantined = ? WHERE digest = ?", reason, digest));
    TRY(state.database.run("INSERT INTO quarantine VALUES (?, ?, ?, ?, ?)", name, digest, reason, now.boot,
                           now.milliseconds));
    TRY(transaction.commit());
    if (::renameat(state.blobs.get(), hex.c_str(), state.quarantine.get(), name.c_str()) != 0 && errno != ENOENT)
        return fail(errno, "move blob " + digest + " into quarantine");
    return sync_directory(state.blobs.get(), state.path + "/blobs/sha256");
}

FileLock::~FileLock() {
    if (fd_ >= 0) (void)::flock(fd_, LOCK_UN);  // cannot fail, since it is held
}

Result<FileLock> exclusive(StoreState const& state) {
    while (::flock(state.root.get(), LOCK_EX) != 0)
        if (errno != EINTR) return fail(errno, "lock " + state.path);
    return FileLock(state.root.get());
}

Result<> expect_no_transaction(StoreState const& state) {
    if (!state.database.is_in_transaction()) return {};
    return fail(ErrorKind::internal, "change files of the content store", "a transaction is open");
}

Result<> sync_directory(int directory, std::string const& shown) {
    if (::fsync(directory) != 0) return fail(errno, "make durable " + shown);
    return {};
}

Result<> unlink_if_there(int directory, std::string const& name, std::string const& shown) {
    if (::unlinkat(directory, name.c_str(), 0) != 0 && errno != ENOENT) return fail(errno, "remove " + shown);
    return {};
}

}  // namespace triton::content
