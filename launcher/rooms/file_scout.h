#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "launcher/children/children.h"
#include "lib/base/clock.h"

namespace triton::launcher {

/// Goes before a look at files. A file system may hang, and whoever asks it for a file hangs with it: a copy of the
/// launcher asks for all that the look will ask for, and PID 1 follows only when the copy has come back.
class FileScout {
public:
    /// `children` outlives this. `key`: of its copies.
    FileScout(Children& children, Children::Key key) : children_(children), key_(key) {}

    /// Begins. The end is reported to ended(), which may be called from in here; until then is_busy(). `look`: done by
    /// the copy, and what becomes of it does not count.
    void begin(std::function<void()> const& look);
    [[nodiscard]] bool is_busy() const { return is_busy_; }
    /// Nothing happens when none is under way.
    void cancel();

    /// For which a copy may look: a trial of the documents that PID 1 loads by itself takes a thousandth of that.
    static constexpr milliseconds time_to_look{10000};

    enum class Way : std::uint8_t { clear, hangs, taken, unknown };
    /// The child of its key has ended. `clear`: also when no copy can be started, as there is no other way then;
    /// `taken`: the one before it was killed a moment ago, and must be reaped first; `unknown`: it was cancelled.
    Way ended(Children::Outcome const& outcome);

private:
    Children& children_;
    Children::Key key_;
    bool is_busy_ = false;
    bool hangs_ = false;  // the latest that ended
    std::optional<TimePoint> taken_since_;
};

}  // namespace triton::launcher
