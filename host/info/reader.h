#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/info/cache.h"
#include "host/info/feed.h"
#include "host/info/view.h"
#include "lib/json/writer.h"

namespace triton::info {

/// How many readers may be within a snapshot at once: each holds the documents with which it has begun.
class SnapshotPlaces {
public:
    explicit SnapshotPlaces(std::size_t most = 32) : most_(most) {}

    /// A place, until it is destroyed; it must not outlive the SnapshotPlaces.
    class Place {
    public:
        explicit Place(std::size_t& taken) : taken_(&taken) { ++taken; }
        Place(Place&& other) noexcept : taken_(std::exchange(other.taken_, nullptr)) {}
        Place& operator=(Place&&) = delete;
        ~Place() {
            if (taken_) --*taken_;
        }

    private:
        std::size_t* taken_;
    };
    /// nullopt: all are taken.
    std::optional<Place> take() { return has_room() ? std::optional<Place>(std::in_place, taken_) : std::nullopt; }
    [[nodiscard]] std::size_t taken() const { return taken_; }
    [[nodiscard]] bool has_room() const { return taken_ < most_; }

private:
    std::size_t most_;
    std::size_t taken_ = 0;
};

/// The position of one subscriber in the feed. It has no queue: a reader that falls behind gets one `resync` record
/// with all machines, and continues from there.
///
/// The first record is `ready` with all machines when a snapshot was asked for, else `ack`. Its `seq` is the event
/// after which the stream begins. A later request with `since` = the latest `seq` continues without a gap.
class Reader {
public:
    enum class Form : std::uint8_t {
        lines,  ///< newline-separated JSON
        sse,    ///< server-sent events
    };
    struct Options {
        View view = View::open;
        Form form = Form::lines;
        std::optional<std::uint64_t> since = {};  ///< begins after this event; overrides `snapshot`
        bool snapshot = false;                    ///< all machines first
        std::vector<std::string> machines = {};   ///< only these; empty: all
        std::vector<EventType> types = {};        ///< only these; empty: all
        std::vector<std::string> fields = {};     ///< of modify only changes of one of these; empty: all
    };
    /// All are borrowed. `id`: that of the stream, for its first record.
    Reader(Options options, std::string id, Cache const& cache, Feed const& feed, SnapshotPlaces& places);
    ~Reader();
    Reader(Reader const&) = delete;
    Reader& operator=(Reader const&) = delete;

    /// The next pieces to send, of about `budget` bytes in total. It looks at most_events of the feed at most: a
    /// subscriber that wants few of them must not hold up the others. Empty while has_more(): it has looked at that
    /// many, and is to be called again. Otherwise empty: nothing more until the feed grows, or until there is a place
    /// for a snapshot: see waits_for_place(). `now`: microseconds since 1970.
    static constexpr std::size_t most_events = 500;
    std::vector<Text> next(std::size_t budget, std::int64_t now);

    /// For a stream that was silent for a while.
    [[nodiscard]] Text heartbeat(std::int64_t now) const;

    /// Whether next() has something to look at, even if the subscriber may not want it.
    [[nodiscard]] bool has_more() const;
    [[nodiscard]] bool waits_for_place() const;
    /// Whether it holds documents, and so must not be slow.
    [[nodiscard]] bool is_in_snapshot() const { return snapshot_ != nullptr; }

    /// The latest event that the subscriber knows.
    [[nodiscard]] std::uint64_t position() const { return next_ == 0 ? 0 : next_ - 1; }
    /// How many events it has not looked at yet.
    [[nodiscard]] std::uint64_t behind() const { return feed_.next() - next_; }
    [[nodiscard]] std::uint64_t sent() const { return sent_; }        ///< records
    [[nodiscard]] std::uint64_t resyncs() const { return resyncs_; }  ///< how often it has fallen behind
    [[nodiscard]] std::string const& id() const { return id_; }
    [[nodiscard]] Options const& options() const { return options_; }

private:
    struct Snapshot;
    class Batch;

    [[nodiscard]] bool is_behind() const { return next_ < feed_.first(); }
    [[nodiscard]] bool wants_snapshot() const { return is_snapshot_due_ || is_behind(); }
    [[nodiscard]] bool wants_machine(std::string_view name) const;
    [[nodiscard]] bool wants(Event const& event) const;
    [[nodiscard]] json::Writer record(std::string_view type, std::uint64_t sequence, std::int64_t now) const;
    [[nodiscard]] std::string head(std::string_view type, std::uint64_t sequence) const;
    [[nodiscard]] std::string_view end() const;
    void begin(Batch& batch, std::int64_t now);
    bool begin_snapshot(Batch& batch, std::int64_t now);
    void go_on_with_snapshot(Batch& batch);
    void pass_event(Batch& batch);

    Options options_;
    std::string id_;
    Cache const& cache_;
    Feed const& feed_;
    SnapshotPlaces& places_;
    std::uint64_t next_;
    bool has_begun_ = false;
    bool is_snapshot_due_ = false;
    std::unique_ptr<Snapshot> snapshot_;
    std::uint64_t sent_ = 0;
    std::uint64_t resyncs_ = 0;
};

}  // namespace triton::info
