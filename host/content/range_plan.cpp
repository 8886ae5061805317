#include "host/content/range_plan.h"

#include <algorithm>

namespace triton::content {

RangePlan::RangePlan(std::uint64_t size, Intervals const& landed, Settings const& settings)
    : size_(size), settings_(settings), landed_(landed) {
    landed_.remove({size, UINT64_MAX});
}

std::optional<Interval> RangePlan::take() {
    Intervals taken = landed_;
    for (Interval const& interval : flying_.list())
        taken.add(interval);
    std::vector<Interval> const gaps = taken.gaps(size_);
    if (gaps.empty()) return std::nullopt;
    Interval range = gaps.front();
    bool const is_small = size_ - landed_.bytes() <= settings_.parallel_from && flying_.empty();
    if (!is_small) {
        std::uint64_t const boundary = (range.begin / settings_.range_bytes + 1) * settings_.range_bytes;
        range.end = std::min(range.end, boundary);
    }
    flying_.add(range);
    return range;
}

void RangePlan::ended(Interval range, std::uint64_t received) {
    flying_.remove(range);
    landed_.add({range.begin, range.begin + std::min(received, range.length())});
}

}  // namespace triton::content
