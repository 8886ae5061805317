#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/clock.h"

namespace triton::kubernetes {

/// Uniform numbers from a seed (splitmix64): the same seed, the same numbers.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next();
    double unit();  ///< in [0, 1)

private:
    std::uint64_t state_;
};

/// How long to wait after failures in a row: doubling, with jitter, so that the pods of a cluster that has lost its API
/// server do not come back in step.
class Backoff {
public:
    constexpr Backoff(Duration first, Duration most) : first_(first), most_(most), next_(first) {}

    /// The delay after one more failure: between half of its step and the whole. The server's own wish is a lower
    /// bound, as far as it is sensible (10 minutes), with up to a tenth more.
    Duration after_failure(Random& random, std::optional<Duration> retry_after = std::nullopt);
    void reset() { next_ = first_; }

private:
    Duration first_;
    Duration most_;
    Duration next_;
};

/// When the next write of something that changes all the time may go out: the first at once, then 250 ms apart; each
/// one that had to wait doubles the distance, up to 4 s, and one that had not begins anew. A thousand changes in a
/// minute are 20 writes, and the last of them is 4 s late at most.
class Pace {
public:
    /// The earliest time of the next write.
    [[nodiscard]] TimePoint next(TimePoint now) const { return last_ ? *last_ + gap_ : now; }
    /// A write goes out. `wanted`: since when there was something to write.
    void written(TimePoint now, TimePoint wanted);

    static constexpr Duration shortest = std::chrono::milliseconds(250);
    static constexpr Duration longest = std::chrono::seconds(4);

private:
    std::optional<TimePoint> last_;
    Duration gap_ = shortest;
};

}  // namespace triton::kubernetes
