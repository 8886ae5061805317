#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "lib/net/loop.h"

namespace triton::net {

/// Lets expensive steps run one after the other, the peers in turn. Whoever asks for a thousand waits behind himself,
/// and whatever is cheap and ready runs before the next step.
class Turns {
public:
    explicit Turns(Loop& loop) : loop_(loop), state_(std::make_shared<State>()) {}

    /// Returns when it is this peer's turn; the turn ends at the next wait of whoever has it.
    Task<> take(std::string peer);

private:
    struct State {
        std::map<std::string, std::deque<std::shared_ptr<Condition>>> waiting;  // of each peer; no empty queues
        std::string last;                                                       // who had the latest turn
        bool is_passing = false;
    };
    static void pass(Loop& loop, std::shared_ptr<State> const& state);

    Loop& loop_;
    std::shared_ptr<State> state_;
};

}  // namespace triton::net
