#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "config/reading.h"
#include "lib/base/box.h"

namespace triton::config {

/// The parsers of keys that are more than a row: programs, and the keys of a Program that are objects.

/// Why a text is not a version; empty when it is one.
std::string version_fault(std::string_view version);
/// How many processes.
constexpr auto highest_count = static_cast<std::int64_t>(process::highest_process_number);
using Count = json::Integer<std::uint32_t, 0, highest_count>;

void parse_programs(json::Node const& node, json::Where const& at, ProcessConfiguration& configuration,
                    Reading& reading);

void parse_schedule(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_backoff(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_start_limit(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_pre_stop(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_on_failure(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_readiness(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_health(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_files(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_success_codes(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_permanent_codes(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_on_success(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_on_stop(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_stop_sequence(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_environment_files(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_stdin(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_tty(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_limits(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_cpu_affinity(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_cgroup(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_capabilities(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_seccomp(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_landlock(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_output(json::Node const& node, json::Where const& at, Program& program, Reading& reading);
void parse_sockets(json::Node const& node, json::Where const& at, Program& program, Reading& reading);

inline constexpr json::Shape file_shape{
    .types = "string or object", .pattern = R"(^/[^\u0000]*$)", .section = "Argument", .further = argument_or_null};

/// An absolute path, or an Argument that becomes one.
template <class Object>
void parse_file(json::Node const& node, json::Where const& at, Object& object, Reading& reading) {
    if (node.get<std::string>()) {
        object.file = json::Path::read(node, at, reading);
    } else if (node.get<json::Object>()) {
        object.file_argument = read_argument(node, at, reading);
    } else {
        reading.problems.add(at, std::string("expected a string or an object, found ").append(node.kind()));
    }
}

/// Errors between programs: after and requires that lead nowhere or in a circle, sockets and files that two
/// programs want in different ways.
void check_programs(std::vector<Box<Program>> const& programs, json::Where const& at, Reading& reading);

inline constexpr json::Shape version_shape{
    .types = "string", .shortest = 1, .longest = 255, .pattern = R"(^(?!\.{1,2}$)[^/\u0000]+$)"};
constexpr std::string_view name_rule =
    "a name is a letter or a digit and up to 63 more of them, or of \".\", \"_\" and \"-\"";
inline constexpr json::Shape name_shape{.types = "string", .pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"};
constexpr std::string_view reserved_prefix = "triton-";

/// In the order of OutputKind.
inline constexpr std::array<std::string_view, 2> output_words{"inherit", "null"};

inline constexpr std::array<std::string_view, 2> files_actions{"restart", "signal"};

/// Whether a text is such a name.
bool is_name(std::string_view text);

}  // namespace triton::config
