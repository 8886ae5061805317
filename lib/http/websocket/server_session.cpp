#include "lib/http/websocket/server_session.h"

#include <utility>

namespace triton::http::websocket {

namespace {

constexpr std::size_t most_control_bytes = 125;
constexpr std::size_t mask_bytes = 4;
constexpr std::uint8_t first_control_opcode = 8;

std::uint8_t byte_at(std::string_view bytes, std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); }

}  // namespace

/// Returns false when more is needed.
bool ServerSession::parse_head(std::string_view bytes, Head& head) {
    if (bytes.size() < 2) return false;
    head = {.is_final = (byte_at(bytes, 0) & 0x80U) != 0,
            .has_reserved_bits = (byte_at(bytes, 0) & 0x70U) != 0,
            .opcode = static_cast<std::uint8_t>(byte_at(bytes, 0) & 0x0fU),
            .is_masked = (byte_at(bytes, 1) & 0x80U) != 0,
            .length = byte_at(bytes, 1) & 0x7fU,
            .size = 2};
    std::size_t const more = head.length == 126 ? 2 : head.length == 127 ? 8 : 0;
    if (bytes.size() < head.size + more) return false;
    if (more > 0) head.length = 0;
    for (std::size_t i = 0; i < more; ++i)
        head.length = head.length << 8U | byte_at(bytes, head.size + i);
    head.size += more + (head.is_masked ? mask_bytes : 0);
    return bytes.size() >= head.size;
}

bool ServerSession::receive(std::string_view bytes) {
    input_ += bytes;
    Head head{};
    std::size_t used = 0;
    while (!is_over_ && parse_head(std::string_view(input_).substr(used), head)) {
        if (!head.is_masked || head.has_reserved_bits) return fail_with(CloseCode::protocol_error);
        if (head.length > most_message_bytes) return fail_with(CloseCode::too_big);
        std::size_t const length = static_cast<std::size_t>(head.length);
        if (input_.size() - used < head.size + length) break;
        std::string payload = input_.substr(used + head.size, length);
        for (std::size_t i = 0; i < length; ++i)
            payload[i] = static_cast<char>(payload[i] ^ input_[used + head.size - mask_bytes + i % mask_bytes]);
        used += head.size + length;
        if (!handle(head, std::move(payload))) return false;
    }
    input_.erase(0, used);
    return !is_over_;
}

bool ServerSession::handle(Head const& head, std::string payload) {
    if (head.opcode >= first_control_opcode) return handle_control(head, payload);
    bool const is_continuation = head.opcode == static_cast<std::uint8_t>(Opcode::continuation);
    if (head.opcode > static_cast<std::uint8_t>(Opcode::binary) || is_continuation != is_in_message_)
        return fail_with(CloseCode::protocol_error);
    if (message_.size() + payload.size() > most_message_bytes) return fail_with(CloseCode::too_big);
    message_ += payload;
    is_in_message_ = !head.is_final;
    if (head.is_final) events_.received(std::exchange(message_, {}));
    return !is_over_;
}

bool ServerSession::handle_control(Head const& head, std::string_view payload) {
    if (!head.is_final || payload.size() > most_control_bytes) return fail_with(CloseCode::protocol_error);
    switch (static_cast<Opcode>(head.opcode)) {
        case Opcode::ping: append_frame(Opcode::pong, payload, {}); return true;
        case Opcode::pong: return true;
        case Opcode::close: return fail_with(CloseCode::normal);
        case Opcode::continuation:
        case Opcode::text:
        case Opcode::binary: break;
    }
    return fail_with(CloseCode::protocol_error);
}

void ServerSession::append_frame(Opcode opcode, std::string_view head, std::string_view body) {
    if (is_over_) return;
    std::uint64_t const length = head.size() + body.size();
    output_ += static_cast<char>(0x80U | static_cast<unsigned>(opcode));
    if (length < 126) {
        output_ += static_cast<char>(length);
    } else {
        bool const is_short = length <= UINT16_MAX;
        output_ += static_cast<char>(is_short ? 126 : 127);
        for (int shift = is_short ? 8 : 56; shift >= 0; shift -= 8)
            output_ += static_cast<char>(length >> static_cast<unsigned>(shift) & 0xffU);
    }
    output_.append(head).append(body);
}

void ServerSession::send(std::string_view head, std::string_view body) { append_frame(Opcode::binary, head, body); }

void ServerSession::send_text(std::string_view text) { append_frame(Opcode::text, text, {}); }

void ServerSession::close(CloseCode code) {
    auto const number = static_cast<unsigned>(code);
    append_frame(Opcode::close, std::string{static_cast<char>(number >> 8U), static_cast<char>(number & 0xffU)}, {});
    is_over_ = true;
}

bool ServerSession::fail_with(CloseCode code) {
    close(code);
    return false;
}

}  // namespace triton::http::websocket
