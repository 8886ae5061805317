#include "launcher/terminal/attach_frames.h"

#include <algorithm>

namespace triton::launcher {

namespace {

char byte(std::size_t value, unsigned shift) { return static_cast<char>(value >> shift & 0xff); }
std::size_t number(std::string_view bytes) {
    std::size_t value = 0;
    for (char const one : bytes)
        value = value << 8 | static_cast<unsigned char>(one);
    return value;
}

}  // namespace

void append_attach_frame(std::string& out, AttachFrame what, std::string_view content) {
    do {
        std::string_view const part = content.substr(0, longest_attach_frame);
        content.remove_prefix(part.size());
        out += static_cast<char>(what);
        for (unsigned const shift : {16U, 8U, 0U})
            out += byte(part.size(), shift);
        out += part;
    } while (!content.empty());
}

std::string window_content(WindowSize size) {
    return {byte(size.rows, 8), byte(size.rows, 0), byte(size.columns, 8), byte(size.columns, 0)};
}

std::optional<WindowSize> read_window(std::string_view content) {
    if (content.size() != 4) return std::nullopt;
    WindowSize const size{static_cast<std::uint16_t>(number(content.substr(0, 2))),
                          static_cast<std::uint16_t>(number(content.substr(2)))};
    return size.rows > 0 && size.columns > 0 ? std::optional(size) : std::nullopt;
}

AttachReading read_attach_frame(std::string_view bytes, AttachMessage& message) {
    if (bytes.size() < attach_header) return AttachReading::partial;
    std::size_t const length = number(bytes.substr(1, 3));
    if (length > longest_attach_frame) return AttachReading::wrong;
    if (bytes.size() < attach_header + length) return AttachReading::partial;
    message = {static_cast<AttachFrame>(bytes.front()), bytes.substr(attach_header, length), attach_header + length};
    return AttachReading::whole;
}

}  // namespace triton::launcher
