#include "sidecar/kubernetes/backoff.h"

#include <algorithm>

namespace triton::kubernetes {

namespace {

constexpr Duration longest_wish = std::chrono::minutes(10);

Duration scaled(Duration duration, double factor) {
    return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}

}  // namespace

// Source: Sebastiano Vigna, splitmix64.c (public domain).
std::uint64_t Random::next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

double Random::unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

Duration Backoff::after_failure(Random& random, std::optional<Duration> retry_after) {
    Duration delay = scaled(next_, 0.5 + random.unit() / 2);
    next_ = std::min(next_ * 2, most_);
    if (retry_after) {
        Duration const wish = std::clamp(*retry_after, Duration::zero(), longest_wish);
        delay = std::max(delay, scaled(wish, 1 + random.unit() / 10));
    }
    return delay;
}

void Pace::written(TimePoint now, TimePoint wanted) {
    bool const has_waited = last_ && wanted < *last_ + gap_;
    gap_ = has_waited ? std::min(gap_ * 2, longest) : shortest;
    last_ = now;
}

}  // namespace triton::kubernetes
