#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/json/reader.h"

/// What vminfod answers, read and checked as far as its clients lean on it. Machines are objects as `vmadm get` shows
/// them, or parts of these; one that cannot be read is {"uuid", "zonename", "state": "unreadable", "error"}.
namespace triton::info {

/// Of answers with machines: a host with 10,000 of them sends 40 MB.
inline constexpr std::size_t most_answer_bytes = 256 << 20;

/// Errors: corrupt, when it is not JSON, or not of this kind.
Result<json::Node> read_answer(std::string_view text);
Result<json::Node> read_machine(std::string_view text);
Result<json::Array> read_machines(std::string_view text);

/// Whether vminfod could not read this machine.
bool is_unreadable(json::Node const& machine);

/// A record of /events. Errors: as above.
Result<json::Node> read_record(std::string_view line);

/// The lines that show people a record, each with its line feed; none of a record that says only that vminfod lives, or
/// that it listens. Nothing in them moves a terminal's cursor, whatever machines are called. `is_full`: whole uuids and
/// dates.
///
///     [16:12:19.453Z] 6af640c5 web0 modify: alias changed :: "web" -> "web0"
std::string event_lines(json::Node const& record, bool is_full);

struct EventForm {
    bool is_full = false;
    bool as_json = false;     ///< each record as it came
    bool with_ready = false;  ///< also the record that begins a stream
};
/// The printed form of a record, whose line is `line`; empty: nothing.
std::string event_text(std::string_view line, json::Node const& record, EventForm const& form);

/// JSON that means the same, and holds nothing that a terminal would obey.
std::string harmless_json(std::string_view json);

}  // namespace triton::info
