#include "lib/http/grpc/rate_limit.h"

#include <algorithm>

namespace triton::http::grpc {

bool RateLimit::take(TimePoint now) {
    std::chrono::duration<double> const passed = now - since_;
    since_ = now;
    left_ = std::min(rate_.at_once, left_ + passed.count() * rate_.per_second);
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
}

}  // namespace triton::http::grpc
