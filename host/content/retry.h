#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::content {

/// The reaction to a failure.
enum class FailureClass : std::uint8_t {
    transient,  ///< the network or the server; the same again may work
    permanent,  ///< the same again gives the same: 404, a wrong digest
    resource,   ///< ours is used up: disk, inodes; nothing changes by trying again soon
};

FailureClass class_of(ErrorKind kind);
std::string_view name_of(FailureClass failure);

struct RetrySettings {
    unsigned attempts = 5;  ///< in a row without a byte of progress
    milliseconds first = std::chrono::seconds(1);
    milliseconds longest = std::chrono::minutes(10);
};

/// Decides when a thing is tried again: exponential backoff with jitter, for each class of failure. Pure.
class Retry {
public:
    explicit Retry(RetrySettings const& settings) : settings_(settings) {}

    /// After a failure: how long to wait before the next attempt; none: give up. `asked`: the server's Retry-After.
    /// `random`: any number; it decides the jitter.
    std::optional<milliseconds> after(FailureClass failure, std::optional<milliseconds> asked, std::uint32_t random);

    /// Bytes have come: failures before no longer count.
    void progressed() { failures_ = 0; }
    [[nodiscard]] unsigned failures() const { return failures_; }

private:
    RetrySettings settings_;
    unsigned failures_ = 0;
};

}  // namespace triton::content
