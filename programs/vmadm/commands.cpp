#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

#include <unistd.h>

#include "host/machine/listing.h"
#include "host/machine/machines.h"
#include "host/machine/properties.h"
#include "host/machine/values.h"
#include "lib/base/read_file.h"
#include "lib/base/signal_names.h"
#include "lib/base/signal_text.h"
#include "lib/base/write_all.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "programs/vmadm/command_line.h"
#include "programs/vmadm/enter.h"
#include "programs/vmadm/host_parts.h"
#include "programs/vmadm/run_program.h"

namespace triton::program {

namespace {

using machine::Machine;
using machine::Machines;

constexpr std::size_t most_payload_bytes = 16 << 20;
constexpr std::string_view no_networks =
    "note: nics: they are kept and shown, and this version makes no links for them: the VM has a loopback only";

std::int64_t now() {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * 1'000'000 + time.tv_nsec / 1000;
}

void say(std::string_view text) { (void)write_all(STDERR_FILENO, std::string(text) + "\n"); }  // nobody to tell

/// Data for whoever reads standard output. That nobody reads any more is not an error.
Outcome print(std::string_view text) {
    if (!write_all(STDOUT_FILENO, text) && errno != EPIPE)
        return std::unexpected(Failure{fail(errno, "write the output").error()});
    return {};
}

/// What a command works with.
class Host {
public:
    static std::expected<std::unique_ptr<Host>, Failure> open(Options const& options) {
        machine::Layout layout{options.root};
        auto pool = TRY_RUN(open_host_pool(layout));
        return std::unique_ptr<Host>(new Host(options, std::move(layout), std::move(pool)));
    }
    Machines& machines() { return machines_; }
    SystemdUnits& units() { return units_; }

    void note(std::string_view text) const {
        if (!is_quiet_) say(text);
    }

private:
    Host(Options const& options, machine::Layout const& layout, std::unique_ptr<storage::Pool> pool)
        : is_quiet_(options.is_quiet), pool_(std::move(pool)), images_(layout.images()), machines_(layout, parts()) {}

    machine::HostParts parts() {
        machine::HostParts parts{.pool = *pool_, .images = images_, .units = units_, .launcher = launcher_, .now = now};
        parts.notice = [this](std::string const& text) { note(text); };
        if (!is_quiet_ && ::isatty(STDERR_FILENO) == 1)
            parts.progress = [](std::string_view operation, std::string_view step) {
                say(std::string(operation) + ": " + std::string(step));
            };
        return parts;
    }

