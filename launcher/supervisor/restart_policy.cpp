#include "launcher/supervisor/restart_policy.h"

#include <algorithm>
#include <limits>

namespace triton::launcher {

namespace {

/// delay * factor^(steps), stopping at the maximum: a power would overflow after a night of failures.
double backoff(RestartPolicy const& policy, std::uint32_t steps) {
    auto const limit = static_cast<double>(policy.max_delay.count());
    auto value = static_cast<double>(policy.delay.count());
    if (value <= 0 || policy.factor <= 1) return std::min(value, limit);
    for (; steps > 0 && value < limit; --steps)
        value *= policy.factor;
    return std::min(value, limit);
}

}  // namespace

bool is_failure(RestartPolicy const& policy, Run run) { return !run.is_clean || run.length < policy.minimum_run; }

RestartDecision decide_restart(RestartPolicy const& policy, std::uint32_t failures_before, Run run, double random) {
    std::uint32_t const before = run.length >= policy.reset_after ? 0 : failures_before;
    bool const has_failed = is_failure(policy, run);
    std::uint32_t const failures =
        has_failed && before < std::numeric_limits<std::uint32_t>::max() ? before + 1 : before;
    if (!policy.always_waits && (!has_failed || failures == 1)) return {Duration::zero(), failures};

    std::uint32_t const steps = has_failed ? failures - (policy.always_waits ? 1 : 2) : 0;
    double const spread = 1 + policy.jitter * (2 * random - 1);
    double const delay =
        std::clamp(backoff(policy, steps) * spread, 0.0, static_cast<double>(policy.max_delay.count()));
    return {Duration(static_cast<Duration::rep>(delay)), failures};
}

}  // namespace triton::launcher
