#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/net/loop.h"

namespace triton::net {

/// Lets expensive steps run one after the other, the peers in turn. A peer that asks for many waits behind itself,
/// and whatever is cheap and ready runs before the next step.
class Turns {
public:
    /// `at_once`: turns that are given before the loop looks for what else is ready; more than one where most steps
    /// turn out to be cheap.
    explicit Turns(Loop& loop, std::size_t at_once = 1)
        : loop_(loop), at_once_(at_once), state_(std::make_shared<State>()) {}

    /// Returns when it is this peer's turn; the turn ends at the next wait of its holder.
    Task<> take(std::string peer);
    /// Whether it is the caller's turn, without a wait: everybody else had one a moment ago.
    [[nodiscard]] bool take_now() const;

private:
    struct State {
        std::map<std::string, std::deque<std::shared_ptr<Condition>>> waiting;  // of each peer; no empty queues
        std::string last;                                                       // who had the latest turn
        TimePoint passed{};                                                     // when there was one
        bool is_passing = false;
    };
    static void pass(Loop& loop, std::size_t at_once, std::shared_ptr<State> const& state);

    Loop& loop_;
    std::size_t at_once_;
    std::shared_ptr<State> state_;
};

}  // namespace triton::net
