#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "host/info/reader.h"
#include "lib/base/clock.h"
#include "lib/net/http_server.h"
#include "lib/net/loop.h"
#include "programs/vminfod/status.h"

namespace triton::program {

/// Those who follow the events. Each has a position in the feed and sends from there as fast as its peer takes it; it
/// is woken when the feed has grown, when a place for a snapshot is free, when it has been silent for long, and when
/// its peer has gone.
class EventStreams : public std::enable_shared_from_this<EventStreams> {
public:
    struct Settings {
        std::function<std::int64_t()> now;  ///< microseconds since 1970
        Duration heartbeat;
        Duration snapshot_limit;  ///< for a peer to take something of a snapshot
        Duration snapshot_turn;   ///< for a whole snapshot, while others wait for its place
    };

    /// All borrowed.
    EventStreams(Settings settings, net::Loop& loop, info::Cache const& cache, info::Feed const& feed)
        : settings_(std::move(settings)), loop_(loop), cache_(cache), feed_(feed), tick_(loop) {}

    /// Returns when the peer has gone, or the server stops.
    net::Task<> follow(net::HttpStream& out, info::Reader::Options options, std::string id, std::string user_agent,
                       Entrance entrance);
    void feed_has_grown();

    [[nodiscard]] std::vector<ListenerFacts> listeners() const;
    /// How often any of them fell behind, those who have gone included.
    [[nodiscard]] std::uint64_t resyncs() const;

private:
    struct Follower;

    net::Task<> send(net::HttpStream& out, Follower& follower);
    [[nodiscard]] std::vector<info::Text> next_pieces(Follower& follower) const;
    [[nodiscard]] bool is_silent(Follower const& follower) const;
    [[nodiscard]] bool is_waited_for(Follower const& follower) const;
    void wake_waiting();
    void tick_at(TimePoint when);
    void tick();

    Settings settings_;
    net::Loop& loop_;
    info::Cache const& cache_;
    info::Feed const& feed_;
    std::array<info::SnapshotPlaces, entrance_count> places_;  // so that nobody of one takes those of the other
    std::list<Follower*> followers_;
    net::Timer tick_;
    std::uint64_t past_resyncs_ = 0;  // of those who have gone
};

}  // namespace triton::program
