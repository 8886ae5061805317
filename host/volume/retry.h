#pragma once

#include <cstdint>
#include <optional>

#include "host/volume/states.h"
#include "lib/base/clock.h"

namespace triton::volume {

/// Seconds of the boot-time clock, which no step of the wall clock changes and which runs while the host sleeps.
using BootTime = std::chrono::duration<std::int64_t, std::milli>;

struct RetrySettings {
    BootTime first = std::chrono::seconds(1);
    BootTime longest = std::chrono::minutes(10);
    BootTime server = std::chrono::seconds(600);  ///< `timer.download.retry`
};

/// When one object's failed step is tried again.
class Retry {
public:
    /// `random`: any number; half of a transient pause depends on it, so that clients that failed together come back at
    /// different times.
    void failed(Failure failure, BootTime now, RetrySettings const& settings, std::uint32_t random);
    void succeeded();
    /// After a job that found no room: it is not tried again before that time, nor without its condition.
    void pause(BootTime until) { next_ = until; }
    /// Room has come: the pause ends.
    void resume();
    /// Forgets the pause: the configuration changed, or the operator asked.
    void reset();

    [[nodiscard]] std::optional<Failure> const& failure() const { return failure_; }
    /// Whether a step can be tried. Room and vault are conditions of the caller, and times only after pause().
    [[nodiscard]] bool is_due(BootTime now) const;
    /// The time of the next attempt; nullopt: none is planned.
    [[nodiscard]] std::optional<BootTime> next() const;
    [[nodiscard]] BootTime since() const { return since_; }

private:
    std::optional<Failure> failure_;
    std::optional<BootTime> next_;
    BootTime since_{};
    unsigned failures_ = 0;
};

/// The class of an error of a job. `is_of_server`: a server answered with it.
FailureClass class_of(ErrorKind kind, bool is_of_server);

}  // namespace triton::volume
