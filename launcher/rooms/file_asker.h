#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

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
    static constexpr std::size_t most_held = 8;  ///< helpers that a file system holds: then nobody is asked

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
    std::vector<pid_t> held_;  // that were killed, and may not have ended
};

/// Goes before PID 1 itself opens, connects or changes a path of others, when this is not a part of a configuration
/// that is looked at anyway (FileScout). A forked helper does the same first, if any file system is one that others
/// serve, and is waited for as a FileAsker does. A path whose helper does not come back is not touched as long as the
/// kernel holds that helper, a minute at least; other paths are, after a moment, so that one file system that hangs
/// refuses nothing elsewhere.
class PathProbe {
public:
    static constexpr milliseconds time_to_rest{2000};  ///< after one that hangs: of this, PID 1 waits an eighth
    static constexpr milliseconds time_to_recover{60000};

    /// `rest`: after one that hangs nothing is touched for so long; zero where each path is asked for by a person. The
    /// references outlive this.
    PathProbe(Sys& sys, Children& children, Duration rest = time_to_rest)
        : sys_(sys), children_(children), rest_(rest) {}

    /// Whether the path may be touched. `look`: done by the helper, where there is one.
    bool may_touch(std::string const& path, std::function<void()> const& look);
    /// The same by a helper in any case: for who has asked may_any_file_hang() a moment ago.
    bool is_answered(std::string const& path, std::function<void()> const& look);
    /// Does `change` in a helper or, where nothing can hang, here. What becomes of it is not known.
    void change(std::string const& path, std::function<void()> const& change);

private:
    struct Held {
        std::string path;
        pid_t helper;
        TimePoint until;
    };

    Sys& sys_;
    Children& children_;
    Duration rest_;
    std::vector<Held> held_;
    TimePoint rests_until_{};
};

}  // namespace triton::launcher
