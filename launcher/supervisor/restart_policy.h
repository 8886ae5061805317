#pragma once

#include <cstdint>

#include "lib/base/clock.h"

namespace triton::launcher {

/// When a process that has ended is started again.
struct RestartPolicy {
    Duration delay = std::chrono::seconds(1);         ///< before the second start after failures; the first is at once
    Duration max_delay = std::chrono::seconds(60);    ///< jitter included
    double factor = 2;                                ///< at least 1
    double jitter = 0.1;                              ///< 0 to 1: each delay is multiplied by 1 +- that
    Duration reset_after = std::chrono::seconds(60);  ///< a run this long forgets earlier failures
    Duration minimum_run = std::chrono::seconds(1);   ///< a clean exit after a run this long is not a failure
    bool always_waits = false;  ///< the first start after failures waits, too, and so does one after a clean exit

    bool operator==(RestartPolicy const&) const = default;
};

/// How a run ended, as far as restarting is concerned.
struct Run {
    Duration length;
    bool is_clean;              ///< a success
    bool is_permanent = false;  ///< a failure that another start would not fix
};

/// Whether that counts as a failure. So does a clean exit after too short a run.
bool is_failure(RestartPolicy const& policy, Run run);

struct RestartDecision {
    Duration delay;
    std::uint32_t failures;  ///< in a row, this one included

    bool operator==(RestartDecision const&) const = default;
};

/// `random` is uniform in [0, 1). The k-th failure in a row (from 1) waits 0, delay, delay*factor, delay*factor^2, ...;
/// with `always_waits` it waits delay, delay*factor, ..., and a clean exit waits delay.
RestartDecision decide_restart(RestartPolicy const& policy, std::uint32_t failures_before, Run run, double random);

}  // namespace triton::launcher
