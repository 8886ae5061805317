#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/http/grpc/call.h"
#include "lib/http/grpc/rate_limit.h"

namespace triton::http::grpc {

/// What one client may cost. The client controls all of what is limited here.
struct SessionLimits {
    std::uint32_t calls = 64;                     ///< open at one time
    std::size_t running = 128;                    ///< also those that the client has cancelled and a handler works on
    std::size_t field_bytes = 16 * 1024;          ///< of a header, unpacked
    std::size_t answer_bytes = 64U << 20U;        ///< of all answers that the client has not taken
    Duration request = std::chrono::seconds(30);  ///< for a request to arrive
    Duration stall = std::chrono::minutes(1);     ///< for the client to take something of an answer
    Rate frames = {20'000, 2'000};                ///< frames without content: PING, SETTINGS, WINDOW_UPDATE, ..
    Rate resets = {256, 32};                      ///< streams that end before their answer
};

/// The bytes of requests that are not complete, of all connections of a server together.
struct RequestMemory {
    std::size_t used = 0;
    std::size_t most = 64U << 20U;
};

/// The server's side of one HTTP/2 connection that carries gRPC: bytes in, bytes out, without a socket. nghttp2 speaks
/// HTTP/2; here are the messages, deadlines, trailers and limits.
class ServerSession {
public:
    struct Surroundings {
        /// Gets each call whose request is complete. May answer at once or later.
        std::function<void(std::shared_ptr<Call>)> serve;
        /// There is something for take_output().
        std::function<void()> has_output;
        std::function<TimePoint()> now;
        RequestMemory& memory;
    };

    /// Throws std::bad_alloc.
    ServerSession(SessionLimits const& limits, Surroundings around);
    ~ServerSession();
    ServerSession(ServerSession const&) = delete;
    ServerSession& operator=(ServerSession const&) = delete;

    /// Takes bytes of the client. Returns false when the connection is to be closed, after the output was sent.
    bool receive(std::string_view bytes);
    /// About `most` bytes for the client; empty: none for now.
    std::string take_output(std::size_t most);

    /// Ends what has taken too long. To be called at next_deadline().
    void pass_time();
    [[nodiscard]] TimePoint next_deadline() const;

    /// Takes no further calls; those that are open go on.
    void begin_shutdown();
    /// Whether nothing more will be read or written.
    [[nodiscard]] bool is_over() const;
    [[nodiscard]] std::size_t open_calls() const { return streams_.size(); }
    /// Why the client was sent away; empty: it was not.
    [[nodiscard]] std::string const& complaint() const { return complaint_; }

private:
    friend class Call;
    class Callbacks;
    struct Stream;

    // For calls.
    [[nodiscard]] bool has_room_for(std::size_t bytes) const;
    void answer_has_grown(Call& call);

    Stream* find(std::int32_t id);
    void begin_stream(std::int32_t id);
    void take_field(Stream& stream, std::string_view name, std::string_view value);
    void end_head(Stream& stream);
    void take_data(Stream& stream, std::string_view bytes);
    void end_request(Stream& stream);
    void close_stream(std::int32_t id, std::uint32_t error);
    void refuse(Stream& stream, unsigned http_status);
    void finish(Stream& stream, Status status);
    void begin_answer(Stream& stream);
    void submit_end(Stream& stream, bool is_head);
    std::size_t fill(Stream& stream, char* to, std::size_t size);
    void count_frame(std::uint8_t type, std::size_t length);
    void count_reset();
    void send_away(std::string complaint);
    void dispatch();
    void pass_time_of(Stream& stream);

    SessionLimits limits_;
    Surroundings around_;
    std::unique_ptr<void, void (*)(void*)> session_;  // of nghttp2, which only the source file sees
    std::map<std::int32_t, std::unique_ptr<Stream>> streams_;
    std::vector<std::shared_ptr<Call>> ready_;  // requests that are complete, and not yet with their handler
    CallCount running_ = std::make_shared<std::size_t>(0);
    RateLimit frames_;
    RateLimit resets_;
    std::string complaint_;
    bool is_receiving_ = false;
    bool is_broken_ = false;
};

}  // namespace triton::http::grpc
