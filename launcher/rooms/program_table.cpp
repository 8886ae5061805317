#include "launcher/rooms/program_table.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace triton::launcher {

void ProgramTable::Entry::note_start(ProcessNumber number) {
    if (auto const at = static_cast<std::size_t>(number) - 1; at < runs.size())
        runs[at] = static_cast<std::uint8_t>(versions.size() - 1);
}

std::string_view ProgramTable::Entry::version_of(std::uint32_t number) const {
    bool const is_known = number <= runs.size() && runs[number - 1] < versions.size();
    return is_known ? std::string_view(versions[runs[number - 1]]) : std::string_view();
}

void ProgramTable::Entry::remember_version() {
    std::string const version = plan->settings->version.value_or("");
    if (versions.empty() && version.empty()) return;
    if (versions.empty() || versions.back() != version) versions.push_back(version);
    runs.resize(std::max<std::size_t>(runs.size(), plan->policy.count));
    if (versions.size() <= most_versions) return;
    // Nobody restarts, and the document keeps changing: the oldest version is as good as the one after it.
    versions.erase(versions.begin());
    for (std::uint8_t& run : runs)
        run = run == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(run - 1);
}

ProgramTable::Instance& ProgramTable::Entry::instance(ProcessNumber number) {
    auto const at = static_cast<std::size_t>(number) - 1;
    while (instances.size() <= at)
        instances.emplace_back();
    return instances[at];
}

ProgramTable::Instance const* ProgramTable::find_instance(ProcessId id) const {
    if (static_cast<std::size_t>(id.program) >= entries_.size()) return nullptr;
    auto const at = static_cast<std::size_t>(id.number) - 1;
    auto const& instances = (*this)[id.program].instances;
    return at < instances.size() ? &instances[at] : nullptr;
}

std::string_view ProgramTable::name(std::uint32_t program) const {
    return program < entries_.size() ? std::string_view(entries_[program].name) : std::string_view();
}

ProgramName ProgramTable::name_of(ProgramId id) const {
    Entry const& program = (*this)[id];
    bool const has_numbers = !program.plan || program.plan->policy.count > 1 || supervisor_.size(id) > 1;
    if (!program.plan) return {program.name, has_numbers};
    return {program.name, has_numbers, program.plan->start.get(), program.plan->settings->health,
            program.plan->helper(Helper::readiness).network.get()};
}

std::vector<ProgramId> ProgramTable::choose_ids(Plans const& plans) const {
    constexpr ProgramId none{UINT32_MAX};
    std::vector<ProgramId> ids;
    ids.reserve(plans.size());
    std::vector<bool> is_taken(entries_.size(), false);
    std::unordered_map<std::string_view, std::size_t> known;
    for (std::size_t at = 0; at < entries_.size(); ++at) {
        // What a named program leaves, its output for one, stays until it is tidied up.
        Entry const& entry = entries_[at];
        bool const is_idle = supervisor_.is_idle(ProgramId{static_cast<std::uint32_t>(at)});
        is_taken[at] = entry.plan && (!entry.name.empty() || !is_idle);
        if (entry.plan) known.emplace(entry.name, at);
    }
    for (auto const& plan : plans) {
        auto const found = known.find(plan->settings->name);
        if (found != known.end()) is_taken[found->second] = true;
        ids.push_back(found != known.end() ? ProgramId{static_cast<std::uint32_t>(found->second)} : none);
    }
    std::size_t free = 0;
    for (ProgramId& id : ids) {
        if (id != none) continue;
        while (free < is_taken.size() && is_taken[free])
            ++free;
        id = ProgramId{static_cast<std::uint32_t>(free)};
        ++free;
    }
    return ids;
}

std::vector<ProgramId> ProgramTable::ids_of(Plans const& plans) const {
    std::vector<ProgramId> ids;
    for (auto const& wanted : plans) {
        auto const at = std::ranges::find(entries_, wanted, &Entry::plan);
        if (at != entries_.end()) ids.push_back(ProgramId{static_cast<std::uint32_t>(at - entries_.begin())});
    }
    return ids;
}

bool ProgramTable::is_configured(ProgramPlan const* plan) const {
    return std::ranges::any_of(entries_,
                               [plan](Entry const& entry) { return entry.is_configured && entry.plan.get() == plan; });
}

std::vector<ProgramTable::Entry> ProgramTable::make_room(std::vector<ProgramId> const& ids) {
    std::size_t const highest = ids.empty() ? 0 : static_cast<std::size_t>(std::ranges::max(ids)) + 1;
    std::vector<Entry> larger;
    larger.reserve(std::max(entries_.size(), highest));
    shown_.reserve(larger.capacity() + ids.size());
    larger.resize(larger.capacity());
    return larger;
}

void ProgramTable::replace(std::vector<Entry> larger) {
    std::ranges::move(entries_, larger.begin());
    entries_ = std::move(larger);
}

void ProgramTable::show(std::vector<ProgramId> const& ids) {
    shown_ = ids;
    for (std::size_t at = 0; at < entries_.size(); ++at) {
        ProgramId const id{static_cast<std::uint32_t>(at)};
        if (entries_[at].plan && !entries_[at].is_configured && !supervisor_.is_idle(id)) shown_.push_back(id);
    }
}

void ProgramTable::save(UpgradeState& state) const {
    for (std::size_t at = 0; at < entries_.size(); ++at) {
        Entry const& program = entries_[at];
        UpgradeState::Program& saved = state.programs.emplace_back(program.name, program.plan != nullptr);
        if (program.plan && !program.is_configured) saved.output = program.plan->settings->output;
        if (program.versions.size() > 1) {
            saved.versions = program.versions;
            saved.runs.assign(program.runs.begin(), program.runs.end());
        }
        for (std::size_t i = 0; i < program.instances.size(); ++i) {
            Instance const& one = program.instances[i];
            state.instances.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(i + 1), one.oom_kills,
                                       one.was_oom_killed, one.status});
        }
    }
}

void ProgramTable::restore_versions(UpgradeState const& state) {
    for (std::size_t at = 0; at < entries_.size(); ++at) {
        Entry& program = entries_[at];
        if (!program.is_configured) continue;
        program.remember_version();
        UpgradeState::Program const& saved = state.programs[at];
        if (saved.versions.empty() || saved.versions.size() > most_versions) continue;
        program.versions = saved.versions;
        program.runs.assign(saved.runs.begin(), saved.runs.end());
        program.remember_version();
    }
}

}  // namespace triton::launcher
