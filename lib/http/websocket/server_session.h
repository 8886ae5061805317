#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace triton::http::websocket {

/// Why a connection is closed. Source: RFC 6455, 7.4.1.
enum class CloseCode : std::uint16_t {
    normal = 1000,
    protocol_error = 1002,
    too_big = 1009,
    internal_error = 1011,
};

class MessageEvents {
public:
    virtual ~MessageEvents() = default;
    /// A whole message, text or binary alike. Text is not checked to be UTF-8: what is read from it is.
    virtual void received(std::string_view message) = 0;
};

/// The server's end of a WebSocket (RFC 6455) without a socket: bytes in, bytes out. Without extensions.
class ServerSession {
public:
    static constexpr std::size_t most_message_bytes = 256 * 1024;

    explicit ServerSession(MessageEvents& events) : events_(events) {}

    /// Returns false when the connection is to end, after what is in output().
    bool receive(std::string_view bytes);
    /// One binary message of two parts.
    void send(std::string_view head, std::string_view body);
    void send_text(std::string_view text);
    /// The last frame.
    void close(CloseCode code);

    std::string& output() { return output_; }

private:
    enum class Opcode : std::uint8_t { continuation = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10 };
    struct Head {
        bool is_final;
        bool has_reserved_bits;
        std::uint8_t opcode;
        bool is_masked;
        std::uint64_t length;
        std::size_t size;  // of the head, with the mask
    };
    bool handle(Head const& head, std::string payload);
    bool handle_control(Head const& head, std::string_view payload);
    void append_frame(Opcode opcode, std::string_view head, std::string_view body);
    bool fail_with(CloseCode code);
    static bool parse_head(std::string_view bytes, Head& head);

    MessageEvents& events_;
    std::string input_;
    std::string message_;
    bool is_in_message_ = false;
    bool is_over_ = false;
    std::string output_;
};

}  // namespace triton::http::websocket
