#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/http/grpc/status.h"

namespace triton::http::grpc {

/// The client's side of one HTTP/2 connection that carries gRPC: bytes in, bytes out, without a socket and a clock.
/// The server is not trusted with memory: a message has a limit, and so have the fields of an answer.
class ClientSession {
public:
    /// Both are called from receive(), and from lose(). They must not destroy the session.
    struct Answer {
        std::function<void(std::string)> message;     ///< each message of the answer
        std::function<void(Status const&)> finished;  ///< once, after the last message
    };

    /// Throws std::bad_alloc.
    ClientSession();
    ~ClientSession();
    ClientSession(ClientSession const&) = delete;
    ClientSession& operator=(ClientSession const&) = delete;

    /// Begins a call. `path`: "/runtime.v1.RuntimeService/Version". `timeout`: sent to the server.
    void call(std::string const& path, std::string message, std::optional<Duration> timeout, Answer answer);

    /// Accepts bytes of the server. Returns false when the connection is to be closed.
    bool receive(std::string_view bytes);
    /// What is to be sent to the server now.
    std::string take_output();
    /// The connection has ended: so have all calls that are open, with this status.
    void lose(Status const& status);
    [[nodiscard]] std::size_t open_calls() const { return streams_.size(); }

private:
    class Callbacks;
    struct Stream;

    Stream* find(std::int32_t id);
    void take_field(Stream& stream, std::string_view name, std::string_view value);
    void take_data(Stream& stream, std::string_view bytes);
    void close_stream(std::int32_t id, std::uint32_t error);

    std::unique_ptr<void, void (*)(void*)> session_;  // of nghttp2, which only the source file sees
    std::map<std::int32_t, std::unique_ptr<Stream>> streams_;
    std::vector<std::function<void()>> due_;  // what callers are to be told, outside of nghttp2's frames
};

}  // namespace triton::http::grpc
