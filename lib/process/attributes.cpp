#include "lib/process/attributes.h"

#include <algorithm>
#include <climits>
#include <iterator>
#include <string>
#include <utility>

#include "lib/process/start_trial.h"

namespace triton::process {

namespace {

using json::Problems;
using json::Where;

void append(Problems& problems, Problems more) {
    problems.insert(problems.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// The capabilities of a child whose user changes while nothing is said of them. The kernel takes them from a process
/// that stops being root, but a launcher of another user with capabilities would pass its ambient ones on.
std::optional<CapabilityMasks> without_ours(Identity const& identity) {
    if (!identity.user) return std::nullopt;
    OwnCapabilities const own = OwnCapabilities::read();
    if (own.ambient == 0) return std::nullopt;
    return CapabilityMasks{.drop = 0, .inheritable = own.inheritable & ~own.ambient, .ambient = 0};
}

/// Returns an equal ruleset of the same load, or a new one.
std::expected<LandlockRuleset, Problems> ruleset(LandlockSettings const& settings, Where const& at,
                                                 std::string const& root_directory, LoadMemory& memory) {
    auto const known = std::ranges::find_if(
        memory.rulesets, [&](LandlockRuleset const& one) { return one.is_of(settings, root_directory); });
    if (known != memory.rulesets.end()) return *known;
    auto made = LandlockRuleset::create(settings, at, root_directory);
    if (made) memory.rulesets.push_back(*made);
    return made;
}

std::expected<SeccompFilter, Problems> filter(SeccompSettings const& settings, Where const& at, LoadMemory& memory) {
    auto const known =
        std::ranges::find_if(memory.filters, [&](SeccompFilter const& one) { return one.is_of(settings); });
    if (known != memory.filters.end()) return *known;
    std::size_t const number = memory.filters.size();
    if (number == most_filters)
        return std::unexpected(
            Problems{{at.text(), "more than " + std::to_string(most_filters) + " different filters in one document"}});
    if (memory.prepared && number >= memory.prepared->size())
        return std::unexpected(Problems{{at.text(), "this filter was not prepared"}});
    auto made = memory.prepared ? SeccompFilter::compiled_elsewhere(settings, std::move((*memory.prepared)[number]))
                                : SeccompFilter::create(settings, at);
    if (made) memory.filters.push_back(*made);
    return made;
}

}  // namespace

std::vector<unsigned long> cpu_mask(std::vector<std::uint32_t> const& cpus) {
    std::vector<unsigned long> mask;
    for (std::uint32_t const cpu : cpus) {
        constexpr std::size_t bits = CHAR_BIT * sizeof(unsigned long);
        if (mask.size() <= cpu / bits) mask.resize(cpu / bits + 1);
        mask[cpu / bits] |= 1UL << cpu % bits;
    }
    return mask;
}

std::expected<Attributes, Problems> resolve_attributes(Settings const& settings, Where const& at, MachineCheck check,
                                                       AccountFiles const& files) {
    LoadMemory memory;
    return resolve_attributes(settings, at, check, memory, files);
}

std::expected<Attributes, Problems> resolve_attributes(Settings const& settings, Where const& at, MachineCheck check,
                                                       LoadMemory& memory, AccountFiles const& files) {
    bool const is_here = check == MachineCheck::required;
    Problems problems;
    auto const take = [&problems](auto result, auto& into) {
        if (result) {
            into = std::move(*result);
        } else {
            append(problems, std::move(result).error());
        }
    };
    Attributes with;
    with.root_directory = settings.root_directory.value_or("");
    with.working_directory = settings.working_directory.value_or("");
    with.umask = settings.umask;
    with.limits = settings.limits;
    with.nice = settings.nice;
    with.oom_score_adj = settings.oom_score_adj;
    with.cpu_affinity = settings.cpu_affinity;
    with.no_new_privileges = settings.no_new_privileges || settings.seccomp || settings.landlock;
    with.parent_death_signal = settings.parent_death_signal;

    if (is_here) {
        take(resolve_identity(settings, at, files), with.identity);
        with.keeps_own_groups = keep_own_groups(settings, with.identity);
        with.capabilities = without_ours(with.identity);
    }
    if (settings.capabilities) {
        OwnCapabilities const own = OwnCapabilities::read();
        take(resolve_capabilities(*settings.capabilities, Where{&at, std::string_view("capabilities")},
                                  is_here ? &own : nullptr),
             with.capabilities);
    }
    if (settings.seccomp)
        take(filter(*settings.seccomp, Where{&at, std::string_view("seccomp")}, memory), with.seccomp);
    if (settings.landlock && is_here)
        take(ruleset(*settings.landlock, Where{&at, std::string_view("landlock")}, with.root_directory, memory),
             with.landlock);
    if (is_here) append(problems, try_attributes(settings, with, at, memory));
    if (!problems.empty()) return std::unexpected(std::move(problems));
    return with;
}

}  // namespace triton::process
