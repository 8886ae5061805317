#include "host/metadata/frame.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

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

constexpr std::array<std::uint32_t, 256> crc_table = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit)
            value = (value & 1U) != 0 ? value >> 1U ^ 0xedb88320U : value >> 1U;
        table[i] = value;
    }
    return table;
}();

}  // namespace

std::uint32_t crc32(std::string_view bytes) {
    std::uint32_t value = ~0U;
    for (char const c : bytes)
        value = crc_table[(value ^ static_cast<unsigned char>(c)) & 0xffU] ^ value >> 8U;
    return ~value;
}

std::optional<Frame> parse_frame(std::string_view text) {
    auto const length = number_of<std::size_t>(take_word(text), 10);
    auto const checksum = number_of<std::uint32_t>(take_word(text), 16);
    if (!length || !checksum || text.size() != *length || crc32(text) != *checksum) return std::nullopt;
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
    return "V2 " + std::to_string(body.size()) + " " + hexadecimal(crc32(body)) + " " + body + "\n";
}

}  // namespace triton::metadata
