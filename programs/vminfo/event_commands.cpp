#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include <unistd.h>

#include "host/info/client/documents.h"
#include "host/info/client/event_selection.h"
#include "host/info/client/find_machine.h"
#include "host/info/client/http_answer.h"
#include "host/machine/properties.h"
#include "lib/base/digits.h"
#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "programs/vminfo/command_line.h"

namespace triton::program {

namespace {

using info::EventSelection;
using Verdict = EventSelection::Verdict;

bool has(std::vector<std::string> const& list, std::string_view text) {
    return std::ranges::find(list, text) != list.end();
}

/// Whether a record is about a change of one of these properties.
bool touches(json::Node const& record, std::vector<std::string> const& properties) {
    auto const* const changes = json::value_of<json::Array>(record, "changes");
    return changes && std::ranges::any_of(*changes, [&properties](json::Node const& change) {
               return has(properties, info::changed_property(change));
           });
}

/// Whether --type and --field select a record about machines.
bool is_of_interest(json::Node const& record, Options const& options) {
    std::string const type = json::text_of(record, "type");
    bool const is_event = type == "create" || type == "modify" || type == "delete";
    if (!is_event) return true;
    if (!options.types.empty() && !has(options.types, type)) return false;
    return options.changed.empty() || type != "modify" || touches(record, options.changed);
}

/// The request for the wanted events. Conditions need all events: an event that is left out might change whether a
/// machine fits.
std::string target_of(Options const& options, EventSelection const& selection, std::optional<Uuid> const& uuid) {
    info::Target target("/events");
    if (!options.since.empty())
        target.add("since", options.since);
    else if (selection.needs_snapshot() || options.with_ready)
        target.add("snapshot", "true");
    if (uuid) target.add("vm", uuid->text());
    if (selection.needs_snapshot()) return target.text();
    for (std::string const& type : options.types)
        target.add("type", type);
    for (std::string const& name : options.changed)
        target.add("field", name);
    return target.text();
}

/// Whether the one machine of a stream does not exist, or no longer does.
bool tells_of_none(json::Node const& record) {
    auto const* const machines = json::value_of<json::Array>(record, "vms");
    return json::text_of(record, "type") == "delete" || (machines && machines->empty());
}

info::FollowLimits limits_of(Options const& options) {
    info::FollowLimits limits{.reader = STDOUT_FILENO};
    if (options.timeout > 0)
        limits.deadline = std::chrono::steady_clock::now() +
                          std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout * 1000));
    return limits;
}

/// What was waited for in vain: "web0 has not reached state=running within 60 s".
std::unexpected<Error> not_in_time(Options const& options) {
    std::string text =
        options.words.empty() ? "no VM has reached" : json::shown(options.words.front()) + " has not reached";
    for (std::string const& condition : options.until)
        text += (&condition == &options.until.front() ? " " : " and ") + json::shown(condition);
    std::array<char, 32> seconds{};
    (void)std::snprintf(seconds.data(), seconds.size(), "%g", options.timeout);
    return fail(ErrorKind::timeout, text + " within " + seconds.data() + " s");
}

Outcome run_events(Options const& options) {
    TRY(expect_words(options, "events", 0, 1));
    if (!std::ranges::all_of(options.since, is_digit))
        return fail("--since " + json::quoted(options.since) + " is not the sequence number of an event");
    for (std::string const& name : options.changed)
        if (!machine::find_property(name)) return fail("Invalid field: " + json::quoted(name));
    auto filters = TRY(filters_of(options.filters, "filter"));
    EventSelection selection(std::move(filters), TRY(filters_of(options.until, "until")));
    info::Client const client = client_of(options);
    info::FollowLimits const limits = limits_of(options);
    std::optional<Uuid> uuid;
    if (!options.words.empty()) uuid = TRY(info::find_known(client, options.words.front()));
    info::EventForm const form{options.is_full, options.as_json, options.with_ready, options.changed};

    Outcome outcome;
    bool has_ended = false;
    auto const take = [&](std::string_view line) {
        auto const record = info::read_record(line);
        if (!record) {
            outcome = std::unexpected(record.error());
            return false;
        }
        Verdict const verdict = selection.look(*record);
        bool const is_shown = verdict != Verdict::hidden && is_of_interest(*record, options);
        auto const printed = is_shown ? print(info::event_text(line, *record, form)) : Result<bool>(true);
        if (!printed) outcome = std::unexpected(printed.error());
        if (uuid && !options.until.empty() && tells_of_none(*record))
            outcome = fail(ErrorKind::not_found, "VM " + uuid->text() + " was deleted");
        has_ended = verdict == Verdict::last || !outcome || !*printed;
        return !has_ended;
    };
    auto const followed = client.follow(target_of(options, selection, uuid), limits, take);
    if (!outcome || followed) return outcome;
    if (limits.deadline && std::chrono::steady_clock::now() >= *limits.deadline) {
        if (options.until.empty()) return {};
        return not_in_time(options);
    }
    return followed;
}

void add_events(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-f", options.is_full, "Whole uuids and dates.");
    app.add_flag("-j", options.as_json, "Records as JSON, one a line.");
    app.add_flag("-r", options.with_ready, "Adds the first record of the stream, with all VMs.");
    app.add_option("--since", options.since, "Begins after the event with this sequence number.");
    app.add_option("--filter", options.filters, "Only VMs that fulfil this condition, before or after an event.")
        ->allow_extra_args(false);
    app.add_option("--type", options.types, "Only events of this type: create, modify or delete.")
        ->check(CLI::IsMember({"create", "modify", "delete"}))
        ->allow_extra_args(false);
    app.add_option("--field", options.changed, "Only changes of this property.")->allow_extra_args(false);
    app.add_option("--until", options.until, "Ends when a VM fulfils this condition, at once if one does.")
        ->allow_extra_args(false);
    app.add_option("--timeout", options.timeout, "Ends after this many seconds; with --until that is a failure.")
        ->check(CLI::Range(0.001, 1e9));
}

}  // namespace

std::span<Command const> event_commands() {
    static constexpr auto rows = std::to_array<Command>(
        {{"events", "[-fjr] [VM]", "prints changes as they happen", "", add_events, run_events}});
    return rows;
}

}  // namespace triton::program
