// Snapshots of machines, and of their volumes with them.

#include <algorithm>
#include <set>

#include "host/machine/lock_file.h"
#include "host/machine/machines.h"
#include "host/machine/volume_snapshots.h"
#include "host/machine/volume_uses.h"
#include "lib/json/lookup.h"

namespace triton::machine {

namespace {

std::unexpected<Error> no_snapshot(std::string_view name, Uuid const& uuid) {
    return fail(ErrorKind::not_found, "No snapshot named \"" + std::string(name) + "\" for " + uuid.text());
}

/// The data of the journal: the name and the volumes, each in a line of its own.
std::string lines_of(std::string_view name, std::vector<std::string> const& volumes) {
    std::string text(name);
    for (std::string const& volume : volumes)
        text.append("\n").append(volume);
    return text;
}

}  // namespace

std::vector<std::string> volumes_of_snapshot(Machine const& machine, std::string_view name) {
    std::vector<std::string> volumes;
    for (json::Node const& node : json::list_of(machine.volume_snapshots, name))
        if (auto const* const volume = node.get<std::string>()) volumes.push_back(*volume);
    return volumes;
}

void set_volumes_of_snapshot(Machine& machine, std::string_view name, std::vector<std::string> const& volumes) {
    std::erase_if(machine.volume_snapshots, [name](json::Member const& member) { return member.key == name; });
    if (volumes.empty()) return;
    json::Array list;
    for (std::string const& volume : volumes)
        list.push_back(json::Node{volume});
    machine.volume_snapshots.push_back({std::string(name), json::Node{std::move(list)}});
}

void add_volumes_of_snapshots(Machine& machine) {
    for (Snapshot& snapshot : machine.snapshots)
        snapshot.volumes = volumes_of_snapshot(machine, snapshot.name);
}

Result<> Machines::record_snapshot(Uuid const& uuid, std::string_view name, std::vector<std::string> const& volumes) {
    Machine machine = TRY(store_.load(uuid));
    set_volumes_of_snapshot(machine, name, volumes);
    return store_.save(machine);
}

/// A volume's snapshot comes before that of the machine, which therefore says that all of them are there.
Operation Machines::snapshooting(Uuid const& uuid, std::string_view name, std::vector<std::string> const& volumes) {
    Operation operation{.name = "create-snapshot", .after_kill = Outcome::undone, .data = lines_of(name, volumes)};
    std::string const text(name);
    operation.steps.push_back({.name = "file of the machine",
                               .run = [this, uuid, text, volumes] { return record_snapshot(uuid, text, volumes); },
                               .undo = [this, uuid, text] { return record_snapshot(uuid, text, {}); }});
    for (std::string const& volume : volumes)
        operation.steps.push_back(
            {.name = "snapshot of a volume",
             .run = [this, uuid, volume, text] { return parts_.volumes->snapshot(volume, uuid, text); },
             .undo = [this, uuid, volume, text] { return parts_.volumes->delete_snapshot(volume, uuid, text); }});
    operation.steps.push_back(
        {.name = "snapshot",
         .run = [this, uuid, text]() -> Result<> { return parts_.pool.snapshot(tree_of(uuid), TRY(snapshot_name(text))); },
         .undo = [this, uuid, text]() -> Result<> {
             return unless_missing(parts_.pool.delete_snapshot(tree_of(uuid), TRY(snapshot_name(text))));
         }});
    return operation;
}

Result<Operation> Machines::operation_of_snapshot(std::string_view data, Uuid const& uuid) {
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin <= data.size();) {
        std::size_t const end = std::min(data.find('\n', begin), data.size());
        lines.emplace_back(data.substr(begin, end - begin));
        begin = end + 1;
    }
    if (!parts_.volumes) return fail(ErrorKind::unsupported, "there are no volumes here");
    TRY(snapshot_name(lines.front()));
    return snapshooting(uuid, lines.front(), {lines.begin() + 1, lines.end()});
}

