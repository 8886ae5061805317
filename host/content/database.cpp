#include "host/content/database.h"

#include <cerrno>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "host/content/reserve.h"
#include "lib/base/clock.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/files/pending_file.h"

namespace triton::content {

namespace {

constexpr milliseconds retry_pause{5};

/// What a result code of SQLite means to our callers.
/// Source: https://www.sqlite.org/rescode.html
ErrorKind kind_of_code(int extended) {
    switch (extended) {
        case SQLITE_CONSTRAINT_UNIQUE:
        case SQLITE_CONSTRAINT_PRIMARYKEY:
        case SQLITE_CONSTRAINT_ROWID: return ErrorKind::exists;
        default: break;  // SQLite's numbers, not an enum of ours
    }
    switch (extended & 0xff) {
        case SQLITE_CONSTRAINT: return ErrorKind::refused;
        case SQLITE_BUSY:
        case SQLITE_LOCKED: return ErrorKind::busy;
        case SQLITE_FULL: return ErrorKind::exhausted;
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB: return ErrorKind::corrupt;
        case SQLITE_READONLY:
        case SQLITE_PERM:
        case SQLITE_AUTH:
        case SQLITE_CANTOPEN: return ErrorKind::denied;
        case SQLITE_IOERR: return ErrorKind::unavailable;
        default: return ErrorKind::internal;
    }
}

std::string_view name_of_file(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

/// The path comes from us: SQLite forgets it when it cannot open the file.
std::unexpected<Error> database_error(sqlite3* handle, std::string const& path) {
    int const code = sqlite3_extended_errcode(handle);
    std::string reason = sqlite3_errmsg(handle);
    bool const is_of_system = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
    int const err = is_of_system ? sqlite3_system_errno(handle) : 0;
    // SQLite opens its log for reading when it could not make it, and reports how that failed.
    if ((code & 0xff) == SQLITE_CANTOPEN && err == ENOENT) {
        struct statvfs system{};
        bool const is_read_only = ::statvfs(path.c_str(), &system) == 0 && (system.f_flag & ST_RDONLY) != 0;
        return fail(is_read_only ? ErrorKind::unavailable : ErrorKind::exhausted, "use database " + path,
                    is_read_only ? "its file system is read-only" : "no file can be made beside it: is the disk full?");
    }
    if (err) reason += " (" + errno_text(err) + ")";
    return fail(err ? kind_of_errno(err) : kind_of_code(code), "use database " + path, std::move(reason));
}

}  // namespace

Statement::~Statement() { (void)sqlite3_finalize(statement_); }  // repeats the error of step()

Result<> Statement::begin_binding(std::size_t count) {
    (void)sqlite3_reset(statement_);  // likewise
    if (sqlite3_bind_parameter_count(statement_) == static_cast<int>(count)) return {};
    return fail(ErrorKind::internal, std::string("use statement ") + sqlite3_sql(statement_),
                "it has another number of values");
}

// Binding fails only when memory is short, and then step() fails because a value is missing: NOT NULL.
void Statement::bind_text(int at, std::string_view text) {
    (void)sqlite3_bind_text64(statement_, at, text.data() ? text.data() : "", text.size(), SQLITE_TRANSIENT,
                              SQLITE_UTF8);
}
void Statement::bind_integer(int at, std::int64_t value) { (void)sqlite3_bind_int64(statement_, at, value); }
void Statement::bind_null(int at) { (void)sqlite3_bind_null(statement_, at); }

Result<bool> Statement::step() {
    switch (sqlite3_step(statement_)) {
        case SQLITE_ROW: return true;
        case SQLITE_DONE: return false;
        default: {
            sqlite3* const handle = sqlite3_db_handle(statement_);
            return database_error(handle, sqlite3_db_filename(handle, "main") ?: "");
        }
    }
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::string Statement::text(int column) const {
    auto const* const bytes = reinterpret_cast<char const*>(sqlite3_column_text(statement_, column));
    return bytes ? std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))) : "";
}

