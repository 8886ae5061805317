#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace triton::config {

/// How a program is supervised, in words: what the document says and what the supervisor acts on is one type. Each enum
/// has its names beside it, in its order.

/// When a process that has ended is started again. A one-shot or a scheduled run that has succeeded is done, whatever
/// this says.
enum class RestartWhen : std::uint8_t { always, on_failure, never };
inline constexpr std::array<std::string_view, 3> restart_names{"always", "on-failure", "never"};
static_assert(restart_names.size() == static_cast<std::size_t>(RestartWhen::never) + 1);

/// How a process has ended: by an exit code, or signal_end plus the signal.
using End = std::uint16_t;
inline constexpr End signal_end = 256;

/// Who gets the stop signal.
enum class StopScope : std::uint8_t { process, tree };
inline constexpr std::array<std::string_view, 2> stop_scope_names{"process", "tree"};
static_assert(stop_scope_names.size() == static_cast<std::size_t>(StopScope::tree) + 1);

/// What happens to running processes of a program that has changed. With `keep` the next start takes the new one.
enum class OnChange : std::uint8_t { keep, restart, signal };
inline constexpr std::array<std::string_view, 3> on_change_names{"keep", "restart", "signal"};
static_assert(on_change_names.size() == static_cast<std::size_t>(OnChange::signal) + 1);

/// What becomes of a due run that finds all its places taken: it is left out, or one run comes when a place is free.
enum class Missed : std::uint8_t { skip, run };
inline constexpr std::array<std::string_view, 2> missed_names{"skip", "run"};
static_assert(missed_names.size() == static_cast<std::size_t>(Missed::run) + 1);

/// The action when a process is found unhealthy.
enum class HealthAction : std::uint8_t { restart, report, exit };
inline constexpr std::array<std::string_view, 3> health_action_names{"restart", "report", "exit"};
static_assert(health_action_names.size() == static_cast<std::size_t>(HealthAction::exit) + 1);

}  // namespace triton::config
