#pragma once

#include <algorithm>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/children/children.h"
#include "launcher/rooms/channels.h"
#include "launcher/rooms/file_asker.h"
#include "launcher/rooms/path_watch.h"
#include "launcher/rooms/program_table.h"
#include "launcher/rooms/rooms.h"
#include "launcher/upgrade/upgrade_state.h"
#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// The room of programs that fork into the background: reads the file in which such a program says as which process it
/// goes on, and makes that one the program's.
///
/// The file is somebody else's, and its word alone counts for nothing. The process that it names has to be a child of
/// ours, as which a daemon comes to us when its parent ends, and to have been started by this program: its control
/// group has it, or else it has inherited the mark of the start (process::StartFiles::mark). As long as we have not
/// reaped it its pid cannot become somebody else's. A file that is as it was before the start says nothing: it is known
/// by its inode and its time of change, and is never removed, since it is not ours.
///
/// It is looked at when it changes, by inotify, when a process of the program ends, and when an orphan does: then who
/// was a grandchild may be ours. However often that happens, the files are read once in a while. Copies of the launcher
/// read them, as their file system may hang.
class PidFiles {
public:
    static constexpr std::size_t longest_file = 4096;
    static constexpr unsigned most_refusals = 8;  ///< that are told of one start
    static constexpr std::size_t most_per_round = 64;

    /// All outlive this.
    PidFiles(Sys& sys, EventLoop& loop, log::Log& log, ProgramTable const& table, Supervisor const& supervisor,
             Children& children, Channels const& channels, EventSink& events);

    /// Before its start: what the file is now says nothing. `mark`: of the start; 0: its control group knows it.
    void starting(ProcessId id, std::uint64_t mark);
    /// One of its processes has been reaped: as which one it goes on, by its file. That is a child of this program now.
    std::optional<Pid> successor(ProcessId id);
    /// Of its start; 0: there is none, or its control group knows what it has started.
    [[nodiscard]] std::uint64_t mark_of(ProcessId id) const {
        auto const found = std::ranges::find_if(entries_, [id](Entry const& entry) { return is_of(entry, id); });
        return found == entries_.end() ? 0 : found->mark;
    }
    /// It has ended. Returns the mark of its start.
    std::uint64_t ended(ProcessId id);
    /// Whether it was started as one that may go on as another process.
    [[nodiscard]] bool has(ProcessId id) const {
        return std::ranges::any_of(entries_, [id](Entry const& entry) { return is_of(entry, id); });
    }
    /// Whether the program has started this process, whose message it may be: one that forks speaks by others than the
    /// process that is known.
    [[nodiscard]] bool is_own(ProcessId id, pid_t pid) const {
        auto const found = std::ranges::find_if(entries_, [id](Entry const& entry) { return is_of(entry, id); });
        return found != entries_.end() && origin_of(*found, pid) != Origin::stranger;
    }
    /// A child that nobody knows was reaped.
    void orphan_reaped() {
        if (!entries_.empty()) look_soon();
    }

    // For an upgrade.
    void save(UpgradeState& state) const {
        state.pid_files = entries_;
        state.pid_files_watch = watcher_.handed();
    }
    /// After its program and its process are known again.
    void restore(UpgradeState const& state);

private:
    using Entry = UpgradeState::PidFile;
    struct Told {
        std::string why;
        unsigned count = 0;
    };
    static bool is_of(Entry const& entry, ProcessId id) {
        return ProgramId{entry.program} == id.program && ProcessNumber{entry.number} == id.number;
    }
    std::vector<Entry>::iterator find(ProcessId id);
    [[nodiscard]] std::string path_of(Entry const& entry) const;
    struct Seen;
    static Seen see(std::string const& root_directory, std::string const& path);
    [[nodiscard]] std::vector<Seen> ask(std::vector<Entry> const& entries);
    [[nodiscard]] bool is_one_awaited() const;
    void watch();
    void look_soon();
    void arm_look();
    void look();
    void look_at(Entry const& entry, Seen const& seen);
    std::optional<Pid> judge(Entry const& entry, Seen const& seen);
    [[nodiscard]] std::string fault_of(Entry const& entry, pid_t pid, uid_t owner) const;
    enum class Origin : std::uint8_t { stranger, likely_program, program };
    [[nodiscard]] Origin origin_of(Entry const& entry, pid_t pid) const;
    [[nodiscard]] uid_t user_of(Entry const& entry) const;
    std::optional<Pid> refuse(Entry const& entry, std::string why);

    Sys& sys_;
    log::Log& log_;
    ProgramTable const& table_;
    Supervisor const& supervisor_;
    Children& children_;
    Channels const& channels_;
    EventSink& events_;
    std::vector<Entry> entries_;  // of those that are starting or run
    FileAsker asker_;
    std::vector<Told> told_;  // of each: what was refused last
    PathWatch watcher_;
    EventLoop::Timer timer_;
    TimePoint last_look_{};
    std::size_t next_ = 0;             // of the entries, to look at; those before it have been, in this pass
    bool is_to_look_again_ = false;    // something has changed in this pass: those before `next_` may have
    bool is_to_watch_ = false;         // the paths may be others, or lead elsewhere
    bool is_watching_writes_ = false;  // while somebody may write to a file that stays open
    bool is_blind_ = false;
};

}  // namespace triton::launcher
