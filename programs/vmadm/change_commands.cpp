#include <algorithm>
#include <functional>

#include "host/machine/machines.h"
#include "host/machine/nic.h"
#include "host/parts/host_networks.h"
#include "host/parts/host_pool.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "programs/vmadm/context.h"

namespace triton::program {

namespace {

using machine::Machine;
using machine::Machines;

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

using MakeUpdate = std::function<Result<machine::Update>(Machine const& before)>;

Result<machine::Update> recorded_update(Host& host, Uuid const& uuid, std::string_view command,
                                        MakeUpdate const& make) {
    auto updated = host.machines().update(uuid, make);
    record(host.machines(), uuid, command, updated ? "ok" : updated.error().text(),
           updated ? changes_json(updated->changes) : "");
    host.settle(uuid);
    return updated;
}

std::expected<json::Object, Failure> update_payload(Options const& options) {
    if (options.words.size() <= 1) return payload(options, "Will not update from stdin when stdin is a tty.");
    if (!options.file.empty()) return usage("update takes either a file or key=value words");
    return key_value_words(std::span(options.words).subspan(1));
}

Outcome run_update(Options const& options) {
    if (options.words.empty() || options.words.front().empty()) return usage("Invalid or missing UUID for update");
    auto const given = TRY_RUN(update_payload(options));
    auto const host = TRY_RUN(Host::open(options));
    Machines& machines = host->machines();
    Uuid const uuid = TRY_RUN(machines.find(options.words.front()));
    // applied to the machine as it is once we have it locked
    auto const make = [&](Machine const& before) -> Result<machine::Update> {
        auto update = machine::read_update(before, given);
        if (!update) return std::unexpected(update.error().error("update VM " + uuid.text()));
        // Who types a word means it; a file may be for other hosts, too.
        bool const is_strict = options.is_strict || options.words.size() > 1;
        if (is_strict && !update->ignored.empty()) return fail(update->ignored.front());
        return std::move(*update);
    };
    if (options.is_dry_run) {
        Machine const before = TRY_RUN(machines.get(uuid));
        machine::Update const update = TRY_RUN(make(before));
        TRY_RUN(tell(*host, options, update.ignored, update.notices));
        TRY_RUN(machines.check_launch(update.machine));
        TRY_RUN(machines.check_network(update.machine));
        return print(change_lines(update.changes));
    }
    if (options.may_alias_repeat) machines.let_aliases_repeat();
    machine::Update const update = TRY_RUN(recorded_update(*host, uuid, "update", make));
    TRY_RUN(tell(*host, options, update.ignored, update.notices));
    if (update.changes.empty()) host->note("note: nothing has changed");
    std::vector<std::string> const late = update.at_start();
    auto const status = late.empty() ? Result<machine::UnitStatus>() : host->units().status(uuid);
    for (std::string const& name : status && !status->is_down() ? late : std::vector<std::string>())
        host->note("note: " + name + " takes effect when the VM is started again");
    say("Successfully updated VM " + uuid.text());
    return {};
}

Outcome run_rename(Options const& options) {
    auto const host = TRY_RUN(Host::open(options));
    Machines& machines = host->machines();
    auto const uuid = TRY_RUN(one_machine(machines, options, "rename", 2));
    if (options.words.size() < 2 || options.words[1].empty()) return usage("Missing new alias for rename");
    std::string const& alias = options.words[1];
    auto const make = [&](Machine const& before) -> Result<machine::Update> {
        auto update = machine::read_update(before, json::Object{{"alias", json::Node{alias}}});
        if (!update) return std::unexpected(update.error().error("rename VM " + uuid.text()));
        return std::move(*update);
    };
    if (options.may_alias_repeat) machines.let_aliases_repeat();
    TRY_RUN(recorded_update(*host, uuid, "rename", make));
    say("Successfully renamed VM " + uuid.text() + " to " + json::shown(alias));
    return {};
}

Outcome run_validate(Options const& options) {
    std::string const action = options.words.empty() ? "" : options.words.front();
    bool const is_update = action == "update";
    if (action != "create" && !is_update) return usage("expected: validate create, or validate update BRAND");
    if (options.words.size() != (is_update ? 2U : 1U))
        return usage(is_update ? "expected: validate update BRAND" : "expected: validate create");
    auto given = TRY_RUN(payload(options, "Will not validate from stdin when stdin is a tty."));
    parts::InstalledImages images{machine::Layout{options.root}};
    if (!is_update) TRY_RUN(name_image(images, given));
    machine::Faults faults;
    Machine checked;
    std::vector<std::string> ignored, notices;
    auto const take = [&](auto const& read) {
        ignored = read.ignored;
        notices = read.notices;
        checked = read.machine;
    };
    if (is_update) {
        json::Object blank = machine::stand_in(given);
        blank.push_back({"brand", json::Node{options.words[1]}});
        blank.push_back({"image_uuid", json::Node{Uuid().text()}});
        auto const base = machine::read_creation(blank, 0);
        auto const update = base ? machine::read_update(base->machine, given)
                                 : machine::Checked<machine::Update>(std::unexpected(base.error()));
        if (update)
            take(*update);
        else
            faults = update.error();
    } else {
        auto const creation = machine::read_creation(given, 0);
        if (creation)
            take(*creation);
        else
            faults = creation.error();
    }
    if (!is_update && checked.image_uuid)
        if (auto const image = images.find(*checked.image_uuid); !image && image.error().kind == ErrorKind::not_found)
            notices.push_back(image.error().text());
    if (options.is_strict && !ignored.empty()) faults.reasons = ignored;
    if (!is_update && faults.is_empty() && checked.zpool) {
        auto const pool = TRY_RUN(parts::open_host_pool(machine::Layout{options.root}));
        if (auto const known = machine::check_zpool(checked, *pool); !known) {
            faults.bad_values.emplace_back("zpool");
            faults.reasons.push_back(known.error().text());
        }
    }
    parts::HostLauncher launcher;
    if (faults.is_empty() && checked.launch) {
        json::Writer document;
        document.value(*checked.launch);
        if (auto const judged = launcher.check(document.text()); !judged) {
            faults.bad_values.emplace_back("launch");
            faults.reasons.push_back("launch: " + judged.error().text());
            faults.reasons.insert(faults.reasons.end(), judged.error().details.begin(), judged.error().details.end());
        }
    }
    bool const is_whole =
        std::ranges::find(checked.nics, machine::stand_in_tag, &machine::Nic::nic_tag) == checked.nics.end();
    if (faults.is_empty() && !checked.nics.empty() && is_whole) {
        parts::HostNetworks networks{machine::Layout{options.root}};
        if (auto const plan = machine::network_plan(checked, TRY_RUN(networks.tags())); !plan) {
            std::string reason = plan.error().text();
            faults.bad_values.emplace_back(reason.starts_with("routes") ? "routes" : "nics");
            faults.reasons.push_back(std::move(reason));
        }
    }
    if (!faults.is_empty()) {
        json::ProblemList problems(1);
        auto const node = json::read_json(faults.json(), {}, problems);
        (void)print(node ? machine::pretty(*node) : faults.json());
        return std::unexpected(Failure{faults.error("validate the payload")});
    }
    if (!options.is_quiet) {
        for (std::string const& text : ignored)
            say(text::printable("ignored: " + text));
        for (std::string const& text : notices)
            say(text::printable("note: " + text));
    }
    say("VALID '" + action + "' payload for lx brand VMs.");
    return {};
}

template <class Change>
Outcome with_snapshot(Options const& options, std::string_view command, std::string_view done, Change change) {
    auto const host = TRY_RUN(Host::open(options));
    Machines& machines = host->machines();
    auto const uuid = TRY_RUN(one_machine(machines, options, command, 2));
    if (options.words.size() < 2) return usage("Missing snapshot name for " + std::string(command));
    std::string const name = options.words[1];
    json::Writer detail;
    detail.value(name);
    TRY_RUN(recorded(*host, uuid, command, detail.text(), [&] { return change(machines, uuid, name); }));
    say(std::string(done) + " snapshot " + name + " for VM " + uuid.text());
    return {};
}

Outcome run_create_snapshot(Options const& options) {
    return with_snapshot(options, "create-snapshot", "Created",
                         [&options](Machines& machines, Uuid const& uuid, std::string const& name) {
                             return machines.create_snapshot(uuid, name, options.with_volumes);
                         });
}
Outcome run_delete_snapshot(Options const& options) {
    return with_snapshot(options, "delete-snapshot", "Deleted", std::mem_fn(&Machines::delete_snapshot));
}
Outcome run_rollback_snapshot(Options const& options) {
    return with_snapshot(options, "rollback-snapshot", "Rolled back", std::mem_fn(&Machines::rollback_snapshot));
}

void add_create_snapshot(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("--volumes", options.with_volumes, "Saves the volumes that it writes, too.");
}

void add_rename(CLI::App& app, Options& options) {
    add_words(app, options);
    add_same_alias(app, options);
}

void add_update(CLI::App& app, Options& options) {
    add_payload(app, options);
    add_same_alias(app, options);
    app.add_flag("-n,--dry-run", options.is_dry_run, "Prints what would change, and changes nothing.");
}

}  // namespace

std::span<Command const> change_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"create-snapshot", "", "VM NAME [--volumes]", "saves the VM's tree as it is now", add_create_snapshot,
         run_create_snapshot},
        {"delete-snapshot", "", "VM NAME", "removes a snapshot", add_words, run_delete_snapshot},
        {"rename", "", "VM ALIAS", "gives a VM another alias", add_rename, run_rename},
        {"rollback-snapshot", "", "VM NAME", "restores the VM's tree from a snapshot", add_words,
         run_rollback_snapshot},
        {"update", "", "[-n] VM [-f FILE | KEY=VALUE...]", "changes properties of a VM", add_update, run_update},
        {"validate", "", "create | update BRAND [-f FILE]", "prints what is wrong with a payload", add_payload,
         run_validate},
    });
    return rows;
}

}  // namespace triton::program
