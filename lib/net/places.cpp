#include "lib/net/places.h"

namespace triton::net {

Task<std::unique_ptr<Places::Place>> Places::take(std::string peer) {
    if (free_ > 0) {
        --free_;
        co_return std::make_unique<Place>(*this);
    }
    auto const own = std::make_shared<Condition>(loop_);
    waiting_[std::move(peer)].push_back(own);
    co_await own->wait();
    co_return std::make_unique<Place>(*this);
}

/// Gives the place directly to one that waits, so that it is not free in between.
void Places::give_back() {
    if (waiting_.empty()) {
        ++free_;
        return;
    }
    auto next = waiting_.upper_bound(last_);
    if (next == waiting_.end()) next = waiting_.begin();
    last_ = next->first;
    next->second.front()->notify_all();
    next->second.pop_front();
    if (next->second.empty()) waiting_.erase(next);
}

}  // namespace triton::net
