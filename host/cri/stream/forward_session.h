#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/cri/monitor/message.h"
#include "host/cri/stream/descriptor_ends.h"
#include "host/cri/stream/session.h"
#include "host/cri/stream/wire.h"

namespace triton::cri::stream {

/// Connections to ports of a pod. The monitor makes each of them inside of the pod, and sends its socket.
///
/// None of them can end another one: one that takes nothing holds the client up for `stall_limit`, since the protocol
/// has no flow control of its own, and is reset then.
class ForwardSession final : public Session, private ForwardEvents {
public:
    static constexpr std::size_t most_connections = 100;
    static constexpr Duration stall_limit = std::chrono::seconds(5);
    static constexpr Duration half_closed_limit = std::chrono::seconds(60);  ///< once the pod has ended its direction

    struct Wires {
        std::unique_ptr<ForwardWire> ports;
        std::unique_ptr<Wire> outer;  ///< what its bytes go through; empty: nothing
    };
    using MakeWires = std::function<Wires(ForwardEvents&)>;
    ForwardSession(SessionParts parts, std::string pod, MakeWires const& make_wires);

    void start() override;
    void receive(std::string_view bytes) override;
    std::string& output() override { return outer().output(); }
    [[nodiscard]] bool is_blocked() const override;
    void hold_output(bool is_held) override;
    [[nodiscard]] bool is_over() const override { return is_over_; }
    void check_limits() override;

private:
    struct Connection {
        std::uint16_t port = 0;
        std::string early;  // until it is connected
        bool is_client_finished = false;
        TimePoint pod_finished = TimePoint::max();
        std::unique_ptr<Source> source;
        std::unique_ptr<Sink> sink;
    };
    bool opened(std::uint32_t key, std::uint16_t port) override;
    void received(std::uint32_t key, std::string_view bytes) override;
    void finished(std::uint32_t key) override;
    void was_reset(std::uint32_t key) override;

    Wire& outer() const { return wires_.outer ? *wires_.outer : *wires_.ports; }
    void hear();
    void connected(std::uint32_t key, UniqueFd socket);
    void pod_finished(std::uint32_t key);
    void end(std::uint32_t key, std::string const& error);
    /// Ends it when both directions are finished.
    void settle(std::uint32_t key);

    SessionParts parts_;
    std::string pod_;
    Wires wires_;
    EventLoop::Watch watch_;
    std::map<std::uint32_t, Connection> connections_;
    std::vector<Connection> ended_;  // from inside of whose own calls they may have been ended
    bool is_held_ = false;
    bool is_over_ = false;
};

}  // namespace triton::cri::stream
