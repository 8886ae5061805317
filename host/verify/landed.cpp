#include "host/verify/landed.h"

#include <algorithm>

namespace triton::verify {

void LandedBytes::add(role::Interval const& interval) {
    if (interval.length == 0) return;
    std::uint64_t begin = interval.offset;
    std::uint64_t end = interval.offset + interval.length;
    auto at = ends_.upper_bound(begin);
    if (at != ends_.begin() && std::prev(at)->second >= begin) --at;
    while (at != ends_.end() && at->first <= end) {
        begin = std::min(begin, at->first);
        end = std::max(end, at->second);
        total_ -= at->second - at->first;
        at = ends_.erase(at);
    }
    ends_.emplace(begin, end);
    total_ += end - begin;
}

bool LandedBytes::has_any(role::Interval const& interval) const {
    if (interval.length == 0) return false;
    auto const after = ends_.lower_bound(interval.offset + interval.length);
    return after != ends_.begin() && std::prev(after)->second > interval.offset;
}

std::uint64_t LandedBytes::prefix() const {
    auto const first = ends_.begin();
    return first != ends_.end() && first->first == 0 ? first->second : 0;
}

std::vector<role::Interval> LandedBytes::list(std::size_t most) const {
    std::vector<role::Interval> intervals;
    for (auto const& [begin, end] : ends_) {
        if (intervals.size() == most) break;
        intervals.push_back({begin, end - begin});
    }
    return intervals;
}

}  // namespace triton::verify
