#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "host/content/store.h"

namespace triton::content {

/// The state that the parts of Store share: store.cpp, ingest.cpp, collect.cpp, scrub.cpp.
struct StoreState {
    std::string path;
    StoreSettings settings;
    UniqueFd root;  // its lock: see exclusive()
    UniqueFd blobs;
    UniqueFd ingest;
    UniqueFd quarantine;
    UniqueFd locks;
    Database database;
};

/// Holds a flock(2) while it lives.
class FileLock {
public:
    FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    FileLock& operator=(FileLock&&) = delete;
    ~FileLock();

private:
    friend Result<FileLock> exclusive(StoreState const& state);
    explicit FileLock(int fd) : fd_(fd) {}
    int fd_;
};

/// Only one Store at a time names blobs or removes them. The lock is held only for a moment: never while bytes are read
/// or waited for. Errors: those of flock(2).
Result<FileLock> exclusive(StoreState const& state);

/// Refuses to run within a transaction: a change of files and rows in a certain order cannot be part of one.
Result<> expect_no_transaction(StoreState const& state);

/// Returns whether `fd` could be locked at once. Errors: those of flock(2).
Result<bool> try_lock(int fd);
/// Whether `name` in a directory is still the open file, and was neither removed nor made anew. Errors: those of
/// stat(2); whoever tried again for them would do so for ever.
Result<bool> is_still(int directory, std::string const& name, int fd);
/// The name of the file for a key, which may be any text.
std::string name_of_key(std::string_view key);

/// Whether somebody has the lock of a key. Errors: as of try_lock().
Result<bool> is_locked(StoreState const& state, std::string_view key);

/// Removes everything that an ingest may have in its directory, and the directory.
void remove_ingest_directory(StoreState const& state, std::string const& name);
Result<> unlink_if_there(int directory, std::string const& name, std::string const& shown);
/// Makes the names in a directory durable.
Result<> sync_directory(int directory, std::string const& shown);

/// Finishes what a crash has interrupted.
Result<> recover(StoreState& state);

/// Moves a file of blobs/ into quarantine and records that in the database. Must be called under exclusive().
Result<> quarantine_file(StoreState& state, std::string const& hex, std::string_view reason);

/// A row of `blobs`, by the columns of blob_columns.
inline constexpr std::string_view blob_columns = "digest, size, media_type, source, verified_at, pinned, quarantined";
Result<Blob> blob_of_row(Statement const& row);

/// Writes the row of a file in blobs/, even over that of a bad one. Must be called within a transaction.
Result<> insert_blob(StoreState& state, std::string const& digest, std::uint64_t size, BlobFacts const& facts);

}  // namespace triton::content
