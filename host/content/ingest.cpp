#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <linux/fsverity.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "host/content/journal.h"
#include "host/content/store_state.h"
#include "lib/files/sha256.h"
#include "lib/json/text.h"

namespace triton::content {

namespace {

/// How often a lock that is held elsewhere is tried. flock(2) cannot wait for a lock and a descriptor at once.
constexpr milliseconds between_attempts{50};

/// Waits a little. Errors: `timeout` at the deadline; `refused` when it was cancelled.
Result<> pause_for_lock(std::string_view key, TimePoint deadline, int cancel) {
    if (std::chrono::steady_clock::now() >= deadline)
        return fail(ErrorKind::timeout, json::shown(key) + " is being imported by another process");
    pollfd waited{.fd = cancel, .events = POLLIN, .revents = 0};
    if (::poll(&waited, 1, static_cast<int>(between_attempts.count())) > 0)
        return fail(ErrorKind::refused, "cancelled");
    return {};
}

/// Makes the directory if it is not there. Without a descriptor: whoever had it has just removed it.
Result<UniqueFd> open_ingest_directory(StoreState const& state, std::string const& name) {
    std::string const shown = state.path + "/ingest/" + name;
    if (::mkdirat(state.ingest.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
        return fail(errno, "make directory " + shown);
    UniqueFd directory{::openat(state.ingest.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
    if (!directory && errno != ENOENT) return fail(errno, "open directory " + shown);
    return directory;
}

/// Makes the kernel refuse all further changes to the file. Most file systems cannot do this.
void make_verity(int fd) {
    fsverity_enable_arg argument{};
    argument.version = 1;
    argument.hash_algorithm = FS_VERITY_HASH_ALG_SHA256;
    argument.block_size = 4096;
    (void)::ioctl(fd, FS_IOC_ENABLE_VERITY, &argument);
}

/// What others will need on the file system of a file.
Result<std::uint64_t> promised_on(Database& database, int file) {
    struct stat status{};
    if (::fstat(file, &status) != 0) return fail(errno, "look at the file of an ingest");
    Statement row = TRY(database.query("SELECT sum(bytes - written) FROM promises WHERE device = ? AND bytes > written",
                                       std::uint64_t{status.st_dev}));
    TRY(row.step());
    return static_cast<std::uint64_t>(row.integer(0));
}

std::string in_bytes(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

}  // namespace

std::string name_of_key(std::string_view key) {
    files::Sha256 hash;
    hash.add(key);
    return std::move(hash).take_hex();
}

Result<bool> try_lock(int fd) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno == EWOULDBLOCK) return false;
    return fail(errno, "lock a file of the content store");
}

Result<bool> is_locked(StoreState const& state, std::string_view key) {
    UniqueFd const file{
        ::openat(state.locks.get(), name_of_key(key).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
    if (!file && errno == ENOENT) return false;
    if (!file) return fail(errno, "open the lock of " + json::shown(key));
    return !TRY(try_lock(file.get()));  // closing it gives the lock back
}

Result<bool> is_still(int directory, std::string const& name, int fd) {
    struct stat by_name{};
    struct stat open{};
    int const found = ::fstatat(directory, name.c_str(), &by_name, AT_SYMLINK_NOFOLLOW);
    if (found != 0 && errno == ENOENT) return false;
    if (found != 0 || ::fstat(fd, &open) != 0) return fail(errno, "look at " + name + " in the content store");
    return by_name.st_dev == open.st_dev && by_name.st_ino == open.st_ino;
}

KeyLock::~KeyLock() {
    // The name is removed while the lock is held: whoever gets the lock next finds by is_still() that the file is gone.
    for (Held const& held : held_)
        (void)::unlinkat(directory_, held.name.c_str(), 0);  // what is left is an empty file, and is used again
}

Result<KeyLock> Store::lock(std::vector<std::string> keys, TimePoint deadline, int cancel) {
    std::ranges::sort(keys);
    keys.erase(std::ranges::unique(keys).begin(), keys.end());
    KeyLock lock;
    lock.directory_ = state_->locks.get();
    for (std::string const& key : keys) {
        std::string const name = name_of_key(key);
        for (;;) {
            UniqueFd file{::openat(lock.directory_, name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
            if (!file) return fail(errno, "open " + state_->path + "/locks/" + name);
            if (TRY(try_lock(file.get()))) {
                if (!TRY(is_still(lock.directory_, name, file.get()))) continue;
                lock.held_.push_back({name, std::move(file)});
                break;
            }
            TRY(pause_for_lock(key, deadline, cancel));
        }
    }
    return lock;
}

Result<Ingest> Store::begin_ingest(std::string_view key, TimePoint deadline, int cancel) {
    Ingest ingest;
    ingest.key_ = key;
    ingest.name_ = name_of_key(key);
    ingest.settings_ = state_->settings;
    for (;;) {
        ingest.directory_ = TRY(open_ingest_directory(*state_, ingest.name_));
        if (!ingest.directory_) continue;
        if (!TRY(try_lock(ingest.directory_.get()))) {
            TRY(pause_for_lock(key, deadline, cancel));
        } else if (TRY(is_still(state_->ingest.get(), ingest.name_, ingest.directory_.get()))) {
            break;
        }
    }
    BootTime const now = TRY(boot_time());
    TRY(
        state_->database.run("INSERT INTO ingests (key, name, boot, begun_at) VALUES (?, ?, ?, ?) ON CONFLICT (key) "
                             "DO UPDATE SET boot = excluded.boot, begun_at = excluded.begun_at",
                             key, ingest.name_, now.boot, now.milliseconds));
    ingest.data_ =
        UniqueFd{::openat(ingest.directory_.get(), "data", O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!ingest.data_) return fail(errno, "create " + state_->path + "/ingest/" + ingest.name_ + "/data");
    ingest.settings_.least_free_bytes += TRY(promised_on(state_->database, ingest.data_.get()));
    return ingest;
}

Result<UniqueFd> Ingest::open_for_writing() const {
    UniqueFd file{::openat(directory_.get(), "data", O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
    if (!file) return fail(errno, "open the file of " + key_);
    return file;
}

Result<> Ingest::reserve(std::uint64_t size) const {
    struct statvfs space{};
    struct stat status{};
    if (::fstatvfs(data_.get(), &space) != 0 || ::fstat(data_.get(), &status) != 0)
        return fail(errno, "look at the file system of " + key_);
    std::uint64_t const taken = static_cast<std::uint64_t>(status.st_blocks) * 512;
    std::uint64_t const needed = size > taken ? size - taken : 0;
    std::uint64_t const free = std::uint64_t{space.f_bavail} * space.f_frsize;
    std::uint64_t const usable = free > settings_.least_free_bytes ? free - settings_.least_free_bytes : 0;
    if (needed > usable) {
        std::string const kept = settings_.least_free_bytes == 0
                                     ? ""
                                     : " beside " + in_bytes(settings_.least_free_bytes) + " that stay free";
        return fail(ErrorKind::exhausted, "store " + key_,
                    in_bytes(needed) + " are needed" + kept + ", and " + std::to_string(free) + " are free");
    }
    if (space.f_files != 0 && space.f_favail < settings_.least_free_inodes) {
        return fail(ErrorKind::exhausted, "store " + key_,
                    std::to_string(space.f_favail) + " inodes are free, and " +
                        std::to_string(settings_.least_free_inodes) + " must stay so");
    }
    if (needed == 0) return {};
    UniqueFd const file = TRY(open_for_writing());
    if (::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) == 0) return {};
    if (errno == EOPNOTSUPP || errno == ENOSYS) return {};  // then the look above is all there can be
    if (errno != ENOSPC && errno != EDQUOT) return fail(errno, "reserve " + in_bytes(size) + " for " + key_);
    return fail(ErrorKind::exhausted, "store " + key_, in_bytes(size) + " are needed: " + errno_text(errno));
}

Result<> Ingest::restart() const {
    UniqueFd const file = TRY(open_for_writing());
    if (::ftruncate(file.get(), 0) != 0) return fail(errno, "empty the file of " + key_);
    return remove_journal(directory_.get());
}

Result<Blob> Store::commit(Ingest ingest, Digest const& digest, BlobFacts const& facts, Protection const& protection) {
    TRY(expect_no_transaction(*state_));
    if (::fchmod(ingest.data_.get(), 0400) != 0 || ::fsync(ingest.data_.get()) != 0)
        return fail(errno, "make " + digest.text() + " durable");
    std::optional<FileLock> lock(TRY(exclusive(*state_)));
    auto blob = TRY(find(digest));
    bool const is_new = !blob;
    if (is_new) {
        struct stat status{};
        if (::fstat(ingest.data_.get(), &status) != 0) return fail(errno, "look at " + digest.text());
        Owner const owner = protection.owner.value_or(Owner{});
        TRY(
            state_->database.run("UPDATE ingests SET committing = ?, media_type = ?, source = ?, owner_kind = ?, "
                                 "owner_id = ? WHERE key = ?",
                                 digest.text(), facts.media_type, facts.source, owner.kind, owner.id, ingest.key_));
        if (::renameat(ingest.directory_.get(), "data", state_->blobs.get(), digest.hex().c_str()) != 0)
            return fail(errno, "give " + digest.text() + " its name");
        TRY(sync_directory(state_->blobs.get(), state_->path + "/blobs/sha256"));
        Transaction transaction = TRY(state_->database.begin());
        TRY(insert_blob(*state_, digest.text(), static_cast<std::uint64_t>(status.st_size), facts));
        TRY(state_->database.run("DELETE FROM ingests WHERE key = ?", ingest.key_));
        if (!protection.is_none() && !TRY(protect(protection, digest)))
            return fail(ErrorKind::internal, digest.text() + " is not there");
        TRY(transaction.commit());
        blob = TRY(find(digest));
    } else {
        Transaction transaction = TRY(state_->database.begin());
        TRY(state_->database.run("DELETE FROM ingests WHERE key = ?", ingest.key_));
        if (!protection.is_none()) TRY(protect(protection, digest));
        TRY(transaction.commit());
    }
    remove_ingest_directory(*state_, ingest.name_);
    if (!blob) return fail(ErrorKind::corrupt, digest.text() + " has vanished from the content store");
    lock.reset();
    // The kernel reads all of it, and nobody has to wait for that. Not before: an ingest must stay writable for whoever
    // resumes it.
    if (is_new) make_verity(ingest.data_.get());
    return *std::move(blob);
}

Result<> Store::abandon(Ingest ingest) {
    TRY(state_->database.run("DELETE FROM ingests WHERE key = ?", ingest.key_));
    remove_ingest_directory(*state_, ingest.name_);
    return {};
}

void remove_ingest_directory(StoreState const& state, std::string const& name) {
    UniqueFd const directory{
        ::openat(state.ingest.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
    if (!directory) return;
    // gc() removes what is left, since it no longer has a row.
    (void)::unlinkat(directory.get(), "data", 0);
    (void)remove_journal(directory.get());
    (void)::unlinkat(state.ingest.get(), name.c_str(), AT_REMOVEDIR);
}

namespace {

struct Committing {
    std::string key;
    std::string name;
    std::string digest;
    BlobFacts facts;
    Owner owner;  // without a kind: nobody
};

/// Completes a commit that had been decided: the bytes were verified and durable. If the file has its name already,
/// only the row is missing. Otherwise the next fetch finds the ingest as it was.
Result<> finish_commit(StoreState& state, Committing const& commit) {
    auto const parsed = TRY(Digest::parse(commit.digest));
    UniqueFd const directory{
        ::openat(state.ingest.get(), commit.name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
    struct stat status{};
    // Whoever holds it, or has made it again, has begun it anew since then; who was to commit it has died.
    bool const is_begun_anew =
        directory && (!TRY(try_lock(directory.get())) || !TRY(is_still(state.ingest.get(), commit.name,
                                                                       directory.get())));
    bool const is_still_ingest = directory && ::fstatat(directory.get(), "data", &status, AT_SYMLINK_NOFOLLOW) == 0;
    bool const is_named = ::fstatat(state.blobs.get(), parsed.hex().c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
    // Otherwise a blob would keep its file and lose its row.
    if (!is_named && errno != ENOENT) return fail(errno, "look for blob " + parsed.hex());
    Transaction transaction = TRY(state.database.begin());
    if (is_still_ingest || !is_named) {
        TRY(state.database.run("UPDATE ingests SET committing = '' WHERE key = ?", commit.key));
        return transaction.commit();
    }
    TRY(sync_directory(state.blobs.get(), state.path + "/blobs/sha256"));
    TRY(insert_blob(state, commit.digest, static_cast<std::uint64_t>(status.st_size), commit.facts));
    if (!commit.owner.kind.empty())
        TRY(state.database.run("INSERT OR IGNORE INTO blob_references VALUES (?, ?, ?)", commit.digest,
                               commit.owner.kind, commit.owner.id));
    TRY(state.database.run(
        is_begun_anew ? "UPDATE ingests SET committing = '' WHERE key = ?" : "DELETE FROM ingests WHERE key = ?",
        commit.key));
    TRY(transaction.commit());
    if (!is_begun_anew) remove_ingest_directory(state, commit.name);
    return {};
}

Result<> finish_commits(StoreState& state) {
    Statement rows =
        TRY(state.database.query("SELECT key, name, committing, media_type, source, owner_kind, owner_id FROM ingests "
                                 "WHERE committing != ''"));
    std::vector<Committing> all;
    while (TRY(rows.step()))
        all.push_back(
            {rows.text(0), rows.text(1), rows.text(2), {rows.text(3), rows.text(4)}, {rows.text(5), rows.text(6)}});
    // Not before: what reads cannot begin to write once another process has written.
    for (Committing const& commit : all)
        TRY(finish_commit(state, commit));
    return {};
}

Result<> finish_removals(StoreState& state) {
    Statement rows = TRY(state.database.query("SELECT hex FROM removals"));
    bool any = false;
    while (TRY(rows.step())) {
        any = true;
        TRY(unlink_if_there(state.blobs.get(), rows.text(0), "blob " + rows.text(0)));
    }
    if (any) TRY(state.database.run("DELETE FROM removals"));
    return {};
}

Result<> finish_quarantine(StoreState& state) {
    Statement rows = TRY(state.database.query(
        "SELECT q.name, q.digest FROM quarantine q JOIN blobs b USING (digest) WHERE b.quarantined != ''"));
    while (TRY(rows.step())) {
        std::string const hex = TRY(Digest::parse(rows.text(1))).hex();
        // RENAME_NOREPLACE: a file that is already in quarantine is not overwritten.
        if (::renameat2(state.blobs.get(), hex.c_str(), state.quarantine.get(), rows.text(0).c_str(),
                        RENAME_NOREPLACE) != 0 &&
            errno != ENOENT && errno != EEXIST)
            return fail(errno, "move blob " + hex + " into quarantine");
    }
    return {};
}

}  // namespace

Result<> recover(StoreState& state) {
    FileLock const lock = TRY(exclusive(state));
    TRY(finish_commits(state));
    TRY(finish_removals(state));
    return finish_quarantine(state);
}

}  // namespace triton::content
