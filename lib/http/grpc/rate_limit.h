#pragma once

#include "lib/base/clock.h"

namespace triton::http::grpc {

/// What a peer may do how often: a number at once, and that many again each second.
struct Rate {
    double at_once = 0;
    double per_second = 0;
};

/// Counts what a peer does.
class RateLimit {
public:
    RateLimit(Rate rate, TimePoint now) : rate_(rate), left_(rate.at_once), since_(now) {}

    /// Counts one. Returns false when that is more than the peer may do.
    bool take(TimePoint now);

private:
    Rate rate_;
    double left_;
    TimePoint since_;
};

}  // namespace triton::http::grpc
