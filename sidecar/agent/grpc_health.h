#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace triton::agent {

/// The client's side of one call of grpc.health.v1.Health/Check, over HTTP/2 without TLS and without a socket: bytes in
/// and out. The frames are nghttp2's.
/// Sources: gRPC's protocol over HTTP/2 (PROTOCOL-HTTP2.md), its health checking protocol (health-checking.md).
class GrpcHealth {
public:
    /// `authority`: HOST:PORT. `service`: whose health is asked for; empty: that of the server as a whole.
    GrpcHealth(std::string const& authority, std::string_view service, std::string const& user_agent);
    ~GrpcHealth();
    GrpcHealth(GrpcHealth const&) = delete;
    GrpcHealth& operator=(GrpcHealth const&) = delete;

    /// The bytes to send now.
    std::string take_output();
    /// Takes received bytes. Only the status of an answer and the first bytes of its message are kept.
    void take_input(std::string_view bytes);

    /// Whether there is an answer, or none can come any longer; may change with either of these.
    [[nodiscard]] bool is_over() const;
    /// When it is over: why the service is unhealthy: "the service is NOT_SERVING", "grpc-status 12 (no such method)",
    /// "the answer is not HTTP/2: ..."; nullopt: it is SERVING.
    [[nodiscard]] std::optional<std::string> problem() const;

private:
    class Session;
    std::unique_ptr<Session> session_;
};

}  // namespace triton::agent
