#include <algorithm>
#include <array>

#include <unistd.h>

#include "host/info/client/documents.h"
#include "host/info/client/find_machine.h"
#include "host/machine/cgroup_usage.h"
#include "host/parts/run_program.h"
#include "host/parts/usage.h"
#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/text/printable.h"
#include "programs/vmadm/choice.h"
#include "programs/vmadm/context.h"
#include "programs/vmadm/vminfod.h"

namespace triton::program {

namespace {

using machine::Machine;
using machine::Machines;

/// Whether a machine has snapshots with sizes, which grow while nothing tells of it.
bool has_sizes(json::Node const& machine) {
    auto const* const snapshots = json::value_of<json::Array>(machine, "snapshots");
    return snapshots && std::ranges::any_of(*snapshots, [](json::Node const& snapshot) {
               return json::member(snapshot, "size") != nullptr;
           });
}

Outcome run_get(Options const& options) {
    if (options.words.size() == 1) {
        Vminfod vminfod(options);
        auto const uuid = vminfod.find(options.words.front());
        auto machine = uuid ? vminfod.ask_machine(*uuid) : std::nullopt;
        if (machine && has_sizes(*machine) && vminfod.settle(*uuid)) machine = vminfod.ask_machine(*uuid);
        if (machine && !info::is_unreadable(*machine)) return print(machine::pretty(*machine));
    }
    auto const host = TRY_RUN(Host::open(options));
    auto const uuid = TRY_RUN(one_machine(host->machines(), options, "get"));
    auto const machine = host->machines().get(uuid);
    // The error says why, and this is what a list shows of it.
    if (!machine && machine.error().kind == ErrorKind::corrupt)
        TRY_RUN(print(machine::pretty(broken_node({uuid.text(), machine.error()}))));
    return print(machine::pretty(node_of(TRY_RUN(machine))));
}

Outcome run_list(Options const& options) {
    auto const columns = TRY_RUN(machine::parse_columns(options.order));
    auto keys = TRY_RUN(machine::parse_sort_keys(options.sort));
    keys.push_back({.key = "uuid"});  // whatever the order of the keys
    Wanted wanted;
    for (machine::ListColumn const& column : columns)
        wanted.keys.push_back(column.key);
    wanted.keys.emplace_back("waits_for");  // shown with the state
    for (machine::SortKey const& key : keys)
        wanted.keys.push_back(key.key);
    auto chosen = TRY_RUN(choose(options, "filter", wanted));
    for (json::Node const& machine : chosen.broken)
        chosen.machines.push_back(json::Node{
            json::Object{{"uuid", *json::member(machine, "uuid")}, {"state", *json::member(machine, "state")}}});
    machine::sort_machines(chosen.machines, keys);
    if (options.as_json) {
        json::Array selected;
        for (json::Node const& machine : chosen.machines)
            selected.push_back(machine::selection(machine, columns));
        return print(machine::pretty(json::Node{std::move(selected)}));
    }
    if (options.is_parsable) return print(machine::parsable_text(chosen.machines, columns, options.with_header));
    return print(machine::table_text(chosen.machines, columns, options.with_header || !options.no_header));
}

Outcome run_lookup(Options const& options) {
    if (options.has_order && !options.as_json)
        return std::unexpected(Failure{fail("Cannot specify -o without -j").error()});
    std::vector<machine::ListColumn> columns;
    if (options.has_order) columns = TRY_RUN(machine::parse_columns(options.order));
    Wanted wanted{.is_whole = options.as_json && !options.has_order};
    for (machine::ListColumn const& column : columns)
        wanted.keys.push_back(column.key);
    auto const chosen = TRY_RUN(choose(options, "lookup", wanted));
    if (options.is_unique && chosen.machines.size() != 1)
        return std::unexpected(
            Failure{fail(ErrorKind::not_found,
                         "Requested unique lookup but found " + std::to_string(chosen.machines.size()) + " results.")
                        .error()});
    json::Array selected;
    std::string uuids;
    for (json::Node const& machine : chosen.machines) {
        uuids += machine::text_at(machine, "uuid") + "\n";
        selected.push_back(columns.empty() ? machine : machine::selection(machine, columns));
    }
    return print(options.as_json ? machine::pretty(json::Node{std::move(selected)}) : uuids);
}

Outcome run_info(Options const& options) {
    if (options.words.empty()) return usage("Invalid or missing UUID for info");
    if (options.words.size() > 2) return usage("too many arguments for info: " + json::quoted(options.words[2]));
    return std::unexpected(Failure{fail(ErrorKind::unsupported, "no info types supported for brand lx").error()});
}

Outcome run_sysrq(Options const& options) {
    if (options.words.empty()) return usage("Invalid or missing UUID for sysrq");
    if (options.words.size() > 2) return usage("too many arguments for sysrq: " + json::quoted(options.words[2]));
    return std::unexpected(Failure{
        fail(ErrorKind::unsupported, "The sysrq command is only supported for VMs of brands \"bhyve\" or \"kvm\".")
            .error()});
}

/// Lines of the history for people. A line that cannot be read stays as it is.
std::string history_table(std::string_view lines, bool with_header) {
    static std::vector<machine::ListColumn> const columns{
        {"time", "TIME", 24}, {"uuid", "UUID", 36}, {"command", "COMMAND", 18}, {"outcome", "OUTCOME", 7}};
    json::Array rows;
    std::string unreadable;
    while (!lines.empty()) {
        std::string_view const line = lines.substr(0, lines.find('\n'));
        lines.remove_prefix(std::min(line.size() + 1, lines.size()));
        json::ProblemList problems(1);
        auto row = json::read_json(line, json::Limits{}, problems);
        if (row)
            rows.push_back(std::move(*row));
        else
            unreadable.append(text::printable(line)).append("\n");
    }
    return machine::table_text(rows, columns, with_header) + unreadable;
}

Outcome run_history(Options const& options) {
    if (options.words.size() > 1) return usage("too many arguments for history: " + json::quoted(options.words[1]));
    Vminfod vminfod(options);
    std::optional<Uuid> uuid;
    // also for a machine that is gone, but then only by its whole uuid
    if (!options.words.empty()) {
        uuid = Uuid::parse(options.words.front());
        if (!uuid) uuid = vminfod.find(options.words.front());
        if (!uuid) {
            auto const host = TRY_RUN(Host::open(options));
            uuid = TRY_RUN(host->machines().find(options.words.front()));
        }
    }
    info::Target target("/history");
    if (uuid) target.add("vm", uuid->text());
    machine::Store const store{machine::Layout{options.root}};
    auto const told = vminfod.ask(target);
    std::string text = told.value_or("");
    if (!told)
        for (std::string const& line : TRY_RUN(store.history(uuid)))
            text += line + "\n";
    if (uuid && text.empty()) (void)TRY_RUN(store.load(*uuid));  // there was no such VM
    return print(options.as_table ? history_table(text, !options.no_header) : text);
}

/// The snapshots of machines, as rows of a table or as objects.
Outcome run_list_snapshots(Options const& options) {
    auto const host = TRY_RUN(Host::open(options));
    Machines& machines = host->machines();
    std::vector<Uuid> uuids;
    if (options.words.empty()) {
        for (Machine const& machine : TRY_RUN(machines.store().load_all()).machines)
            uuids.push_back(machine.uuid);
    } else {
        uuids = TRY_RUN(several_machines(machines, options, "list-snapshots"));
    }
    json::Array rows;
    for (Uuid const& uuid : uuids) {
        Machine const machine = TRY_RUN(machines.store().load(uuid));
        for (machine::Snapshot const& snapshot : TRY_RUN(machines.snapshots(uuid))) {
            json::Object row{{"uuid", json::Node{uuid.text()}}, {"name", json::Node{snapshot.name}}};
            if (machine.alias) row.push_back({"alias", json::Node{*machine.alias}});
            if (snapshot.created_at) row.push_back({"created_at", json::Node{*snapshot.created_at}});
            if (snapshot.size) row.push_back({"size", json::Node{*snapshot.size}});
            rows.emplace_back(std::move(row));
        }
    }
    if (options.as_json) return print(machine::pretty(json::Node{std::move(rows)}));
    static std::vector<machine::ListColumn> const columns{{"uuid", "UUID", 36},
                                                          {"alias", "ALIAS", 10},
                                                          {"name", "SNAPSHOT", 20},
                                                          {"created_at", "CREATED", 24},
                                                          {"size", "SIZE", 12}};
    if (options.is_parsable) return print(machine::parsable_text(rows, columns));
    return print(machine::table_text(rows, columns, !options.no_header));
}

/// Shows what a machine has written to its console, without anything that could control a terminal.
Outcome run_logs(Options const& options) {
    auto const host = TRY_RUN(Host::open(options));
    auto const uuid = TRY_RUN(one_machine(host->machines(), options, "logs"));
    (void)TRY_RUN(host->machines().store().load(uuid));
    std::vector<std::string> words{"journalctl",
                                   "--quiet",
                                   "--all",
                                   "--output=cat",
                                   "--lines=" + std::to_string(options.lines),
                                   "--unit=" + TRY_RUN(host->units().unit(uuid))};
    if (options.follow) words.emplace_back("--follow");
    Outcome printed;
    bool has_reader = true;
    std::string line;  // a piece may end within a character
    auto const code = TRY_RUN(parts::stream_program(words, STDOUT_FILENO, [&](std::string_view piece) {
        constexpr std::size_t longest_line = 64 << 10;
        for (char const c : piece) {
            if (c != '\n' && line.size() < longest_line) {
                line += c == '\t' ? ' ' : c;
                continue;
            }
            printed = print(text::printable(text::without_control_sequences(line)) + "\n", has_reader);
            if (!printed || !has_reader) return false;
            line.clear();
            if (c != '\n') line += c == '\t' ? ' ' : c;
        }
        return true;
    }));
    if (!code || *code == 0) return printed;
    return failed(ErrorKind::refused,
                  "cannot show the logs of VM " + uuid.text() + ": journalctl ended with " + std::to_string(*code));
}

constexpr std::uint64_t mebibyte = 1 << 20;

json::Node number_node(std::uint64_t value) { return json::Node{static_cast<std::int64_t>(value)}; }

/// What a machine uses, for programs or for a table.
json::Node stats_of(Host& host, Uuid const& uuid, json::Node const& machine, bool for_programs) {
    auto const group = host.units().control_group(uuid);
    machine::CgroupUsage usage;
    if (group && !group->empty()) usage = machine::read_cgroup_usage("/sys/fs/cgroup", *group);
    auto const disk = host.pool().usage(machine::tree_of(uuid));
    parts::Used const used{uuid.text(), machine::text_at(machine, "state"), machine::text_at(machine, "alias"), usage,
                           disk ? std::optional(*disk) : std::nullopt};
    json::Object row = parts::usage_row(used);
    if (for_programs) return json::Node{std::move(row)};
    std::erase_if(row, [](json::Member const& member) {
        return std::ranges::any_of(parts::figures, [&](auto const& figure) { return figure.name == member.key; }) ||
               member.key.starts_with("disk_");
    });
    for (parts::Figure const& figure : parts::figures)
        if (auto const& value = usage.*figure.member)
            row.push_back({std::string(figure.column), number_node((*value + figure.unit / 2) / figure.unit)});
    if (disk) row.push_back({"disk", number_node((disk->used + mebibyte / 2) / mebibyte)});
    return json::Node{std::move(row)};
}

Outcome run_stats(Options const& options) {
    auto const host = TRY_RUN(Host::open(options));
    Machines& machines = host->machines();
    std::vector<Uuid> uuids;
    if (!options.words.empty()) {
        auto named = TRY_RUN(several_machines(machines, options, "stats"));
        uuids = std::move(named);
    }
    for (Uuid const& uuid : uuids)
        (void)TRY_RUN(machines.store().load(uuid));
    json::Array rows;
    auto const listed = TRY_RUN(machines.list());
    tell_unknown_states(*host, listed);
    if (uuids.empty()) tell_unreadable(listed.broken);
    for (Machine const& machine : listed.machines) {
        bool const is_wanted = uuids.empty() || std::ranges::find(uuids, machine.uuid) != uuids.end();
        if (is_wanted) rows.push_back(stats_of(*host, machine.uuid, node_of(machine), options.as_json));
    }
    if (options.as_json) return print(machine::pretty(json::Node{std::move(rows)}));
    std::vector<machine::ListColumn> columns{{"uuid", "UUID", 36}, {"alias", "ALIAS", 10}, {"state", "STATE", 8}};
    for (parts::Figure const& figure : parts::figures)
        columns.push_back({std::string(figure.column), std::string(figure.title), figure.title.size()});
    columns.push_back({"disk", "DISK_MIB", 8});
    return print(machine::table_text(rows, columns, !options.no_header));
}

Outcome run_events(Options const& options) {
    if (options.words.size() > 1) return usage("too many arguments for events: " + json::quoted(options.words[1]));
    info::Client const client = vminfod_client(options);
    info::Target target("/events");
    if (options.with_ready) target.add("snapshot", "true");
    if (!options.words.empty()) target.add("vm", TRY_RUN(info::find_known(client, options.words.front())).text());
    info::EventForm const form{options.is_full, options.as_json, options.with_ready};
    Outcome outcome;
    auto const followed = client.follow(target.text(), {.reader = STDOUT_FILENO}, [&](std::string_view line) {
        auto const record = info::read_record(line);
        if (!record) {
            outcome = std::unexpected(Failure{record.error()});
            return false;
        }
        bool has_reader = true;
        outcome = print(info::event_text(line, *record, form), has_reader);
        return outcome && has_reader;
    });
    if (!outcome || followed) return outcome;
    return std::unexpected(Failure{followed.error()});
}

void add_stats(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-j", options.as_json, "Prints an array of objects; sizes are in bytes.");
    app.add_flag("-H", options.no_header, "No header line.");
}
void add_list(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-j,--json", options.as_json, "An array of objects with the columns.");
    app.add_flag("-p", options.is_parsable, "Separates values with \":\"; a \"\\\" precedes a \":\" in a value.");
    app.add_flag("-H", options.no_header, "No header line.");
    app.add_flag("-h", options.with_header, "Always prints a header line, also with -p.");
    app.add_option("-o", options.order, "The columns.");
    app.add_option("-s", options.sort, "The sort keys; a - before one means descending.");
}
void add_history(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-t,--table", options.as_table, "A table for people instead of JSON lines.");
    app.add_flag("-H", options.no_header, "No header line of the table.");
}
void add_list_snapshots(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-j,--json", options.as_json, "An array of objects; sizes are in bytes.");
    app.add_flag("-p", options.is_parsable, "Separates values with \":\"; a \"\\\" precedes a \":\" in a value.");
    app.add_flag("-H", options.no_header, "No header line.");
}
void add_lookup(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-j", options.as_json, "An array of objects.");
    app.add_flag("-1", options.is_unique, "Fails unless exactly one is found.");
    app.add_option("-o", options.order, "Only these properties.")->each([&options](std::string const&) {
        options.has_order = true;
    });
}
void add_events(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-f", options.is_full, "Whole uuids and dates.");
    app.add_flag("-j", options.as_json, "Records as JSON, one a line.");
    app.add_flag("-r", options.with_ready, "Adds the first record of the stream, with all VMs.");
}
void add_logs(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-f,--follow", options.follow, "Continues with what is written from now on.");
    app.add_option("-n,--lines", options.lines, "The number of last lines (10).")->check(CLI::Range(0, 1'000'000));
}

}  // namespace

std::span<Command const> look_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"get", "json", "VM", "prints all properties of a VM as JSON", add_words, run_get},
        {"history", "", "[-t] [VM]", "prints what was done to VMs, as JSON lines", add_history, run_history},
        {"info", "", "VM [TYPES]", "refused: it is for virtual hardware", add_words, run_info},
        {"list-snapshots", "", "[-jpH] [VM | F=V]...", "prints a table of snapshots", add_list_snapshots,
         run_list_snapshots},
        {"list", "", "[-jpHh] [-o F,F] [-s F,F] [F=V]...", "prints a table of VMs", add_list, run_list},
        {"logs", "", "[-f] [-n LINES] VM", "prints what the VM has written to its console", add_logs, run_logs},
        {"lookup", "", "[-j | -1] [-o F,F] [F=V]...", "prints uuids of VMs, or objects", add_lookup, run_lookup},
        {"events", "", "[-fjr] [VM]", "prints changes as they happen", add_events, run_events},
        {"stats", "", "[-j] [-H] [VM | F=V]...", "prints what VMs use now", add_stats, run_stats},
        {"sysrq", "", "VM nmi|screenshot", "refused: it is for virtual hardware", add_words, run_sysrq},
    });
    return rows;
}

}  // namespace triton::program
