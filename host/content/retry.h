#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::content {

/// The reaction to a failure.
enum class FailureClass : std::uint8_t {
    transient,  ///< the network or the server; trying again may work
    permanent,  ///< trying again gives the same: 404, a wrong digest
    resource,   ///< something of ours is used up: disk, inodes; trying again soon changes nothing
};

FailureClass class_of(ErrorKind kind);
std::string_view name_of(FailureClass failure);

struct RetrySettings {
    unsigned attempts = 5;  ///< in a row without a byte of progress
    milliseconds first = std::chrono::seconds(1);
    milliseconds longest = std::chrono::minutes(10);
};

/// Decides when to try again: exponential backoff with jitter, for each class of failure. Pure.
class Retry {
public:
    explicit Retry(RetrySettings const& settings) : settings_(settings) {}

    /// How long to wait after a failure before the next attempt; nothing: give up. `asked`: the server's Retry-After.
    /// `random`: any number, which decides the jitter.
    std::optional<milliseconds> after(FailureClass failure, std::optional<milliseconds> asked, std::uint32_t random);

    /// To be called when bytes have arrived: earlier failures then no longer count.
    void progressed() { failures_ = 0; }
    [[nodiscard]] unsigned failures() const { return failures_; }

private:
    RetrySettings settings_;
    unsigned failures_ = 0;
};

}  // namespace triton::content
