#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/children/children.h"
#include "launcher/rooms/copy_progress.h"
#include "launcher/rooms/file_scout.h"
#include "launcher/rooms/path_watch.h"
#include "launcher/rooms/program_table.h"
#include "launcher/rooms/rooms.h"
#include "launcher/upgrade/upgrade_state.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// Sees when a file changes that a program has named under `files`, and asks for the program's action.
///
/// One inotify instance serves all: a node may have few. Writers of the files choose how often they
/// change, so where the paths lead is looked up at a rate, and a change counts when no other has followed it for the
/// program's quiet time. As long as one of the files is missing (a pattern aside), something is under way. A file
/// system may hang: a copy of the launcher looks first, but where a configuration is accepted, whose own copy has just
/// been there. The program at whose files such a copy hangs is put aside, so that it delays no other, until a copy of
/// its own has come back from them.
class FilesWatch {
public:
    /// All outlive this.
    FilesWatch(EventLoop& loop, log::Log& log, ProgramTable const& table, Children& children, EventSink& events);

    /// Watches only for what these programs name. Changes seen for one that stays are not forgotten.
    void set(std::vector<ProgramId> const& ids);
    /// Watching ends: see ReloadWatch::forget().
    void forget();

    // For an upgrade.
    /// Takes what has been seen; the successor cannot, and compares what it finds with the latest look.
    void bring_up_to_date() {
        if (watcher_) take_changes();
    }
    void save(UpgradeState& state) const;
    /// Instead of set().
    void restore(std::vector<ProgramId> const& ids, UpgradeState const& state);

    /// The copy that looks first has ended.
    void scouted(Children::Outcome const& outcome);
    /// The same of the one that looks at the files of a program that was put aside.
    void scouted_aside(Children::Outcome const& outcome);

private:
    struct Program {
        ProgramId id{};
        std::string changed;                    // one of the paths, for the log; empty: nothing has changed
        TimePoint quiet_at = TimePoint::max();  // when the change counts
        /// When a copy looks at its files again; nullopt: it is not put aside.
        std::optional<TimePoint> aside_until = {};
    };
    [[nodiscard]] ProgramPlan const& plan_of(Program const& program) const { return *table_[program.id].plan; }
    [[nodiscard]] TimePoint quiet_after(Program const& program, TimePoint now) const;
    bool collect(std::vector<ProgramId> const& ids);
    void collect_paths();
    void begin_look();
    void begin_look_aside(TimePoint now);
    void put_aside(Program& program);
    void rehearse() const;
    void rehearse(Program const& program) const;
    void proceed();
    void look();
    void tell_blind(Error const& error);
    void take_changes();
    void note_change(std::size_t which, TimePoint now);
    void time_passed();
    void act(Program& program);
    [[nodiscard]] TimePoint next_look_at() const;
    [[nodiscard]] TimePoint next_look_aside_at() const;
    void arm();

    log::Log& log_;
    ProgramTable const& table_;
    EventSink& events_;
    std::vector<Program> programs_;
    std::vector<std::string> paths_;   // of all
    std::vector<std::size_t> owners_;  // whose each is: a place in programs_
    PathWatch watcher_;
    PathWatcher::Identities seen_;    // at the latest look
    PathWatcher::Identities before_;  // by the version before us, to be compared at the first look
    EventLoop::Timer timer_;
    FileScout scout_;
    CopyProgress progress_;      // of its copy: the id of a program
    bool is_put_aside_ = false;  // a program has been since it began
    FileScout aside_scout_;
    std::optional<ProgramId> tried_;          // by its latest copy
    bool has_come_back_ = false;              // a program, since the latest look
    TimePoint not_before_{};                  // the next look, after a vain one
    TimePoint next_look_ = TimePoint::max();  // max: the paths lead where they did
    TimePoint last_look_{};
    std::optional<ErrorKind> blindness_ = {};  ///< why changes go unseen, as it was reported
};

}  // namespace triton::launcher
