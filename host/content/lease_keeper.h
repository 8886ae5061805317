#pragma once

#include <chrono>

#include "host/content/store.h"
#include "lib/base/clock.h"

namespace triton::content {

/// Keeps a lease from running out while something is fetched, which may take days. For the thread that has the store.
class LeaseKeeper {
public:
    static constexpr milliseconds life = std::chrono::hours(24);  ///< of the lease, from its last renewal
    static constexpr milliseconds interval = std::chrono::hours(1);

    /// For a lease that was just made.
    LeaseKeeper(Store& store, LeaseId lease, TimePoint now) : store_(&store), lease_(lease), next_(now + interval) {}

    /// Renews the lease if it is time to. To be called as often as one likes.
    void note(TimePoint now) {
        if (now < next_) return;
        next_ = now + interval;
        (void)store_->renew_lease(lease_, life);  // if it fails, there is time for many more attempts
    }

private:
    Store* store_;
    LeaseId lease_;
    TimePoint next_;
};

}  // namespace triton::content
