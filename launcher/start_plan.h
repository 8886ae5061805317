#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/problem.h"
#include "config/program.h"
#include "config/substitution.h"
#include "config/where.h"
#include "launcher/capabilities.h"
#include "launcher/identity.h"
#include "launcher/landlock.h"
#include "launcher/seccomp.h"
#include "launcher/spawn_child.h"

namespace triton::launcher {

/// What a process is given beside its command and environment, with every name looked up: ids, masks, filters. The
/// default gives nothing, and costs nothing at a start. A copy is cheap: it shares filters and rulesets.
struct Attributes {
    std::string root_directory = {};     ///< empty: ours
    std::string working_directory = {};  ///< inside root_directory; empty: ours, or "/" of a root_directory
    Identity identity = {};
    std::optional<std::uint32_t> umask = {};
    std::vector<config::ResourceLimit> limits = {};
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
    bool has_default_signals = false;             ///< none is ignored, whatever is with us
    std::optional<int> ready_target = {};         ///< as which descriptor the process finds its readiness descriptor

    bool operator==(Attributes const&) const = default;
};

/// Whether the names and features of this machine count, or only the document (`check` for another machine).
enum class MachineCheck : std::uint8_t { required, skipped };

/// The CPUs as sched_setaffinity(2) takes them; empty of none.
std::vector<unsigned long> cpu_mask(std::vector<std::uint32_t> const& cpus);

/// Looks up and prepares all attributes of a program. `at` is the program's place in the document.
/// Errors: all of them, such as "programs.web.user: no user \"www\" in /etc/passwd", "programs.web.seccomp.deny[0]:
/// unknown system call \"foo\"", "programs.web.landlock: this kernel has no Landlock", and those of try_attributes().
/// With MachineCheck::skipped only what is wrong everywhere is one, and the result cannot be started with.
std::expected<Attributes, config::Problems> resolve_attributes(config::Program const& program, config::Where const& at,
                                                               MachineCheck check = MachineCheck::required,
                                                               AccountFiles const& files = {});

/// The file that a command's first word means for a process with this environment and these attributes, as execvp(3)
/// looks for it: a word with a slash is its own path, relative to the working directory; another is searched for in
/// PATH (without one: "/usr/local/bin:/usr/bin:/bin"), inside the root directory. Errors: "cannot find \"web\" in PATH
/// (/usr/bin:/bin)"; of the path itself as "cannot execute /srv/web: <reason>", which includes "is not a file" and "is
/// empty"; both name the root directory. Execute permission is looked at as ours, not as the other user's.
Result<std::string> find_program(std::string const& word, std::vector<std::string> const& environment,
                                 Attributes const& attributes);

/// How all processes of one program are started: immutable, shared by the children until the last one has left our
/// memory.
class StartPlan {
public:
    /// `program`: the path for execve(2) (inside the root directory, relative to the working directory). argv is
    /// `name` (empty: the program's path) and the arguments of `command`. `environment`: NAME=value entries.
    /// `numbered_environment`: templates whose arguments are NAME=value entries too, rendered for each process.
    /// Entries that the attributes define (LISTEN_FDS, WATCHDOG_USEC ..) are left out of `environment`.
    StartPlan(std::string program, std::vector<std::string> environment, config::CommandTemplate command,
              std::vector<config::CommandTemplate> numbered_environment = {}, Attributes attributes = {},
              std::string name = {});
    StartPlan(StartPlan const&) = delete;
    StartPlan& operator=(StartPlan const&) = delete;

    [[nodiscard]] char const* program() const { return program_.c_str(); }
    [[nodiscard]] char const* name() const { return name_.empty() ? program() : name_.c_str(); }
    [[nodiscard]] config::CommandTemplate const& command() const { return command_; }
    /// Without what is made for each process.
    [[nodiscard]] std::vector<std::string> const& environment() const { return environment_; }
    [[nodiscard]] char* const* envp() const { return envp_.data(); }
    [[nodiscard]] std::vector<config::CommandTemplate> const& numbered_environment() const {
        return numbered_environment_;
    }
    [[nodiscard]] Attributes const& attributes() const { return attributes_; }
    /// For the child between clone and execve; null when there is nothing to do.
    [[nodiscard]] ChildAttributes const* child_attributes() const { return has_attributes_ ? &child_ : nullptr; }

    /// Whether they start the same.
    bool operator==(StartPlan const& other) const {
        return program_ == other.program_ && name_ == other.name_ && environment_ == other.environment_ &&
               command_ == other.command_ && numbered_environment_ == other.numbered_environment_ &&
               attributes_ == other.attributes_;
    }

private:
    void prepare_child();

    std::string program_;
    std::string name_;
    std::vector<std::string> environment_;
    std::vector<char*> envp_;
    config::CommandTemplate command_;
    std::vector<config::CommandTemplate> numbered_environment_;
    Attributes attributes_;
    std::vector<ChildLimit> limits_;
    std::vector<unsigned long> cpu_mask_;
    sock_fprog seccomp_{};
    ChildAttributes child_{};
    bool has_attributes_ = false;
};

}  // namespace triton::launcher
