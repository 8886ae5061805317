#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "launcher/children/children.h"
#include "launcher/plan/agent_plan.h"
#include "launcher/plan/launch_options.h"
#include "launcher/rooms/channels.h"
#include "launcher/rooms/rooms.h"
#include "launcher/services/agent_link.h"
#include "launcher/services/network_probes.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"

namespace triton::launcher {

// Keys of commands that belong to no process: from the first of the stagings on.
inline constexpr Children::Key upgrade_key = UINT64_MAX;
inline constexpr std::size_t most_stagings = 4;
inline constexpr Children::Key judge_key = upgrade_key - 1;
inline constexpr Children::Key scout_key = judge_key - 1;
inline constexpr Children::Key files_key = scout_key - 1;
inline constexpr Children::Key aside_key = files_key - 1;
inline constexpr Children::Key first_own_key = aside_key - most_stagings;

/// The room of the agent: how it is run, the link by which it connects, its reports of the pod, and what is done
/// for or by it: network probes, which it makes for us, and stagings, which it asks for.
class AgentHost {
public:
    class Listener {
    public:
        virtual ~Listener() = default;
        /// A connection of the agent, for the server of the control socket.
        virtual void agent_connected(UniqueFd connection) = 0;
        /// Told at each word about the pod. `have_changed`: the variables for substitution.
        virtual void pod_told(PodState const& pod, bool have_changed) = 0;
        virtual void isolation_changed() = 0;
        virtual void probe_ended(NetworkProbes::Key key, NetworkProbes::Verdict const& verdict) = 0;
    };
    /// All outlive this. `source`: the options', and what this machine adds.
    AgentHost(LaunchOptions const& options, SourceOptions const& source, char const* const* environment,
              EventLoop& loop, log::Log& log, Supervisor const& supervisor, Channels& channels, Children& children,
              ControlLine const& line, Listener& listener);

    // The program.

    /// Prepares the agent before anything depends on it. Errors: what keeps it from running. Does nothing a second
    /// time.
    Result<> prepare();
    /// Null: there is none.
    [[nodiscard]] std::shared_ptr<ProgramPlan const> const& plan() const { return plan_; }
    /// Whether the command line or this configuration (null: none) asks for the agent.
    [[nodiscard]] bool is_needed(Accepted const* configuration) const;
    /// What it is passed after its listening sockets, in the order of its plan's names.
    void add_descriptors(std::vector<int>& listen) const;

    // The pod.
    [[nodiscard]] PodState const& pod() const { return pod_; }
    void set_pod(PodState state);
    void set_reporter(ReporterStatus status) { reporter_ = std::move(status); }
    /// The agent's latest report, if there is an agent. `runs`: whether its process lives.
    [[nodiscard]] std::optional<ReporterStatus> reporter(bool runs) const;

    // Probes over the network.
    void run_probe(NetworkProbes::Key key, HelperPlan const& helper, ProcessNumber number);
    /// Returns whether there was one.
    bool cancel_probe(NetworkProbes::Key key);
    void probes_wanted(bool is_wanted);
    void probe_result(std::uint64_t id, bool ok, std::string_view detail);

    // Stagings. We copy nothing ourselves: that is a child's work, which may be slow and may fail.
    Result<> stage(StagingKind what, std::uint64_t ticket);
    void staging_ended(Children::Key key, Children::Outcome const& outcome);

    // For an upgrade.
    void save(UpgradeState& state) const;
    /// The agent also continues, and connects again. If this version cannot have one, it is stopped like a program
    /// that is no longer configured.
    void restore(UpgradeState const& state, Accepted const* active);
    void restore_pod(UpgradeState const& state) { pod_ = state.pod; }
    void restore_probes(UpgradeState& state);

private:
    /// One requested staging, with its output.
    struct Staging {
        Children::Key key = 0;
        std::uint64_t ticket = 0;
        UniqueFd summary;
    };
    Result<pid_t> start_staging(StagingKind what, Staging& staging);
    void watch_lines(std::uint64_t id, NetworkProbes::Probe const& probe) const;
    void tell_of_late_agent();
    void arm() { probe_timer_.arm(probes_.next_deadline()); }

    LaunchOptions const& options_;
    SourceOptions const& source_;
    char const* const* environment_;
    EventLoop& loop_;
    log::Log& log_;
    Supervisor const& supervisor_;
    Channels& channels_;
    Children& children_;
    ControlLine const& line_;
    Listener& listener_;
    std::shared_ptr<ProgramPlan const> plan_;
    std::unique_ptr<AgentLink> link_;
    UniqueFd output_;
    UniqueFd program_;
    PodState pod_;
    std::optional<ReporterStatus> reporter_;
    NetworkProbes probes_;
    bool is_agent_late_ = false;  // and this has been logged
    EventLoop::Timer probe_timer_;
    std::vector<Staging> stagings_;
};

}  // namespace triton::launcher
