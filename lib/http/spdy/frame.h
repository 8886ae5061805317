#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// The frames of SPDY/3.1. Source: draft-mbelshe-httpbis-spdy-00.
namespace triton::http::spdy {

inline constexpr std::uint16_t protocol_version = 3;
inline constexpr std::size_t frame_head_bytes = 8;

enum class FrameType : std::uint16_t {
    syn_stream = 1,
    syn_reply = 2,
    rst_stream = 3,
    settings = 4,
    ping = 6,
    goaway = 7,
    headers = 8,
    window_update = 9,
};
inline constexpr std::uint8_t flag_fin = 1;

/// Why a stream is reset.
enum class ResetCode : std::uint32_t {
    protocol_error = 1,
    invalid_stream = 2,
    refused = 3,
    cancel = 5,
    internal_error = 6,
    already_closed = 9,
};
/// Why a connection ends.
enum class GoawayCode : std::uint32_t { ok = 0, protocol_error = 1, internal_error = 2 };

/// The first eight bytes of a frame.
struct FrameHead {
    bool is_control = false;
    std::uint16_t version = 0;  ///< of a control frame
    std::uint16_t type = 0;     ///< of a control frame: a FrameType, or an unknown one
    std::uint32_t stream = 0;   ///< of a data frame
    std::uint8_t flags = 0;
    std::uint32_t length = 0;  ///< of what follows, up to 16 MiB
};
/// `bytes`: at least frame_head_bytes.
FrameHead parse_frame_head(std::string_view bytes);

/// Highest byte first.
void append_number(std::string& out, std::uint32_t value);
/// `at`: less than size - 3.
std::uint32_t number_at(std::string_view bytes, std::size_t at);

void append_control_frame(std::string& out, FrameType type, std::uint8_t flags, std::string_view payload);
/// `bytes`: less than 16 MiB.
void append_data_frame(std::string& out, std::uint32_t stream, std::uint8_t flags, std::string_view bytes);

}  // namespace triton::http::spdy
