#pragma once

#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/children/children.h"
#include "launcher/children/sys.h"
#include "launcher/output/console.h"
#include "launcher/plan/launch_options.h"
#include "launcher/rooms/file_asker.h"
#include "launcher/rooms/rooms.h"
#include "launcher/upgrade/upgrade_state.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// The room of the upgrade: first a child of the new version says whether it can take over our state, then we become
/// it. Until then, and whenever it fails, everything continues as it was.
class Upgrader {
public:
    class Owner {
    public:
        virtual ~Owner() = default;
        /// Everything that another version needs to continue.
        virtual UpgradeState state() = 0;
        /// Reaps ended processes and reports what there is to report.
        virtual void bring_up_to_date() = 0;
        /// A program that has left the configuration and has a command to run yet, which another version would not
        /// find; empty: there is none.
        virtual std::string has_yet_to_clean_up() = 0;
        /// From here on no output is read. Until resume_output().
        virtual void stop_output() = 0;
        virtual void resume_output() = 0;
        /// Nothing is left to do but to execute it: what it does not know is given up.
        virtual void about_to_leave() = 0;
    };
    /// All outlive this.
    Upgrader(LaunchOptions const& options, char const* const* environment, Sys& sys, EventLoop& loop, log::Log& log,
             Console& console, Supervisor const& supervisor, Children& children, ControlLine const& line, Owner& owner);

    /// See ControlBackend::upgrade().
    Result<> begin(std::string const& path);
    /// The child of the new version has ended.
    void answered(Children::Outcome const& outcome);

private:
    /// The file that is asked and then executed, by one descriptor: what its path means may change meanwhile.
    struct Successor {
        UniqueFd file;     // O_PATH
        timespec changed;  // ctime
        bool is_script;    // its interpreter opens the descriptor again, so that it must inherit it
        [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file.get()); }
    };
    struct Attempt {
        std::string path;
        Successor program;
        std::string version;  // of the new one, once it has answered
        bool takes_watches = false;
        bool takes_history = false;
        bool takes_marks = false;
        UniqueFd answer;   // of the check
        UniqueFd filters;  // a memory file for those that it compiles; empty: there was no memory for one
        bool is_checked = false;
        bool may_hang = false;  // some file system, when the attempt began; the open program stays where it was
        TimePoint give_up_at{};
    };
    static Result<Successor> open_successor(std::string const& path);
    [[nodiscard]] bool may_touch(std::function<void()> const& look);
    Result<> check_successor();
    [[nodiscard]] Result<> check_unchanged();
    [[nodiscard]] bool has_left_filters() const;
    void try_now();
    [[nodiscard]] bool is_start_under_way() const;
    [[nodiscard]] UpgradeState state_for_successor() const;
    Result<> become_successor();
    [[nodiscard]] int execute(std::vector<int> descriptors, int sealed);
    void give_up(Error error);
    void refuse(std::string reason, std::vector<std::string> details = {});

    LaunchOptions const& options_;
    char const* const* environment_;
    Sys& sys_;
    log::Log& log_;
    Console& console_;
    Supervisor const& supervisor_;
    Children& children_;
    ControlLine const& line_;
    Owner& owner_;
    PathProbe path_probe_;
    std::optional<Attempt> attempt_;
    EventLoop::Timer try_timer_;
};

/// Inherited descriptors must be closed in every child. One by one: that works whatever a seccomp profile refuses.
void set_close_on_exec(std::vector<int> const& descriptors, bool is_set);

/// What `upgrade-check` answers: one line that the version which runs knows and what older ones do not know, or why it
/// cannot be.
struct UpgradeCheck {
    std::string output;
    int exit_code = 0;
    std::string filters{};  ///< what is to be left for this version: see compiled_filters.h; empty: nothing
};
/// Whether this version can continue from that state, with these options. `text`: see write_upgrade_state().
UpgradeCheck check_upgrade(std::string_view text, LaunchOptions const& options, char const* const* environment);

}  // namespace triton::launcher
