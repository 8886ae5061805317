#include "lib/net/turns.h"

namespace triton::net {

Task<> Turns::take(std::string peer) {
    auto const own = std::make_shared<Condition>(loop_);
    state_->waiting[std::move(peer)].push_back(own);
    if (!std::exchange(state_->is_passing, true)) post(loop_, [&loop = loop_, state = state_] { pass(loop, state); });
    co_await own->wait();
}

/// One step, and a look at the sockets between two: the loop looks once in each round of what is ready.
void Turns::pass(Loop& loop, std::shared_ptr<State> const& state) {
    auto next = state->waiting.upper_bound(state->last);
    if (next == state->waiting.end()) next = state->waiting.begin();
    state->last = next->first;
    next->second.front()->notify_all();
    next->second.pop_front();
    if (next->second.empty()) state->waiting.erase(next);
    state->is_passing = !state->waiting.empty();
    if (state->is_passing) post(loop, [&loop, state] { pass(loop, state); });
}

}  // namespace triton::net