    bool is_quiet_;
    std::unique_ptr<storage::Pool> pool_;
    InstalledImages images_;
    SystemdUnits units_;
    HostLauncher launcher_;
    Machines machines_;
};

json::Node node_of(Machine const& machine) {
    json::ProblemList problems(1);
    auto node = json::read_json(machine::public_text(machine),
                                json::Limits{.document_bytes = 64 << 20, .values = 1 << 22}, problems);
    return node ? std::move(*node) : json::Node{};
}

/// Writes what was done into the history.
void record(Machines& machines, Uuid const& uuid, std::string_view command, std::string outcome, std::string detail) {
    machine::Event const event{now(), uuid, std::string(command), std::move(outcome), std::move(detail)};
    if (auto added = machines.store().add_event(event); !added)
        say("note: the history misses this: " + added.error().text());
}

/// Runs a change of one machine and writes it into the history.
template <class Change>
auto recorded(Machines& machines, Uuid const& uuid, std::string_view command, std::string detail, Change change) {
    auto result = change();
    record(machines, uuid, command, result ? "ok" : result.error().text(), std::move(detail));
    return result;
}

// --- payloads ---

std::expected<std::string, Failure> payload_text(Options const& options, std::string_view refusal) {
    if (!options.file.empty() && options.file != "-") {
        auto text = read_file(options.file, most_payload_bytes);
        if (!text && text.error().kind == ErrorKind::not_found)
            return std::unexpected(
                Failure{fail(ErrorKind::not_found, "File: " + options.file + " does not exist.").error()});
        return TRY_RUN(std::move(text));
    }
    if (::isatty(STDIN_FILENO) == 1) return usage(std::string(refusal));
    return TRY_RUN(read_standard_input(most_payload_bytes));
}

std::expected<json::Object, Failure> payload(Options const& options, std::string_view refusal) {
    auto const text = payload_text(options, refusal);
    if (!text) return std::unexpected(text.error());
    return TRY_RUN(machine::read_payload(*text));
}

/// Says what of a payload was left out or changed. Errors: with --strict, the first thing that was left out.
Outcome tell(Host const& host, Options const& options, std::vector<std::string> const& ignored,
             std::vector<std::string> const& notices) {
    if (options.is_strict && !ignored.empty()) return std::unexpected(Failure{fail(ignored.front()).error()});
    for (std::string const& text : ignored)
        host.note("ignored: " + text);
    for (std::string const& text : notices)
        host.note("note: " + text);
    return {};
}

// --- which machines ---

std::expected<std::vector<machine::Filter>, Failure> filters(std::span<std::string const> words,
                                                             std::string_view what) {
    std::vector<machine::Filter> filters;
    for (std::string const& word : words) {
        if (word.find('=') == std::string::npos)
            return usage(json::quoted(word) + " is not a condition: expected KEY=VALUE");
        filters.push_back(TRY_RUN(machine::Filter::parse(word, what)));
    }
    return filters;
}

std::expected<Uuid, Failure> one_machine(Machines& machines, Options const& options, std::string_view command,
                                         std::size_t words = 1) {
    if (options.words.empty()) return usage("Invalid or missing UUID for " + std::string(command));
    if (options.words.size() > words)
        return usage("too many arguments for " + std::string(command) + ": " + json::quoted(options.words[words]));
    return TRY_RUN(machines.find(options.words.front()));
}

/// Those that the words name, each by itself, or all those that fulfil the conditions.
std::expected<std::vector<Uuid>, Failure> several_machines(Machines& machines, Options const& options,
                                                           std::string_view command) {
    if (options.words.empty()) return usage("Invalid or missing UUID for " + std::string(command));
    std::vector<Uuid> uuids;
    if (options.words.front().find('=') == std::string::npos) {
        for (std::string const& word : options.words)
            uuids.push_back(TRY_RUN(machines.find(word)));
        return uuids;
    }
    auto const wanted = filters(options.words, "filter");
    if (!wanted) return std::unexpected(wanted.error());
    for (Machine const& machine : TRY_RUN(machines.list()).machines)
        if (machine::matches_all(*wanted, node_of(machine))) uuids.push_back(machine.uuid);
    if (uuids.empty())
        return std::unexpected(Failure{fail(ErrorKind::not_found, "no VM fulfils these conditions").error()});
    return uuids;
}

/// Does something with each machine; goes on after an error, and returns the first one.
template <class Each>
Outcome for_each_machine(Options const& options, std::string_view command, Each each) {
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    auto const uuids = several_machines((*host)->machines(), options, command);
    if (!uuids) return std::unexpected(uuids.error());
    Outcome outcome;
    for (Uuid const& uuid : *uuids) {
        Result<> const done = each(**host, uuid);
        if (done) continue;
        if (outcome)
            outcome = std::unexpected(Failure{done.error()});
        else
            say(done.error().text());
    }
    return outcome;
}

// --- commands ---

Outcome run_create(Options const& options) {
    if (!options.words.empty()) return usage("too many arguments for create: " + json::quoted(options.words.front()));
    auto const given = payload(options, "Will not create from stdin when stdin is a tty.");
    if (!given) return std::unexpected(given.error());
    auto const creation = machine::read_creation(*given, now());
    if (!creation) return std::unexpected(Failure{creation.error().error("create VM")});
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    if (auto told = tell(**host, options, creation->ignored, creation->notices); !told) return told;
    if (!creation->machine.nics.empty()) (*host)->note(no_networks);
    Uuid const uuid = creation->machine.uuid;
    Machines& machines = (*host)->machines();
    TRY_RUN(recorded(machines, uuid, "create", "", [&] { return machines.create(*creation); }));
    say("Successfully created VM " + uuid.text());
    return {};
}

Outcome run_install(Options const& options) {
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    Machines& machines = (*host)->machines();
    auto const uuid = one_machine(machines, options, "install");
    if (!uuid) return std::unexpected(uuid.error());
    TRY_RUN(recorded(machines, *uuid, "install", "", [&] { return machines.install(*uuid); }));
    say("Successfully installed VM " + uuid->text());
    return {};
}

Outcome run_get(Options const& options) {
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    auto const uuid = one_machine((*host)->machines(), options, "get");
    if (!uuid) return std::unexpected(uuid.error());
    return print(machine::pretty(node_of(TRY_RUN((*host)->machines().get(*uuid)))));
}

/// Whether a key needs more of systemd than the states of units.
bool is_detail(std::string_view key) {
    static constexpr auto keys =
        std::to_array<std::string_view>({"pid", "boot_timestamp", "exit_status", "exit_timestamp", "init_restarts"});
    return std::ranges::find(keys, key) != keys.end();
}

struct Chosen {
    std::vector<json::Node> machines;
    std::vector<machine::BrokenFile> broken;
};
std::expected<Chosen, Failure> choose(Options const& options, std::string_view what, bool with_details) {
    auto const wanted = filters(options.words, what);
    if (!wanted) return std::unexpected(wanted.error());
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    bool const asks = std::ranges::any_of(
        options.words, [](std::string const& word) { return is_detail(word.substr(0, word.find('='))); });
    (*host)->units().set_detailed(with_details || asks);
    auto listed = TRY_RUN((*host)->machines().list());
    Chosen chosen{.machines = {}, .broken = std::move(listed.broken)};
    for (Machine const& machine : listed.machines) {
        json::Node node = node_of(machine);
        if (machine::matches_all(*wanted, node)) chosen.machines.push_back(std::move(node));
    }
    for (machine::BrokenFile const& file : chosen.broken)
        say(file.error.text());
    return chosen;
}

Outcome run_list(Options const& options) {
    auto const columns = TRY_RUN(machine::parse_columns(options.order));
    auto const keys = TRY_RUN(machine::parse_sort_keys(options.sort));
    bool const with_details = std::ranges::any_of(columns, [](auto const& column) { return is_detail(column.key); }) ||
                              std::ranges::any_of(keys, [](auto const& key) { return is_detail(key.key); });
    auto chosen = choose(options, "filter", with_details);
    if (!chosen) return std::unexpected(chosen.error());
    for (machine::BrokenFile const& file : chosen->broken) {
        if (!options.words.empty()) break;  // nobody knows whether they fulfil conditions
        chosen->machines.push_back(json::Node{
            json::Object{{"uuid", json::Node{file.name}}, {"state", json::Node{std::string("unreadable")}}}});
    }
    machine::sort_machines(chosen->machines, keys);
    if (options.is_parsable) return print(machine::parsable_text(chosen->machines, columns));
    return print(machine::table_text(chosen->machines, columns, options.with_header || !options.no_header));
}

Outcome run_lookup(Options const& options) {
    if (options.has_order && !options.as_json)
        return std::unexpected(Failure{fail("Cannot specify -o without -j").error()});
    std::vector<machine::ListColumn> columns;
    if (options.has_order) columns = TRY_RUN(machine::parse_columns(options.order));
    auto const chosen = choose(options, "lookup", options.as_json);
    if (!chosen) return std::unexpected(chosen.error());
    if (options.is_unique && chosen->machines.size() != 1)
        return std::unexpected(
            Failure{fail(ErrorKind::not_found,
                         "Requested unique lookup but found " + std::to_string(chosen->machines.size()) + " results.")
                        .error()});
    json::Array selected;
    std::string uuids;
    for (json::Node const& machine : chosen->machines) {
        uuids += machine::text_at(machine, "uuid") + "\n";
        selected.push_back(columns.empty() ? machine : machine::selection(machine, columns));
    }
    return print(options.as_json ? machine::pretty(json::Node{std::move(selected)}) : uuids);
}

/// key=value words as a payload.
json::Object payload_of(std::span<std::string const> words) {
    json::Object object;
    for (std::string const& word : words) {
        std::size_t const equals = word.find('=');
        object.push_back({word.substr(0, equals), json::Node{word.substr(equals + 1)}});
    }
    return object;
}

std::string change_lines(std::vector<machine::Change> const& changes) {
    std::string text;
    for (machine::Change const& change : changes)
        text += change.property + ": " + (change.before.empty() ? "-" : change.before) + " -> " +
                (change.after.empty() ? "-" : change.after) + "\n";
    return text;
}

std::string changes_json(std::vector<machine::Change> const& changes) {
    json::Writer out;
    out.open('[');
    for (machine::Change const& change : changes) {
        out.open('{').member("property", change.property);
        if (!change.before.empty()) out.key("before").raw(change.before);
        if (!change.after.empty()) out.key("after").raw(change.after);
        out.close('}');
    }
    out.close(']');
    return std::move(out).text();
}

std::expected<json::Object, Failure> update_payload(Options const& options) {
    if (options.words.size() <= 1) return payload(options, "Will not update from stdin when stdin is a tty.");
    if (!options.file.empty()) return usage("update takes either a file or key=value words");
    for (std::string const& word : std::span(options.words).subspan(1)) {
        if (word.find('=') == std::string::npos || word.starts_with("="))
            return usage(json::quoted(word) + " is not an update: expected KEY=VALUE");
        if (word.substr(0, word.find('=')).find('.') != std::string::npos)
            return usage(json::quoted(word) +
                         ": parts of properties are updated by JSON, see update_nics and set_tags");
    }
    return payload_of(std::span(options.words).subspan(1));
}

Outcome run_update(Options const& options) {
    if (options.words.empty()) return usage("Invalid or missing UUID for update");
    auto const given = update_payload(options);
    if (!given) return std::unexpected(given.error());
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    Machines& machines = (*host)->machines();
    Uuid const uuid = TRY_RUN(machines.find(options.words.front()));
    // applied to the machine as it is when it is ours to change
    auto const make = [&](Machine const& before) -> Result<machine::Update> {
        auto update = machine::read_update(before, *given);
        if (!update) return std::unexpected(update.error().error("update VM " + uuid.text()));
        if (options.is_strict && !update->ignored.empty()) return fail(update->ignored.front());
        return std::move(*update);
    };
    if (options.is_dry_run) {
        Machine const before = TRY_RUN(machines.get(uuid));
        machine::Update const update = TRY_RUN(make(before));
        if (auto told = tell(**host, options, update.ignored, update.notices); !told) return told;
        TRY_RUN(machines.check_launch(update.machine));
        return print(change_lines(update.changes));
    }
    auto const updated = machines.update(uuid, make);
    record(machines, uuid, "update", updated ? "ok" : updated.error().text(),
           updated ? changes_json(updated->changes) : "");
    machine::Update const update = TRY_RUN(updated);
    if (auto told = tell(**host, options, update.ignored, update.notices); !told) return told;
    bool const has_new_nics = std::ranges::any_of(update.changes, [](machine::Change const& change) {
        return change.property == "nics" && change.after != "[]";
    });
    if (has_new_nics) (*host)->note(no_networks);
    if (update.changes.empty()) (*host)->note("note: nothing has changed");
    std::vector<std::string> const late = update.at_start();
    auto const status = late.empty() ? Result<machine::UnitStatus>() : (*host)->units().status(uuid);
    for (std::string const& name : status && !status->is_down() ? late : std::vector<std::string>())
        (*host)->note("note: " + name + " takes effect when the VM is started again");
    say("Successfully updated VM " + uuid.text());
    return {};
}

Outcome run_validate(Options const& options) {
    std::string const action = options.words.empty() ? "" : options.words.front();
    bool const is_update = action == "update";
    if (action != "create" && !is_update) return usage("expected: validate create, or validate update BRAND");
    if (options.words.size() != (is_update ? 2U : 1U))
        return usage(is_update ? "expected: validate update BRAND" : "expected: validate create");
    auto const given = payload(options, "Will not validate from stdin when stdin is a tty.");
    if (!given) return std::unexpected(given.error());
    machine::Faults faults;
    Machine checked;
    if (is_update) {
        json::Object const blank{{"brand", json::Node{options.words[1]}}, {"image_uuid", json::Node{Uuid().text()}}};
        auto const base = machine::read_creation(blank, 0);
        auto const update = base ? machine::read_update(base->machine, *given)
                                 : machine::Checked<machine::Update>(std::unexpected(base.error()));
        if (update)
            checked = update->machine;
        else
            faults = update.error();
    } else {
        auto const creation = machine::read_creation(*given, 0);
        if (creation)
            checked = creation->machine;
        else
            faults = creation.error();
    }
    HostLauncher launcher;
    if (faults.is_empty() && checked.launch) {
        json::Writer document;
        document.value(*checked.launch);
        if (auto const judged = launcher.check(document.text()); !judged) {
            faults.bad_values.emplace_back("launch");
            faults.reasons.push_back("launch: " + judged.error().text());
            faults.reasons.insert(faults.reasons.end(), judged.error().details.begin(), judged.error().details.end());
        }
    }
    if (!faults.is_empty()) {
        json::ProblemList problems(1);
        auto const node = json::read_json(faults.json(), {}, problems);
        (void)print(node ? machine::pretty(*node) : faults.json());
        return std::unexpected(Failure{faults.error("validate the payload")});
    }
    say("VALID '" + action + "' payload for lx brand VMs.");
    return {};
}

Outcome run_start(Options const& options) {
    return for_each_machine(options, "start", [](Host& host, Uuid const& uuid) -> Result<> {
        bool const has_started = TRY(recorded(host.machines(), uuid, "start", "", [&] { return host.machines().start(uuid); }));
        say(has_started ? "Successfully started VM " + uuid.text() : "VM " + uuid.text() + " is already 'running'");
        return {};
    });
}

Outcome run_stop(Options const& options) {
    machine::StopOptions stop{.force = options.force};
    if (options.has_seconds) stop.limit = std::chrono::seconds(options.seconds);
    return for_each_machine(options, "stop", [&stop](Host& host, Uuid const& uuid) -> Result<> {
        bool const has_stopped = TRY(recorded(host.machines(), uuid, "stop", "", [&] { return host.machines().stop(uuid, stop); }));
        say(has_stopped ? "Successfully completed stop for VM " + uuid.text()
                        : "VM " + uuid.text() + " is already not 'running' (currently: stopped)");
        return {};
    });
}

Outcome run_reboot(Options const& options) {
    return for_each_machine(options, "reboot", [&options](Host& host, Uuid const& uuid) -> Result<> {
        TRY(recorded(host.machines(), uuid, "reboot", "", [&] { return host.machines().reboot(uuid, options.force); }));
        say("Successfully completed reboot for VM " + uuid.text());
        return {};
    });
}

Outcome run_kill(Options const& options) {
    int const signal = parse_signal(options.signal.data(), options.signal.data() + options.signal.size());
    if (signal < 0) return std::unexpected(Failure{fail("Unknown signal " + json::quoted(options.signal)).error()});
    return for_each_machine(options, "kill", [&](Host& host, Uuid const& uuid) -> Result<> {
        TRY(recorded(host.machines(), uuid, "kill", "", [&] { return host.machines().kill(uuid, signal); }));
        say("Sent signal \"" + signal_text(signal) + "\" to init process for VM " + uuid.text());
        return {};
    });
}

Outcome run_delete(Options const& options) {
    return for_each_machine(options, "delete", [](Host& host, Uuid const& uuid) -> Result<> {
        auto deleted = recorded(host.machines(), uuid, "delete", "", [&] { return host.machines().destroy(uuid); });
        if (!deleted) {
            Error error = std::move(deleted).error();
            error.reason = "Failed to delete VM " + uuid.text() + ": " + error.text();
            error.attempted.clear();
            return std::unexpected(std::move(error));
        }
        say("Successfully deleted VM " + uuid.text());
        return {};
    });
}

Outcome with_snapshot(Options const& options, std::string_view command, std::string_view done,
                      Result<> (Machines::*change)(Uuid const&, std::string_view)) {
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    Machines& machines = (*host)->machines();
    auto const uuid = one_machine(machines, options, command, 2);
    if (!uuid) return std::unexpected(uuid.error());
    if (options.words.size() < 2) return usage("Missing snapshot name for " + std::string(command));
    std::string const name = options.words[1];
    json::Writer detail;
    detail.value(name);
    TRY_RUN(recorded(machines, *uuid, command, detail.text(), [&] { return (machines.*change)(*uuid, name); }));
    say(std::string(done) + " snapshot " + name + " for VM " + uuid->text());
    return {};
}

Outcome run_create_snapshot(Options const& options) {
    return with_snapshot(options, "create-snapshot", "Created", &Machines::create_snapshot);
}
Outcome run_delete_snapshot(Options const& options) {
    return with_snapshot(options, "delete-snapshot", "Deleted", &Machines::delete_snapshot);
}
Outcome run_rollback_snapshot(Options const& options) {
    return with_snapshot(options, "rollback-snapshot", "Rolled back", &Machines::rollback_snapshot);
}

Outcome run_info(Options const& options) {
    if (options.words.empty()) return usage("Invalid or missing UUID for info");
    return std::unexpected(Failure{fail(ErrorKind::unsupported, "no info types supported for brand lx").error()});
}

Outcome run_sysrq(Options const& options) {
    if (options.words.empty()) return usage("Invalid or missing UUID for sysrq");
    return std::unexpected(Failure{
        fail(ErrorKind::unsupported, "The sysrq command is only supported for VMs of brands \"bhyve\" or \"kvm\".")
            .error()});
}

Outcome run_recover(Options const& options) {
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    std::optional<Uuid> uuid;
    if (!options.words.empty()) {
        // a machine that is half made may not be found by its name
        auto const parsed = Uuid::parse(options.words.front());
        uuid = parsed ? *parsed : TRY_RUN((*host)->machines().find(options.words.front()));
    }
    for (std::string const& line : TRY_RUN((*host)->machines().recover(uuid)))
        say(line);
    say("Successfully recovered");
    return {};
}

Outcome run_history(Options const& options) {
    machine::Store const store{machine::Layout{options.root}};
    std::optional<Uuid> uuid;
    // also of a machine that is gone: then only by its whole uuid
    if (!options.words.empty()) {
        auto const parsed = Uuid::parse(options.words.front());
        if (parsed) {
            uuid = *parsed;
        } else {
            auto host = Host::open(options);
            if (!host) return std::unexpected(host.error());
            uuid = TRY_RUN((*host)->machines().find(options.words.front()));
        }
    }
    std::string text;
    for (std::string const& line : TRY_RUN(store.history(uuid)))
        text += line + "\n";
    return print(text);
}

Outcome run_reprovision(Options const& options) {
    if (options.words.empty()) return usage("Invalid or missing UUID for reprovision");
    auto const given = payload(options, "Will not take payload from stdin when stdin is a tty.");
    if (!given) return std::unexpected(given.error());
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    Machines& machines = (*host)->machines();
    auto const uuid = one_machine(machines, options, "reprovision");
    if (!uuid) return std::unexpected(uuid.error());
    std::optional<Uuid> image;
    std::vector<std::string> ignored;
    for (json::Member const& member : *given) {
        auto const* const text = member.node.get<std::string>();
        if (member.key == "image_uuid" && text)
            image = TRY_RUN(machine::parse_uuid(*text));
        else
            ignored.push_back(member.key + " is not for reprovision");
    }
    if (!image) return std::unexpected(Failure{fail("image_uuid: required key is missing").error()});
    if (auto told = tell(**host, options, ignored, {}); !told) return told;
    TRY_RUN(recorded(machines, *uuid, "reprovision", "\"" + image->text() + "\"",
                     [&] { return machines.reprovision(*uuid, *image); }));
    say("Successfully reprovisioned VM " + uuid->text());
    return {};
}

Outcome run_exec(Options const& options) {
    if (options.words.empty()) return usage("Invalid or missing UUID for exec");
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    Uuid const uuid = TRY_RUN((*host)->machines().find(options.words.front()));
    std::vector<std::string> words(options.words.begin() + 1, options.words.end());
    if (!words.empty() && words.front() == "--") words.erase(words.begin());
    if (words.empty()) return usage("Missing command for exec");
    auto const leader = [&]() -> Result<std::int64_t> {
        (void)TRY((*host)->machines().store().load(uuid));
        return TRY((*host)->units().status(uuid)).leader;
    };
    std::int64_t const pid = TRY_RUN(leader());
    if (pid <= 0)
        return std::unexpected(Failure{
            fail(ErrorKind::refused, "Cannot execute a command in VM " + uuid.text() + ": it is not running").error()});
    int const code = TRY_RUN(run_inside(pid, words, [&] { return leader().value_or(0) == pid; }));
    if (code == 0) return {};
    return std::unexpected(Failure{.error = {}, .exit_code = code, .is_told = true});
}

/// What a machine has written to its console, without what could move a terminal.
Outcome run_logs(Options const& options) {
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    auto const uuid = one_machine((*host)->machines(), options, "logs");
    if (!uuid) return std::unexpected(uuid.error());
    (void)TRY_RUN((*host)->machines().store().load(*uuid));
    std::vector<std::string> words{"journalctl",
                                   "--quiet",
                                   "--all",
                                   "--output=cat",
                                   "--lines=" + std::to_string(options.lines),
                                   "--unit=" + machine::unit_of(*uuid)};
    if (options.follow) words.emplace_back("--follow");
    std::string line;  // a piece may end within a character
    int const code = TRY_RUN(stream_program(words, [&line](std::string_view piece) {
        constexpr std::size_t longest_line = 64 << 10;
        for (char const c : piece) {
            if (c != '\n' && line.size() < longest_line) {
                line += c == '\t' ? ' ' : c;
                continue;
            }
            if (!write_all(STDOUT_FILENO, machine::harmless(line) + "\n")) return false;
            line.clear();
        }
        return true;
    }));
    if (code == 0 || code == 128 + SIGPIPE) return {};
    return std::unexpected(Failure{fail("journalctl ended with " + std::to_string(code)).error()});
}

Outcome run_prepare(Options const& options) {
    if (!options.words.empty()) return usage("too many arguments for prepare: " + json::quoted(options.words.front()));
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    Outcome outcome;
    for (machine::BrokenFile const& failed : TRY_RUN((*host)->machines().prepare())) {
        say("VM " + failed.name + ": " + failed.error.text());
        outcome = std::unexpected(Failure{.error = {}, .exit_code = 1, .is_told = true});
    }
    return outcome;
}

// --- options ---

void add_words(CLI::App& app, Options& options) { app.add_option("words", options.words); }
void add_file(CLI::App& app, Options& options) {
    app.add_option("-f", options.file, "Reads the payload from a file (-: standard input).");
}
void add_payload(CLI::App& app, Options& options) {
    add_words(app, options);
    add_file(app, options);
    app.add_flag("--strict", options.is_strict, "Fails when a key would be ignored.");
}
void add_update(CLI::App& app, Options& options) {
    add_payload(app, options);
    app.add_flag("-n,--dry-run", options.is_dry_run, "Prints what would change, and changes nothing.");
}
void add_list(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-p", options.is_parsable, "Values with \":\" between; \"\\\" before a \":\" of a value.");
    app.add_flag("-H", options.no_header, "No header line.");
    app.add_flag("-h", options.with_header, "A header line in any case.");
    app.add_option("-o", options.order, "Columns.");
    app.add_option("-s", options.sort, "Sort keys; with - descending.");
}
void add_lookup(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-j", options.as_json, "An array of objects.");
    app.add_flag("-1", options.is_unique, "Fails unless exactly one is found.");
    app.add_option("-o", options.order, "Only these properties.")->each([&options](std::string const&) {
        options.has_order = true;
    });
}
void add_stop(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-F", options.force, "Kills it at once.");
    app.add_option("-t", options.seconds, "Seconds until it is killed (60).")
        ->check(CLI::Range(0, 86400))
        ->each([&options](std::string const&) { options.has_seconds = true; });
}
void add_reboot(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-F", options.force, "Kills it and starts it.");
}
void add_nothing(CLI::App&, Options&) {}
void add_logs(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-f,--follow", options.follow, "Goes on with what is written from now on.");
    app.add_option("-n,--lines", options.lines, "How many of the last lines (10).")->check(CLI::Range(0, 1'000'000));
}
void add_kill(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_option("-s", options.signal, "The signal: SIGTERM, TERM or 15.");
}

}  // namespace

