#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "host/content/directory_names.h"
#include "host/content/store_state.h"
#include "lib/base/next_entry.h"

namespace triton::content {

namespace {

/// Selects blobs that nothing protects: no pin, no reference, and no lease that was made since the boot and still runs.
/// The parameters are the current boot and time.
constexpr std::string_view unprotected =
    " pinned = 0"
    " AND NOT EXISTS (SELECT 1 FROM blob_references r WHERE r.digest = blobs.digest)"
    " AND NOT EXISTS (SELECT 1 FROM lease_blobs l JOIN leases ON leases.id = l.lease"
    "                 WHERE l.digest = blobs.digest AND leases.boot = ? AND leases.expires > ?)";

constexpr milliseconds prolonged = std::chrono::hours(1);

/// Prolongs the leases that have run out although their owners live: a process that was stopped, or a machine that was
/// suspended, renews nothing.
Result<> renew_living(StoreState& state, BootTime const& now) {
    std::vector<std::pair<std::int64_t, std::string>> expired;
    {
        Statement rows =
            TRY(state.database.query("SELECT id, owner FROM leases WHERE owner != '' AND boot = ? AND expires <= ?",
                                     now.boot, now.milliseconds));
        while (TRY(rows.step()))
            expired.emplace_back(rows.integer(0), rows.text(1));
    }
    for (auto const& [id, owner] : expired)
        if (TRY(is_locked(state, owner)))
            TRY(state.database.run("UPDATE leases SET expires = ? WHERE id = ?", now.milliseconds + prolonged.count(),
                                   id));
    return {};
}

Victim victim_of_row(Statement const& row) {
    return {
        .kind = Victim::Kind::blob,
        .name = row.text(0),
        .bytes = static_cast<std::uint64_t>(row.integer(1)),
        .reason = row.text(4).empty() ? "nothing refers to it" : "nothing refers to it, and it is bad: " + row.text(4)};
}

Result<std::vector<Victim>> unprotected_blobs(Database& database, BootTime const& now, milliseconds grace) {
    std::vector<Victim> victims;
    Statement rows = TRY(
        database.query(std::string("SELECT digest, size, unclaimed_boot, unclaimed_at, quarantined FROM blobs WHERE")
                           .append(unprotected)
                           .append(" ORDER BY digest"),
                       now.boot, now.milliseconds));
    while (TRY(rows.step()))
        if (passed_since({rows.text(2), rows.integer(3)}, now) >= grace) victims.push_back(victim_of_row(rows));
    return victims;
}

std::string hex_of(Victim const& victim) { return victim.name.substr(victim.name.find(':') + 1); }

/// Removes the rows first, and notes the intention to remove the files; recover() finishes what a crash leaves of that.
Result<std::vector<Victim>> forget_blobs(StoreState& state, BootTime const& now, GcSettings const& settings) {
    // Selection and removal are one transaction, so that no reference can appear in between.
    Transaction transaction = TRY(state.database.begin());
    std::vector<Victim> victims = TRY(unprotected_blobs(state.database, now, settings.blob_grace));
    if (settings.dry_run) return victims;
    TRY(state.database.run("DELETE FROM leases WHERE boot != ? OR expires <= ?", now.boot, now.milliseconds));
    for (Victim const& victim : victims) {
        TRY(state.database.run("DELETE FROM blobs WHERE digest = ?", victim.name));
        TRY(state.database.run("INSERT OR IGNORE INTO removals VALUES (?)", hex_of(victim)));
    }
    TRY(transaction.commit());
    return victims;
}

Result<std::vector<Victim>> collect_blobs(StoreState& state, BootTime const& now, GcSettings const& settings) {
    FileLock const lock = TRY(exclusive(state));
    TRY(renew_living(state, now));
    std::vector<Victim> victims = TRY(forget_blobs(state, now, settings));
    if (settings.dry_run || victims.empty()) return victims;
    for (Victim const& victim : victims)
        TRY(unlink_if_there(state.blobs.get(), hex_of(victim), "blob " + victim.name));
    // Rows of others remain: a process that was killed has not removed their files.
    Transaction transaction = TRY(state.database.begin());
    for (Victim const& victim : victims)
        TRY(state.database.run("DELETE FROM removals WHERE hex = ?", hex_of(victim)));
    TRY(transaction.commit());
    return victims;
}

std::uint64_t bytes_of(int directory, std::string const& path) {
    struct stat status{};
    if (::fstatat(directory, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return 0;
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

struct Begun {
    std::string key;
    BootTime at;
};

Result<std::map<std::string, Begun>> begun_ingests(Database& database) {
    std::map<std::string, Begun> begun;
    Statement rows = TRY(database.query("SELECT name, key, boot, begun_at FROM ingests"));
    while (TRY(rows.step()))
        begun.emplace(rows.text(0), Begun{rows.text(1), {rows.text(2), rows.integer(3)}});
    return begun;
}

/// Collects unlocked ingests: interrupted ones that are too old, and directories without a row.
Result<std::vector<Victim>> collect_ingests(StoreState& state, BootTime const& now, GcSettings const& settings) {
    std::vector<Victim> victims;
    auto const begun = TRY(begun_ingests(state.database));
    for (std::string const& name : TRY(directory_names(state.ingest.get(), state.path + "/ingest"))) {
        auto const row = begun.find(name);
        if (row != begun.end() && passed_since(row->second.at, now) < settings.ingest_grace) continue;
        UniqueFd const directory{
            ::openat(state.ingest.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
        // An ingest that was begun since the row was read is locked, or its directory has taken the place of this one.
        if (!directory || !TRY(try_lock(directory.get()))) continue;
        if (!TRY(is_still(state.ingest.get(), name, directory.get()))) continue;
        victims.push_back({.kind = Victim::Kind::ingest,
                           .name = row == begun.end() ? name : row->second.key,
                           .bytes = bytes_of(directory.get(), "data"),
                           .reason = row == begun.end() ? "it was finished, and not removed"
                                                        : "it was interrupted, and not resumed"});
        if (settings.dry_run) continue;
        TRY(state.database.run("DELETE FROM ingests WHERE name = ?", name));
        remove_ingest_directory(state, name);
    }
    return victims;
}

/// Removes the files of locks whose holders were killed.
Result<> forget_locks(StoreState& state) {
    for (std::string const& name : TRY(directory_names(state.locks.get(), state.path + "/locks"))) {
        UniqueFd const file{::openat(state.locks.get(), name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
        if (file && TRY(try_lock(file.get())) && TRY(is_still(state.locks.get(), name, file.get())))
            TRY(unlink_if_there(state.locks.get(), name, state.path + "/locks/" + name));
    }
    return {};
}

Result<std::vector<Victim>> collect_quarantine(StoreState& state, BootTime const& now, GcSettings const& settings) {
    std::vector<Victim> victims;
    Statement rows = TRY(state.database.query("SELECT name, digest, reason, boot, since FROM quarantine"));
    std::vector<std::string> names;
    while (TRY(rows.step())) {
        if (passed_since({rows.text(3), rows.integer(4)}, now) < settings.quarantine_grace) continue;
        std::string const name = rows.text(0);
        names.push_back(name);
        victims.push_back({.kind = Victim::Kind::quarantined,
                           .name = rows.text(1),
                           .bytes = bytes_of(state.quarantine.get(), name),
                           .reason = "it was long enough in quarantine: " + rows.text(2)});
    }
    if (settings.dry_run) return victims;
    // Not before: what reads cannot begin to write once another process has written.
    for (std::string const& name : names) {
        TRY(unlink_if_there(state.quarantine.get(), name, state.path + "/quarantine/" + name));
        TRY(state.database.run("DELETE FROM quarantine WHERE name = ?", name));
    }
    return victims;
}

}  // namespace

Result<std::vector<std::string>> directory_names(int directory, std::string const& shown) {
    std::vector<std::string> names;
    UniqueFd own{::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    std::unique_ptr<DIR, int (*)(DIR*)> const stream(own ? ::fdopendir(own.get()) : nullptr, ::closedir);
    if (!stream) return fail(errno, "read directory " + shown);
    (void)own.release();  // the stream owns it now
    while (dirent const* const entry = TRY(next_entry(stream.get(), shown)))
        if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    return names;
}

Result<std::vector<Victim>> Store::gc(GcSettings const& settings) {
    TRY(expect_no_transaction(*state_));
    BootTime const now = TRY(boot_time());
    std::vector<Victim> victims = TRY(collect_blobs(*state_, now, settings));
    for (auto* const collect : {collect_ingests, collect_quarantine})
        for (Victim& victim : TRY(collect(*state_, now, settings)))
            victims.push_back(std::move(victim));
    if (!settings.dry_run) TRY(forget_locks(*state_));
    return victims;
}

Result<bool> Store::discard(Digest const& digest) {
    TRY(expect_no_transaction(*state_));
    BootTime const now = TRY(boot_time());
    FileLock const lock = TRY(exclusive(*state_));
    TRY(renew_living(*state_, now));
    Transaction transaction = TRY(state_->database.begin());
    auto const removed =
        TRY(state_->database.run(std::string("DELETE FROM blobs WHERE digest = ? AND").append(unprotected),
                                 digest.text(), now.boot, now.milliseconds));
    if (removed == 0) return false;
    TRY(state_->database.run("INSERT OR IGNORE INTO removals VALUES (?)", digest.hex()));
    TRY(transaction.commit());
    TRY(unlink_if_there(state_->blobs.get(), digest.hex(), "blob " + digest.text()));
    TRY(state_->database.run("DELETE FROM removals WHERE hex = ?", digest.hex()));
    return true;
}

Result<Why> Store::why(Digest const& digest) {
    BootTime const now = TRY(boot_time());
    Why why;
    Statement row = TRY(state_->database.query(
        std::string("SELECT ").append(blob_columns).append(" FROM blobs WHERE digest = ?"), digest.text()));
    if (TRY(row.step())) why.blob = TRY(blob_of_row(row));
    why.owners = TRY(owners(digest));
    Statement leases = TRY(state_->database.query(
        "SELECT purpose FROM leases JOIN lease_blobs ON lease = id WHERE digest = ? AND boot = ? AND expires > ?",
        digest.text(), now.boot, now.milliseconds));
    while (TRY(leases.step()))
        why.leases.push_back(leases.text(0));
    for (Victim const& victim : TRY(unprotected_blobs(state_->database, now, milliseconds(0))))
        if (victim.name == digest.text()) why.collected = victim.reason;
    return why;
}

}  // namespace triton::content