bool Statement::is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

Transaction::~Transaction() {
    if (!database_) return;
    // An error may have ended the whole transaction already; then there is nothing to take back.
    int const depth = --database_->depth_;
    if (sqlite3_get_autocommit(database_->handle_)) return;
    (void)database_->execute(depth ? "ROLLBACK TO nested; RELEASE nested" : "ROLLBACK");
}

Result<> Transaction::commit() {
    if (database_->depth_ > 1) {
        TRY(database_->execute("RELEASE nested"));
    } else {
        TRY(database_->execute("COMMIT"));
    }
    --std::exchange(database_, nullptr)->depth_;
    return {};
}

namespace {

std::string directory_of(std::string const& path) {
    std::size_t const slash = path.find_last_of('/');
    return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

/// The tables of every database.
constexpr char const* first_tables =
    "CREATE TABLE IF NOT EXISTS areas (name TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL) STRICT";

/// The bytes of a new database.
Result<std::string> new_database(std::string const& path) {
    sqlite3* handle = nullptr;
    int const code = sqlite3_open(":memory:", &handle);
    if (!handle) return fail(ErrorKind::unavailable, "make database " + path, sqlite3_errstr(code));
    std::unique_ptr<sqlite3, int (*)(sqlite3*)> const memory(handle, sqlite3_close);
    if (sqlite3_exec(handle, first_tables, nullptr, nullptr, nullptr) != SQLITE_OK) return database_error(handle, path);
    sqlite3_int64 size = 0;
    std::unique_ptr<unsigned char, void (*)(void*)> const bytes(sqlite3_serialize(handle, "main", &size, 0),
                                                                sqlite3_free);
    if (!bytes) return fail(ErrorKind::unavailable, "make database " + path, "there is no memory");
    return std::string(reinterpret_cast<char const*>(bytes.get()), static_cast<std::size_t>(size));
}

/// Makes the file, complete: an empty one is thus never a new database, but one that has lost its content.
Result<> make_file(std::string const& path) {
    std::string const parent = directory_of(path);
    UniqueFd const directory{::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!directory || ::flock(directory.get(), LOCK_EX) != 0) return fail(errno, "open database " + path);
    struct stat found{};
    if (::lstat(path.c_str(), &found) == 0) return {};  // another process was faster
    constexpr mode_t mode = 0600;
    auto pending = TRY(files::PendingFile::create(directory.get(), std::string(name_of_file(path)), path, mode, true));
    if (!write_all(pending.fd(), TRY(new_database(path)))) return fail(errno, "write database " + path);
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    TRY(pending.finish(mode, {now, now}));
    TRY(pending.make_durable());
    TRY(pending.put_in_place());
    if (::fsync(directory.get()) != 0) return fail(errno, "make durable " + path);
    return {};
}

/// Errors: those of lstat(2); `refused`: it is a link or anything else but a file; `corrupt`: it is empty.
/// The file is not opened: closing any descriptor of it would drop all locks that this process holds on it by SQLite.
/// Source: https://www.sqlite.org/howtocorrupt.html, section 2.2
Result<> require_database_file(std::string const& path) {
    struct stat found{};
    if (::lstat(path.c_str(), &found) != 0) return fail(errno, "open database " + path);
    if (!S_ISREG(found.st_mode)) return fail(ErrorKind::refused, "open database " + path, "it is not a file");
    // SQLite would take it for a new one, and what the rows were about would be collected as unused.
    if (found.st_size == 0) return fail(ErrorKind::corrupt, path + " is not a database of ours: it is empty");
    return {};
}

Result<> ensure_file(std::string const& path) {
    struct stat found{};
    if (::lstat(path.c_str(), &found) != 0 && errno == ENOENT) TRY(make_file(path));
    return require_database_file(path);
}

/// Does something that may have to undo a change of a killed process, which needs room where a file system never writes
/// in place (btrfs, ZFS). On a full one it is done with the room that is kept for such things.
Result<> with_reserve(std::string const& path, auto const& work) {
    auto done = work();
    if (done || done.error().kind != ErrorKind::exhausted) return done;
    std::string const directory = directory_of(path);
    if (!give_reserve(directory)) return done;
    done = work();
    take_reserve(directory);
    return done;
}

}  // namespace

Result<Database> Database::open(std::string const& path, milliseconds patience) {
    TRY(ensure_file(path));
    sqlite3* handle = nullptr;
    int const code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    if (!handle) return fail(ErrorKind::unavailable, "open database " + path, sqlite3_errstr(code));
    Database database(handle, path);
    if (code != SQLITE_OK) return database_error(handle, path);
    (void)sqlite3_extended_result_codes(handle, 1);
    (void)sqlite3_busy_timeout(handle, static_cast<int>(patience.count()));
    auto const prepared = with_reserve(path, [&] { return database.set_up(patience); });
    return finish_opening(std::move(database), prepared);
}

Result<Database> Database::finish_opening(Database database, Result<> const& prepared) {
    if (prepared) return database;
    if (prepared.error().kind != ErrorKind::corrupt) return std::unexpected(prepared.error());
    return fail(ErrorKind::corrupt, database.path_ + " is not a database of ours: " + prepared.error().reason);
}

namespace {

/// A name for SQLite of a file that nobody can change: it then wants no log beside it.
/// Source: https://www.sqlite.org/uri.html
std::string immutable_name(std::string const& path) {
    static constexpr std::string_view digits = "0123456789ABCDEF";
    std::string name = "file:";
    for (char const c : path) {
        auto const byte = static_cast<unsigned char>(c);
        bool const is_special = c == '%' || c == '?' || c == '#';
        name += is_special ? std::string{'%', digits[byte >> 4U], digits[byte & 15U]} : std::string(1, c);
    }
    return name + "?immutable=1";
}

/// Whether the file system is read-only, and no change that was not completed belongs to the file.
bool is_immutable(std::string const& path) {
    auto const has = [&path](char const* suffix) {
        struct stat found{};
        return ::stat((path + suffix).c_str(), &found) == 0 && found.st_size != 0;
    };
    struct statvfs system{};
    return ::statvfs(path.c_str(), &system) == 0 && (system.f_flag & ST_RDONLY) != 0 && !has("-wal") &&
           !has("-journal");
}

}  // namespace

Result<Database> Database::open_for_reading(std::string const& path) {
    TRY(require_database_file(path));
    bool const is_fixed = is_immutable(path);
    auto database = open_to_read(path, is_fixed ? SQLITE_OPEN_READONLY | SQLITE_OPEN_URI : SQLITE_OPEN_READONLY);
    // A process was killed in the middle of a commit: what it has changed is undone by whoever comes next.
    bool const needs_rollback = !database && database.error().kind == ErrorKind::denied && !is_fixed;
    if (!needs_rollback) return database;
    return open_to_read(path, SQLITE_OPEN_READWRITE);
}

Result<Database> Database::open_to_read(std::string const& path, int flags) {
    std::string const name = (flags & SQLITE_OPEN_URI) != 0 ? immutable_name(path) : path;
    sqlite3* handle = nullptr;
    int const code = sqlite3_open_v2(name.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
    if (!handle) return fail(ErrorKind::unavailable, "open database " + path, sqlite3_errstr(code));
    Database database(handle, path);
    if (code != SQLITE_OK) return database_error(handle, path);
    (void)sqlite3_extended_result_codes(handle, 1);
    // Only for the moment of another process's commit, and for those who undo one that a killed process has left.
    (void)sqlite3_busy_timeout(handle, static_cast<int>(milliseconds(std::chrono::seconds(30)).count()));
    auto const prepared = with_reserve(path, [&] {
        return database.execute(
            "PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;"
            "SELECT count(*) FROM sqlite_schema");
    });
    return finish_opening(std::move(database), prepared);
}

// SQLite does not wait when two processes change how a file keeps its changes: it answers SQLITE_BUSY to one of them at
// once.
Result<> Database::set_up(milliseconds patience) {
    TimePoint const deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        auto done = set_up_once();
        bool const is_busy = !done && done.error().kind == ErrorKind::busy;
        if (!is_busy || std::chrono::steady_clock::now() >= deadline) return done;
        std::this_thread::sleep_for(retry_pause);
    }
}

// journal_mode: why it is no write-ahead log is said at the class. The journal keeps its file and blocks, so that a
// change needs neither inodes nor, where a file system writes in place, blocks.
// trusted_schema: a database that somebody else has written may not call functions by its views and triggers.
// cache_spill: the file is only locked against readers for the moment of a commit.
Result<> Database::set_up_once() {
    TRY(
        execute("PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY; PRAGMA cache_spill = OFF;"
                "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = 1048576"));
    // A file of an older version keeps its log while such a process has it open, and loses it the next time.
    if (auto const changed = execute("PRAGMA journal_mode = PERSIST");
        !changed && changed.error().kind != ErrorKind::busy)
        return changed;
    return execute(first_tables);
}

Database::Database(Database&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)), depth_(other.depth_) {}

