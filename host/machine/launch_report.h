#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/json/reader.h"

namespace triton::machine {

/// A longer report becomes {"error": ...}: a machine's owner decides what its launcher reports.
inline constexpr std::size_t most_report_bytes = std::size_t{256} << 10;

/// The part of a launcher's report that belongs to the machine's object (`launch_status`): what does not change while
/// nothing happens. Uptimes, memory and processor time change with every look; `vmadm stats` shows those.
json::Object lasting_report(json::Object const& reported);

/// The same for the text of a report; nullopt: it is not a JSON object.
std::optional<json::Object> read_report(std::string_view reported);

/// Why a launcher has accepted no configuration so far; empty: it has one, or reports no reason. It starts nothing
/// until it gets another one. `lasting`: of a lasting_report().
std::vector<std::string> first_rejection(json::Object const& lasting);

/// The texts of a launcher's list of reasons: at most 20 of 1000 bytes, harmless on a terminal.
std::vector<std::string> shown_reasons(json::Object const& object, std::string_view name);

/// The part of a lasting_report() that every user of the host may see. Rejections, errors and status texts may quote
/// the configuration, with passwords in it.
json::Object open_report(json::Object const& lasting);

}  // namespace triton::machine
