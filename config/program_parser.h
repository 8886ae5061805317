#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/reading.h"

namespace triton::config {

/// The parsers of keys that are more than a row: programs, and the keys of a Program that are objects.

/// Why a text is no version; empty when it is one.
std::string version_fault(std::string_view version);
std::optional<std::uint32_t> read_count(Node const& node, Where const& at, Reading& reading);

void parse_programs(Node const& node, Where const& at, ProcessConfiguration& configuration, Reading& reading);

void parse_schedule(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_backoff(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_start_limit(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_pre_stop(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_on_failure(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_readiness(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_health(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_limits(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_cpu_affinity(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_cgroup(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_capabilities(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_seccomp(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_landlock(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_output(Node const& node, Where const& at, Program& program, Reading& reading);
void parse_sockets(Node const& node, Where const& at, Program& program, Reading& reading);

/// What is wrong between programs: after and requires that lead nowhere or in a circle, sockets and files that two
/// programs want in different ways.
void check_programs(std::vector<Program> const& programs, Where const& at, Reading& reading);

constexpr std::string_view version_text = R"(,"minLength":1,"maxLength":255,"pattern":"^(?!\\.{1,2}$)[^/\\u0000]+$")";
constexpr std::string_view count_range = R"(,"minimum":0,"maximum":65535)";
constexpr std::string_view name_rule =
    "a name is a letter or a digit and up to 63 more of them, or of \".\", \"_\" and \"-\"";
constexpr std::string_view name_text = R"(,"pattern":"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")";
constexpr std::string_view reserved_prefix = "triton-";
constexpr std::string_view program_map =
    R"(,"propertyNames":{"pattern":"^(?!triton-)[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"},"additionalProperties":{"type":"object","$ref":"#/$defs/Program"})";

/// Whether a text is such a name.
bool is_name(std::string_view text);

}  // namespace triton::config
