#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/children/children.h"
#include "lib/base/clock.h"

namespace triton::launcher {

/// What a copy of the launcher has found, for PID 1: which files it has opened, and what they said. Somebody may
/// replace a file between the two, and what the new one names has been asked for by nobody. A copy that did not come to
/// its end has found nothing.
class SeenFiles {
public:
    SeenFiles();
    SeenFiles(SeenFiles const&) = delete;
    SeenFiles& operator=(SeenFiles const&) = delete;
    ~SeenFiles();

    /// Before a copy is started.
    void forget();
    // By the copy.
    void add(std::string const& path);
    void complete(std::size_t texts);

    // By PID 1. Without findings nothing is known, and nothing could be asked for beforehand either.
    [[nodiscard]] bool are_complete() const { return seen_ && seen_->is_complete; }
    [[nodiscard]] bool have(std::string const& path) const;
    /// Of all texts together.
    [[nodiscard]] std::size_t texts() const { return seen_ ? seen_->texts : 0; }

private:
    static constexpr std::size_t most = 500;
    /// A page that the copy shares with us.
    struct Shared {
        bool is_complete;
        std::size_t texts;
        std::size_t count;
        std::size_t paths[most];  // NOLINT(modernize-avoid-c-arrays): hashes, in shared memory
    };
    Shared* seen_;  // null: there is no memory for it
};

/// Goes before a look at files. A file system may hang, and whoever asks it for a file hangs with it: a copy of the
/// launcher asks for all that the look will ask for, and PID 1 follows only when the copy has come back.
class FileScout {
public:
    /// `children` outlives this. `key`: of its copies.
    FileScout(Children& children, Children::Key key) : children_(children), key_(key) {}

    enum class Why : std::uint8_t {
        change,  ///< there may be other files to ask for than those that a helper still waits for
        again,   ///< nothing is new: as long as such a helper waits, the answer is the same
    };
    /// Begins. The end is reported to ended(), which may be called from in here; until then is_busy(). `look`: done by
    /// the copy, and what becomes of it does not count.
    void begin(std::function<void()> const& look, Why why);
    [[nodiscard]] bool is_busy() const { return is_busy_; }
    /// Nothing happens when none is under way.
    void cancel();

    /// For which a copy may look: a trial of the documents that PID 1 loads by itself takes a thousandth of that.
    static constexpr milliseconds time_to_look{10000};
    /// Helpers that a file system holds: if there are so many, no look is possible before one of them ends.
    static constexpr std::size_t most_held = 16;

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
    pid_t helper_ = 0;         // the latest
    std::vector<pid_t> held_;  // that were killed, and may not have ended
};

}  // namespace triton::launcher
