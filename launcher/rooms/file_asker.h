#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/children/children.h"
#include "lib/base/clock.h"

namespace triton::launcher {

/// Asks a file system that may hang, when the answer is needed at once: a copy of the launcher asks, and is waited for
/// only so long. When it has not come back, nobody is asked for a while: PID 1 waits for a fortieth of its time at
/// most.
class FileAsker {
public:
    static constexpr milliseconds time_to_answer{250};
    static constexpr milliseconds time_to_recover{10000};

    /// Both outlive this.
    FileAsker(Sys& sys, Children& children) : sys_(sys), children_(children) {}

    /// What `work` returns, empty if the copy fails at it; nullopt: the file system does not answer. Where no copy
    /// can be started it is done here, as there is no other way.
    std::optional<std::string> ask(std::function<std::string()> const& work);
    /// When it is asked again, if that is later than now.
    [[nodiscard]] TimePoint recovers_at() const { return recovers_at_; }

private:
    Sys& sys_;
    Children& children_;
    TimePoint recovers_at_{};
};

}  // namespace triton::launcher
