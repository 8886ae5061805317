#include "host/metadata/frame.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

#include <zlib.h>

#include "lib/text/base64.h"

namespace triton::metadata {

namespace {

std::string_view take_word(std::string_view& text) {
    std::size_t const end = std::min(text.find(' '), text.size());
    std::string_view const word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return word;
}

template <class Number>
std::optional<Number> number_of(std::string_view word, int base) {
    Number number = 0;
    auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, base);
    if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
    return number;
}

std::string hexadecimal(std::uint32_t number) {
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (int shift = 28; shift >= 0; shift -= 4)
        text += digits[number >> static_cast<unsigned>(shift) & 15U];
    return text;
}

/// Source: IEEE 802.3.
std::uint32_t checksum_of(std::string_view bytes) {
    return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<unsigned char const*>(bytes.data()), bytes.size()));
}

}  // namespace

std::optional<Frame> parse_frame(std::string_view text) {
    auto const length = number_of<std::size_t>(take_word(text), 10);
    auto const checksum = number_of<std::uint32_t>(take_word(text), 16);
    if (!length || !checksum || text.size() != *length || checksum_of(text) != *checksum) return std::nullopt;
    Frame frame;
    frame.id = take_word(text);
    frame.word = take_word(text);
    if (!number_of<std::uint64_t>(frame.id, 16) || frame.word.empty()) return std::nullopt;
    auto payload = text::decode_base64(text);
    if (!payload) return std::nullopt;
    frame.payload = *std::move(payload);
    return frame;
}

std::string frame_line(Frame const& frame) {
    std::string body = frame.id + " " + frame.word;
    if (!frame.payload.empty()) body += " " + text::encode_base64(frame.payload);
    return "V2 " + std::to_string(body.size()) + " " + hexadecimal(checksum_of(body)) + " " + body + "\n";
}

}  // namespace triton::metadata
