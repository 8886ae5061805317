#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/cri/stream/wire.h"
#include "lib/http/websocket/server_session.h"

namespace triton::cri::stream {

/// A command over WebSocket: the first byte of a message is its channel. 0 input, 1 output, 2 errors, 3 status, 4 size.
class WebSocketCommandWire final : public CommandWire, private http::websocket::MessageEvents {
public:
    /// `version`: 1, 4 or 5 of channel.k8s.io. `is_base64`: bytes are written as text.
    WebSocketCommandWire(CommandEvents& events, CommandStreams const& streams, int version, bool is_base64)
        : events_(events), streams_(streams), version_(version), is_base64_(is_base64), session_(*this) {}

    void start() override;
    bool receive(std::string_view bytes) override { return session_.receive(bytes); }
    std::string& output() override { return session_.output(); }
    void close() override { session_.close(http::websocket::CloseCode::normal); }
    void send_output(std::string_view bytes, bool is_errors) override;
    void end(Result<std::int64_t> const& exit_code) override;

private:
    void received(std::string_view message) override;
    void send(char channel, std::string_view bytes);

    CommandEvents& events_;
    CommandStreams streams_;
    int version_;
    bool is_base64_;
    TerminalSizes sizes_;
    http::websocket::ServerSession session_;
};

/// Forwarded ports over WebSocket: the ports of the request, one connection each, at once. Of port i the channel 2i is
/// its data, 2i+1 its errors; the key is i.
class WebSocketForwardWire final : public ForwardWire, private http::websocket::MessageEvents {
public:
    WebSocketForwardWire(ForwardEvents& events, std::vector<std::uint16_t> ports, bool is_base64)
        : events_(events), ports_(std::move(ports)), is_base64_(is_base64), session_(*this) {}

    void start() override;
    bool receive(std::string_view bytes) override { return session_.receive(bytes); }
    std::string& output() override { return session_.output(); }
    void close() override { session_.close(http::websocket::CloseCode::normal); }
    void send(std::uint32_t key, std::string_view bytes) override;
    void finish(std::uint32_t /*key*/) override {}  // this protocol cannot say it
    void end(std::uint32_t key, std::string_view error) override;
    void expire_halves(TimePoint /*when*/) override {}

private:
    void received(std::string_view message) override;

    ForwardEvents& events_;
    std::vector<std::uint16_t> ports_;
    bool is_base64_;
    std::size_t ended_ = 0;
    http::websocket::ServerSession session_;
};

/// Another protocol, whose bytes are the messages of a WebSocket: their bounds mean nothing.
class WebSocketTunnel final : public Wire, private http::websocket::MessageEvents {
public:
    explicit WebSocketTunnel(Wire& inner) : inner_(inner), session_(*this) {}

    void start() override { inner_.start(); }
    bool receive(std::string_view bytes) override { return session_.receive(bytes) && is_inner_open_; }
    std::string& output() override;
    void close() override;

private:
    void received(std::string_view message) override;

    Wire& inner_;
    bool is_inner_open_ = true;
    http::websocket::ServerSession session_;
};

}  // namespace triton::cri::stream
