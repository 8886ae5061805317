#pragma once

#include <map>
#include <string>
#include <string_view>

#include "host/cri/stream/wire.h"
#include "lib/base/clock.h"
#include "lib/http/spdy/server_session.h"

namespace triton::cri::stream {

/// A command over SPDY: a stream for each of its own, and one for its status.
/// Source: KEP-4006 and the clients of Kubernetes 1.34 to 1.37.
class SpdyCommandWire final : public CommandWire, private http::spdy::StreamEvents {
public:
    /// `version`: 1 to 4, of channel.k8s.io.
    SpdyCommandWire(CommandEvents& events, CommandStreams const& streams, int version);

    void start() override {}
    bool receive(std::string_view bytes) override { return session_.receive(bytes); }
    std::string& output() override { return session_.output(); }
    void close() override { session_.go_away(http::spdy::GoawayCode::ok); }
    void send_output(std::string_view bytes, bool is_errors) override;
    void end(Result<std::int64_t> const& exit_code) override;

private:
    bool opened(http::spdy::StreamId stream, http::spdy::Headers const& headers) override;
    void received(http::spdy::StreamId stream, std::string_view bytes) override;
    void finished(http::spdy::StreamId stream) override;
    void was_reset(http::spdy::StreamId stream) override { finished(stream); }

    [[nodiscard]] http::spdy::StreamId stream_of(std::string_view type) const;

    CommandEvents& events_;
    int version_;
    std::map<std::string, http::spdy::StreamId, std::less<>> streams_;  // 0: it is expected
    TerminalSizes sizes_;
    http::spdy::ServerSession session_;
};

/// Forwarded ports over SPDY: two streams for each connection, data and error, that name the same request. The key of a
/// connection is its data stream.
class SpdyForwardWire final : public ForwardWire, private http::spdy::StreamEvents {
public:
    static constexpr std::size_t most_pairs = 100;

    explicit SpdyForwardWire(ForwardEvents& events) : events_(events), session_(*this) {}

    void start() override {}
    bool receive(std::string_view bytes) override { return session_.receive(bytes); }
    std::string& output() override { return session_.output(); }
    void close() override { session_.go_away(http::spdy::GoawayCode::ok); }
    void send(std::uint32_t key, std::string_view bytes) override { session_.send(key, bytes); }
    void finish(std::uint32_t key) override { session_.finish(key); }
    void end(std::uint32_t key, std::string_view error) override;
    void expire_halves(TimePoint when) override;

private:
    struct Pair {
        http::spdy::StreamId data = 0;
        http::spdy::StreamId error = 0;
        TimePoint since;
        bool is_finished = false;  // by the client, before its other half has come
        std::string early;
    };
    bool opened(http::spdy::StreamId stream, http::spdy::Headers const& headers) override;
    void received(http::spdy::StreamId stream, std::string_view bytes) override;
    void finished(http::spdy::StreamId stream) override;
    void was_reset(http::spdy::StreamId stream) override;
    [[nodiscard]] std::map<std::string, Pair>::iterator pair_of(http::spdy::StreamId stream);

    ForwardEvents& events_;
    std::map<std::string, Pair> pairs_;  // by request
    http::spdy::ServerSession session_;
};

}  // namespace triton::cri::stream
