#include <array>
#include <unordered_set>

#include "config/program_parser.h"

// What a program is kept from. Names of capabilities and system calls are the launcher's to check: it has the libraries
// that know them.

namespace triton::config {

namespace {

constexpr std::array<std::string_view, 3> seccomp_profiles{"default", "strict", "none"};
constexpr std::array<std::string_view, 3> seccomp_actions{"errno", "kill", "log"};

void check_seccomp(Seccomp const& seccomp, Present<Seccomp>, Where const& at, Reading& reading) {
    Where const deny_at{&at, "deny"};
    std::unordered_set<std::string_view> const allowed(seccomp.allow.begin(), seccomp.allow.end());
    for (std::size_t i = 0; i < seccomp.deny.size(); ++i) {
        if (allowed.contains(seccomp.deny[i]))
            reading.problems.add(Where{&deny_at, i}, shown(seccomp.deny[i]) + " is also in allow");
    }
}

}  // namespace

template <>
std::span<Field<Capabilities> const> fields_of() {
    using enum Need;
    static constexpr std::array<Field<Capabilities>, 3> rows{{
        {"bounding", optional, "array", some_texts,
         "The most that it and its children can ever get. Absent: unchanged; empty: none.",
         into<&Capabilities::bounding, read_list<read_text>>},
        {"ambient", optional, "array", some_texts, "What it has although it is not root, and its children keep.",
         into<&Capabilities::ambient, read_list<read_text>>},
        {"inheritable", optional, "array", some_texts, "What an executable file with the same capabilities may add.",
         into<&Capabilities::inheritable, read_list<read_text>>},
    }};
    return rows;
}

template <>
std::span<Field<Seccomp> const> fields_of() {
    using enum Need;
    static constexpr std::array<Field<Seccomp>, 4> rows{{
        {"profile", optional, "string", "", "The set of system calls to begin with. The default is default.",
         into<&Seccomp::profile, read_choice<SeccompProfile, seccomp_profiles>>, 0, 0, seccomp_profiles},
        {"allow", optional, "array", some_texts, "System calls, or groups of them (`@clock`), that are allowed too.",
         into<&Seccomp::allow, read_list<read_text>>},
        {"deny", optional, "array", some_texts, "System calls, or groups of them, that are refused.",
         into<&Seccomp::deny, read_list<read_text>>},
        {"action", optional, "string", "",
         "What a refused call meets: EPERM (the default), the end of the process, or only a line in the kernel's log.",
         into<&Seccomp::action, read_choice<SeccompAction, seccomp_actions>>, 0, 0, seccomp_actions},
    }};
    return rows;
}

template <>
std::span<Field<Landlock> const> fields_of() {
    using enum Need;
    static constexpr std::array<Field<Landlock>, 3> rows{{
        {"readOnly", optional, "array", absolute_paths, "What may be read, with all that is below it.",
         into<&Landlock::read_only, read_list<read_absolute_path>>},
        {"readWrite", optional, "array", absolute_paths, "What may be read and changed.",
         into<&Landlock::read_write, read_list<read_absolute_path>>},
        {"execute", optional, "array", absolute_paths, "What may be read and executed.",
         into<&Landlock::execute, read_list<read_absolute_path>>},
    }};
    return rows;
}

void parse_capabilities(Node const& node, Where const& at, Program& program, Reading& reading) {
    program.capabilities = read_object<Capabilities>(node, at, reading);
}

void parse_seccomp(Node const& node, Where const& at, Program& program, Reading& reading) {
    program.seccomp = read_object<Seccomp, check_seccomp>(node, at, reading);
}

void parse_landlock(Node const& node, Where const& at, Program& program, Reading& reading) {
    program.landlock = read_object<Landlock>(node, at, reading);
}

}  // namespace triton::config
