#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "host/info/event.h"

namespace triton::info {

/// The latest events, oldest first. Events beyond the bounds are dropped; a reader that needs a dropped one starts
/// again.
class Feed {
public:
    struct Bounds {
        std::size_t events = 10'000;
        std::size_t bytes = 16 << 20;
    };

    /// `last`: a sequence number that no run of the daemon has given to an event, or ever will; the first event gets
    /// the next one.
    explicit Feed(std::uint64_t last) : Feed(last, Bounds{}) {}
    Feed(std::uint64_t last, Bounds bounds) : bounds_(bounds), next_(last + 1) {}

    /// `before` and `after` as in Event's constructor. Null: they are equal, so nothing has happened.
    EventPtr add(std::int64_t at, Document const* before, Document const* after);

    /// The number of the oldest event that is still here; next() when there is none.
    [[nodiscard]] std::uint64_t first() const { return next_ - events_.size(); }
    /// The number of the next event.
    [[nodiscard]] std::uint64_t next() const { return next_; }
    /// The event with a number. Null: it is no longer here, or not yet.
    [[nodiscard]] EventPtr at(std::uint64_t sequence) const;
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    /// How many events were dropped.
    [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

private:
    void shrink();

    Bounds bounds_;
    std::uint64_t next_;
    std::deque<EventPtr> events_;
    std::size_t bytes_ = 0;
    std::uint64_t dropped_ = 0;
};

}  // namespace triton::info
