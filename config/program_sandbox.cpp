#include <array>
#include <unordered_set>

#include "config/program_parser.h"

// What a program is kept from. The launcher checks the names of capabilities and system calls: it has the libraries
// that know them.

namespace triton::config {

namespace {

constexpr std::array<std::string_view, 3> seccomp_profiles{"default", "strict", "none"};
constexpr std::array<std::string_view, 3> seccomp_actions{"errno", "kill", "log"};
constexpr std::array<std::string_view, 2> landlock_reaches{"any", "own"};

void check_seccomp(process::SeccompSettings const& seccomp, Present<process::SeccompSettings>, json::Where const& at,
                   Reading& reading) {
    json::Where const deny_at{&at, "deny"};
    std::unordered_set<std::string_view> const allowed(seccomp.allow.begin(), seccomp.allow.end());
    for (std::size_t i = 0; i < seccomp.deny.size(); ++i) {
        if (allowed.contains(seccomp.deny[i]))
            reading.problems.add(json::Where{&deny_at, i}, json::shown(seccomp.deny[i]) + " is also in allow");
    }
}

}  // namespace

std::string advice(TableOf<process::CapabilitySettings>, std::string_view key) {
    if (key != "drop" && key != "add") return {};
    return R"(; "bounding" names those that stay: [] drops all, ["NET_BIND_SERVICE"] all others)";
}

std::span<Field<process::CapabilitySettings> const> table(TableOf<process::CapabilitySettings>) {
    static constexpr std::array<Field<process::CapabilitySettings>, 3> rows{{
        {.name = "bounding",
         .value = as<&process::CapabilitySettings::bounding, json::List<json::Text>>,
         .description = "The most that a process and its children can ever get. Absent: unchanged; empty: none."},
        {.name = "ambient",
         .value = as<&process::CapabilitySettings::ambient, json::List<json::Text>>,
         .description = "What a process has although it is not root, and what its children keep."},
        {.name = "inheritable",
         .value = as<&process::CapabilitySettings::inheritable, json::List<json::Text>>,
         .description = "What an executable file with the same capabilities may add."},
    }};
    return rows;
}

std::span<Field<process::SeccompSettings> const> table(TableOf<process::SeccompSettings>) {
    static constexpr std::array<Field<process::SeccompSettings>, 4> rows{{
        {.name = "profile",
         .value = as<&process::SeccompSettings::profile, json::Choice<process::SeccompProfile, seccomp_profiles>>,
         .description = "The set of system calls to start from. The default is `default`."},
        {.name = "allow",
         .value = as<&process::SeccompSettings::allow, json::List<json::Text>>,
         .description = "Further system calls, or groups of them (`@clock`), that are allowed."},
        {.name = "deny",
         .value = as<&process::SeccompSettings::deny, json::List<json::Text>>,
         .description = "System calls, or groups of them, that are refused."},
        {.name = "action",
         .value = as<&process::SeccompSettings::action, json::Choice<process::SeccompAction, seccomp_actions>>,
         .description = "The result of a refused call: EPERM (the default), the end of the process, or only a line in "
                        "the kernel's log."},
    }};
    return rows;
}

std::span<Field<process::LandlockSettings> const> table(TableOf<process::LandlockSettings>) {
    static constexpr std::array<Field<process::LandlockSettings>, 5> rows{{
        {.name = "readOnly",
         .value = as<&process::LandlockSettings::read_only, json::List<json::Path>>,
         .description = "What may be read, including everything below it."},
        {.name = "readWrite",
         .value = as<&process::LandlockSettings::read_write, json::List<json::Path>>,
         .description = "What may be read and changed."},
        {.name = "execute",
         .value = as<&process::LandlockSettings::execute, json::List<json::Path>>,
         .description = "What may be read and executed."},
        {.name = "signals",
         .value = as<&process::LandlockSettings::signals, json::Choice<process::LandlockReach, landlock_reaches>>,
         .description = "Whom a process may signal: everything that its user may (the default), or only itself and "
                        "what it starts."},
        {.name = "abstractSockets",
         .value =
             as<&process::LandlockSettings::abstract_sockets, json::Choice<process::LandlockReach, landlock_reaches>>,
         .description = "The same for Unix sockets with an abstract name."},
    }};
    return rows;
}

void parse_capabilities(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.capabilities = read_object<process::CapabilitySettings>(node, at, reading);
}

void parse_seccomp(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.seccomp = read_object<process::SeccompSettings, check_seccomp>(node, at, reading);
}

void parse_landlock(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.landlock = read_object<process::LandlockSettings>(node, at, reading);
}

}  // namespace triton::config
