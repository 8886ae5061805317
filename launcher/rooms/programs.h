#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "launcher/rooms/agent_host.h"
#include "launcher/rooms/channels.h"
#include "launcher/rooms/files_watch.h"
#include "launcher/rooms/program_table.h"
#include "launcher/rooms/rooms.h"
#include "launcher/services/schedules.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// Of RLIMIT_NOFILE, as it is now: named programs raise it. nullopt: it cannot be read.
std::optional<process::ResourceLimit> own_descriptor_limit();

/// The room of the programs: makes an accepted configuration the active one, and releases what it does not have
/// any longer. Everything that may be refused comes first, then all memory is taken that its processes may need; what
/// follows does not fail. So a configuration is taken whole or not at all.
class Programs {
public:
    class Owner {
    public:
        virtual ~Owner() = default;
        /// So that a restart of any of these processes allocates nothing. Throws bad_alloc.
        virtual void make_room(std::vector<ProgramSpec> const& specs) = 0;
        /// From now on there are named programs: what their processes leave behind is killed.
        virtual void expect_leftovers() = 0;
        /// A burst of changes is over: what only it needed may be given back.
        virtual void settled() = 0;
        /// The id is another program's from now on.
        virtual void given_away(ProgramId id) = 0;
    };
    /// All outlive this.
    Programs(EventLoop& loop, log::Log& log, ProgramTable& table, Supervisor const& supervisor, Children& children,
             Channels& channels, AgentHost& agent, EventSink& events, Owner& owner);

    /// `wanted`: null: only our own programs. `is_new`: it is not the one that is already active. `taken` is called
    /// when nothing can fail any longer, before the supervisor is told. Errors: one line; throws bad_alloc.
    Result<> activate(Accepted const* wanted, bool is_new, std::function<void()> const& taken = {});

    /// nullopt: the program is not scheduled.
    [[nodiscard]] std::optional<Duration> next_run_in(ProgramId id) const;
    /// In a stop, files restart nothing.
    void forget_files() { files_.forget(); }
    void files_scouted(Children::Outcome const& outcome) { files_.scouted(outcome); }
    void files_aside_scouted(Children::Outcome const& outcome) { files_.scouted_aside(outcome); }
    /// Something has changed that leaves something to let go of.
    void settle_soon();

    // For an upgrade.
    void bring_up_to_date() { files_.bring_up_to_date(); }
    /// See Upgrader::Owner.
    [[nodiscard]] std::string has_yet_to_clean_up() const;
    void save(UpgradeState& state) const;
    /// Programs get their plans from the configuration that was active (null: none), by their names.
    void restore(UpgradeState const& state, Accepted const* active);
    void restore_schedules(UpgradeState const& state, Accepted const* active);

private:
    using Specs = std::shared_ptr<std::vector<ProgramSpec> const>;

    [[nodiscard]] Plans plans_for(Accepted const* accepted) const;
    [[nodiscard]] Specs specs_for(Plans const& plans, std::vector<ProgramId> const& ids) const;
    void take(ProgramTable::Entry& program, std::shared_ptr<ProgramPlan const> plan);
    void set_listening(ProgramTable::Entry& program);
    void set_schedules(std::vector<ProgramId> const& ids, bool runs_servers);
    void set_schedule(ProgramId id);
    [[nodiscard]] bool is_scheduled(ProgramId id) const {
        return table_[id].is_configured && table_[id].plan->settings->schedule;
    }
    void arm() { schedule_timer_.arm(schedules_ ? schedules_->next_deadline() : std::nullopt); }
    void tidy();
    void tidy(ProgramId id);
    static std::shared_ptr<ProgramPlan const> plan_without_start(UpgradeState::Program const& program,
                                                                 ProgramPolicy const& policy);

    EventLoop& loop_;
    log::Log& log_;
    ProgramTable& table_;
    Supervisor const& supervisor_;
    Channels& channels_;
    AgentHost& agent_;
    EventSink& events_;
    Owner& owner_;
    Plans plans_;  // of the active configuration, and the agent's
    std::unique_ptr<Schedules> schedules_;
    bool runs_schedules_ = false;
    EventLoop::Timer schedule_timer_;
    EventLoop::Timer settle_timer_;
    FilesWatch files_;
};

}  // namespace triton::launcher
