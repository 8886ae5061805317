#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace triton::content {

class Database;

/// A prepared statement. Values are bound in the order of its question marks; columns are counted from 0.
class Statement {
public:
    Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
    Statement& operator=(Statement other) noexcept {
        std::swap(statement_, other.statement_);
        return *this;
    }
    ~Statement();

    /// Binds all values and goes back to before the first row. Text is copied.
    /// Errors: `internal` when the statement has another number of question marks.
    template <class... Values>
    Result<> bind(Values const&... values) {
        TRY(begin_binding(sizeof...(values)));
        int at = 0;
        (bind_one(++at, values), ...);
        return {};
    }

    /// Goes to the next row. Returns whether there is one.
    /// Errors: `exists` when such a row exists (UNIQUE); `refused` for another constraint; `busy` when another process
    /// has held the database for too long; `exhausted` when the disk is full; `corrupt`; `denied`; `internal`.
    Result<bool> step();

    [[nodiscard]] std::int64_t integer(int column) const;  ///< 0 when it is null
    [[nodiscard]] std::string text(int column) const;      ///< empty when it is null
    [[nodiscard]] bool is_null(int column) const;

private:
    friend class Database;
    explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
    Result<> begin_binding(std::size_t count);
    void bind_text(int at, std::string_view text);
    void bind_integer(int at, std::int64_t value);
    void bind_null(int at);

    template <class Value>
    void bind_one(int at, Value const& value) {
        if constexpr (std::is_same_v<Value, std::nullopt_t>) {
            bind_null(at);
        } else if constexpr (std::is_integral_v<Value>) {
            bind_integer(at, static_cast<std::int64_t>(value));
        } else {
            bind_text(at, value);
        }
    }
    template <class Value>
    void bind_one(int at, std::optional<Value> const& value) {
        value ? bind_one(at, *value) : bind_null(at);
    }

    sqlite3_stmt* statement_ = nullptr;
};

/// Changes that happen together or not at all. Transactions nest: an inner one that is not committed undoes only its
/// own changes, and nothing is durable before the outermost one is committed. The destructor undoes what is not
/// committed.
class Transaction {
public:
    Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
    Transaction& operator=(Transaction&&) = delete;
    ~Transaction();

    /// Makes the changes durable, if this is the outermost transaction. Errors: as of Statement::step().
    Result<> commit();

private:
    friend class Database;
    explicit Transaction(Database* database) : database_(database) {}
    Database* database_;
};

/// One step to the tables of an area: at version n they are what steps 1 to n have made. A step is SQL and never
/// changes after it has been shipped; later needs are further steps.
struct Migration {
    std::string_view sql;
};

/// A file of SQLite with a rollback journal and synchronous=FULL: what is committed survives a power failure. It
/// belongs to one thread; another thread, like another process, opens its own. Readers are kept out for the moment of a
/// commit.
///
/// It has no write-ahead log, although that would keep nobody out: SQLite maps the index of the log into memory, from a
/// file beside the database, and on a full btrfs a write to a mapped page ends the process by SIGBUS.
/// Source: https://www.sqlite.org/pragma.html#pragma_synchronous, https://www.sqlite.org/wal.html
class Database {
public:
    /// Opens it, or makes it with mode 0600. `patience`: how long a change waits for another process's.
    /// Errors: those of open(2), "open database <path>"; `refused`: a link or anything else but a file; `corrupt`:
    /// "<path> is not a database of ours: ...", also for an empty file.
    static Result<Database> open(std::string const& path, milliseconds patience = std::chrono::seconds(30));
    /// Opens one that exists for reading only. It makes and changes nothing, except that it undoes a commit in whose
    /// middle a process was killed; it waits for the commit of another process, and not for a transaction that is open.
    /// Errors: likewise, and `not_found`.
    static Result<Database> open_for_reading(std::string const& path);
    Database(Database&& other) noexcept;
    Database& operator=(Database&&) = delete;
    ~Database();

    /// Brings the tables of an area ("content", "image") up to date, in one transaction.
    /// Errors: `unsupported` when a newer version has written them: "content.db has tables "image" of version 7, and
    /// this program knows 3"; as of Statement::step().
    Result<> migrate(std::string_view area, std::span<Migration const> steps);
    /// The version of an area's tables; 0: there are none. Errors: the same.
    Result<std::size_t> version(std::string_view area, std::span<Migration const> steps);

    /// Errors: `internal` for wrong SQL; as of Statement::step().
    Result<Statement> prepare(std::string_view sql);

    /// Executes a statement without rows, or one whose rows do not matter. Returns how many rows it has changed.
    template <class... Values>
    Result<std::int64_t> run(std::string_view sql, Values const&... values) {
        Statement statement = TRY(prepare(sql));
        TRY(statement.bind(values...));
        while (TRY(statement.step())) {
        }
        return changed_rows();
    }

    /// Returns a statement with its values, before its first row.
    template <class... Values>
    Result<Statement> query(std::string_view sql, Values const&... values) {
        Statement statement = TRY(prepare(sql));
        TRY(statement.bind(values...));
        return statement;
    }

    /// Errors: as of Statement::step().
    Result<Transaction> begin();

    /// Checks all pages and indexes: slow, for `scrub` and after a crash of the machine.
    /// Errors: `corrupt`, with what is wrong in the details.
    Result<> check();

    [[nodiscard]] bool is_in_transaction() const { return depth_ > 0; }
    [[nodiscard]] std::string const& path() const { return path_; }

private:
    friend class Transaction;
    Database(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
    static Result<Database> finish_opening(Database database, Result<> const& prepared);
    static Result<Database> open_to_read(std::string const& path, int flags);
    Result<> set_up(milliseconds patience);
    Result<> set_up_once();
    Result<> execute(char const* sql);
    [[nodiscard]] std::int64_t changed_rows() const;

    sqlite3* handle_;
    std::string path_;
    int depth_ = 0;  // of transactions
};

}  // namespace triton::content
