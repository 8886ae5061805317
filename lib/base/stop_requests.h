#pragma once

#include <optional>

#include "lib/base/clock.h"

namespace triton {

/// Recognizes a request to stop that arrives as several signals: timeout(1), npx and foreman signal their child and its
/// process group, and a terminal's ^C reaches both a launcher and whoever passes it on. All within `one_request` after
/// the first signal, SIGTERM or SIGINT and whoever sent it, are one request. What comes later asks to hurry.
class StopRequests {
public:
    static constexpr milliseconds one_request{500};

    /// A signal asks for a stop. Returns whether it belongs to the request that came first.
    bool is_the_same(TimePoint now) {
        if (first_) return now - *first_ < one_request;
        first_ = now;
        return false;
    }

    // For an upgrade.
    [[nodiscard]] std::optional<TimePoint> first() const { return first_; }
    void restore(std::optional<TimePoint> first) { first_ = first; }

private:
    std::optional<TimePoint> first_;
};

}  // namespace triton
