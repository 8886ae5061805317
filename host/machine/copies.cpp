// What makes a machine from another one: clone, send and receive.

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/machine/lock_file.h"
#include "host/machine/machines.h"
#include "host/machine/properties.h"
#include "host/storage/own_ids.h"
#include "host/storage/remove_tree.h"
#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"

namespace triton::machine {

namespace {

/// The prefix of snapshots that exist only while a copy is made of them.
constexpr std::string_view copy_prefix = "copy-";

storage::SnapshotName copy_snapshot(Uuid const& id) {
    return *storage::SnapshotName::parse(std::string(copy_prefix) + id.text());
}

Result<> forget_all_snapshots(storage::Pool& pool, storage::TreeName const& tree) {
    for (storage::SnapshotName const& snapshot : TRY(pool.snapshots(tree)))
        TRY(unless_missing(pool.delete_snapshot(tree, snapshot)));
    return {};
}

}  // namespace

Result<bool> Machines::forget_copy_snapshots(Uuid const& uuid) {
    bool is_any = false;
    for (storage::SnapshotName const& snapshot : TRY(parts_.pool.snapshots(tree_of(uuid)))) {
        if (!snapshot.text().starts_with(copy_prefix)) continue;
        TRY(unless_missing(parts_.pool.delete_snapshot(tree_of(uuid), snapshot)));
        is_any = true;
    }
    return is_any;
}

// --- clone ---

Result<json::Object> Machines::payload_of_copy(Uuid const& source) {
    Machine machine = TRY(load(source));
    machine.alias.reset();
    machine.nics.clear();
    if (machine.zonename == source.text()) machine.zonename.reset();
    if (machine.hostname == source.text()) machine.hostname.reset();
    json::Object payload = TRY(read_payload(payload_text(machine)));
    std::erase_if(payload, [](json::Member const& member) { return member.key == "uuid"; });
    return payload;
}

/// Makes a copy that needs nothing of its source. A ZFS clone would need the snapshot as long as it lives.
Result<> Machines::copy_tree(Uuid const& source, storage::SnapshotName const& snapshot, Uuid const& to) {
    storage::TreeName const from = tree_of(source);
    storage::TreeName const copy = tree_of(to);
    if (parts_.pool.kind() != storage::Backend::zfs) return parts_.pool.clone(from, snapshot, copy);
    TRY(storage::through_pipe([&](int pipe) { return parts_.pool.send(from, snapshot, std::nullopt, pipe); },
                              [&](int pipe) { return parts_.pool.receive(copy, pipe); }));
    return forget_all_snapshots(parts_.pool, copy);
}

Operation Machines::cloning(Machine const& machine, Uuid const& source, std::string_view snapshot) {
    Uuid const uuid = machine.uuid;
    bool const is_own = snapshot.empty();
    storage::SnapshotName const name =
        is_own ? copy_snapshot(uuid) : *storage::SnapshotName::parse(std::string(snapshot));
    Operation operation =
        creation(machine, "clone", [this, source, name, uuid] { return copy_tree(source, name, uuid); });
    json::Writer data;
    data.open('{').member("source", source.text()).member("snapshot", snapshot);
    data.key("machine").raw(whole_text(machine)).close('}');
    operation.data = std::move(data).text();
    if (!is_own) return operation;
    auto const forget = [this, source, name] {
        return unless_missing(parts_.pool.delete_snapshot(tree_of(source), name));
    };
    auto const tree = std::ranges::find(operation.steps, "tree", &Step::name);
    auto const copy = operation.steps.insert(
        tree, Step{.name = "snapshot",
                   .run = [this, source, name] { return parts_.pool.snapshot(tree_of(source), name); },
                   .undo = forget});
    operation.steps.insert(copy + 2, Step{.name = "end of the snapshot", .run = forget});
    return operation;
}

Result<Machine> Machines::machine_of_clone(std::string_view data, Uuid const& uuid) {
    json::Object const members = TRY(read_payload(data));
    json::Node const* const node = json::member(members, "machine");
    json::Writer text;
    if (node) text.value(*node);
    return parse_file(text.text(), "the journal of VM " + uuid.text());
}

Result<Operation> Machines::operation_of_clone(std::string_view data, Uuid const& uuid) {
    json::Object const members = TRY(read_payload(data));
    Machine const machine = TRY(machine_of_clone(data, uuid));
    return cloning(machine, TRY(parse_uuid(json::text_of(members, "source"))), json::text_of(members, "snapshot"));
}

Result<> Machines::clone(Uuid const& source, std::string_view snapshot, Creation const& creation_of) {
    std::optional<storage::SnapshotName> given;
    if (!snapshot.empty()) given = TRY(snapshot_name(snapshot));
    // to lock it a second time would be to wait for ourselves
    if (creation_of.machine.uuid == source)
        return fail(ErrorKind::exists, "VM with UUID " + source.text() + " already exists");
    OwnMachine own(TRY(lock(source, "clone")), store_, source);
    (void)TRY(load_installed(source));
    (void)TRY(forget_copy_snapshots(source));
    if (given) {
        auto const snapshots = TRY(parts_.pool.snapshots(tree_of(source)));
        if (std::ranges::find(snapshots, *given) == snapshots.end())
            return fail(ErrorKind::not_found,
                        "No snapshot named \"" + std::string(snapshot) + "\" for " + source.text());
    }
    auto const make = [this, &source, &given](Machine const& machine) {
        return cloning(machine, source, given ? std::string_view(given->text()) : std::string_view());
    };
    return add(creation_of.machine, "clone", make, &own);
}

// --- send and receive ---

Result<> Machines::send(Uuid const& uuid, int to) {
    MachineLock const own = TRY(lock(uuid, "send"));
    LockFile const lock_file(store_, uuid);
    Machine const machine = TRY(load_installed(uuid));
    storage::TreeName const tree = tree_of(uuid);
    storage::SnapshotName const snapshot = copy_snapshot(uuid);
    (void)TRY(forget_copy_snapshots(uuid));
    TRY(parts_.pool.snapshot(tree, snapshot));
    StreamWriter stream(to);
    auto sent = stream.head({std::string(storage::stream_kind(parts_.pool.kind())), sent_payload(machine)});
    if (sent) {
        sent = storage::through_pipe([&](int pipe) { return parts_.pool.send(tree, snapshot, std::nullopt, pipe); },
                                     [&](int pipe) { return stream.content(pipe); });
    }
    auto forgotten = unless_missing(parts_.pool.delete_snapshot(tree, snapshot));
    TRY(sent);
    return forgotten;
}

Result<> Machines::receive_tree(StreamReader& stream, Uuid const& uuid) {
    storage::TreeName const tree = tree_of(uuid);
    TRY(storage::through_pipe([&](int pipe) { return stream.content(pipe); },
                              [&](int pipe) { return parts_.pool.receive(tree, pipe); }));
    TRY(forget_all_snapshots(parts_.pool, tree));
    // The sender provides only the content of root/. We make the rest, and links in it lead nowhere.
    UniqueFd const directory = TRY(parts_.pool.open(tree));
    struct stat status{};
    if (::fstatat(directory.get(), "root", &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(status.st_mode))
        return fail(ErrorKind::corrupt, "receive a VM", "its tree has no directory \"root\"");
    // A sender whose file system has no idmapped mounts has given the files to uids of its own.
    UniqueFd root{::openat(directory.get(), "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    if (!root) return fail(errno, "open the root of the received VM");
    TRY(storage::restore_own_ids(std::move(root)));
    return storage::remove_tree(directory.get(), "config");
}

Result<> Machines::receive(StreamReader& stream, std::string_view storage, Creation const& creation_of) {
    std::string_view const here = storage::stream_kind(parts_.pool.kind());
    if (storage != here)
        return fail(ErrorKind::unsupported, "receive a VM",
                    "its tree is a stream of the kind " + json::quoted(storage) + ", and the pool here takes \"" +
                        std::string(here) + "\"");
    Machine machine = creation_of.machine;
    machine.autoboot = false;  // the original may still run
    machine.create_only = false;
    return add(machine, "receive", [this, &stream](Machine const& made) {
        return creation(made, "receive", [this, &stream, made] { return receive_tree(stream, made.uuid); });
    });
}

}  // namespace triton::machine
