#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/rooms/path_watch.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// Says when the configuration is to be read again: when one of its files has changed. A burst of changes is one
/// reading, and readings keep to a rate, because writers of the files choose how often they change.
class ReloadWatch {
public:
    /// `read`: calls begin_look(), watch() and end_look() in this order. `burst_begins`: a reading follows when no more
    /// changes come. The loop and the log outlive this.
    ReloadWatch(EventLoop& loop, log::Log& log, std::function<void()> read, std::function<void()> burst_begins);

    /// Reads in the next round.
    void read_now();
    void read_at(TimePoint when) { timer_.arm(when); }
    /// Reads when no more changes come for a moment.
    void ask();

    /// The files are read now, for whatever reason. Returns whether somebody has asked for it since the last look, by a
    /// change of a file too; else it is only time.
    bool begin_look();
    /// From now on these are watched. Errors: those of inotify, whose instances and watches a node may have used up.
    Result<> watch(std::vector<std::string> const& paths);
    /// `watched`: the latest result of watch(). Files that cannot be watched are checked now and then instead: this is
    /// the one thing that is ever polled.
    void end_look(Result<> const& watched);

    // For an upgrade.
    [[nodiscard]] std::optional<PathWatcher::Handed> handed() const { return watcher_.handed(); }
    /// What has changed before the first look goes unseen.
    void adopt(std::optional<PathWatcher::Handed> const& handed) {
        watcher_.adopt(handed);
        has_stale_events_ = handed.has_value();
    }

    /// Reading ends. The kernel frees watches after a grace period, and closing inotify waits for that: up
    /// to 20 ms at our end. Called when a stop begins, the period passes while the processes stop.
    void forget();

private:
    log::Log& log_;
    std::function<void()> burst_begins_;
    PathWatch watcher_;
    EventLoop::Timer timer_;
    TimePoint burst_began_{};
    TimePoint last_look_{};
    TimePoint next_look_{};          // at their rate, one each between_reloads
    bool is_blind_ = false;          // changes of files go unseen
    bool has_stale_events_ = false;  // of before the look that comes
    bool has_forgotten_ = false;
    bool was_asked_ = false;  // since the last look
};

}  // namespace triton::launcher
