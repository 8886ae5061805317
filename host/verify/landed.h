#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "host/role/verify_messages.h"

namespace triton::verify {

/// Which bytes of a file have arrived: intervals, apart from each other, in order.
class LandedBytes {
public:
    /// Adds an interval, which may overlap others.
    void add(role::Interval const& interval);
    /// Whether any of those bytes has arrived.
    [[nodiscard]] bool has_any(role::Interval const& interval) const;
    /// How many bytes from the beginning have arrived without a gap.
    [[nodiscard]] std::uint64_t prefix() const;
    [[nodiscard]] std::uint64_t total() const { return total_; }
    /// The first intervals, at most `most`.
    [[nodiscard]] std::vector<role::Interval> list(std::size_t most) const;

private:
    std::map<std::uint64_t, std::uint64_t> ends_;  // begin -> end
    std::uint64_t total_ = 0;
};

}  // namespace triton::verify
