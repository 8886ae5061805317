#include "lib/http/websocket/accept_key.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lib/text/base64.h"

namespace triton::http::websocket {

namespace {

constexpr std::size_t block_bytes = 64;

void append_big_endian(std::string& out, std::uint64_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        out += static_cast<char>(value >> static_cast<unsigned>(shift) & 0xffU);
}

using State = std::array<std::uint32_t, 5>;

void add_block(State& state, std::string_view block) {
    std::array<std::uint32_t, 80> words{};
    for (std::size_t i = 0; i < block_bytes; ++i)
        words[i / 4] = words[i / 4] << 8U | static_cast<std::uint8_t>(block[i]);
    for (std::size_t i = 16; i < words.size(); ++i)
        words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    auto [a, b, c, d, e] = state;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::uint32_t mixed = 0;
        if (i < 20)
            mixed = ((b & c) | (~b & d)) + 0x5a827999;
        else if (i < 40)
            mixed = (b ^ c ^ d) + 0x6ed9eba1;
        else if (i < 60)
            mixed = ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
        else
            mixed = (b ^ c ^ d) + 0xca62c1d6;
        std::uint32_t const next = std::rotl(a, 5) + mixed + e + words[i];
        e = d;
        d = c;
        c = std::rotl(b, 30);
        b = a;
        a = next;
    }
    State const added{a, b, c, d, e};
    for (std::size_t i = 0; i < state.size(); ++i)
        state[i] += added[i];
}

/// SHA-1, which the handshake needs to show that a server has understood it; nothing is secured by it. OpenSSL would
/// read files for it, which a confined process cannot. Source: FIPS 180-4, 6.1.
std::string sha1(std::string text) {
    std::uint64_t const bits = text.size() * 8;
    text += '\x80';
    while (text.size() % block_bytes != block_bytes - 8)
        text += '\0';
    append_big_endian(text, bits, 8);
    State state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    for (std::size_t at = 0; at < text.size(); at += block_bytes)
        add_block(state, std::string_view(text).substr(at, block_bytes));
    std::string digest;
    for (std::uint32_t const word : state)
        append_big_endian(digest, word, 4);
    return digest;
}

}  // namespace

std::string accept_key(std::string_view key) {
    return text::encode_base64(sha1(std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
}

}  // namespace triton::http::websocket
