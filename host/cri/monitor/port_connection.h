#pragma once

#include <cstdint>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::cri::monitor {

/// A connection that is being made to a port of a pod, from inside of its network namespace: to 127.0.0.1, else to
/// [::1].
class PortConnection {
public:
    static constexpr Duration limit = std::chrono::seconds(10);

    /// `network`: the namespace, borrowed until the end; -1: that of this process.
    PortConnection(int network, std::uint16_t port) : network_(network), port_(port), deadline_(steady_now() + limit) {}

    /// Begins, or continues when fd() is writable or the deadline has passed. Returns the connected socket; an empty
    /// one: not yet. Errors: "connect to port 80 of the pod: Connection refused", of the first address.
    Result<UniqueFd> go_on();
    /// For poll(2). Borrowed.
    [[nodiscard]] int fd() const { return socket_.get(); }
    [[nodiscard]] TimePoint deadline() const { return deadline_; }

private:
    enum class Step : std::uint8_t { first, first_waits, second, second_waits };
    Result<bool> connect(int family);
    [[nodiscard]] int outcome() const;

    int network_;
    std::uint16_t port_;
    TimePoint deadline_;
    Step step_ = Step::first;
    UniqueFd socket_;
    int error_ = 0;  // of the first address
};

}  // namespace triton::cri::monitor
