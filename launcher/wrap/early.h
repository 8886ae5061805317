#pragma once

#include "launcher/wrap/wrap.h"

namespace triton::launcher {

/// What happened before libc started; main() reports it, since it has the words.
struct Early {
    WrapOptions options;
    WrapOutcome outcome;
    bool wrap_failed;           ///< the command could not be started, for the reason in `outcome`
    bool has_blocked_signals;   ///< as PID 1, which would ignore those that come before somebody reads them
    unsigned long signal_mask;  ///< the signals that were blocked before
};
/// Hidden, so that it is reached without the table of global offsets, which is not filled in that early.
extern Early early __attribute__((visibility("hidden")));

}  // namespace triton::launcher
