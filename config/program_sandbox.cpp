#include <array>
#include <unordered_set>

#include "config/program_parser.h"

// What a program is kept from. Names of capabilities and system calls are the launcher's to check: it has the libraries
// that know them.

namespace triton::config {

namespace {

constexpr std::array<std::string_view, 3> seccomp_profiles{"default", "strict", "none"};
constexpr std::array<std::string_view, 3> seccomp_actions{"errno", "kill", "log"};

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

template <>
std::span<Field<process::CapabilitySettings> const> fields_of() {
    using enum Need;
    static constexpr std::array<Field<process::CapabilitySettings>, 3> rows{{
        {"bounding", optional, "array", some_texts,
         "The most that it and its children can ever get. Absent: unchanged; empty: none.",
         into<&process::CapabilitySettings::bounding, read_list<read_text>>},
        {"ambient", optional, "array", some_texts, "What it has although it is not root, and its children keep.",
         into<&process::CapabilitySettings::ambient, read_list<read_text>>},
        {"inheritable", optional, "array", some_texts, "What an executable file with the same capabilities may add.",
         into<&process::CapabilitySettings::inheritable, read_list<read_text>>},
    }};
    return rows;
}

template <>
std::span<Field<process::SeccompSettings> const> fields_of() {
    using enum Need;
    static constexpr std::array<Field<process::SeccompSettings>, 4> rows{{
        {"profile", optional, "string", "", "The set of system calls to begin with. The default is default.",
         into<&process::SeccompSettings::profile, read_choice<process::SeccompProfile, seccomp_profiles>>, 0, 0,
         seccomp_profiles},
        {"allow", optional, "array", some_texts, "System calls, or groups of them (`@clock`), that are allowed too.",
         into<&process::SeccompSettings::allow, read_list<read_text>>},
        {"deny", optional, "array", some_texts, "System calls, or groups of them, that are refused.",
         into<&process::SeccompSettings::deny, read_list<read_text>>},
        {"action", optional, "string", "",
         "What a refused call meets: EPERM (the default), the end of the process, or only a line in the kernel's log.",
         into<&process::SeccompSettings::action, read_choice<process::SeccompAction, seccomp_actions>>, 0, 0,
         seccomp_actions},
    }};
    return rows;
}

template <>
std::span<Field<process::LandlockSettings> const> fields_of() {
    using enum Need;
    static constexpr std::array<Field<process::LandlockSettings>, 3> rows{{
        {"readOnly", optional, "array", absolute_paths, "What may be read, with all that is below it.",
         into<&process::LandlockSettings::read_only, read_list<read_absolute_path>>},
        {"readWrite", optional, "array", absolute_paths, "What may be read and changed.",
         into<&process::LandlockSettings::read_write, read_list<read_absolute_path>>},
        {"execute", optional, "array", absolute_paths, "What may be read and executed.",
         into<&process::LandlockSettings::execute, read_list<read_absolute_path>>},
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
