#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/plan/program_plan.h"

namespace triton::launcher {

/// Errors of a probe's target, for the first process that has any: the others repeat them. The
/// document controls how many processes there are and how long their targets: `budget` bounds the bytes that are
/// rendered, and is lowered by them. When it does not reach for all processes, the first and the last ones are looked
/// at, at least one of each; the agent refuses what is wrong with another.
std::optional<std::string> target_fault(NetworkProbe const& probe, bool is_numbered, std::uint64_t& budget);

/// The same for the fields that are sent with it: a control character, or more than 8192 bytes.
std::optional<std::string> headers_fault(NetworkProbe const& probe, bool is_numbered, std::uint64_t& budget);

}  // namespace triton::launcher
