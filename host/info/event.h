#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/info/document.h"
#include "host/info/view.h"

namespace triton::info {

enum class EventType : std::uint8_t { create, modify, remove };

/// Returns "create", "modify" or "delete".
std::string_view name_of(EventType type);

/// A machine was created, changed or deleted. The lines are written once, and shared by all that read them.
class Event {
public:
    /// The change: `after` null: deleted; `before` null: created. `at`: microseconds since 1970.
    Event(std::uint64_t sequence, std::int64_t at, Document const* before, Document const* after);

    [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
    [[nodiscard]] std::int64_t at() const { return at_; }
    [[nodiscard]] EventType type() const { return type_; }
    /// The name of the machine's document.
    [[nodiscard]] std::string const& machine() const { return machine_; }
    /// The properties that have changed in a view, for a modify.
    [[nodiscard]] std::vector<std::string> const& properties(View view) const { return of(view).properties; }
    /// A line of JSON with its newline; null: the view does not show the event.
    [[nodiscard]] Text const& line(View view) const { return of(view).line; }
    /// What comes before the line in server-sent events: "id: 7
    /// event: modify
    /// data: ".
    [[nodiscard]] Text const& stream_head() const { return stream_head_; }

    /// Its memory.
    [[nodiscard]] std::size_t bytes() const;

private:
    struct Seen {
        Text line;
        std::vector<std::string> properties;
    };
    [[nodiscard]] Seen const& of(View view) const { return seen_[static_cast<std::size_t>(view)]; }
    [[nodiscard]] Seen look(View view, Document const* before, Document const* after) const;

    std::uint64_t sequence_;
    std::int64_t at_;
    EventType type_;
    std::string machine_;
    std::array<Seen, 2> seen_;
    Text stream_head_;
};

using EventPtr = std::shared_ptr<Event const>;

/// Returns "2026-11-22T23:38:17.042Z", for example. `at`: microseconds since 1970.
std::string date_of(std::int64_t at);

}  // namespace triton::info
