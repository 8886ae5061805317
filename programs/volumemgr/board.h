#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace triton::program {

/// The latest status of each object, for any number of watchers. A watcher is a number: the version that it has seen.
/// What it has not seen yet is found by version, so that one that does not read costs nothing, and is told only the
/// latest value of each object later.
class Board {
public:
    struct Entry {
        std::string kind;
        std::string key;
        std::string text;  ///< JSON; empty: it has gone
        std::uint64_t version = 0;
    };

    /// Does nothing when it is as it was.
    void publish(std::string_view kind, std::string const& key, std::string text);
    void remove(std::string_view kind, std::string const& key);

    [[nodiscard]] Entry const* find(std::string_view kind, std::string const& key) const;
    /// The first change after a version; nullptr: there is none.
    [[nodiscard]] Entry const* after(std::uint64_t version) const;
    [[nodiscard]] std::uint64_t version() const { return version_; }
    /// Forgets what has gone before a version that everybody has seen.
    void forget_gone(std::uint64_t seen);

private:
    using Name = std::pair<std::string, std::string>;

    std::map<Name, Entry> entries_;
    std::map<std::uint64_t, Entry*> by_version_;
    std::map<std::uint64_t, Name> gone_;
    std::uint64_t version_ = 0;
};

}  // namespace triton::program
