#pragma once

#include <string>

#include "launcher/supervisor.h"

namespace triton::simulation {

/// For failure reports and for tables in tests: "Exited 3, status 9", "Signal 3, pid 12, 15 (stop)".
std::string text(launcher::Event const& event);
std::string text(launcher::Action const& action);
std::string text(launcher::Supervisor::State state);
std::string text(launcher::Supervisor::Phase phase);
std::string text(Duration duration);

}  // namespace triton::simulation
