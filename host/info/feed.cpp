#include "host/info/feed.h"

namespace triton::info {

EventPtr Feed::add(std::int64_t at, Document const* before, Document const* after) {
    auto event = std::make_shared<Event const>(next_, at, before, after);
    if (!event->line(View::full)) return nullptr;
    ++next_;
    bytes_ += event->bytes();
    events_.push_back(event);
    shrink();
    return event;
}

/// Drops old events. The latest one stays, however large it is.
void Feed::shrink() {
    while (events_.size() > 1 && (events_.size() > bounds_.events || bytes_ > bounds_.bytes)) {
        bytes_ -= events_.front()->bytes();
        events_.pop_front();
        ++dropped_;
    }
}

EventPtr Feed::at(std::uint64_t sequence) const {
    return sequence >= first() && sequence < next_ ? events_[sequence - first()] : nullptr;
}

}  // namespace triton::info
