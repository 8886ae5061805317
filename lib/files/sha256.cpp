#include "lib/files/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace triton::files {

namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes; FIPS 180-4, section 4.2.2.
alignas(16) constexpr std::array<std::uint32_t, 64> round_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(unsigned char const* bytes) {
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

constexpr std::size_t block_size = 64;

void add_block(Sha256::State& state, unsigned char const* block) {
    std::array<std::uint32_t, 64> w;
    for (std::size_t i = 0; i < 16; ++i)
        w[i] = big_endian(block + 4 * i);
    for (std::size_t i = 16; i < 64; ++i) {
        std::uint32_t const s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
        std::uint32_t const s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < 64; ++i) {
        std::uint32_t const s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
        std::uint32_t const t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
        std::uint32_t const s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
        std::uint32_t const t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    std::array<std::uint32_t, 8> const mixed{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i)
        state[i] += mixed[i];
}

void add_blocks_portably(Sha256::State& state, unsigned char const* blocks, std::size_t count) {
    for (; count > 0; --count, blocks += block_size)
        add_block(state, blocks);
}

#if defined(__x86_64__)

/// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, SHA256RNDS2, SHA256MSG1, SHA256MSG2.
/// The instructions want the state as the words A, B, E, F and C, D, G, H, from the highest to the lowest.
__attribute__((target("sha,sse4.1,ssse3"))) void add_blocks_by_extension(Sha256::State& state,
                                                                         unsigned char const* blocks,
                                                                         std::size_t count) {
    auto* const halves = reinterpret_cast<__m128i*>(state.data());
    auto const* const constants = reinterpret_cast<__m128i const*>(round_constants.data());
    __m128i const big_endian_words = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i const cdab = _mm_shuffle_epi32(_mm_loadu_si128(halves), 0xb1);
    __m128i const efgh = _mm_shuffle_epi32(_mm_loadu_si128(halves + 1), 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
    __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; count > 0; --count, blocks += block_size) {
        __m128i const abef_before = abef;
        __m128i const cdgh_before = cdgh;
        __m128i w[4];  // the last 16 words of the message schedule
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
            __m128i& now = w[i % 4];
            if (i < 4) {
                now = _mm_loadu_si128(reinterpret_cast<__m128i const*>(blocks) + i);
                now = _mm_shuffle_epi8(now, big_endian_words);
            } else {
                __m128i const& last = w[(i + 3) % 4];
                __m128i const seven_ago = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
                now = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]), seven_ago);
                now = _mm_sha256msg2_epu32(now, last);
            }
            __m128i const sum = _mm_add_epi32(now, _mm_load_si128(constants + i));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i const feba = _mm_shuffle_epi32(abef, 0x1b);
    __m128i const dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128(halves, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128(halves + 1, _mm_alignr_epi8(dchg, feba, 8));
}

/// Whether the processor has the extension. cpuid leaves a virtual machine, so it is asked once, and only when there is
/// something to hash.
bool has_extension() {
    static bool const has = [] {
        unsigned a = 0;
        unsigned b = 0;
        unsigned c = 0;
        unsigned d = 0;
        constexpr unsigned wanted = bit_SSSE3 | bit_SSE4_1;
        bool const has_basics = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & wanted) == wanted;
        return has_basics && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
    }();
    return has;
}

#endif

}  // namespace

Sha256::Sha256(Method method) : add_blocks_(add_blocks_portably) {
#if defined(__x86_64__)
    if (method == Method::fastest && has_extension()) add_blocks_ = add_blocks_by_extension;
#else
    (void)method;  // there is only one
#endif
}

void Sha256::add(std::span<char const> bytes) {
    auto const* at = reinterpret_cast<unsigned char const*>(bytes.data());
    std::size_t left = bytes.size();
    while (left > 0) {
        std::size_t const filled = size_ % block_size;
        std::size_t taken = std::min(left, block_size - filled);
        if (taken == block_size) {
            taken = left - left % block_size;
            add_blocks_(state_, at, taken / block_size);
        } else {
            std::memcpy(waiting_.data() + filled, at, taken);
            if (filled + taken == block_size) add_blocks_(state_, waiting_.data(), 1);
        }
        size_ += taken;
        at += taken;
        left -= taken;
    }
}

std::string Sha256::take_hex() && {
    std::uint64_t const bits = size_ * 8;
    std::array<char, 72> padding{};
    padding[0] = static_cast<char>(0x80);
    std::size_t const zeros = (119 - size_ % 64) % 64;  // so that the size ends a block
    for (std::size_t i = 0; i < 8; ++i)
        padding[1 + zeros + i] = static_cast<char>(bits >> (56 - 8 * i));
    add(std::span(padding).first(1 + zeros + 8));
    std::string hex;
    for (std::uint32_t const word : state_) {
        for (int shift = 28; shift >= 0; shift -= 4)
            hex += "0123456789abcdef"[(word >> shift) & 15];
    }
    return hex;
}

}  // namespace triton::files
