#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace triton::content {

/// Bytes from `begin` up to, and without, `end`.
struct Interval {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    [[nodiscard]] std::uint64_t length() const { return end - begin; }
    bool operator==(Interval const&) const = default;
};

/// A set of bytes of a file: intervals that are sorted, apart from each other, and not empty.
class Intervals {
public:
    Intervals() = default;
    explicit Intervals(std::vector<Interval> const& intervals);

    /// Adds an interval. Those that overlap or touch become one.
    void add(Interval interval);
    void remove(Interval interval);
    [[nodiscard]] bool contains(Interval interval) const;
    [[nodiscard]] std::uint64_t bytes() const;
    /// How many bytes from the beginning are there without a gap.
    [[nodiscard]] std::uint64_t prefix() const;
    /// The missing parts of the first `size` bytes.
    [[nodiscard]] std::vector<Interval> gaps(std::uint64_t size) const;
    [[nodiscard]] std::vector<Interval> const& list() const { return list_; }
    [[nodiscard]] bool empty() const { return list_.empty(); }

    bool operator==(Intervals const&) const = default;

private:
    std::vector<Interval> list_;
};

}  // namespace triton::content
