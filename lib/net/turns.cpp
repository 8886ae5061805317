#include "lib/net/turns.h"

namespace triton::net {

namespace {

constexpr Duration moment = std::chrono::microseconds(300);

}  // namespace

bool Turns::take_now() const { return std::chrono::steady_clock::now() - state_->passed < moment; }

Task<> Turns::take(std::string peer) {
    auto const own = std::make_shared<Condition>(loop_);
    state_->waiting[std::move(peer)].push_back(own);
    if (!std::exchange(state_->is_passing, true))
        post(loop_, [&loop = loop_, at_once = at_once_, state = state_] { pass(loop, at_once, state); });
    co_await own->wait();
}

/// Does a few steps, then lets the loop look at the sockets, which it does once in each round of what is ready.
void Turns::pass(Loop& loop, std::size_t at_once, std::shared_ptr<State> const& state) {
    for (std::size_t i = 0; i < at_once && !state->waiting.empty(); ++i) {
        auto next = state->waiting.upper_bound(state->last);
        if (next == state->waiting.end()) next = state->waiting.begin();
        state->last = next->first;
        next->second.front()->notify_all();
        next->second.pop_front();
        if (next->second.empty()) state->waiting.erase(next);
    }
    state->passed = std::chrono::steady_clock::now();
    state->is_passing = !state->waiting.empty();
    if (state->is_passing) post(loop, [&loop, at_once, state] { pass(loop, at_once, state); });
}

}  // namespace triton::net
