#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/program_plan.h"
#include "launcher/rooms/report.h"
#include "launcher/supervisor/supervisor.h"
#include "launcher/upgrade/upgrade_state.h"
#include "lib/process/cgroup.h"

namespace triton::launcher {

using Plans = std::vector<std::shared_ptr<ProgramPlan const>>;

/// The data kept for each program, by ProgramId, and which programs are reported.
///
/// A program keeps its id as long as it keeps its name and anything of it is left. Changed by the room of the programs
/// (programs.h) alone, when a configuration is accepted; what is kept for a single process is changed by whoever
/// learns of it. No system call but those of Cgroup.
class ProgramTable {
public:
    /// The data kept for each process of a program that needs it.
    struct Instance {
        std::optional<process::Cgroup> cgroup;
        std::uint64_t oom_kills = 0;  ///< in that group, so far
        bool was_oom_killed = false;  ///< its latest end
        std::string status;           ///< STATUS= of sd_notify(3)
    };
    struct Entry {
        std::string name;
        std::shared_ptr<ProgramPlan const> plan;  ///< the latest accepted; null: the id is free
        std::vector<int> listen;                  ///< borrowed
        std::vector<Instance> instances;          ///< by number; only where something is kept
        std::vector<std::string> versions;        ///< that its processes run; the last one is configured
        std::vector<std::uint8_t> runs;           ///< by number: which of them
        bool is_configured = false;

        [[nodiscard]] bool is_captured() const { return plan && plan->needs.output == StreamTarget::captured; }
        /// Whether the configuration has no such process any more: what belonged to it is to be let go of.
        [[nodiscard]] bool is_leaving(ProcessNumber number) const {
            return !is_configured || (plan && static_cast<std::uint32_t>(number) > plan->policy.count);
        }
        /// Process `number` is started now, from the version that is configured.
        void note_start(ProcessNumber number);
        [[nodiscard]] std::string_view version_of(std::uint32_t number) const;
        /// Running processes keep what they were started with; the next ones get what the plan says.
        void remember_version();
        Instance& instance(ProcessNumber number);
    };
    /// More of them than this are not distinguished: the oldest counts as the one after it.
    static constexpr std::size_t most_versions = 200;

    /// Outlives this.
    explicit ProgramTable(Supervisor const& supervisor) : supervisor_(supervisor) {}

    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] Entry& operator[](ProgramId id) { return entries_[static_cast<std::size_t>(id)]; }
    [[nodiscard]] Entry const& operator[](ProgramId id) const { return entries_[static_cast<std::size_t>(id)]; }
    [[nodiscard]] std::vector<Entry>& entries() { return entries_; }
    [[nodiscard]] std::vector<Entry> const& entries() const { return entries_; }
    /// Null: there is no such id, or nothing is kept for that process.
    [[nodiscard]] Instance const* find_instance(ProcessId id) const;
    /// Empty: there is no such id.
    [[nodiscard]] std::string_view name(std::uint32_t program) const;
    [[nodiscard]] ProgramName name_of(ProgramId id) const;

    /// The ids that these programs get or have.
    [[nodiscard]] std::vector<ProgramId> choose_ids(Plans const& plans) const;
    /// The ids that they have, where they have one.
    [[nodiscard]] std::vector<ProgramId> ids_of(Plans const& plans) const;
    [[nodiscard]] bool is_configured(ProgramPlan const* plan) const;

    /// A larger table with the same programs, to be taken by replace(); and room for as many to be shown.
    [[nodiscard]] std::vector<Entry> make_room(std::vector<ProgramId> const& ids);
    void replace(std::vector<Entry> larger);
    /// To be reported: these, then running ones that are no longer configured.
    void show(std::vector<ProgramId> const& ids);
    [[nodiscard]] std::vector<ProgramId> const& shown() const { return shown_; }

    // For an upgrade.
    void save(UpgradeState& state) const;
    /// After the plans are known again.
    void restore_versions(UpgradeState const& state);

private:
    Supervisor const& supervisor_;
    std::vector<Entry> entries_;
    std::vector<ProgramId> shown_;  // in the document's order
};

}  // namespace triton::launcher
