#include "programs/vminfod/event_streams.h"

#include <algorithm>

namespace triton::program {

using net::Task;

namespace {

constexpr std::size_t budget = 64 * 1024;  // of one write
constexpr Duration shortest_tick = std::chrono::seconds(1);

}  // namespace

struct EventStreams::Follower {
    Follower(EventStreams& streams, info::Reader::Options options, std::string id, std::string name, Entrance by)
        : of(streams),
          user_agent(std::move(name)),
          entrance(by),
          began_at(streams.settings_.now()),
          wake(streams.loop_),
          reader(std::move(options), std::move(id), streams.cache_, streams.feed_,
                 streams.places_[static_cast<std::size_t>(by)]),
          place(streams.followers_.insert(streams.followers_.end(), this)) {}
    Follower(Follower const&) = delete;
    Follower& operator=(Follower const&) = delete;
    ~Follower() {
        of.followers_.erase(place);
        of.past_resyncs_ += reader.resyncs();
    }

    EventStreams& of;
    std::string user_agent;
    Entrance entrance;
    std::int64_t began_at;
    TimePoint spoke_at = std::chrono::steady_clock::now();
    TimePoint turn_ends{};  // of the snapshot that it is in, if others wait for its place
    net::Condition wake;
    info::Reader reader;
    std::list<Follower*>::iterator place;
};

Task<> EventStreams::follow(net::HttpStream& out, info::Reader::Options options, std::string id, std::string user_agent,
                            Entrance entrance) {
    auto follower =
        std::make_shared<Follower>(*this, std::move(options), std::move(id), std::move(user_agent), entrance);
    out.caller().when_gone([weak = std::weak_ptr(follower)] {
        if (auto const gone = weak.lock()) gone->wake.notify_all();
    });
    if (tick_.due() == TimePoint::max()) tick_at(follower->spoke_at + settings_.heartbeat);
    co_await send(out, *follower);
    follower.reset();
    wake_waiting();
}

Task<> EventStreams::send(net::HttpStream& out, Follower& follower) {
    info::Reader const& reader = follower.reader;
    while (!out.caller().has_gone()) {
        bool const was_in_snapshot = reader.is_in_snapshot();
        std::vector<info::Text> pieces = next_pieces(follower);
        if (was_in_snapshot && !reader.is_in_snapshot()) wake_waiting();
        if (pieces.empty()) {
            if (reader.has_more())
                co_await net::yield(loop_);
            else
                co_await follower.wake.wait();
            continue;
        }
        TimePoint const now = std::chrono::steady_clock::now();
        if (!was_in_snapshot && reader.is_in_snapshot()) follower.turn_ends = now + settings_.snapshot_turn;
        bool const is_waited_for = this->is_waited_for(follower);
        if (is_waited_for && now >= follower.turn_ends) co_return;
        // A reader that keeps documents alive must take them in time. Others may be slow, and hear later what they have
        // missed.
        Duration const limit = is_waited_for ? settings_.snapshot_turn : settings_.snapshot_limit;
        out.limit_stalls(reader.is_in_snapshot() ? limit : Duration::max());
        bool const goes_on = co_await out.write(pieces);
        follower.spoke_at = std::chrono::steady_clock::now();
        if (!goes_on) co_return;
        pieces.clear();
        if (reader.has_more()) co_await net::yield(loop_);
    }
}

/// What to send next; empty: nothing now.
std::vector<info::Text> EventStreams::next_pieces(Follower& follower) const {
    std::int64_t const now = settings_.now();
    std::vector<info::Text> pieces = follower.reader.next(budget, now);
    // The first record comes before any heartbeat, however long the wait for a place for its snapshot is.
    if (pieces.empty() && is_silent(follower) && !follower.reader.waits_for_place())
        pieces.push_back(follower.reader.heartbeat(now));
    return pieces;
}

/// Whether it is in a snapshot, and another follower waits for the place. Peers decide how many wait and how slowly
/// they read: each is to have its turn.
bool EventStreams::is_waited_for(Follower const& follower) const {
    return follower.reader.is_in_snapshot() && std::ranges::any_of(followers_, [&follower](Follower const* other) {
               return other->entrance == follower.entrance && other->reader.waits_for_place();
           });
}

void EventStreams::feed_has_grown() {
    for (Follower* const follower : followers_)
        follower->wake.notify_all();
}

/// Wakes all that wait: a place for a snapshot may be free.
void EventStreams::wake_waiting() {
    for (Follower* const follower : followers_)
        if (follower->reader.has_more()) follower->wake.notify_all();
}

bool EventStreams::is_silent(Follower const& follower) const {
    return std::chrono::steady_clock::now() - follower.spoke_at >= settings_.heartbeat;
}

/// Sets the one timer for the heartbeats of all.
void EventStreams::tick_at(TimePoint when) {
    tick_.call_at(when, [weak = weak_from_this()] {
        if (auto const self = weak.lock()) self->tick();
    });
}

void EventStreams::tick() {
    TimePoint const now = std::chrono::steady_clock::now();
    TimePoint next = TimePoint::max();
    for (Follower* const follower : followers_) {
        if (is_silent(*follower)) {
            follower->wake.notify_all();
        } else {
            next = std::min(next, follower->spoke_at + settings_.heartbeat);
        }
    }
    if (followers_.empty()) return;
    tick_at(std::clamp(next, std::min(now + shortest_tick, now + settings_.heartbeat), now + settings_.heartbeat));
}

std::vector<ListenerFacts> EventStreams::listeners() const {
    std::vector<ListenerFacts> facts;
    for (Follower const* const follower : followers_)
        facts.push_back({follower->reader.id(), follower->user_agent, follower->entrance, follower->began_at,
                         follower->reader.resyncs(), follower->reader.is_in_snapshot()});
    return facts;
}

std::uint64_t EventStreams::resyncs() const {
    std::uint64_t count = past_resyncs_;
    for (Follower const* const follower : followers_)
        count += follower->reader.resyncs();
    return count;
}

}  // namespace triton::program
