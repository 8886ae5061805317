#pragma once

#include <cstdint>
#include <optional>

#include "host/content/intervals.h"

namespace triton::content {

/// Decides which range of a blob is asked for next. Pure.
///
/// Ranges are given out from the front, at most a few at a time, so that what has landed is a prefix with few holes
/// behind it: the verifier hashes it while it comes, and does not have to read it again.
class RangePlan {
public:
    struct Settings {
        std::uint64_t range_bytes = 16 << 20;
        std::uint64_t parallel_from = 32 << 20;  ///< anything smaller is fetched in one range
    };

    RangePlan(std::uint64_t size, Intervals const& landed, Settings const& settings);

    /// Takes the next range, which is then in flight; nothing: all are there or in flight. A range ends at a multiple
    /// of range_bytes, or at the end of its gap.
    std::optional<Interval> take();
    /// To be called when a range has ended. The part of it that has landed, from its beginning, is done; the rest will
    /// be taken again.
    void ended(Interval range, std::uint64_t received);

    /// Whether everything is there.
    [[nodiscard]] bool is_complete() const { return landed_.prefix() >= size_; }
    [[nodiscard]] Intervals const& landed() const { return landed_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }

private:
    std::uint64_t size_;
    Settings settings_;
    Intervals landed_;
    Intervals flying_;
};

}  // namespace triton::content
