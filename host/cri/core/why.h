#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/cri/core/core.h"

namespace triton::cri::core {

/// In one word where a pod is: "starting", "ready", "not-ready", "stopping", "stopped", "removing".
std::string_view state_word(Pod const& pod);
/// "creating", "created", "starting", "running", "stopping", "exited", "removing".
std::string_view state_word(Container const& container);

/// What a piece of work does: "the plugins make its network".
std::string_view describe(Task task);

/// Sentences for an operator: why it is in that state, what it waits for, and what would help. The first one says what
/// is; there is always one.
std::vector<std::string> why(Core const& core, Pod const& pod);
std::vector<std::string> why(Core const& core, Container const& container);

}  // namespace triton::cri::core