std::span<Command const> commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"create", "", "[-f FILE]", "makes a VM of a JSON payload, and starts it", add_payload, run_create},
        {"create-snapshot", "", "VM NAME", "keeps what the VM's tree holds now", add_words, run_create_snapshot},
        {"delete", "destroy", "VM...", "stops VMs and removes all that they have", add_words, run_delete},
        {"delete-snapshot", "", "VM NAME", "removes a snapshot", add_words, run_delete_snapshot},
        {"exec", "", "VM COMMAND [ARG...]", "runs a command in a VM, as its root", add_nothing, run_exec, true},
        {"get", "json", "VM", "all properties of a VM, as JSON", add_words, run_get},
        {"history", "", "[VM]", "what was done to VMs, as JSON lines", add_words, run_history},
        {"info", "", "VM [TYPES]", "is refused: for virtual hardware", add_words, run_info},
        {"install", "", "VM", "completes a VM made with create_only", add_words, run_install},
        {"kill", "", "[-s SIGNAL] VM...", "sends a signal to the init of VMs", add_kill, run_kill},
        {"list", "", "[-pHh] [-o F,F] [-s F,F] [F=V]...", "a table of VMs", add_list, run_list},
        {"logs", "", "[-f] [-n LINES] VM", "what the VM has written to its console", add_logs, run_logs},
        {"lookup", "", "[-j | -1] [-o F,F] [F=V]...", "uuids of VMs, or objects", add_lookup, run_lookup},
        {"prepare", "", "", "makes what systemd needs of all VMs: for the boot of the host", add_words, run_prepare},
        {"reboot", "", "[-F] VM...", "reboots VMs", add_reboot, run_reboot},
        {"recover", "", "[VM]", "finishes or undoes what was interrupted", add_words, run_recover},
        {"reprovision", "", "VM [-f FILE]", "replaces what the VM holds by another image", add_payload,
         run_reprovision},
        {"rollback-snapshot", "", "VM NAME", "makes the VM's tree what it was", add_words, run_rollback_snapshot},
        {"start", "boot", "VM...", "starts VMs", add_words, run_start},
        {"stop", "halt", "[-F] [-t SECONDS] VM...", "stops VMs", add_stop, run_stop},
        {"sysrq", "", "VM nmi|screenshot", "is refused: for virtual hardware", add_words, run_sysrq},
        {"update", "", "[-n] VM [-f FILE | KEY=VALUE...]", "changes properties of a VM", add_update, run_update},
        {"validate", "", "create | update BRAND [-f FILE]", "says what is wrong with a payload", add_payload,
         run_validate},
    });
    return rows;
}

}  // namespace triton::program