Result<> Machines::create_snapshot(Uuid const& uuid, std::string_view name, bool with_volumes) {
    storage::SnapshotName const snapshot = TRY(snapshot_name(name));
    MachineLock const own = TRY(lock(uuid, "create-snapshot"));
    LockFile const lock_file(store_, uuid);
    Machine const machine = TRY(load_installed(uuid));
    auto const exists = [name] {
        return fail(ErrorKind::exists, "snapshot with name \"" + std::string(name) + "\" already exists.");
    };
    std::vector<std::string> volumes;
    if (with_volumes)
        for (VolumeUse const& use : volume_uses(machine))
            if (!use.is_read_only) volumes.push_back(use.volume);
    if (!volumes.empty()) {
        auto const there = TRY(parts_.pool.snapshots(tree_of(uuid)));
        if (std::ranges::find(there, snapshot) != there.end()) return exists();
        return perform_marked(uuid, snapshooting(uuid, name, volumes));
    }
    if (with_volumes)
        notice("VM " + uuid.text() + " has no volumes that it can write: the snapshot is of its tree alone");
    auto const done = parts_.pool.snapshot(tree_of(uuid), snapshot);
    if (done) store_.touch(uuid);
    return !done && done.error().kind == ErrorKind::exists ? exists() : done;
}

Result<> Machines::delete_snapshot(Uuid const& uuid, std::string_view name) {
    storage::SnapshotName const snapshot = TRY(snapshot_name(name));
    MachineLock const own = TRY(lock(uuid, "delete-snapshot"));
    LockFile const lock_file(store_, uuid);
    Machine const machine = TRY(load_installed(uuid));
    auto const done = parts_.pool.delete_snapshot(tree_of(uuid), snapshot);
    // A command that was killed may have left the rest of it.
    bool const is_rest = !done && done.error().kind == ErrorKind::not_found;
    if (is_rest && volumes_of_snapshot(machine, name).empty()) return no_snapshot(name, uuid);
    if (!done && !is_rest) return done;
    store_.touch(uuid);
    return forget_volume_snapshots(uuid);
}

Result<> Machines::forget_volume_snapshots(Uuid const& uuid) {
    Machine machine = TRY(store_.load(uuid));
    if (machine.volume_snapshots.empty() || !parts_.volumes) return {};
    std::set<std::string> kept;
    for (Snapshot const& snapshot : TRY(snapshots(uuid)))
        kept.insert(snapshot.name);
    json::Object const recorded = machine.volume_snapshots;
    for (json::Member const& member : recorded) {
        if (kept.contains(member.key)) continue;
        for (std::string const& volume : volumes_of_snapshot(machine, member.key))
            TRY(parts_.volumes->delete_snapshot(volume, uuid, member.key));
        set_volumes_of_snapshot(machine, member.key, {});
    }
    return machine.volume_snapshots.size() == recorded.size() ? Result<>() : store_.save_alone(machine);
}

/// Of a machine that goes, or whose snapshots go with its tree.
Result<> Machines::forget_all_volume_snapshots(Uuid const& uuid) {
    auto const machine = store_.load(uuid);
    if (!machine || !parts_.volumes) return {};  // a corrupt file does not tell which it has
    for (json::Member const& member : machine->volume_snapshots)
        for (std::string const& volume : volumes_of_snapshot(*machine, member.key))
            TRY(parts_.volumes->delete_snapshot(volume, uuid, member.key));
    return {};
}

Result<> Machines::rollback_snapshot(Uuid const& uuid, std::string_view name) {
    storage::SnapshotName const snapshot = TRY(snapshot_name(name));
    OwnMachine own(TRY(lock(uuid, "rollback-snapshot")), store_, uuid);
    Machine const before = TRY(load_installed(uuid));
    auto const snapshots = TRY(parts_.pool.snapshots(tree_of(uuid)));
    if (std::ranges::find(snapshots, snapshot) == snapshots.end()) return no_snapshot(name, uuid);
    for (std::string const& volume : volumes_of_snapshot(before, name)) {
        auto const possible = parts_.volumes ? parts_.volumes->check_rollback(volume, uuid, name) : Result<>();
        if (!possible && possible.error().kind == ErrorKind::not_found)
            notice("volumes: " + possible.error().text() + "; it is left as it is");
        else
            TRY(possible);
    }
    bool const was_running = !TRY(parts_.units.status(uuid)).is_down();
    TRY(perform_marked(uuid, rollback(uuid, snapshot, was_running)));
    store_.touch(uuid);
    if (!was_running) return {};
    TRY(parts_.units.reset(uuid));
    Machine const machine = TRY(load(uuid));
    TRY(derive(machine));  // the step that has started it tells of no error
    return start_unit(machine, own);
}

}  // namespace triton::machine
