#include "host/info/client/documents.h"

#include <algorithm>

#include "host/machine/listing.h"
#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "lib/text/utf8.h"
#include "lib/text/width.h"

namespace triton::info {

namespace {

constexpr json::Limits limits{.document_bytes = most_answer_bytes, .values = 1 << 26};

std::unexpected<Error> corrupt(std::string reason) {
    return fail(ErrorKind::corrupt, "read the answer of vminfod", std::move(reason));
}

bool is_machine(json::Node const& node) { return json::value_of<std::string>(node, "uuid") != nullptr; }

}  // namespace

Result<json::Node> read_answer(std::string_view text) {
    json::ProblemList problems(1);
    auto node = json::read_json(text, limits, problems);
    if (!node) return corrupt(problems.empty() ? "it is not JSON" : std::move(problems).take().front().text());
    return std::move(*node);
}

Result<json::Node> read_machine(std::string_view text) {
    json::Node machine = TRY(read_answer(text));
    if (!is_machine(machine)) return corrupt("it is not a machine");
    return machine;
}

Result<json::Array> read_machines(std::string_view text) {
    json::Node answer = TRY(read_answer(text));
    auto* const machines = std::get_if<json::Array>(&answer.value);
    if (!machines || !std::ranges::all_of(*machines, is_machine)) return corrupt("it is not a list of machines");
    return std::move(*machines);
}

bool is_unreadable(json::Node const& machine) {
    auto const* const state = json::value_of<std::string>(machine, "state");
    return state && *state == "unreadable";
}

Result<json::Node> read_record(std::string_view line) {
    json::Node record = TRY(read_answer(line));
    if (!json::value_of<std::string>(record, "type")) return corrupt("it is not an event: " + json::quoted(line));
    return record;
}

// --- for people ---

namespace {

constexpr std::size_t most_alias = 30;
constexpr std::size_t most_value_bytes = 4096;  // a machine may have megabytes of metadata

std::string alias_of(json::Node const& record) {
    std::string alias = json::text_of(record, "alias");
    if (json::Node const* const machine = json::member(record, "vm"); alias.empty() && machine)
        alias = json::text_of(*machine, "alias");
    if (alias.empty()) return "-";
    alias = text::printable(alias);
    if (text::width_of(alias) <= most_alias) return alias;
    return std::string(text::prefix_of_width(alias, most_alias - 3)) + "...";
}

/// Formats a time as "2016-06-07T16:12:19.453Z", or as "16:12:19.453Z".
std::string time_of(json::Node const& record, bool is_full) {
    std::string date = json::text_of(record, "date");
    if (date.empty()) date = json::text_of(record, "ts");
    std::size_t const time = date.find('T');
    return is_full || time == std::string::npos ? date : date.substr(time + 1);
}

std::string uuid_of(json::Node const& record, bool is_full) {
    std::string uuid = json::text_of(record, "uuid");
    if (uuid.empty()) uuid = json::text_of(record, "zonename");
    if (uuid.empty()) return "-";
    return is_full ? uuid : uuid.substr(0, 8);
}

/// The first of these members, as JSON: it has our name, or that of SmartOS.
std::string value_of(json::Node const& change, std::string_view name, std::string_view other) {
    json::Node const* node = json::member(change, name);
    if (!node) node = json::member(change, other);
    if (!node) return "null";
    json::Writer out;
    out.value(*node);
    return text::shortened(out.text(), most_value_bytes);
}

std::string path_of(json::Node const& change) {
    std::string path = json::text_of(change, "prettyPath");
    return path.empty() ? json::text_of(change, "path") : path;
}

std::string count_text(json::Node const& record) {
    auto const* const machines = json::value_of<json::Array>(record, "vms");
    return std::to_string(machines ? machines->size() : 0) + " VMs";
}

}  // namespace

std::string changed_property(json::Node const& change) {
    std::string path = json::text_of(change, "path");
    if (path.empty()) path = json::text_of(change, "prettyPath");
    return path.substr(0, path.find('.'));
}

std::string event_lines(json::Node const& record, bool is_full, std::span<std::string const> properties) {
    std::string const type = json::text_of(record, "type");
    if (type == "heartbeat" || type == "ack") return "";
    std::string const head = "[" + time_of(record, is_full) + "] " + uuid_of(record, is_full) + " ";
    auto const line = [](std::string const& text) { return text::printable(text) + "\n"; };
    if (type == "ready") return line(head + "- ready: " + count_text(record));
    if (type == "resync") return line(head + "- resync: events were missed, there are " + count_text(record));
    std::string const subject = head + alias_of(record) + " " + type;
    if (type != "modify") return line(subject);
    auto const* const changes = json::value_of<json::Array>(record, "changes");
    std::string lines;
    for (json::Node const& change : changes ? *changes : json::Array{}) {
        bool const is_wanted =
            properties.empty() || std::ranges::find(properties, changed_property(change)) != properties.end();
        if (!is_wanted) continue;
        lines += line(subject + ": " + path_of(change) + " " + json::text_of(change, "action") +
                      " :: " + value_of(change, "from", "oldValue") + " -> " + value_of(change, "to", "newValue"));
    }
    return lines;
}

std::string event_text(std::string_view line, json::Node const& record, EventForm const& form) {
    std::string const type = json::text_of(record, "type");
    bool const begins = type == "ready" || type == "ack";
    if (type == "heartbeat" || (begins && !form.with_ready)) return "";
    return form.as_json ? text::printable_json(line) + "\n" : event_lines(record, form.is_full, form.properties);
}

}  // namespace triton::info
