#include "host/cri/stream/websocket_wires.h"

#include <algorithm>
#include <array>
#include <optional>

#include "lib/text/base64.h"

namespace triton::cri::stream {

namespace {

using http::websocket::ServerSession;

constexpr int first_version_with_close = 5;
constexpr char close_channel = '\xff';
constexpr std::size_t most_ports = 100;  // channels are one byte, and their text form has no more digits
constexpr std::size_t tunnel_bytes = 32 * 1024;

enum Channel : char { channel_input, channel_output, channel_errors, channel_status, channel_size };

struct ChannelMessage {
    std::uint8_t channel;
    std::string bytes;
};
std::optional<ChannelMessage> parse_message(std::string_view message, bool is_base64) {
    if (message.empty()) return std::nullopt;
    if (!is_base64) return ChannelMessage{static_cast<std::uint8_t>(message.front()), std::string(message.substr(1))};
    auto bytes = text::decode_base64(message.substr(1));
    if (!bytes || message.front() < '0' || message.front() > '9') return std::nullopt;
    return ChannelMessage{static_cast<std::uint8_t>(message.front() - '0'), *std::move(bytes)};
}

void send_on(ServerSession& session, std::uint8_t channel, std::string_view bytes, bool is_base64) {
    if (is_base64) return session.send_text(static_cast<char>('0' + channel) + text::encode_base64(bytes));
    char const head = static_cast<char>(channel);
    session.send({&head, 1}, bytes);
}

}  // namespace

void WebSocketCommandWire::send(char channel, std::string_view bytes) {
    send_on(session_, static_cast<std::uint8_t>(channel), bytes, is_base64_);
}

/// An empty message says that it has begun.
void WebSocketCommandWire::start() {
    send(streams_.has_output ? channel_output : streams_.has_errors ? channel_errors : channel_status, {});
    events_.began();
}

void WebSocketCommandWire::received(std::string_view message) {
    if (version_ >= first_version_with_close && message.size() == 2 && message.front() == close_channel) {
        if (message.back() == channel_input && streams_.has_input) events_.finished_input();
        return;
    }
    auto const part = parse_message(message, is_base64_);
    if (!part) return;
    if (part->channel == channel_input && streams_.has_input) events_.received_input(part->bytes);
    if (part->channel != channel_size) return;
    if (auto const size = sizes_.receive(part->bytes)) events_.resized(*size);
}

void WebSocketCommandWire::send_output(std::string_view bytes, bool is_errors) {
    send(is_errors ? channel_errors : channel_output, bytes);
}

void WebSocketCommandWire::end(Result<std::int64_t> const& exit_code) {
    std::string const status = command_status(exit_code, version_ >= first_version_with_objects);
    if (!status.empty()) send(channel_status, status);
    close();
}

void WebSocketForwardWire::start() {
    ports_.resize(std::min(ports_.size(), is_base64_ ? std::size_t{5} : most_ports));
    for (std::uint32_t i = 0; i < ports_.size(); ++i) {
        std::string const port{static_cast<char>(ports_[i] & 0xffU), static_cast<char>(ports_[i] >> 8U)};
        for (std::uint32_t const channel : {2 * i, 2 * i + 1})
            send_on(session_, static_cast<std::uint8_t>(channel), port, is_base64_);
    }
    for (std::uint32_t i = 0; i < ports_.size(); ++i)
        if (!events_.opened(i, ports_[i])) end(i, "error forwarding port: there are too many connections");
}

void WebSocketForwardWire::received(std::string_view message) {
    auto const part = parse_message(message, is_base64_);
    if (part && part->channel % 2 == 0 && part->channel / 2U < ports_.size())
        events_.received(part->channel / 2U, part->bytes);
}

void WebSocketForwardWire::send(std::uint32_t key, std::string_view bytes) {
    send_on(session_, static_cast<std::uint8_t>(2 * key), bytes, is_base64_);
}

/// The connection ends with the last one: nothing can come any more.
void WebSocketForwardWire::end(std::uint32_t key, std::string_view error) {
    if (!error.empty()) send_on(session_, static_cast<std::uint8_t>(2 * key + 1), error, is_base64_);
    if (++ended_ == ports_.size()) close();
}

void WebSocketTunnel::received(std::string_view message) {
    if (is_inner_open_) is_inner_open_ = inner_.receive(message);
}

std::string& WebSocketTunnel::output() {
    std::string_view rest = inner_.output();
    while (!rest.empty()) {
        session_.send({}, rest.substr(0, tunnel_bytes));
        rest.remove_prefix(std::min(rest.size(), tunnel_bytes));
    }
    inner_.output().clear();
    return session_.output();
}

void WebSocketTunnel::close() {
    inner_.close();
    (void)output();
    session_.close(http::websocket::CloseCode::normal);
}

}  // namespace triton::cri::stream
