#include "host/content/intervals.h"

#include <algorithm>

namespace triton::content {

Intervals::Intervals(std::vector<Interval> const& intervals) {
    for (Interval const& interval : intervals)
        add(interval);
}

void Intervals::add(Interval interval) {
    if (interval.begin >= interval.end) return;
    auto const first = std::ranges::lower_bound(list_, interval.begin, {}, &Interval::end);
    auto last = first;
    for (; last != list_.end() && last->begin <= interval.end; ++last) {
        interval.begin = std::min(interval.begin, last->begin);
        interval.end = std::max(interval.end, last->end);
    }
    list_.insert(list_.erase(first, last), interval);
}

void Intervals::remove(Interval interval) {
    std::vector<Interval> kept;
    for (Interval const& each : list_) {
        Interval const before{each.begin, std::min(each.end, interval.begin)};
        Interval const after{std::max(each.begin, interval.end), each.end};
        if (before.begin < before.end) kept.push_back(before);
        if (after.begin < after.end && after != before) kept.push_back(after);
    }
    list_ = std::move(kept);
}

bool Intervals::contains(Interval interval) const {
    if (interval.begin >= interval.end) return true;
    auto const found = std::ranges::upper_bound(list_, interval.begin, {}, &Interval::end);
    return found != list_.end() && found->begin <= interval.begin && interval.end <= found->end;
}

std::uint64_t Intervals::bytes() const {
    std::uint64_t sum = 0;
    for (Interval const& interval : list_)
        sum += interval.length();
    return sum;
}

std::uint64_t Intervals::prefix() const { return !list_.empty() && list_[0].begin == 0 ? list_[0].end : 0; }

std::vector<Interval> Intervals::gaps(std::uint64_t size) const {
    std::vector<Interval> gaps;
    std::uint64_t at = 0;
    for (Interval const& interval : list_) {
        if (interval.begin >= size) break;
        if (at < interval.begin) gaps.push_back({at, interval.begin});
        at = interval.end;
    }
    if (at < size) gaps.push_back({at, size});
    return gaps;
}

}  // namespace triton::content
