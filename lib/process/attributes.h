#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "lib/json/problem.h"
#include "lib/json/where.h"
#include "lib/process/capabilities.h"
#include "lib/process/identity.h"
#include "lib/process/landlock.h"
#include "lib/process/seccomp.h"
#include "lib/process/settings.h"

namespace triton::process {

/// What a process is given beside its command and environment, with every name looked up: ids, masks, filters. The
/// default gives nothing, and costs nothing at a start. A copy is cheap: it shares filters and rulesets.
struct Attributes {
    std::string root_directory = {};     ///< empty: ours
    std::string working_directory = {};  ///< inside root_directory; empty: ours, or "/" of a root_directory
    Identity identity = {};
    bool keeps_own_groups = false;  ///< see keep_own_groups()
    std::optional<std::uint32_t> umask = {};
    std::vector<ResourceLimit> limits = {};
    std::optional<int> nice = {};
    std::optional<int> oom_score_adj = {};
    std::vector<std::uint32_t> cpu_affinity = {};  ///< empty: ours
    std::optional<CapabilityMasks> capabilities = {};
    bool no_new_privileges = false;
    std::optional<SeccompFilter> seccomp = {};
    std::optional<LandlockRuleset> landlock = {};
    std::optional<int> parent_death_signal = {};  ///< absent: the Spawner's orphan signal; 0: none
    std::vector<std::string> listen_names = {};   ///< of StartFiles::listen, in the same order
    std::uint64_t watchdog_microseconds = 0;      ///< 0: none
    bool is_foreground = false;                   ///< its group is the terminal's, where its input is one
    bool has_default_signals = false;             ///< none is ignored, whatever is with us
    std::optional<int> ready_target = {};         ///< as which descriptor the process finds its readiness descriptor

    bool operator==(Attributes const&) const = default;
};

/// Whether the names and features of this machine count, or only the document (`check` for another machine).
enum class MachineCheck : std::uint8_t { required, skipped };

/// The CPUs as sched_setaffinity(2) takes them; empty of none.
std::vector<unsigned long> cpu_mask(std::vector<std::uint32_t> const& cpus);

struct LoadMemory;

/// Looks up and prepares requested attributes. `at` is their place in the document. `memory`: of the others of the
/// same load. Errors: all of them, such as "programs.web.user: no user \"www\" in /etc/passwd",
/// "programs.web.seccomp.deny[0]: unknown system call \"foo\"", "programs.web.landlock: this kernel has no Landlock",
/// and those of try_attributes(). With MachineCheck::skipped only what is wrong everywhere is one, and the result
/// cannot be started with.
std::expected<Attributes, json::Problems> resolve_attributes(Settings const& settings, json::Where const& at,
                                                             MachineCheck check, LoadMemory& memory,
                                                             AccountFiles const& files = {});
/// The same for a program alone.
std::expected<Attributes, json::Problems> resolve_attributes(Settings const& settings, json::Where const& at,
                                                             MachineCheck check = MachineCheck::required,
                                                             AccountFiles const& files = {});

}  // namespace triton::process
