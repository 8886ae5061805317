#pragma once

#include <memory>
#include <optional>

#include "launcher/output/far_file.h"
#include "launcher/output/far_log.h"
#include "launcher/rooms/file_asker.h"
#include "launcher/upgrade/upgrade_state.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// The room of the launcher's own log file. Where its file system may hang, a copy of the launcher writes it.
class LogKeeper {
public:
    /// All outlive this. `start`: of the writer; empty: the log always writes by itself. `asker`: looks
    /// before the file is opened; nullopt: nobody does.
    LogKeeper(log::Log::Settings const& settings, EventLoop& loop, log::Log& log, StartCompanion start,
              std::optional<FileAsker> asker = std::nullopt);
    ~LogKeeper();
    LogKeeper(LogKeeper const&) = delete;
    LogKeeper& operator=(LogKeeper const&) = delete;

    /// Errors: those of open(2); it is tried again before lines are written.
    Result<> open();
    /// Opens it again under its name, because somebody asks for it.
    void reopen();
    /// The log may have opened it by itself: for the first time, or again because its name leads to another one.
    void end_round() {
        if (log_.file() != judged_) judge();
    }
    /// At the end.
    void drain(milliseconds limit);

    // For an upgrade.
    void save(UpgradeState& state) const;
    /// Goes on with the writer of the version before us; without one the file is opened. Errors: as of open().
    Result<> restore(UpgradeState& state);

private:
    [[nodiscard]] bool hangs();
    void judge();
    [[nodiscard]] std::unique_ptr<FarLog> make_far();
    void leave_to(std::unique_ptr<FarLog> far);

    log::Log::Settings const& settings_;
    EventLoop& loop_;
    log::Log& log_;
    StartCompanion start_;
    std::optional<FileAsker> asker_;
    std::unique_ptr<FarLog> far_;  // null: the log writes by itself
    int judged_ = -1;              // the log's descriptor: another file is opened before the former is closed
};

}  // namespace triton::launcher
