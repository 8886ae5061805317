#pragma once

#include <bit>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::disk {

/// The file whose header is read. Everything in it can come from an attacker.
class Bytes {
public:
    virtual ~Bytes() = default;
    [[nodiscard]] virtual std::uint64_t size() const = 0;
    /// Reads exactly `length` bytes, all of which are within size(). Errors: those of the read.
    virtual Result<std::string> read_within(std::uint64_t offset, std::size_t length) = 0;

    /// Reads exactly `length` bytes, at most largest_read. Errors: `invalid` where the file ends earlier, or for an
    /// offset that no file has.
    Result<std::string> read(std::uint64_t offset, std::uint64_t length);
};
/// No header makes us read more than this at a time.
inline constexpr std::uint64_t largest_read = 4 << 20;

/// An unsigned number at an offset that the caller has made sure of.
template <std::unsigned_integral Number, std::endian order>
Number number_at(std::string_view bytes, std::size_t at) {
    assert(at <= bytes.size() && bytes.size() - at >= sizeof(Number));
    Number number{};
    std::memcpy(&number, bytes.data() + at, sizeof number);
    if constexpr (order != std::endian::native) number = std::byteswap(number);
    return number;
}
template <std::unsigned_integral Number>
Number big_at(std::string_view bytes, std::size_t at) {
    return number_at<Number, std::endian::big>(bytes, at);
}
template <std::unsigned_integral Number>
Number little_at(std::string_view bytes, std::size_t at) {
    return number_at<Number, std::endian::little>(bytes, at);
}

}  // namespace triton::disk
