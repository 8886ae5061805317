#pragma once

#include <string_view>
#include <vector>

#include "host/info/reader.h"
#include "lib/base/result.h"
#include "programs/vminfod/request_text.h"

namespace triton::program {

/// The parameters of a request for /events: `since`, `snapshot`, and lists of `vm`, `type` and `field`. A browser that
/// comes back says in Last-Event-ID what it has seen last; that counts before `since`. Errors: invalid, with the name
/// of the parameter.
Result<info::Reader::Options> parse_event_options(std::vector<Parameter> const& parameters,
                                                  std::string_view last_event_id);

}  // namespace triton::program
