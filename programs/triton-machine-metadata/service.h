#pragma once

#include <functional>
#include <memory>

#include "host/metadata/answers.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::program {

struct ServiceLimits {
    unsigned clients = 16;  ///< at a time: others wait
    milliseconds silence{60'000};
};

/// Answers those who connect to a listening socket, each in a process of its own, because a change waits for the
/// commands of the operator. Returns when nobody has asked for a while.
Result<> serve_metadata(int listener, std::function<std::unique_ptr<metadata::Answers>()> const& open_answers,
                        ServiceLimits const& limits = {});

}  // namespace triton::program
