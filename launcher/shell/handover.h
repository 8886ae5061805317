#pragma once

#include "launcher/children/children.h"
#include "launcher/children/process_setup.h"
#include "launcher/children/sys.h"
#include "launcher/rooms/agent_host.h"
#include "launcher/rooms/channels.h"
#include "launcher/rooms/configuration_keeper.h"
#include "launcher/rooms/control_port.h"
#include "launcher/rooms/foreground.h"
#include "launcher/rooms/helper_commands.h"
#include "launcher/rooms/left_trees.h"
#include "launcher/rooms/life_cycle.h"
#include "launcher/rooms/pid_files.h"
#include "launcher/rooms/program_table.h"
#include "launcher/rooms/programs.h"
#include "launcher/supervisor/supervisor.h"
#include "launcher/upgrade/upgrade_state.h"

namespace triton::launcher {

/// What travels to another version of the launcher: each room saves its part, and takes it back in the order in which
/// the rooms need each other.
class Handover {
public:
    /// All outlive this.
    struct Rooms {
        ProcessSetup const& setup;
        Sys& sys;
        SourceOptions& source;
        Supervisor& supervisor;
        ProgramTable& table;
        Children& children;
        Channels& channels;
        AgentHost& agent;
        Programs& programs;
        ConfigurationKeeper& keeper;
        PidFiles& pid_files;
        LeftTrees& left_trees;
        Foreground& foreground;
        LogKeeper& log_file;
        LifeCycle& life;
        ControlPort& port;
        HelperCommands& helpers;
        ProcessHistory& history;
    };
    explicit Handover(Rooms const& rooms) : rooms_(rooms) {}

    // Before the other version is executed: see Upgrader::Owner.
    void stop_output();
    void resume_output();
    void about_to_leave();

    /// Everything except captured output, which must not be read any longer by then: see Channels.
    [[nodiscard]] UpgradeState collect() const;
    /// Before any room has done anything.
    void restore(SupervisorPolicy const& policy, UpgradeState& state);

private:
    /// Calls `use` with each process that has a pid, always in the same order.
    template <class Use>
    void for_each_process(SupervisorState const& state, Use use) const;
    void adopt_processes(UpgradeState const& state);

    Rooms rooms_;
};

}  // namespace triton::launcher
