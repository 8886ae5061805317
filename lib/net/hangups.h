#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lib/base/result.h"
#include "lib/net/loop.h"

namespace triton::net {

/// Tells when a peer has ended its side of a connection that is not being read.
class Hangups {
    struct State;

public:
    /// Errors: those of epoll_create1(2).
    static Result<Hangups> create(Loop& loop);

    /// Until it is destroyed.
    class Watch {
    public:
        Watch(Watch const&) = delete;
        Watch& operator=(Watch const&) = delete;
        ~Watch();

    private:
        friend class Hangups;
        Watch(std::shared_ptr<State> state, int socket, std::uint64_t number);
        std::shared_ptr<State> state_;
        int socket_;
        std::uint64_t number_;
    };
    /// `socket` is borrowed; once it is closed, reports end. `call` is called once at most.
    [[nodiscard]] std::unique_ptr<Watch> watch(int socket, std::function<void()> call);

private:
    explicit Hangups(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
};

}  // namespace triton::net
