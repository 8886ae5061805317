#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"

namespace triton::kubernetes {

/// One time, from both clocks: steady for what is due, wall for what is shown.
struct Now {
    TimePoint time;
    std::int64_t unix_microseconds = 0;

    [[nodiscard]] std::int64_t unix_seconds() const { return unix_microseconds / 1'000'000; }
};

/// An Event object, there or to be made.
struct EventRecord {
    std::uint64_t id = 0;  ///< ours
    bool is_warning = false;
    std::string reason;
    std::string message;  ///< at most EventCorrelator::longest_message bytes
    std::string name;     ///< of the object, behind the pod's; a new one each time that it has to be made
    std::int64_t first_seconds = 0;
    std::int64_t last_seconds = 0;
    std::uint64_t count = 0;
    bool is_created = false;  ///< else the next write makes it
};

/// Which Events are written, so that a crash loop does not flood the API: as client-go's EventCorrelator does it
/// (tools/record/events_cache.go).
/// - The same again does not make a new object: its count and time are patched.
/// - More than 10 different messages for one reason within 10 minutes become one object, with "(combined from similar
///   events): " before the latest of them.
/// - 25 writes at once, then one in 5 minutes.
/// Unlike there nothing is dropped for lack of a token, nor while the API is away: what has not been written yet is
/// merged into as few objects, and goes out later, new ones first. 64 objects are remembered.
class EventCorrelator {
public:
    static constexpr std::size_t longest_message = 1024;

    void observe(bool is_warning, std::string_view reason, std::string_view message, Now now);

    /// `warnings` is for the end, after which there are no more: those that have no object yet need no token.
    enum class Kind : std::uint8_t { all, warnings };
    /// What to write next, of these: a copy, or nullopt when nothing is left or there is no token for it now.
    [[nodiscard]] std::optional<EventRecord> next(TimePoint now, Kind kind = Kind::all) const;
    /// When next() will have something; nullopt: nothing is left.
    [[nodiscard]] std::optional<TimePoint> next_at(TimePoint now, Kind kind = Kind::all) const;
    /// next() goes out. Later observations are still to be written.
    void begin(std::uint64_t id);
    /// Its outcome. An answer costs a token, whatever it says; a request that got none, or was postponed, does
    /// not.
    void written(EventRecord const& record, TimePoint now);
    void failed(std::uint64_t id);               ///< it is still to be written
    void gone(std::uint64_t id, Now now);        ///< the object no longer exists: it is to be made again
    void drop(std::uint64_t id, TimePoint now);  ///< it will never be taken
    /// Another pod has our name: its objects are not those of the old one. Unwritten events concern it, too.
    void forget_written(Now now);

private:
    struct Entry {
        EventRecord record;
        bool is_dirty = false;
    };
    struct Group {  // of one reason
        std::string reason;
        bool is_warning = false;
        std::vector<std::string> messages;  // distinct ones, in this interval
        std::int64_t last_seconds = 0;
    };

    bool is_combined(bool is_warning, std::string_view reason, std::string const& message, std::int64_t seconds);
    Entry* find(std::uint64_t id);
    [[nodiscard]] Entry const* choose(Kind kind) const;
    [[nodiscard]] double tokens(TimePoint now) const;
    [[nodiscard]] double missing_tokens(Entry const& entry, TimePoint now, Kind kind) const;
    void take_token(TimePoint now);
    std::string new_name(Now now);
    void make_room();

    std::vector<Entry> entries_;  // what has waited longest first
    std::vector<Group> groups_;
    std::uint64_t last_id_ = 0;
    std::uint64_t names_ = 0;
    double tokens_ = 25;
    std::optional<TimePoint> tokens_at_;
};

}  // namespace triton::kubernetes
