#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "host/info/document.h"
#include "host/info/feed.h"

namespace triton::info {

/// The latest known state of all machines. Every change of it becomes an event of the feed.
class Cache {
public:
    using Documents = std::map<std::string, DocumentPtr, std::less<>>;

    /// `feed`: borrowed.
    explicit Cache(Feed& feed) : feed_(feed) {}

    /// Takes what was found about a machine; null: it is gone. `at`: microseconds since 1970.
    /// Returns the event of the change; null: nothing has changed, or only `last_modified`.
    EventPtr apply(std::string_view name, DocumentPtr document, std::int64_t at);

    /// Null: there is no such machine. `name`: a uuid in lower case, or the name of an unreadable machine's file.
    [[nodiscard]] DocumentPtr find(std::string_view name) const;
    /// All documents by name. A change of the cache changes this map, so callers that continue later must copy the
    /// pointers.
    [[nodiscard]] Documents const& all() const { return documents_; }

    struct Counts {
        std::size_t machines = 0;  ///< all, including the unreadable ones
        std::size_t broken = 0;
        std::map<std::string, std::size_t, std::less<>> states = {};  ///< how many are "running", for example
    };
    [[nodiscard]] Counts counts() const;
    /// The memory that the documents take.
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

private:
    Feed& feed_;
    Documents documents_;
    std::size_t bytes_ = 0;
};

}  // namespace triton::info
