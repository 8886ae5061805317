#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/json/reader.h"

/// The answers of vminfod, read and checked as far as its clients depend on them. Machines are objects as shown by
/// `vmadm get`, or parts of these; an unreadable one is {"uuid", "zonename", "state": "unreadable", "error"}.
namespace triton::info {

/// The limit for answers with machines: a host with 10,000 of them sends 40 MB.
inline constexpr std::size_t most_answer_bytes = 256 << 20;

/// Errors: corrupt, when it is not JSON or not of this kind.
Result<json::Node> read_answer(std::string_view text);
Result<json::Node> read_machine(std::string_view text);
Result<json::Array> read_machines(std::string_view text);

/// Whether vminfod could not read this machine.
bool is_unreadable(json::Node const& machine);

/// Reads a record of /events. Errors: as above.
Result<json::Node> read_record(std::string_view line);

/// The lines that show a record to people, each with its line feed. A record that only says that vminfod is alive or
/// listens has none. Nothing in them moves a terminal's cursor, whatever the names of machines are. `is_full`: whole
/// uuids and dates. `properties`: only changes of these; empty: of all.
///
///     [16:12:19.453Z] 6af640c5 web0 modify: alias changed :: "web" -> "web0"
std::string event_lines(json::Node const& record, bool is_full, std::span<std::string const> properties = {});

struct EventForm {
    bool is_full = false;
    bool as_json = false;                      ///< each record unchanged
    bool with_ready = false;                   ///< also the record that begins a stream
    std::vector<std::string> properties = {};  ///< whose changes are shown to people; empty: of all
};
/// The property that a change is about or in.
std::string changed_property(json::Node const& change);
/// The text to print for a record, whose line is `line`; empty: nothing.
std::string event_text(std::string_view line, json::Node const& record, EventForm const& form);

}  // namespace triton::info