Database::~Database() { (void)sqlite3_close_v2(handle_); }  // waits by itself for statements that still exist

Result<> Database::migrate(std::string_view area, std::span<Migration const> steps) {
    if (TRY(version(area, steps)) == steps.size()) return {};  // as nearly always: nobody is waited for
    Transaction transaction = TRY(begin());
    std::size_t const version = TRY(this->version(area, steps));
    if (version == steps.size()) return {};
    for (Migration const& step : steps.subspan(version))
        TRY(execute(std::string(step.sql).c_str()));
    TRY(run("INSERT INTO areas VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = excluded.version", area,
            steps.size()));
    return transaction.commit();
}

Result<std::size_t> Database::version(std::string_view area, std::span<Migration const> steps) {
    Statement table = TRY(query("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'areas'"));
    if (!TRY(table.step())) return 0;
    Statement row = TRY(query("SELECT version FROM areas WHERE name = ?", area));
    auto const version = static_cast<std::size_t>(TRY(row.step()) ? row.integer(0) : 0);
    if (version > steps.size()) {
        return fail(ErrorKind::unsupported, std::string(name_of_file(path_))
                                                .append(" has tables \"")
                                                .append(area)
                                                .append("\" of version " + std::to_string(version))
                                                .append(", and this program knows " + std::to_string(steps.size())));
    }
    return version;
}

Result<Statement> Database::prepare(std::string_view sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr) != SQLITE_OK)
        return database_error(handle_, path_);
    return Statement(statement);
}

Result<Transaction> Database::begin() {
    // The transaction is for writing from its beginning: one that reads first and writes later may find that it cannot.
    TRY(execute(depth_ ? "SAVEPOINT nested" : "BEGIN IMMEDIATE"));
    ++depth_;
    return Transaction(this);
}

Result<> Database::check() {
    Statement rows = TRY(prepare("PRAGMA integrity_check(20)"));
    Error error{ErrorKind::corrupt, "use database " + path_, "its pages are damaged", {}, 0};
    auto more = rows.step();
    for (; more && *more; more = rows.step()) {
        if (rows.text(0) != "ok") error.details.push_back(rows.text(0));
    }
    if (!more) error.details.push_back(more.error().reason);
    if (error.details.empty()) return {};
    return std::unexpected(std::move(error));
}

Result<> Database::execute(char const* sql) {
    if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return database_error(handle_, path_);
    return {};
}

std::int64_t Database::changed_rows() const { return sqlite3_changes64(handle_); }

}  // namespace triton::content
