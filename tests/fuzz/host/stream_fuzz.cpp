// What clients of the stream server send: a request, frames of SPDY, frames of WebSocket. The first byte says which;
// all bytes come in two pieces. Nothing may be kept beyond its bounds, and what is answered is well-formed.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "host/cri/stream/negotiation.h"
#include "host/cri/stream/spdy_wires.h"
#include "host/cri/stream/websocket_wires.h"

namespace {

using namespace triton;
using namespace triton::cri::stream;

void require(bool holds) {
    if (!holds) std::abort();
}

/// A program that repeats what it is sent.
struct Echo final : CommandEvents, ForwardEvents {
    CommandWire* command = nullptr;
    ForwardWire* forward = nullptr;

    void began() override {}
    void received_input(std::string_view bytes) override { command->send_output(bytes, false); }
    void finished_input() override { command->end(7); }
    void resized(TerminalSize size) override { (void)size; }

    bool opened(std::uint32_t key, std::uint16_t port) override {
        if (port == 1) forward->send(key, "hello");
        return port != 2;
    }
    void received(std::uint32_t key, std::string_view bytes) override { forward->send(key, bytes); }
    void finished(std::uint32_t key) override {
        forward->finish(key);
        forward->end(key, "");
    }
    void was_reset(std::uint32_t key) override { (void)key; }
};

void feed(Wire& wire, std::string_view bytes) {
    wire.start();
    std::size_t const cut = bytes.size() / 2;
    if (wire.receive(bytes.substr(0, cut))) (void)wire.receive(bytes.substr(cut));
    // An answer to each byte is the most: nothing multiplies.
    require(wire.output().size() <= 64 * bytes.size() + 4096);
    wire.close();
    require(!wire.receive("more") || wire.output().size() > 0);
}

void feed_command(std::string_view bytes, int version, bool is_websocket, bool is_base64) {
    Echo echo;
    CommandStreams const streams{.has_input = true, .has_output = true, .has_errors = false, .is_terminal = true};
    std::unique_ptr<CommandWire> wire;
    if (is_websocket)
        wire = std::make_unique<WebSocketCommandWire>(echo, streams, version, is_base64);
    else
        wire = std::make_unique<SpdyCommandWire>(echo, streams, version);
    echo.command = wire.get();
    feed(*wire, bytes);
}

void feed_forward(std::string_view bytes, bool is_websocket, bool is_tunnel) {
    Echo echo;
    std::unique_ptr<ForwardWire> wire;
    if (is_websocket)
        wire = std::make_unique<WebSocketForwardWire>(echo, std::vector<std::uint16_t>{1, 2, 80}, false);
    else
        wire = std::make_unique<SpdyForwardWire>(echo);
    echo.forward = wire.get();
    if (!is_tunnel) return feed(*wire, bytes);
    WebSocketTunnel tunnel(*wire);
    feed(tunnel, bytes);
}

void ask(std::string_view bytes) {
    auto const head = parse_request_head(bytes);
    if (!head) return;
    auto const result = negotiate(*head);
    if (auto const* const refusal = std::get_if<Refusal>(&result))
        return require(refusal->answer.starts_with("HTTP/1.1 4"));
    auto const& upgrade = std::get<Upgrade>(result);
    require(upgrade.token.size() == 64 && upgrade.answer.starts_with("HTTP/1.1 101 ") &&
            upgrade.answer.ends_with("\r\n\r\n"));
}

}  // namespace

extern "C" int stream_fuzz(std::uint8_t const* data, std::size_t size) {
    if (size == 0) return 0;
    std::string_view const bytes(reinterpret_cast<char const*>(data) + 1, size - 1);
    switch (data[0]) {
        case 'r': ask(bytes); break;
        case 's': feed_command(bytes, 4, false, false); break;
        case 'f': feed_forward(bytes, false, false); break;
        case 'w': feed_command(bytes, 5, true, false); break;
        case 'b': feed_command(bytes, 1, true, true); break;
        case 'p': feed_forward(bytes, true, false); break;
        case 't': feed_forward(bytes, false, true); break;
        default: break;
    }
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return stream_fuzz(data, size); }
#endif
