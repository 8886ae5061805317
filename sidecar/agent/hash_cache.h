#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include <sys/stat.h>

namespace triton::agent {

/// One content of one file: when any of these is another, the content may be another. ctime cannot be set by programs,
/// so that a restored mtime does not deceive it.
struct FileKey {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t modified = 0;  ///< nanoseconds
    std::int64_t changed = 0;   ///< nanoseconds

    static FileKey of(struct stat const& status);
    bool operator==(FileKey const&) const = default;
};

/// The hashes of files that were hashed lately; the one that was not asked for the longest gives way.
class HashCache {
public:
    explicit HashCache(std::size_t capacity) : capacity_(capacity) {}

    /// The hash, which is then the one asked for last.
    std::optional<std::string> find(FileKey const& key);
    void insert(FileKey const& key, std::string hash);
    [[nodiscard]] std::size_t size() const { return entries_.size(); }

    /// Whether a hash that was begun at `begun` (nanoseconds of wall time) may be kept. A file that changed just before
    /// may change again within the same tick of the file system's clock, and then two contents have one key. git calls
    /// such an entry racy.
    static bool is_settled(FileKey const& key, std::int64_t begun);

private:
    struct Hasher {
        std::size_t operator()(FileKey const& key) const noexcept;
    };
    struct Entry {
        FileKey key;
        std::string hash;
    };

    std::size_t capacity_;
    std::list<Entry> entries_;  // the one asked for last comes first
    std::unordered_map<FileKey, std::list<Entry>::iterator, Hasher> index_;
};

}  // namespace triton::agent
