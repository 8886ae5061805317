#pragma once

#include <string>

#include "launcher/supervisor/supervisor.h"

namespace triton::simulation {

/// For failure reports and for tables in tests. A process is its number when it belongs to program 0, as those of the
/// design's form do, else program and number: "Exited 3, status 9", "Signal 2:1, pid 12, 15 (stop)", "RunHelper 1:1
/// health".
std::string text(launcher::Event const& event);
std::string text(launcher::Action const& action);
std::string text(launcher::ProcessId id);
std::string text(launcher::Helper helper);
std::string text(launcher::ProcessState state);
std::string text(launcher::SupervisorPhase phase);
std::string text(Duration duration);
/// A time as its distance from the clock's epoch; TimePoint::max() is "never".
std::string text(TimePoint time);
/// What it says beyond the defaults: "count 3, stop_timeout 1s, after 0 2".
std::string text(launcher::ProgramPolicy const& policy);

}  // namespace triton::simulation
