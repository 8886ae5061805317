#include "lib/http/spdy/frame.h"

namespace triton::http::spdy {

namespace {

constexpr std::uint32_t control_bit = 1U << 31U;
constexpr std::uint32_t length_mask = 0xff'ffff;

}  // namespace

void append_number(std::string& out, std::uint32_t value) {
    for (unsigned const shift : {24U, 16U, 8U, 0U})
        out += static_cast<char>(value >> shift & 0xffU);
}

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i)
        value = value << 8U | static_cast<std::uint8_t>(bytes[i]);
    return value;
}

FrameHead parse_frame_head(std::string_view bytes) {
    std::uint32_t const first = number_at(bytes, 0);
    std::uint32_t const second = number_at(bytes, 4);
    FrameHead head{.is_control = (first & control_bit) != 0,
                   .flags = static_cast<std::uint8_t>(second >> 24U),
                   .length = second & length_mask};
    if (head.is_control) {
        head.version = static_cast<std::uint16_t>(first >> 16U & 0x7fffU);
        head.type = static_cast<std::uint16_t>(first & 0xffffU);
    } else {
        head.stream = first;
    }
    return head;
}

void append_control_frame(std::string& out, FrameType type, std::uint8_t flags, std::string_view payload) {
    append_number(out, control_bit | std::uint32_t{protocol_version} << 16U | static_cast<std::uint32_t>(type));
    append_number(out, std::uint32_t{flags} << 24U | static_cast<std::uint32_t>(payload.size()));
    out += payload;
}

void append_data_frame(std::string& out, std::uint32_t stream, std::uint8_t flags, std::string_view bytes) {
    append_number(out, stream);
    append_number(out, std::uint32_t{flags} << 24U | static_cast<std::uint32_t>(bytes.size()));
    out += bytes;
}

}  // namespace triton::http::spdy
