#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "lib/json/reader.h"

namespace triton::machine {

/// A longer report becomes {"error": ...}: the machine's owner decides what its launcher says.
inline constexpr std::size_t most_report_bytes = std::size_t{256} << 10;

/// What of a launcher's report belongs to the machine's object (`launch_status`): what stays as it is while nothing
/// happens. Uptimes, memory and processor time change with every look; `vmadm stats` shows such figures.
json::Object lasting_report(json::Object const& reported);

/// The same of what a launcher has answered; nullopt: that is not a JSON object.
std::optional<json::Object> read_report(std::string_view reported);

/// What of a lasting_report() every user of the host may see. Rejections, errors and status texts may quote the
/// configuration, and passwords in it.
json::Object open_report(json::Object const& lasting);

}  // namespace triton::machine
