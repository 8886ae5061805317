#include "host/machine/machines.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/machine/launch_report.h"
#include "host/machine/lock_file.h"
#include "host/machine/names.h"
#include "host/machine/native_limits.h"
#include "host/machine/nic.h"
#include "host/machine/properties.h"
#include "host/machine/values.h"
#include "host/machine/volume_snapshots.h"
#include "host/machine/volume_uses.h"
#include "host/storage/own_ids.h"
#include "host/storage/remove_tree.h"
#include "lib/base/read_file.h"
#include "lib/files/copy_file.h"
#include "lib/json/writer.h"

namespace triton::machine {

namespace {

constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;
constexpr std::size_t most_derived_bytes = 16 << 20;
constexpr std::size_t most_properties = 7 << 20;
constexpr milliseconds lock_patience = std::chrono::seconds(60);
/// The unit itself has no limit (machine.conf): what takes longer is not ended, only no longer waited for.
constexpr std::chrono::minutes start_limit{5};
constexpr std::chrono::minutes reboot_limit{5};
/// Uids of machines are between those that systemd gives to containers and those of nobody. Source: systemd's
/// UIDS-GIDS.md: 1879048192 to 2147352575 are "unused".
constexpr std::int64_t first_of_uids = 1879048192;
constexpr std::int64_t end_of_uids = 2147352576;
constexpr std::string_view snapshot_prefix = "vmsnap-";
constexpr std::size_t longest_snapshot_name = 64;
constexpr std::string_view forced = "force";  // the data of a reboot
constexpr std::string_view group = "machines";
constexpr std::string_view incoming_group = "incoming";  // of the tree that will replace a machine's

/// A file in the tree of a machine, next to its root directory. It has properties as members of one object; or it is
/// the value of one property itself, as on SmartOS (RFD 180, "VMAPI mapping").
struct ConfigFile {
    std::string_view name;
    Place place;
    mode_t mode;
    std::string_view property = {};  ///< whose value it is; empty: it has members
};
constexpr std::array<ConfigFile, 3> config_files{{
    {"metadata.json", Place::metadata_file, 0600},
    {"tags.json", Place::tags_file, 0600, "tags"},
    {"routes.json", Place::routes_file, 0600, "routes"},
}};

std::string config_text(Machine const& machine, ConfigFile const& file) {
    if (!file.property.empty()) {
        std::string const text = value_text(*find_property(file.property), machine);
        return (text.empty() ? "{}" : text) + "\n";
    }
    json::Writer out;
    out.open('{');
    for (Property const& property : properties()) {
        if (property.rules.place == file.place) property.write(property.name, machine, out);
    }
    out.close('}');
    return std::move(out).text() + "\n";
}

/// What a file has, with the names of its properties. Former versions wrote `{"tags": {...}}`, which no value of a
/// property can look like: those are flat.
json::Object with_names(json::Object content, ConfigFile const& file) {
    bool const has_names = content.size() == 1 && content.front().key == file.property &&
                           content.front().node.get<json::Object>() != nullptr;
    if (file.property.empty() || has_names) return content;
    json::Object named;
    named.push_back({std::string(file.property), json::Node{std::move(content)}});
    return named;
}

/// The value of launch, without its name: that is what triton-launch reads.
std::string launch_text(Machine const& machine) {
    json::Writer out;
    out.value(*machine.launch);
    return std::move(out).text() + "\n";
}

storage::Tuning tuning_of(Machine const& machine) {
    auto const number = [](std::optional<std::int64_t> const& value) {
        return value ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
    };
    return {machine.zfs_root_compression, number(machine.zfs_root_recsize), number(machine.zfs_filesystem_limit),
            number(machine.zfs_snapshot_limit)};
}

Result<std::optional<json::Object>> read_object(std::string const& path) {
    auto const text = read_file(path, most_derived_bytes);
    if (!text && text.error().kind == ErrorKind::not_found) return std::nullopt;
    if (!text) return std::unexpected(text.error());
    json::ProblemList problems(1);
    auto node = json::read_json(*text, json::Limits{.document_bytes = most_derived_bytes}, problems);
    auto* const object = node ? std::get_if<json::Object>(&node->value) : nullptr;
    if (!object) return fail(ErrorKind::corrupt, "read " + path, "it is not a JSON object");
    return std::move(*object);
}

State state_of(Phase phase, UnitStatus const& status) {
    switch (phase) {
        case Phase::configuring: return State::provisioning;
        case Phase::configured: return State::configured;
        case Phase::failed: return State::failed;
        case Phase::installed: break;
    }
    switch (status.activity) {
        case UnitStatus::Activity::activating: return State::starting;
        case UnitStatus::Activity::active: return State::running;
        case UnitStatus::Activity::deactivating: return State::stopping;
        case UnitStatus::Activity::inactive:
        case UnitStatus::Activity::failed: return status.failure.empty() ? State::stopped : State::failed;
    }
    std::unreachable();
}

Result<> link_to(std::string const& target, std::string const& path) {
    std::string const temporary = path + ".new";
    std::string current(4096, '\0');
    ssize_t const got = ::readlink(path.c_str(), current.data(), current.size());
    if (got >= 0 && std::string_view(current.data(), static_cast<std::size_t>(got)) == target) return {};
    struct stat status{};
    if (::lstat(path.c_str(), &status) == 0 && !S_ISLNK(status.st_mode))
        return fail(ErrorKind::exists, path + " exists already, and is not a link made by vmadm");
    (void)::unlink(temporary.c_str());  // left by a command that was killed
    if (::symlink(target.c_str(), temporary.c_str()) != 0) return fail(errno, "make the link " + temporary);
    if (::rename(temporary.c_str(), path.c_str()) != 0) return fail(errno, "make the link " + path);
    return {};
}

}  // namespace

storage::TreeName tree_of(Uuid const& uuid) {
    return *storage::TreeName::parse(std::string(group) + "/" + uuid.text());
}

Result<> check_zpool(Machine const& machine, storage::Pool const& pool) {
    if (!machine.zpool) return {};
    std::string const dataset = pool.dataset(tree_of(machine.uuid));
    std::string const zpool = dataset.substr(0, dataset.find('/'));
    if (*machine.zpool == zpool) return {};
    return fail(ErrorKind::invalid,
                "zpool: " + json::quoted(*machine.zpool) + " is not the pool of machines here" +
                    (zpool.empty() ? ", which is not on ZFS: leave zpool out" : " (known: " + zpool + ")"));
}

Result<storage::SnapshotName> snapshot_name(std::string_view name) {
    auto parsed = storage::SnapshotName::parse(std::string(snapshot_prefix) + std::string(name));
    if (name.empty() || name.size() > longest_snapshot_name || !parsed) return fail("Invalid snapshot name");
    return parsed;
}

// --- looking ---

void add_last_exit(UnitStatus& status, Store const& store, Uuid const& uuid) {
    if (!status.is_down()) return;
    auto const exit = store.last_exit(uuid);
    // systemd's record of the same exit is a little older, and would seem to change when systemd forgets it.
    if (!exit || exit->ended_at < status.ended_at) return;
    status.ended_at = exit->ended_at;
    status.exit_status = exit->exit_status;
    status.exit_reason = reason_of(*exit);
}

void add_awaited(UnitStatus& status, Store const& store, Uuid const& uuid) {
    if (status.activity == UnitStatus::Activity::activating) status.waits_for = awaited_volume(store.layout(), uuid);
}

void observe(Machine& machine, UnitStatus const& status) {
    machine.state = state_of(machine.phase, status);
    if (machine.phase == Phase::installed && machine.state == State::failed) machine.failure = status.failure;
    bool const runs = status.leader > 0 && !status.is_down();
    if (runs) machine.pid = status.leader;
    if (runs && status.started_at > 0) machine.boot_timestamp = time_text(status.started_at);
    if (!runs && status.ended_at > 0) {
        machine.exit_timestamp = time_text(status.ended_at);
        machine.exit_status = status.exit_status;
        if (!status.exit_reason.empty()) machine.exit_reason = status.exit_reason;
    }
    if (status.restarts > 0) machine.init_restarts = status.restarts;
    if (machine.state == State::starting && !status.waits_for.empty()) machine.waits_for = status.waits_for;
}

void Machines::observe_files(Machine& machine) const {
    machine.zonepath = parts_.pool.path(tree_of(machine.uuid));
    std::string dataset = parts_.pool.dataset(tree_of(machine.uuid));
    if (!dataset.empty()) {
        machine.zpool = dataset.substr(0, dataset.find('/'));
        machine.zfs_filesystem = std::move(dataset);
    }
    machine.server_uuid = facts_.server_uuid;
    machine.platform_buildstamp = facts_.platform_buildstamp;
    observe_limits(machine, native_limits(store_.layout(), machine.uuid));
    std::int64_t modified = store_.modified_at(machine.uuid);
    for (ConfigFile const& file : config_files) {
        struct stat found{};
        if (::stat((path(machine.uuid) + "/config/" + std::string(file.name)).c_str(), &found) == 0)
            modified = std::max(modified, found.st_mtim.tv_sec * 1'000'000 + found.st_mtim.tv_nsec / 1000);
    }
    machine.last_modified = time_text(modified);
}

std::string Machines::path(Uuid const& uuid) const { return parts_.pool.path(tree_of(uuid)); }

Result<> Machines::load_parts(Machine& machine) {
    std::string const config = path(machine.uuid) + "/config/";
    for (ConfigFile const& file : config_files) {
        std::string const name = config + std::string(file.name);
        auto object = TRY(read_object(name));
        json::Reading reading(1);
        json::Where const top{};
        for (json::Member const& member : with_names(std::move(object).value_or(json::Object{}), file)) {
            Property const* const property = find_property(member.key);
            if (property && property->rules.place == file.place)
                property->value.parse(member.node, json::Where{&top, property->name}, machine, reading);
        }
        if (!reading.problems.empty())
            return fail(ErrorKind::corrupt, "read " + name, std::move(reading.problems).take().front().text());
    }
    machine.launch = TRY(read_object(config + "launch/" + std::string(launch_file_name)));
    return {};
}

Result<Machine> Machines::load(Uuid const& uuid) {
    Machine machine = TRY(store_.load(uuid));
    TRY(load_parts(machine));
    return machine;
}

Result<Machine> Machines::read(Uuid const& uuid) {
    Machine machine = TRY(load(uuid));
    if (auto whole = being_made(machine)) machine = std::move(*whole);
    observe_files(machine);
    return machine;
}

/// While a machine is made, its tags and metadata are in the journal before they are in its tree.
std::optional<Machine> Machines::being_made(Machine const& machine) const {
    if (machine.phase != Phase::configuring) return std::nullopt;
    auto const mark = store_.mark(machine.uuid);
    if (!mark || !*mark) return std::nullopt;
    std::string const& operation = (*mark)->operation;
    if (operation != "create" && operation != "receive" && operation != "clone") return std::nullopt;
    auto whole = operation == "clone" ? machine_of_clone((*mark)->data, machine.uuid) : parse_file((*mark)->data, "");
    if (!whole || whole->uuid != machine.uuid) return std::nullopt;
    whole->phase = machine.phase;
    return *std::move(whole);
}

Result<std::vector<Snapshot>> Machines::snapshots(Uuid const& uuid) {
    std::vector<Snapshot> newest_first;
    for (storage::SnapshotFacts const& facts : TRY(parts_.pool.snapshot_facts(tree_of(uuid)))) {
        std::string const& name = facts.name.text();
        if (!name.starts_with(snapshot_prefix)) continue;
        Snapshot snapshot{.name = name.substr(snapshot_prefix.size())};
        if (facts.created_at) snapshot.created_at = time_text(*facts.created_at);
        if (facts.used) snapshot.size = static_cast<std::int64_t>(*facts.used);
        newest_first.push_back(std::move(snapshot));
    }
    std::ranges::reverse(newest_first);
    return newest_first;
}

Result<std::optional<std::uint64_t>> Machines::tree_limit(Uuid const& uuid) {
    auto const limits = parts_.pool.quotas({tree_of(uuid)});
    if (!limits && limits.error().kind == ErrorKind::not_found) return std::nullopt;  // there is no pool
    if (!limits) return std::unexpected(limits.error());
    return limits->empty() ? std::nullopt : std::optional(limits->begin()->second);
}

Result<Machines::Listed> Machines::list() {
    auto loaded = TRY(store_.load_all());
    std::vector<storage::TreeName> trees;
    for (Machine const& machine : loaded.machines)
        trees.push_back(tree_of(machine.uuid));
    auto const limits = parts_.pool.quotas(trees).value_or(std::map<storage::TreeName, std::uint64_t>());
    auto const units = parts_.units.all();
    Listed listed{.machines = {}, .broken = std::move(loaded.broken), .states = {}};
    if (!units) listed.states = std::unexpected(units.error());
    for (Machine& machine : loaded.machines) {
        if (auto parts = load_parts(machine); !parts) {
            listed.broken.push_back({machine.uuid.text(), std::move(parts).error()});
            continue;
        }
        UnitStatus status;
        if (units && units->contains(machine.uuid)) status = units->at(machine.uuid);
        add_last_exit(status, store_, machine.uuid);
        add_awaited(status, store_, machine.uuid);
        observe_files(machine);
        if (auto const limit = limits.find(tree_of(machine.uuid)); limit != limits.end())
            observe_quota(machine, limit->second);
        observe(machine, status);
        listed.machines.push_back(std::move(machine));
    }
    return listed;
}

Result<Machine> Machines::get(Uuid const& uuid) {
    Machine machine = TRY(read(uuid));
    auto const told = parts_.units.status(uuid);
    bool const has_systemd = told || told.error().kind != ErrorKind::unavailable;
    if (!told && has_systemd) notice("the state of VM " + uuid.text() + " is not known: " + told.error().text());
    UnitStatus status = told.value_or(UnitStatus{});
    add_last_exit(status, store_, uuid);
    add_awaited(status, store_, uuid);
    observe(machine, status);
    if (auto snapshots = this->snapshots(uuid)) machine.snapshots = *std::move(snapshots);
    add_volumes_of_snapshots(machine);
    if (auto const limit = tree_limit(uuid).value_or(std::nullopt)) observe_quota(machine, *limit);
    if (machine.launch && machine.pid) {
        auto const reported = parts_.launcher.status(*machine.pid, machine.first_uid.value_or(0));
        if (reported) machine.launch_status = read_report(*reported);
    }
    return machine;
}

Result<Uuid> Machines::find(std::string_view name) {
    if (auto uuid = Uuid::parse(name)) return *std::move(uuid);
    std::vector<Names> names;
    auto const loaded = TRY(store_.load_all());
    for (Machine const& machine : loaded.machines)
        names.push_back({machine.uuid, machine.alias.value_or("")});
    // What begins like the uuid of an unreadable one does not mean another one alone.
    for (BrokenFile const& broken : loaded.broken)
        if (auto const uuid = Uuid::parse(broken.name)) names.push_back({*uuid, ""});
    auto found = find_name(name, names);
    // A list shows it, but it is nothing that a command could be for.
    bool const is_misnamed = !found && std::ranges::find(loaded.broken, name, &BrokenFile::name) != loaded.broken.end();
    if (is_misnamed)
        found.error().details.push_back("there is a file with that name, which is not one of a VM: " +
                                        store_.layout().machines() + "/" + json::printable(name) + ".json");
    return found;
}

// --- what changes are made of ---

Result<MachineLock> Machines::lock(Uuid const& uuid, std::string_view command) {
    MachineLock own = TRY(lock(uuid, "vmadm " + std::string(command), lock_patience));
    if (is_meant_ && uuid != Uuid() && !is_meant_(TRY(get(uuid))))
        return fail(ErrorKind::refused,
                    "VM " + uuid.text() + " has changed meanwhile: it is not one of those any more");
    reclaim_leftovers(uuid, command);
    return own;
}

/// Removes trees that a killed command has left half made or half destroyed: nobody else knows of them. What cannot be
/// removed now is left to the next command, or to recover(), which reports why.
void Machines::reclaim_leftovers(Uuid const& uuid, std::string_view command) {
    // Large ones take long, for which nobody waits who wants a machine up or down. The shared lock is for moments.
    static constexpr auto hurried = std::to_array<std::string_view>({"start", "stop", "reboot", "send", "prepare"});
    bool const is_shared = uuid == Uuid();
    if (!is_shared && std::ranges::find(hurried, command) == hurried.end()) (void)parts_.pool.recover();
}

Result<MachineLock> Machines::lock(Uuid const& uuid, std::string_view purpose, milliseconds patience) {
    TRY(parts_.units.check_machine(uuid));
    return store_.lock(uuid, purpose, patience);
}

Result<> Machines::write_config(Machine const& machine, std::string const& tree) {
    std::string const config = tree + "/config/";
    for (ConfigFile const& file : config_files)
        TRY(replace_file(config + std::string(file.name), config_text(machine, file), file.mode));
    std::string const launch = config + "launch/" + std::string(launch_file_name);
    if (!machine.launch) return remove_file(launch);
    // readable by all, because inside the machine's user namespace nobody owns it
    return replace_file(launch, launch_text(machine), 0644);
}

/// Writes config/ of a tree that may be as full as its quota allows, which is for what the machine itself writes.
Result<> Machines::write_config_beyond_quota(Machine const& machine) {
    auto const written = write_config(machine);
    // XFS has no room for a project that has used its quota up, others tell of the quota.
    bool const may_be_quota = !written && (written.error().code == EDQUOT || written.error().code == ENOSPC);
    if (!may_be_quota) return written;
    auto const limit = tree_limit(machine.uuid);
    if (!parts_.pool.set_quota(tree_of(machine.uuid), std::nullopt)) return written;
    auto again = write_config(machine);
    auto restored = limit ? restore_quota(machine, *limit) : keep_quota(machine, false);
    return again ? restored : again;
}

Result<> Machines::derive(Machine const& machine) {
    std::string const launcher = machine.launch ? TRY(parts_.launcher.program()) : std::string();
    std::string const root = root_of(machine.uuid);
    MachinePaths paths{root, path(machine.uuid) + "/config/launch", launcher};
    UniqueFd const files{::open(root.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    paths.has_shifted_files = files && TRY(storage::shifted_by(files.get()));
    if (TRY(make_usr(root)))
        notice("note: the image of VM " + machine.uuid.text() +
               " has no /usr: an empty one was made, as systemd-nspawn needs it");
    if (!TRY(has_os_release(root))) paths.init = TRY(init_path(root));
    TRY(derive_network(machine, paths));
    TRY(derive_volumes(machine, paths));
    if (store_.layout().root.empty()) paths.metadata = store_.layout().metadata() + "/" + machine.uuid.text();
    paths.metadata_client = parts_.metadata_client;
    std::string const settings = nspawn_text(machine, paths, TRY(init_of(machine, root)).value_or(Init{}));
    // customer_metadata may have passwords
    TRY(replace_file(store_.layout().nspawn() + "/" + machine.uuid.text() + ".nspawn", settings, 0600));
    std::string const environment = nspawn_environment(machine, parts_.units.has_unified_cgroups());
    std::string const environment_file = store_.layout().nspawn() + "/" + machine.uuid.text() + ".environment";
    TRY(environment.empty() ? remove_file(environment_file) : replace_file(environment_file, environment, 0600));
    TRY(adopt_unit(machine.uuid));
    if (::mkdir(store_.layout().links().c_str(), 0700) != 0 && errno != EEXIST)
        return fail(errno, "create " + store_.layout().links());
    return link_to(root, store_.layout().links() + "/" + machine.uuid.text());
}

/// Gives the unit what units of machines have. systemd finds it where it loads a unit for the first time, without a
/// reload; other machines of systemd-nspawn are left alone.
Result<> Machines::adopt_unit(Uuid const& uuid) const {
    std::string const directory = store_.layout().drop_ins(uuid);
    TRY(files::make_directories(directory));
    return link_to(std::string(unit_settings), directory + "/" + std::string(drop_in_name));
}

Result<> Machines::leave_unit(Uuid const& uuid) const {
    std::string const directory = store_.layout().drop_ins(uuid);
    TRY(remove_file(directory + "/" + std::string(drop_in_name)));
    (void)::rmdir(directory.c_str());  // an administrator may have files there
    return {};
}

void Machines::await_listener(Machine const& machine, UnitStatus const& status) {
    auto const init = init_of(machine, root_of(machine.uuid));
    parts_.units.await_listener(machine.uuid, status, (init ? *init : std::nullopt).value_or(Init{}).kill_signal);
}

Result<> Machines::check_init(Machine const& machine) const {
    std::string const root = root_of(machine.uuid);
    if (::access(root.c_str(), F_OK) != 0 || TRY(init_of(machine, root))) return {};
    return fail(ErrorKind::refused, "start VM " + machine.uuid.text(), no_init_text(machine));
}

Result<> Machines::start_unit(Machine const& machine, OwnMachine& own) {
    Uuid const& uuid = machine.uuid;
    TRY(check_init(machine));
    auto started = parts_.units.start(
        uuid, start_limit, [&own] { own.give_back(); }, [this, &machine] { return check_accepted(machine); });
    if (!started && started.error().kind == ErrorKind::invalid) {
        own.give_back();
        return halt_rejected(machine, std::move(started));
    }
    if (!started && started.error().kind == ErrorKind::refused)
        for (Filesystem const& filesystem : machine.filesystems)
            if (is_mapped(filesystem))
                started.error().details.push_back("filesystems: the option idmap needs a file system of " +
                                                  json::shown(filesystem.source) + " that can map owners");
    if (!started && started.error().kind == ErrorKind::timeout)
        started.error().details.push_back("VM " + uuid.text() + " goes on starting: vmadm console " + uuid.text() +
                                          " shows what it does, vmadm stop " + uuid.text() + " ends it");
    return started;
}

Result<> Machines::check_accepted(Machine const& machine) {
    auto const status = machine.launch ? parts_.units.status(machine.uuid) : Result<UnitStatus>();
    if (!status || status->leader <= 0) return {};
    auto const reported = parts_.launcher.status(status->leader, machine.first_uid.value_or(0));
    auto const report = reported ? read_report(*reported) : std::nullopt;
    auto reasons = report ? first_rejection(*report) : std::vector<std::string>();
    if (reasons.empty()) return {};
    Error error =
        fail(ErrorKind::invalid, "start VM " + machine.uuid.text(), "its launcher rejects the launch configuration")
            .error();
    error.details = std::move(reasons);
    return std::unexpected(std::move(error));
}

/// Halts a machine whose launcher waits for another configuration, unless it has just got one. Returns `started`.
Result<> Machines::halt_rejected(Machine const& machine, Result<> started) {
    auto const own = lock(machine.uuid, "start");
    if (!own) return started;
    LockFile const lock_file(store_, machine.uuid);
    if (check_accepted(machine)) return started;
    auto const halted = parts_.units.halt(machine.uuid);
    if (!halted) started.error().details.push_back("it could not be halted: " + halted.error().text());
    return started;
}

Result<> Machines::offer_launch(Machine const& machine, bool is_resumed) {
    auto const status = machine.launch ? parts_.units.status(machine.uuid) : Result<UnitStatus>();
    if (!status || status->leader <= 0) return {};
    auto answer = parts_.launcher.reload(status->leader, machine.first_uid.value_or(0));
    if (answer || answer.error().kind == ErrorKind::unavailable) return {};
    if (answer.error().kind == ErrorKind::invalid && !is_resumed) {
        answer.error().reason += ", and keeps the one that it has";
        return answer;
    }
    notice("launch: " + answer.error().text());
    for (std::string const& reason : answer.error().details)
        notice("launch: " + reason);
    return {};
}

Result<std::vector<BrokenFile>> Machines::prepare() {
    TRY(parts_.units.check_host());
    std::vector<BrokenFile> failed;
    std::map<Uuid, Error> unfinished;
    for (Uuid const& uuid : TRY(store_.marked())) {
        if (auto done = recover_marked(uuid); !done) unfinished.emplace(uuid, std::move(done).error());
    }
    auto loaded = TRY(store_.load_all());
    for (Machine const& machine : loaded.machines) {
        if (machine.phase != Phase::installed || unfinished.contains(machine.uuid)) continue;
        if (auto made = prepare_one(machine.uuid); !made)
            loaded.broken.push_back({machine.uuid.text(), std::move(made).error()});
    }
    // Half of its files may be of before: it must not start, and run when the rest follows.
    for (auto& [uuid, error] : unfinished)
        loaded.broken.push_back({uuid.text(), std::move(error)});
    for (BrokenFile& broken : loaded.broken) {
        // What an earlier boot has left must not start the machine. If it runs, nothing is taken from it.
        if (auto const uuid = Uuid::parse(broken.name)) {
            auto const own = lock(*uuid, "prepare", milliseconds(0));
            auto const status = parts_.units.status(*uuid);
            if (own && status && status->is_down()) (void)underive(*uuid);
        }
        failed.push_back(std::move(broken));
    }
    return failed;
}

Result<> Machines::prepare_one(Uuid const& uuid) {
    MachineLock const own = TRY(lock(uuid, "prepare"));
    LockFile const lock_file(store_, uuid);
    if (TRY(store_.mark(uuid))) return fail(ErrorKind::refused, "an earlier command was interrupted: see vmadm recover");
    return derive(TRY(load_whole(uuid)));
}

Result<> Machines::underive(Uuid const& uuid) {
    TRY(underive_network(uuid));
    for (char const* const kind : {".nspawn", ".environment"})
        TRY(remove_file(store_.layout().nspawn() + "/" + uuid.text() + kind));
    std::string const link = store_.layout().links() + "/" + uuid.text();
    // nspawn keeps a lock file next to each image
    (void)::unlink((store_.layout().links() + "/.#" + uuid.text() + ".lck").c_str());
    (void)::unlink((link + ".new").c_str());
    (void)::rmdir((store_.layout().nspawn() + "/propagate/" + uuid.text()).c_str());  // and this directory
    struct stat status{};
    if (::lstat(link.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return {};
    return remove_file(link);
}

Result<> Machines::apply_limits(Machine const& machine) {
    return parts_.units.set_limits(machine.uuid, unit_properties(machine));
}

Result<> Machines::tune_tree(Machine const& machine, storage::TreeName const& tree, bool is_told) {
    auto const done = parts_.pool.tune(tree, tuning_of(machine));
    if (done || done.error().kind != ErrorKind::unsupported) return done;
    if (is_told) notice("zfs_*: they are stored, but not in force: " + done.error().text());
    return {};
}

Result<> Machines::set_quota(Machine const& machine, storage::TreeName const& tree, bool is_told) {
    std::int64_t const quota = machine.quota.value_or(0);
    auto const bytes = quota > 0 ? std::optional(static_cast<std::uint64_t>(quota) * gibibyte) : std::nullopt;
    auto const done = parts_.pool.set_quota(tree, bytes);
    if (done || done.error().kind != ErrorKind::unsupported) return done;
    if (bytes && is_told) notice("quota: it is stored, but not enforced: " + done.error().text());
    return {};
}

/// Sets a quota that nobody can take back. ZFS refuses one that is less than the tree holds, and a machine with such a
/// quota must remain one that can be changed, started and stopped.
Result<> Machines::keep_quota(Machine const& machine, bool is_told) {
    auto const done = set_quota(machine, tree_of(machine.uuid), is_told);
    if (done || done.error().kind != ErrorKind::refused) return done;
    notice("quota: it is stored, but not in force: " + done.error().text());
    return {};
}

/// Sets the quota that was in force before, which a native tool may have set. ZFS may refuse it now, because the tree
/// has come to hold more: then the machine has its own again.
Result<> Machines::restore_quota(Machine const& machine, std::optional<std::uint64_t> limit) {
    if (!limit) return {};
    auto const done = parts_.pool.set_quota(tree_of(machine.uuid), *limit == 0 ? std::nullopt : std::optional(*limit));
    if (done || done.error().kind == ErrorKind::unsupported) return {};
    if (done.error().kind != ErrorKind::refused) return done;
    notice("quota: the one that was set for the tree is no longer in force: " + done.error().text());
    return keep_quota(machine, false);
}

Result<> Machines::destroy_tree(Uuid const& uuid) {
    auto destroyed = unless_missing(parts_.pool.destroy(tree_of(uuid)));
    if (!destroyed && destroyed.error().reason.find(" building/") != std::string::npos)
        destroyed.error().details.push_back(
            "imgadm is making an image of it; if that was killed, imgadm gc removes what it has left");
    return destroyed;
}

/// Removes config/ from a tree made of an image. Others have made the image, but config/ is ours: a link there would
/// lead us elsewhere.
Result<> Machines::forget_config(storage::TreeName const& tree) {
    UniqueFd const directory = TRY(parts_.pool.open(tree));
    return storage::remove_tree(directory.get(), "config");
}

Result<std::int64_t> Machines::free_uids() {
    std::vector<std::int64_t> taken;
    auto const loaded = TRY(store_.load_all());
    for (Machine const& machine : loaded.machines)
        taken.push_back(machine.first_uid.value_or(0));
    for (BrokenFile const& broken : loaded.broken)  // such a machine may run, with its uids
        taken.push_back(store_.uids_of_broken(broken.name).value_or(0));
    for (std::int64_t first = first_of_uids; first < end_of_uids; first += uids_of_machine)
        if (std::ranges::find(taken, first) == taken.end()) return first;
    return fail(ErrorKind::exhausted, "no range of uids is free");
}

Result<> Machines::check_conflicts(Machine const& machine) {
    auto const conflict_with = [](Uuid const& other, std::string_view how) {
        Error error = fail(ErrorKind::refused, std::string(conflict_text)).error();
        error.details.push_back("VM " + other.text() + std::string(how));
        return std::unexpected(std::move(error));
    };
    for (Machine const& other : TRY(store_.load_all()).machines) {
        if (other.uuid == machine.uuid) continue;
        bool const is_failed = other.phase == Phase::failed;
        if (!is_failed && conflict(machine.nics, other.nics)) return conflict_with(other.uuid, " has the same");
        if (conflict(machine.nics, raised_nics(other.uuid)))
            return conflict_with(other.uuid, " has the same until it is stopped or rebooted");
    }
    return {};
}

/// By an alias that two have, neither can be named.
Result<> Machines::check_alias(Machine const& machine) {
    if (may_aliases_repeat_ || machine.alias.value_or("").empty()) return {};
    for (Machine const& other : TRY(store_.load_all()).machines)
        if (other.uuid != machine.uuid && other.alias == machine.alias)
            return fail(ErrorKind::exists, "alias " + json::shown(*machine.alias) + " is that of VM " +
                                               other.uuid.text() + " already; --same-alias gives it to both");
    return {};
}

Result<> Machines::check_launch(Machine const& machine) {
    if (!machine.launch) return {};
    return parts_.launcher.check(launch_text(machine));
}

// --- operations ---

void Machines::add_install_steps(Operation& operation, Machine const& machine) {
    Uuid const uuid = machine.uuid;
    operation.steps.push_back({.name = "configuration for systemd",
                               .run = [this, machine] { return derive(machine); },
                               .undo = [this, uuid]() -> Result<> {
                                   TRY(leave_unit(uuid));
                                   return underive(uuid);
                               }});
    operation.steps.push_back({.name = "limits",
                               .run = [this, machine] { return apply_limits(machine); },
                               .undo = [this, uuid] { return parts_.units.forget_limits(uuid); }});
    operation.steps.push_back(
        {.name = "autostart",
         .run = [this, machine] { return parts_.units.set_autostart(machine.uuid, machine.autoboot.value_or(false)); },
         .undo = [this, uuid] { return parts_.units.set_autostart(uuid, false); }});
    operation.steps.push_back({.name = "completion", .run = [this, machine]() -> Result<> {
                                   Machine complete = machine;
                                   complete.phase = Phase::installed;
                                   return store_.save(complete);
                               }});
}

Operation Machines::creation(Machine const& machine, std::string_view name, std::function<Result<>()> tree) {
    Uuid const uuid = machine.uuid;
    bool const needs_image = name == "create";
    if (!tree) {
        tree = [this, machine]() -> Result<> {
            ImageTree const image = TRY(parts_.images.find(*machine.image_uuid));
            TRY(parts_.pool.clone(image.tree, image.snapshot, tree_of(machine.uuid)));
            return forget_config(tree_of(machine.uuid));
        };
    }
    Operation operation{.name = name, .after_kill = Outcome::undone, .needs_host = !machine.create_only};
    operation.steps.push_back({.name = "file of the machine",
                               .run = [this, machine] { return store_.save(machine); },
                               .undo = [this, uuid] { return store_.remove(uuid); }});
    operation.steps.push_back({.name = "hold of the image",
                               .run =
                                   [this, machine, needs_image] {
                                       auto held = parts_.images.hold(*machine.image_uuid, machine.uuid);
                                       return needs_image ? held : unless_missing(std::move(held));
                                   },
                               .undo = [this, machine]() -> Result<> {
                                   if (!machine.image_uuid) return {};
                                   return parts_.images.release(*machine.image_uuid, machine.uuid);
                               }});
    // Only then, so that marks of earlier versions mean the steps that they meant.
    if (!volume_uses(machine).empty())
        operation.steps.push_back(
            {.name = "hold of the volumes",
             .run = [this, machine] { return hold_volumes(machine.uuid, volume_uses(machine), false); },
             .undo = [this, uuid] { return release_all_volumes(uuid); }});
    operation.steps.push_back({.name = needs_image ? "clone of the image" : "tree",
                               .run = std::move(tree),
                               .undo = [this, uuid] { return destroy_tree(uuid); }});
    operation.steps.push_back({.name = "metadata", .run = [this, machine, needs_image]() -> Result<> {
                                   if (needs_image || machine.maintain_resolvers == std::optional(true))
                                       write_resolvers(machine, path(machine.uuid));
                                   write_into_tree(machine, path(machine.uuid));
                                   return write_config_beyond_quota(machine);  // a clone has its source's quota
                               }});
    operation.steps.push_back({.name = "quota", .run = [this, machine]() -> Result<> {
                                   storage::TreeName const made = tree_of(machine.uuid);
                                   if (tuning_of(machine) != storage::Tuning()) TRY(tune_tree(machine, made, true));
                                   return set_quota(machine, made, is_quota_meant_);
                               }});
    if (machine.create_only) {
        operation.steps.push_back({.name = "completion", .run = [this, machine]() -> Result<> {
                                       Machine configured = machine;
                                       configured.phase = Phase::configured;
                                       return store_.save(configured);
                                   }});
    } else {
        add_install_steps(operation, machine);
    }
    auto const limits = std::ranges::find(operation.steps, "limits", &Step::name);
    operation.host_step = static_cast<std::size_t>(limits - operation.steps.begin());
    operation.data = whole_text(machine);
    return operation;
}

Operation Machines::installation(Machine const& machine) {
    Operation operation{
        .name = "install", .after_kill = Outcome::finished, .needs_host = true, .data = whole_text(machine)};
    add_install_steps(operation, machine);
    return operation;
}

/// Archives a machine that asks for it. One that cannot be read cannot be archived, and may go without.
Result<> Machines::archive(Uuid const& uuid) {
    auto const machine = load(uuid);
    if (!machine || machine->archive_on_delete != std::optional(true)) return {};
    return store_.archive(uuid, whole_text(*machine) + "\n");
}

Operation Machines::deletion(Uuid const& uuid) {
    auto const machine = store_.load(uuid);
    // A machine that was never installed can be deleted even if systemd does not answer. What has no file may have a
    // unit that runs, but not below another root, where nothing does.
    bool const is_unknown = !machine && machine.error().kind == ErrorKind::not_found;
    bool const has_unit =
        is_unknown ? parts_.units.check_host().has_value() : !machine || machine->phase != Phase::configured;
    // A machine that cannot be archived is not deleted.
    Operation operation{.name = "delete", .after_kill = Outcome::finished, .undone_before = 1, .needs_host = has_unit};
    auto const of_unit = [has_unit](std::function<Result<>()> run) {
        return has_unit ? std::move(run) : std::function<Result<>()>([] { return Result<>(); });
    };

    operation.steps = {
        {.name = "archive", .run = [this, uuid] { return archive(uuid); }},
        {.name = "halt", .run = of_unit([this, uuid] { return parts_.units.halt(uuid); })},
        {.name = "autostart", .run = of_unit([this, uuid] { return parts_.units.set_autostart(uuid, false); })},
        {.name = "limits", .run = of_unit([this, uuid] { return parts_.units.forget_limits(uuid); })},
        {.name = "configuration for systemd",
         .run = [this, uuid]() -> Result<> {
             TRY(leave_unit(uuid));
             return underive(uuid);
         }},
        {.name = "tree",
         .run = [this, uuid]() -> Result<> {
             // left by an interrupted reprovision
             TRY(forget_all_volume_snapshots(uuid));
             TRY(unless_missing(
                 parts_.pool.destroy(*storage::TreeName::parse(std::string(incoming_group) + "/" + uuid.text()))));
             return destroy_tree(uuid);
         }},
        {.name = "hold of the image",
         .run = [this, uuid]() -> Result<> {
             TRY(release_all_volumes(uuid));
             return parts_.images.release_all(uuid);
         }},
        {.name = "file of the machine", .run = [this, uuid] { return store_.remove(uuid); }},
    };
    return operation;
}

namespace {

constexpr std::string_view quota_word = "quota";
constexpr std::string_view tree_limit_prefix = "tree=";
constexpr std::string_view volumes_word = "volumes";

/// Which limits an update sets, and the quota of its tree before: the second line of its data in the journal. One that
/// was killed sets no others when it is finished, because native tools may have set them.
std::string limiting_text(std::vector<UnitProperty> const& of_unit, bool is_quota_new,
                          std::optional<std::uint64_t> tree_limit, bool has_volumes) {
    std::string text;
    if (has_volumes) text.append(" ").append(volumes_word);
    if (is_quota_new) text.append(" ").append(quota_word);
    if (tree_limit) text.append(" ").append(tree_limit_prefix).append(std::to_string(*tree_limit));
    for (UnitProperty const& limit : of_unit)
        text.append(" ").append(limit.name);
    return text + " ";
}

class Limiting {
public:
    explicit Limiting(std::string_view text) : text_(text) {}
    [[nodiscard]] bool has(std::string_view word) const { return text_.contains(" " + std::string(word) + " "); }
    [[nodiscard]] std::optional<std::uint64_t> tree_limit() const {
        std::size_t const at = text_.find(tree_limit_prefix);
        std::uint64_t bytes = 0;
        std::string_view const number = text_.substr(std::min(text_.size(), at + tree_limit_prefix.size()));
        bool const is_there = at != std::string_view::npos;
        if (!is_there || std::from_chars(number.data(), number.data() + number.size(), bytes).ec != std::errc())
            return std::nullopt;
        return bytes;
    }

private:
    std::string_view text_;
};

}  // namespace

/// `is_resumed`: nobody knows any more what was before.
Operation Machines::change(Machine const& machine, bool is_resumed, NewLimits const& limits) {
    auto const before = store_.load(machine.uuid);
    bool const is_tuning_new = !before || tuning_of(*before) != tuning_of(machine);
    auto const whole = load(machine.uuid);
    bool const is_launch_new =
        machine.launch && (is_resumed || !whole || !whole->launch || launch_text(*whole) != launch_text(machine));
    Operation operation{
        .name = "update",
        .after_kill = Outcome::finished,
        .needs_host = machine.phase == Phase::installed,
        .data = whole_text(machine) + "\n" +
                limiting_text(limits.of_unit, limits.is_quota_new, limits.tree_limit, limits.has_volumes)};
    operation.steps = {
        {.name = "file of the machine", .run = [this, machine] { return store_.save(machine); }},
        {.name = "metadata",
         .run = [this, machine]() -> Result<> {
             if (machine.maintain_resolvers == std::optional(true)) write_resolvers(machine, path(machine.uuid));
             write_into_tree(machine, path(machine.uuid));
             return write_config_beyond_quota(machine);
         }},
        {.name = "quota",
         .run = [this, machine, limits, is_tuning_new, is_resumed]() -> Result<> {
             storage::TreeName const tree = tree_of(machine.uuid);
             if (is_tuning_new || is_resumed) TRY(tune_tree(machine, tree, is_tuning_new));
             if (limits.is_quota_new) return is_resumed ? keep_quota(machine, true) : set_quota(machine, tree, true);
             // What a native tool has set stays, unless the update was killed while it was lifted for the metadata.
             bool const may_be_lifted = is_resumed && !parts_.pool.quota(tree).value_or(std::nullopt);
             return may_be_lifted ? restore_quota(machine, limits.tree_limit) : Result<>();
         }},
    };
    if (limits.has_volumes)
        operation.steps.insert(operation.steps.begin() + 1,
                               {.name = "hold of the volumes", .run = [this, machine, is_resumed]() -> Result<> {
                                    auto const held = hold_volumes(machine.uuid, volume_uses(machine), true);
                                    // Nobody knows any more what to go back to. Its next start checks this again.
                                    bool const is_left = is_resumed && !held &&
                                                         (held.error().kind == ErrorKind::refused ||
                                                          held.error().kind == ErrorKind::not_found);
                                    if (is_left) notice("filesystems: " + held.error().text());
                                    return is_left ? Result<>() : held;
                                }});
    Step const release{.name = "release of the volumes",
                       .run = [this, uuid = machine.uuid] { return release_volumes(uuid); }};
    if (machine.phase != Phase::installed) {
        if (limits.has_volumes) operation.steps.push_back(release);
        return operation;
    }
    operation.steps.push_back(
        {.name = "configuration for systemd", .run = [this, machine] { return derive(machine); }});
    operation.steps.push_back(
        {.name = "rules of its links", .run = [this, machine] { return guard_network(machine); }});
    operation.steps.push_back({.name = "answer of its launcher", .run = [this, machine, is_launch_new, is_resumed] {
                                   return is_launch_new ? offer_launch(machine, is_resumed) : Result<>();
                               }});
    operation.steps.push_back({.name = "limits", .run = [this, machine, limits = limits.of_unit] {
                                   return limits.empty() ? Result<>() : parts_.units.set_limits(machine.uuid, limits);
                               }});
    operation.steps.push_back({.name = "autostart", .run = [this, machine] {
                                   return parts_.units.set_autostart(machine.uuid, machine.autoboot.value_or(false));
                               }});
    if (limits.has_volumes) operation.steps.push_back(release);
    return operation;
}

/// Gives the machine its new image, as `machine` describes it. The new tree is made next to the old one, so nothing is
/// lost before the swap.
Operation Machines::reprovisioning(Machine const& machine, bool was_running, bool is_resumed) {
    Uuid const uuid = machine.uuid;
    auto const incoming = *storage::TreeName::parse(std::string(incoming_group) + "/" + uuid.text());
    Operation operation{.name = "reprovision",
                        .after_kill = Outcome::finished,
                        .was_running = was_running,
                        .needs_host = true,
                        .data = whole_text(machine)};
    operation.steps = {
        {.name = "hold of the image",
         .run = [this, machine] { return parts_.images.hold(*machine.image_uuid, machine.uuid); },
         .undo = [this, machine]() -> Result<> {
             auto const before = store_.load(machine.uuid);
             if (before && before->image_uuid == machine.image_uuid) return {};
             return parts_.images.release(*machine.image_uuid, machine.uuid);
         }},
        {.name = "clone of the image",
         .run = [this, machine, incoming]() -> Result<> {
             ImageTree const image = TRY(parts_.images.find(*machine.image_uuid));
             TRY(unless_missing(parts_.pool.destroy(incoming)));
             TRY(parts_.pool.clone(image.tree, image.snapshot, incoming));
             return forget_config(incoming);
         },
         .undo = [this, incoming] { return unless_missing(parts_.pool.destroy(incoming)); }},
        {.name = "metadata",
         .run = [this, machine, incoming]() -> Result<> {
             TRY(tune_tree(machine, incoming, false));
             write_resolvers(machine, parts_.pool.path(incoming));
             write_into_tree(machine, parts_.pool.path(incoming));
             TRY(write_config(machine, parts_.pool.path(incoming)));
             // That of the old tree, as long as a refusal changes nothing.
             auto const limit = TRY(tree_limit(machine.uuid));
             if (!limit) return set_quota(machine, incoming, false);
             return parts_.pool.set_quota(incoming, *limit == 0 ? std::nullopt : std::optional(*limit));
         }},
        {.name = "halt",
         .run = [this, uuid] { return parts_.units.halt(uuid); },
         .undo = [this, uuid, was_running] { return was_running ? start_again(uuid) : Result<>(); }},
        {.name = "old tree",
         .run = [this, uuid, incoming]() -> Result<> {
             if (!TRY(parts_.pool.exists(incoming))) return {};  // swapped before the command was killed
             TRY(parts_.units.halt(uuid));  // somebody may have started it since
             auto destroyed = destroy_tree(uuid);
             auto const is_there = parts_.pool.exists(tree_of(uuid));
             // What is not certain is left to the swap, with which nothing is undone any more.
             return is_there && *is_there ? destroyed : Result<>();
         }},
        {.name = "swap",
         .run = [this, uuid, incoming]() -> Result<> {
             if (!TRY(parts_.pool.exists(incoming))) return {};  // done before the command was killed
             TRY(parts_.units.halt(uuid));  // somebody may have started it since
             TRY(destroy_tree(uuid));
             return parts_.pool.rename(incoming, tree_of(uuid));
         }},
        {.name = "quota",  // again: an earlier version has left trees here that have none
         .run = [this, machine, is_resumed]() -> Result<> {
             storage::TreeName const tree = tree_of(machine.uuid);
             TRY(tune_tree(machine, tree, false));
             bool const may_miss = is_resumed && !parts_.pool.quota(tree).value_or(std::nullopt);
             return may_miss ? keep_quota(machine, false) : Result<>();
         }},
        {.name = "hold of the old image",
         .run = [this, machine]() -> Result<> {
             auto const before = store_.load(machine.uuid);
             if (!before || !before->image_uuid || before->image_uuid == machine.image_uuid) return {};
             return parts_.images.release(*before->image_uuid, machine.uuid);
         }},
        {.name = "file of the machine",
         .run = [this, machine]() -> Result<> {
             TRY(forget_all_volume_snapshots(machine.uuid));
             Machine fresh = machine;
             fresh.volume_snapshots.clear();
             return store_.save(fresh);
         }},
        {.name = "configuration for systemd", .run = [this, machine] { return derive(machine); }},
    };
    add_start_step(operation, uuid);
    // As long as the old tree is there, the machine is unchanged.
    bool const has_old_tree = parts_.pool.exists(tree_of(uuid)).value_or(false);
    auto const first_kept = std::ranges::find(operation.steps, has_old_tree ? "swap" : "old tree", &Step::name);
    operation.undone_before = static_cast<std::size_t>(first_kept - operation.steps.begin());
    return operation;
}

Operation Machines::rollback(Uuid const& uuid, storage::SnapshotName const& snapshot, bool was_running) {
    Operation operation{.name = "rollback-snapshot",
                        .after_kill = Outcome::finished,
                        .was_running = was_running,
                        .needs_host = true,
                        .data = snapshot.text()};
    // The newest first: if that is in use, all of them stay.
    Step const later{.name = "later snapshots", .run = [this, uuid, snapshot]() -> Result<> {
                         auto const all = TRY(parts_.pool.snapshots(tree_of(uuid)));
                         auto const kept = std::ranges::find(all, snapshot);
                         if (kept == all.end() || kept + 1 == all.end()) return {};
                         TRY(parts_.pool.check_unused(tree_of(uuid), {kept + 1, all.end()}));
                         for (auto other = all.end(); --other != kept;)
                             TRY(parts_.pool.delete_snapshot(tree_of(uuid), *other));
                         return {};
                     }};
    Step const content{.name = "content", .run = [this, uuid, snapshot]() -> Result<> {
                           TRY(parts_.units.halt(uuid));  // somebody may have started it since
                           return parts_.pool.rollback(tree_of(uuid), snapshot);
                       }};
    operation.steps = {{.name = "halt",
                        .run = [this, uuid] { return parts_.units.halt(uuid); },
                        .undo = [this, uuid, was_running] { return was_running ? start_again(uuid) : Result<>(); }}};
    // ZFS goes back to the latest one only. Elsewhere nothing is given up before the content is there: the new one may
    // find no room, and a later snapshot is what makes room.
    bool const is_content_first = parts_.pool.kind() != storage::Backend::zfs;
    operation.steps.push_back(is_content_first ? content : later);
    operation.steps.push_back(is_content_first ? later : content);
    operation.undone_before = operation.steps.size() - 1;
    auto const machine = store_.load(uuid);
    std::string const name = snapshot.text().substr(snapshot_prefix.size());
    if (machine && parts_.volumes && !machine->volume_snapshots.empty()) {
        for (std::string const& volume : volumes_of_snapshot(*machine, name))
            operation.steps.push_back({.name = "content of a volume", .run = [this, uuid, volume, name] {
                                           return unless_missing(parts_.volumes->rollback(volume, uuid, name));
                                       }});
        operation.steps.push_back(
            {.name = "later snapshots of volumes", .run = [this, uuid] { return forget_volume_snapshots(uuid); }});
    }
    add_start_step(operation, uuid);
    return operation;
}

/// For a PID 1 that cannot be asked to reboot.
Operation Machines::rebooting(Uuid const& uuid, bool force) {
    Operation operation{.name = "reboot",
                        .after_kill = Outcome::finished,
                        .undone_before = 1,
                        .was_running = true,
                        .needs_host = true,
                        .data = force ? std::string(forced) : ""};
    operation.steps = {{.name = "stop", .run = [this, uuid, force] {
                            return force ? parts_.units.halt(uuid) : parts_.units.stop(uuid, StopOptions{}.limit, {});
                        }}};
    add_start_step(operation, uuid);
    return operation;
}

/// Starts a machine that ran before, as a step: so it is not forgotten when the command is killed. What keeps it from
/// starting does not keep the operation from its end, and is told by start_unit() or finish_interrupted().
void Machines::add_start_step(Operation& operation, Uuid const& uuid) {
    if (!operation.was_running) return;
    operation.steps.push_back({.name = "start", .run = [this, uuid]() -> Result<> {
                                   (void)start_again(uuid);
                                   return {};
                               }});
}

Result<Operation> Machines::operation_of(Mark const& mark, Uuid const& uuid) {
    if (mark.operation == "delete") return deletion(uuid);
    if (mark.operation == "clone") return operation_of_clone(mark.data, uuid);
    if (mark.operation == "rollback-snapshot")
        return rollback(uuid, TRY(storage::SnapshotName::parse(mark.data)), mark.was_running);
    if (mark.operation == "create-snapshot") return operation_of_snapshot(mark.data, uuid);
    if (mark.operation == "reboot") return rebooting(uuid, mark.data == forced);
    std::size_t const end = std::min(mark.data.find('\n'), mark.data.size());
    Machine machine = TRY(parse_file(mark.data.substr(0, end), "the journal of VM " + uuid.text()));
    if (machine.uuid != uuid)
        return fail(ErrorKind::corrupt, "the journal of VM " + uuid.text() + " is of another one");
    if (mark.operation == "create" || mark.operation == "receive")
        return creation(machine, mark.operation == "create" ? "create" : "receive");
    if (mark.operation == "install") return installation(machine);
    if (mark.operation == "update") {
        NewLimits limits{.of_unit = unit_properties(machine), .is_quota_new = true};
        if (end < mark.data.size()) {  // an earlier version has set them all
            Limiting const limiting(std::string_view(mark.data).substr(end + 1));
            std::erase_if(limits.of_unit, [&](UnitProperty const& limit) { return !limiting.has(limit.name); });
            limits.is_quota_new = limiting.has(quota_word);
            limits.tree_limit = limiting.tree_limit();
            limits.has_volumes = limiting.has(volumes_word);
        }
        return change(machine, true, limits);
    }
    if (mark.operation == "reprovision") return reprovisioning(machine, mark.was_running, true);
    return fail(ErrorKind::unsupported,
                "VM " + uuid.text() +
                    " was left by an operation that this version does not know: " + json::shown(mark.operation));
}

Result<> Machines::perform_marked(Uuid const& uuid, Operation const& operation) {
    if (operation.needs_host) TRY(parts_.units.check_host());
    return perform(operation, *store_.journal(uuid, operation.after_kill == Outcome::finished), parts_.progress);
}

Result<> Machines::finish_interrupted(Uuid const& uuid) {
    auto const mark = TRY(store_.mark(uuid));
    if (!mark) return {};
    Operation const operation = TRY(operation_of(*mark, uuid));
    bool const leaves_host = operation.after_kill == Outcome::undone && mark->step < operation.host_step;
    if (operation.needs_host && !leaves_host) TRY(parts_.units.check_host());
    auto const before = parts_.units.status(uuid);
    auto const journal = store_.journal(uuid, operation.after_kill == Outcome::finished);
    Outcome const outcome = TRY(resume(operation, *mark, *journal, parts_.progress));
    bool const is_undone = outcome == Outcome::undone;
    notice("VM " + uuid.text() + ": an interrupted " + mark->operation + (is_undone ? " was undone" : " was finished"));
    // The command that began it may have had no time for that, and at boot nobody sees the notice.
    auto const kept = store_.add_event({.time = parts_.now(),
                                        .uuid = uuid,
                                        .command = mark->operation,
                                        .outcome = is_undone ? "it was interrupted, and has been undone" : "ok",
                                        .detail = is_undone ? "" : R"("it was interrupted, and finished later")"});
    if (!kept) notice("the history misses this: " + kept.error().text());
    bool const was_running = mark->was_running || (before && !before->is_down());
    return was_running ? start_again(uuid) : Result<>();
}

/// Starts a machine that was up, or that the boot of the host was about to start, before an interrupted operation
/// halted it. Waits for nothing: at boot a machine starts only after the command that calls this.
Result<> Machines::start_again(Uuid const& uuid) {
    if (!store_.exists(uuid)) return parts_.units.halt(uuid);  // there may be a job to start what is gone
    if (!TRY(parts_.units.status(uuid)).is_down()) return {};
    Machine const machine = TRY(load(uuid));
    if (machine.phase != Phase::installed) return {};
    TRY(check_init(machine));
    TRY(derive(machine));
    auto started = parts_.units.start(uuid, std::chrono::seconds(0), {}, {});
    return !started && started.error().kind == ErrorKind::timeout ? Result<>() : started;
}

// --- changes ---

Result<> Machines::create(Creation const& creation_of) {
    (void)TRY(parts_.images.find(*creation_of.machine.image_uuid));
    TRY(check_zpool(creation_of.machine, parts_.pool));
    is_quota_meant_ = creation_of.has_quota;
    return add(creation_of.machine, "create", [this](Machine const& machine) { return creation(machine); });
}

namespace {

/// Holds the shared lock until the first step, which saves the machine, is done.
void until_saved(Operation& operation, std::optional<MachineLock>& shared) {
    Step& first = operation.steps.front();
    first.run = [&shared, save = first.run]() -> Result<> {
        TRY(save());
        shared.reset();
        return {};
    };
}

/// Checks that what is saved can be read again, even from the journal, where it is a text inside a text.
Result<> check_readable(Machine const& machine) {
    std::string const what = "the properties of VM " + machine.uuid.text();
    std::string const text = whole_text(machine);
    if (text.size() > most_properties) return fail(ErrorKind::invalid, what, "they have more than 7 MiB");
    auto const again = parse_file(text, what);
    if (!again) return fail(ErrorKind::invalid, what, again.error().text());
    return {};
}

}  // namespace

Result<> Machines::add(Machine machine, std::string_view command, std::function<Operation(Machine const&)> const& make,
                       OwnMachine* source) {
    if (!check_zpool(machine, parts_.pool)) machine.zpool.reset();  // of another host, whose copy it is
    TRY(check_launch(machine));
    TRY(check_network(machine));
    TRY(find_volumes(machine));
    if (!machine.create_only && machine.autoboot.value_or(false)) TRY(check_links(machine));
    OwnMachine own(TRY(lock(machine.uuid, command)), store_, machine.uuid);
    TRY(finish_interrupted(machine.uuid));
    if (store_.exists(machine.uuid))
        return fail(ErrorKind::exists, "VM with UUID " + machine.uuid.text() + " already exists");
    // The undo of a failed creation would remove it. Where the disk with the machines' files is not mounted, it is
    // whole.
    if (TRY(parts_.pool.exists(tree_of(machine.uuid))))
        return fail(ErrorKind::exists, "tree " + tree_of(machine.uuid).text() +
                                           " exists already and belongs to no VM; vmadm recover " +
                                           machine.uuid.text() + " removes it");
    // one command at a time looks for uids and addresses and takes them, until the machine's file exists
    std::optional<MachineLock> shared = TRY(lock(Uuid(), command));
    TRY(check_conflicts(machine));
    if (command != "receive") TRY(check_alias(machine));  // the stream may be of this host
    machine.first_uid = TRY(free_uids());
    TRY(check_readable(machine));
    Operation operation = make(machine);
    until_saved(operation, shared);
    TRY(perform_marked(machine.uuid, operation));
    if (machine.create_only || !machine.autoboot.value_or(false)) return {};
    if (source) source->give_back();
    auto started = start_unit(machine, own);
    own.give_back();
    if (!started && started.error().kind != ErrorKind::timeout && is_kept(machine.uuid))
        started.error().details.push_back("VM " + machine.uuid.text() + " is complete and stays: vmadm start " +
                                          machine.uuid.text() + " tries again, vmadm delete removes it");
    return started;
}

/// Whether a machine exists that another command may be deleting, after that.
bool Machines::is_kept(Uuid const& uuid) {
    auto const own = lock(uuid, "create");
    if (!own) return store_.exists(uuid);
    LockFile const lock_file(store_, uuid);
    return store_.exists(uuid);
}

Result<> Machines::install(Uuid const& uuid) {
    MachineLock const own = TRY(lock(uuid, "install"));
    LockFile const lock_file(store_, uuid);
    TRY(finish_interrupted(uuid));
    Machine const machine = TRY(load(uuid));
    if (machine.phase != Phase::configured)
        return fail(ErrorKind::refused, "Cannot install VM " + uuid.text() + ": it is already installed");
    return perform_marked(uuid, installation(machine));
}

/// Loads a machine that has its tree. Without it, it would look like one without metadata and launch configuration.
Result<Machine> Machines::load_whole(Uuid const& uuid) {
    Machine machine = TRY(load(uuid));
    auto const tree = parts_.pool.open(tree_of(uuid));  // which also mounts it, unlike a look
    if (tree) return machine;
    if (tree.error().kind != ErrorKind::not_found) return std::unexpected(tree.error());
    return fail(ErrorKind::unavailable, "the pool does not have its tree " + tree_of(uuid).text());
}

Result<Machine> Machines::load_installed(Uuid const& uuid) {
    TRY(finish_interrupted(uuid));
    return load_whole(uuid);
}

/// Lets an update that has no room for its metadata, whose quota the pool refuses, whose rules the host cannot make, or
/// whose launch configuration the machine's launcher rejects fail as a whole. It would stay to be finished, before
/// anything else, also before what makes room. After a kill nobody knows any more what was before: such an update is
/// finished.
void Machines::take_back_until_rules(Operation& operation, Machine const& before, NewLimits const& limits) {
    auto const kept = std::ranges::find(operation.steps, "limits", &Step::name);
    operation.undone_before = static_cast<std::size_t>(kept - operation.steps.begin());
    for (Step& step : operation.steps) {
        if (step.name == "file of the machine") step.undo = [this, before] { return store_.save(before); };
        if (step.name == "hold of the volumes")
            step.undo = [this, before]() -> Result<> {
                // That of before is held still; its file comes back after this.
                auto const attached = attached_volumes(store_.layout(), before.uuid);
                return hold_volumes(before.uuid, merged(volume_uses(before), TRY(attached)), false);
            };
        if (step.name == "metadata")
            step.undo = [this, before, limits]() -> Result<> {
                auto const written = write_config_beyond_quota(before);
                // Also on a disk that has no room.
                if (limits.is_quota_new) TRY(restore_quota(before, limits.tree_limit));
                return written;
            };
        if (step.name == "quota") step.undo = [this, before] { return tune_tree(before, tree_of(before.uuid), false); };
        if (step.name == "configuration for systemd") step.undo = [this, before] { return derive(before); };
        if (step.name == "rules of its links") step.undo = [this, before] { return guard_network(before); };
    }
}

Result<Update> Machines::update(Uuid const& uuid, std::function<Result<Update>(Machine const& before)> const& make) {
    MachineLock const own = TRY(lock(uuid, "update"));
    LockFile const lock_file(store_, uuid);
    Machine const stored = TRY(load_installed(uuid));
    Machine before = stored;
    NewLimits limits;
    limits.tree_limit = TRY(tree_limit(uuid));
    observe_limits(before, native_limits(store_.layout(), uuid));
    if (limits.tree_limit) observe_quota(before, *limits.tree_limit);
    Update update = TRY(make(before));
    limits.of_unit = changed_limits(before, update.machine);
    limits.is_quota_new = update.machine.quota != before.quota;
    keep_stored_limits(update.machine, before, stored);
    TRY(check_launch(update.machine));
    TRY(check_network(update.machine));
    TRY(find_volumes(update.machine));
    limits.has_volumes = !volume_uses(stored).empty() || !volume_uses(update.machine).empty();
    TRY(check_readable(update.machine));
    std::optional<MachineLock> shared = TRY(lock(Uuid(), "update"));
    TRY(check_conflicts(update.machine));
    if (update.machine.alias != before.alias) TRY(check_alias(update.machine));
    Operation operation = change(update.machine, false, limits);
    take_back_until_rules(operation, stored, limits);
    until_saved(operation, shared);
    TRY(perform_marked(uuid, operation));
    return update;
}

Result<> Machines::destroy(Uuid const& uuid) {
    MachineLock const own = TRY(lock(uuid, "delete"));
    LockFile const lock_file(store_, uuid);
    auto const mark = store_.mark(uuid);
    // a corrupt mark does not tell what was done, and must not prevent the deletion
    if (!mark && mark.error().kind != ErrorKind::corrupt) return std::unexpected(mark.error());
    if (!store_.exists(uuid) && mark && !*mark) return fail(ErrorKind::not_found, "VM " + uuid.text() + " not found");
    // a corrupt file does not tell whether the machine is indestructible, and must not prevent the deletion
    auto const machine = store_.load(uuid);
    if (!machine && machine.error().kind != ErrorKind::corrupt && machine.error().kind != ErrorKind::not_found)
        return std::unexpected(machine.error());
    if (machine && machine->indestructible_zoneroot == std::optional(true))
        return fail(ErrorKind::refused, "indestructible_zoneroot is set, cannot delete");
    if (machine && machine->indestructible_delegated == std::optional(true))
        return fail(ErrorKind::refused, "indestructible_delegated is set, cannot delete");
    // only then does the machine's file say that it has a unit
    if (mark && *mark && (*mark)->operation == "install") TRY(finish_interrupted(uuid));
    if (mark && *mark && (*mark)->operation == "clone") {
        // Its source has a snapshot. What cannot be undone now does not keep the rest from being deleted.
        auto const undone = finish_interrupted(uuid);
        if (undone && !store_.exists(uuid)) return {};
    }
    return perform_marked(uuid, deletion(uuid));
}

Result<> Machines::reprovision(Uuid const& uuid, Uuid const& image) {
    (void)TRY(parts_.images.find(image));
    OwnMachine own(TRY(lock(uuid, "reprovision")), store_, uuid);
    Machine machine = TRY(load_installed(uuid));
    if (machine.phase != Phase::installed)
        return fail(ErrorKind::refused, "Cannot reprovision VM " + uuid.text() + ": it is not installed");
    if (machine.indestructible_zoneroot == std::optional(true))
        return fail(ErrorKind::refused, "indestructible_zoneroot is set, cannot reprovision");
    bool const was_running = !TRY(parts_.units.status(uuid)).is_down();
    machine.image_uuid = image;
    TRY(perform_marked(uuid, reprovisioning(machine, was_running, false)));
    if (!was_running) return {};
    TRY(parts_.units.reset(uuid));
    return start_unit(machine, own);
}

Result<bool> Machines::start(Uuid const& uuid) {
    OwnMachine own(TRY(lock(uuid, "start")), store_, uuid);
    Machine machine = TRY(load_installed(uuid));
    State state = state_of(machine.phase, TRY(parts_.units.status(uuid)));
    if (state == State::stopping) {  // another command waits for that, too
        TRY(parts_.units.stop(uuid, start_limit, {}));
        state = state_of(machine.phase, TRY(parts_.units.status(uuid)));
    }
    if (state == State::running) return false;
    bool const is_under_way = state == State::starting;  // by another command, or by the boot of the host
    bool const may_try_again = machine.phase == Phase::installed && state == State::failed;
    if (state != State::stopped && !may_try_again && !is_under_way)
        return fail(ErrorKind::refused, "Unable to start VM " + uuid.text() + ": Cannot start vm from state \"" +
                                            std::string(name_of(state)) + "\", must be \"stopped\".");
    if (!is_under_way) TRY(check_links(machine));
    machine.autoboot = true;
    // First, because after a kill it matters what the host does, and then what is told of it.
    TRY(parts_.units.set_autostart(uuid, true));
    TRY(store_.save_alone(machine));
    if (!is_under_way) {
        if (machine.maintain_resolvers == std::optional(true)) write_resolvers(machine, path(uuid));
        write_into_tree(machine, path(uuid));
        TRY(derive(machine));
        // It may be a host that has got its machines back without the rows of its volumes.
        if (auto const uses = volume_uses(machine); !uses.empty()) TRY(hold_volumes(uuid, uses, true));
        // A host that was installed anew does not know them. Any other has them, perhaps others that were set by native
        // tools, and starts machines on a full disk, too.
        auto const set = native_limits(store_.layout(), uuid).empty() ? apply_limits(machine) : Result<>();
        if (!set) notice("limits: systemd keeps those that it has: " + set.error().text());
        TRY(parts_.units.reset(uuid));
    }
    TRY(start_unit(machine, own));
    return true;
}

Result<bool> Machines::stop(Uuid const& uuid, StopOptions const& options) {
    OwnMachine own(TRY(lock(uuid, "stop")), store_, uuid);
    // A machine is stopped also when that cannot be finished: it may be what has filled the disk.
    auto finished = finish_interrupted(uuid);
    Machine machine = TRY(load(uuid));
    UnitStatus const status = TRY(parts_.units.status(uuid));
    // Always, because a command that was killed may have done the half of it; and while it shuts down.
    Result<> disabled;
    auto const disable = [&] {
        if (!finished) return;
        if (machine.phase == Phase::installed) disabled = parts_.units.set_autostart(uuid, false);
        if (!disabled || machine.autoboot == std::optional(false)) return;
        machine.autoboot = false;
        disabled = store_.save_alone(machine);
    };
    bool const is_asked = !status.is_down() && !options.force;
    if (is_asked) {
        await_listener(machine, status);
        TRY(parts_.units.stop(
            uuid, options.limit,
            [&] {
                disable();
                own.give_back();
            }));
    } else {
        disable();
        if (!status.is_down()) TRY(parts_.units.halt(uuid));
    }
    // Whoever stops it has seen that its start failed, or is why.
    if (auto const after = parts_.units.status(uuid); after && !after->failure.empty()) TRY(parts_.units.reset(uuid));
    TRY(std::move(disabled));
    if (!finished) {
        finished.error().details.push_back("VM " + uuid.text() +
                                           " is stopped, but may start with the host: an earlier " +
                                           "command was interrupted, and cannot be finished now");
        return std::unexpected(std::move(finished).error());
    }
    return !status.is_down();
}

Result<> Machines::reboot(Uuid const& uuid, bool force) {
    OwnMachine own(TRY(lock(uuid, "reboot")), store_, uuid);
    Machine const machine = TRY(load_installed(uuid));
    UnitStatus const status = TRY(parts_.units.status(uuid));
    State const state = state_of(machine.phase, status);
    if (state != State::running)
        return fail(ErrorKind::refused,
                    "Cannot reboot vm from state \"" + std::string(name_of(state)) + "\", must be \"running\"");
    TRY(check_links(machine));
    if (machine.maintain_resolvers == std::optional(true)) write_resolvers(machine, path(uuid));
    write_into_tree(machine, path(uuid));
    TRY(derive(machine));
    if (!force) await_listener(machine, status);
    bool const is_asked = !force && TRY(init_of(machine, root_of(uuid))).value_or(Init{}).has_container_interface;
    if (is_asked) {
        auto rebooted = parts_.units.reboot(
            uuid, reboot_limit, [&own] { own.give_back(); }, [this, &machine] { return check_accepted(machine); });
        bool const is_rejected = !rebooted && rebooted.error().kind == ErrorKind::invalid;
        return is_rejected ? halt_rejected(machine, std::move(rebooted)) : rebooted;
    }
    TRY(perform_marked(uuid, rebooting(uuid, force)));
    TRY(parts_.units.reset(uuid));
    return start_unit(machine, own);
}

Result<> Machines::kill(Uuid const& uuid, int signal) {
    (void)TRY(store_.load(uuid));
    auto const status = TRY(parts_.units.status(uuid));
    if (status.leader <= 0) return fail(ErrorKind::refused, "Cannot find running init PID for VM " + uuid.text());
    return parts_.units.kill(uuid, signal);
}

// --- recovery ---

Result<> Machines::recover_marked(Uuid const& uuid) {
    MachineLock const own = TRY(lock(uuid, "recover"));
    LockFile const lock_file(store_, uuid);
    return finish_interrupted(uuid);
}

Result<> Machines::recover_snapshots(Uuid const& uuid, Told const& told) {
    auto const own = lock(uuid, "vmadm recover", milliseconds(0));
    if (!own) return {};  // it may be copied just now
    LockFile const lock_file(store_, uuid);
    if (!store_.exists(uuid) || !TRY(parts_.pool.exists(tree_of(uuid)))) return {};
    if (TRY(forget_copy_snapshots(uuid))) told("VM " + uuid.text() + ": the snapshot of an interrupted copy was removed");
    return {};
}

/// The caller has the lock.
Result<> Machines::recover_failed(Uuid const& uuid, Told const& told) {
    auto const found = load(uuid);
    if (!found && found.error().kind == ErrorKind::not_found) return {};  // another command has deleted it
    Machine repaired = TRY(found);
    if (repaired.phase != Phase::failed) return {};  // or has repaired it
    repaired.failure.reset();
    TRY(perform_marked(uuid, installation(repaired)));
    told("VM " + uuid.text() + ": installed again");
    return {};
}

Result<> Machines::recover_tree(Uuid const& owner, Told const& told) {
    MachineLock const own = TRY(lock(owner, "recover"));
    LockFile const lock_file(store_, owner);
    if (store_.exists(owner)) return {};
    TRY(perform_marked(owner, deletion(owner)));
    told("tree " + tree_of(owner).text() + ": removed, it belongs to no VM");
    return {};
}

/// What has happened to several machines: the first error, but one does not keep the others from being recovered.
class Machines::Recovered {
public:
    /// `is_named`: only one machine is recovered. Otherwise one that another command has to itself is left to it.
    Recovered(Told const& told, bool is_named) : told_(told), is_named_(is_named) {}
    /// The lock of a machine that is to be recovered; nothing when that has been told.
    std::optional<MachineLock> lock(Machines& machines, Uuid const& uuid) {
        auto own = machines.lock(uuid, "vmadm recover", is_named_ ? lock_patience : milliseconds(0));
        if (own) return std::move(*own);
        if (!is_named_ && own.error().kind == ErrorKind::busy)
            told_(own.error().text() + ": left alone");
        else
            add(std::unexpected(own.error()));
        return std::nullopt;
    }
    void add(Result<> result) {
        if (result) return;
        if (first_)
            first_ = std::move(result);
        else
            told_(result.error().text());
    }
    /// A list of what may be to do; an empty one when it cannot be had, as an error of its own.
    template <class List>
    List list(Result<List> found) {
        if (found) return std::move(*found);
        add(std::unexpected(std::move(found).error()));
        return {};
    }
    Result<> result() && { return std::move(first_); }

private:
    Told const& told_;
    bool is_named_;
    Result<> first_;
};

Result<> Machines::recover(std::optional<Uuid> const& uuid, Told const& told) {
    auto const is_wanted = [&uuid](Uuid const& other) { return !uuid || other == *uuid; };
    Recovered recovered(told, uuid.has_value());
    HostParts const parts = parts_;
    Machines telling(store_.layout(), parts);
    telling.parts_.notice = told;
    bool is_known = false;  // something of `uuid` was found, which may be gone now
    for (Uuid const& marked : recovered.list(store_.marked())) {
        if (!is_wanted(marked)) continue;
        is_known = true;
        auto const own = recovered.lock(*this, marked);
        if (!own) continue;
        LockFile const lock_file(store_, marked);
        recovered.add(telling.finish_interrupted(marked));
    }
    forget_strays(store_);
    // Until then a killed clone takes up room, which deletions may be waiting for.
    if (!uuid) {
        auto const removed = parts_.pool.recover();
        recovered.add(removed ? Result<>() : std::unexpected(removed.error()));
    }
    for (Machine const& machine : recovered.list(store_.load_all()).machines) {
        if (!is_wanted(machine.uuid)) continue;
        recovered.add(recover_snapshots(machine.uuid, told));
        if (machine.phase != Phase::failed) continue;
        auto const own = recovered.lock(*this, machine.uuid);
        if (!own) continue;
        LockFile const lock_file(store_, machine.uuid);
        recovered.add(recover_failed(machine.uuid, told));
    }
    for (storage::TreeName const& tree : recovered.list(parts_.pool.list(group))) {
        auto const owner = Uuid::parse(tree.text().substr(group.size() + 1));
        if (!owner || !is_wanted(*owner) || store_.exists(*owner)) continue;
        is_known = true;
        if (uuid)
            recovered.add(recover_tree(*owner, told));
        else  // if the disk with the machines' files were not mounted, all trees would look like this
            told("tree " + tree.text() + ": belongs to no VM; vmadm recover " + owner->text() + " removes it");
    }
    for (Uuid const& owner : recovered.list(stray_volume_holders())) {
        if (!is_wanted(owner)) continue;
        is_known = true;
        if (uuid)
            recovered.add(recover_volumes(owner, told));
        else
            told("volumes of VM " + owner.text() + ": there is no such VM; vmadm recover " + owner.text() +
                 " releases them");
    }
    for (Uuid const& owner : recovered.list(stray_networks())) {
        if (!is_wanted(owner)) continue;
        is_known = true;
        if (uuid)
            recovered.add(recover_network(owner, told));
        else  // likewise, and the machine may run
            told("network of VM " + owner.text() + ": there is no such VM; vmadm recover " + owner.text() +
                 " removes it");
    }
    // Nothing of it was to be done: a machine that exists is sound, and one that does not exist is an error.
    if (uuid && !is_known) {
        if (auto const known = store_.load(*uuid); !known) recovered.add(std::unexpected(known.error()));
    }
    return std::move(recovered).result();
}

}  // namespace triton::machine
