#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace triton::files {

/// SHA-256 of a stream of bytes. Source: FIPS 180-4, section 6.2.
///
/// Our own, because the alternatives are not there: OpenSSL is kept out of PID 1, and the kernel's (AF_ALG) is refused
/// by seccomp profiles of containers and left out of hardened kernels. It names what was staged; nothing is trusted for
/// it, and no secret goes through it. With the SHA extensions of x86-64, where the processor has them.
class Sha256 {
public:
    enum class Method : std::uint8_t { fastest, portable };  ///< portable: for the tests, where both are there
    explicit Sha256(Method method = Method::fastest);

    void add(std::span<char const> bytes);
    /// The digest in lower-case hexadecimal. The object is used up by this.
    [[nodiscard]] std::string take_hex() &&;

    using State = std::array<std::uint32_t, 8>;

private:
    using AddBlocks = void (*)(State& state, unsigned char const* blocks, std::size_t count);

    AddBlocks add_blocks_;
    State state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<unsigned char, 64> waiting_{};  // less than a block
    std::uint64_t size_ = 0;
};

}  // namespace triton::files
