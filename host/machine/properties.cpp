#include "host/machine/properties.h"

#include <algorithm>
#include <array>

#include "host/machine/launch_report.h"
#include "host/machine/nic.h"
#include "host/machine/values.h"
#include "lib/json/schema.h"

namespace triton::machine {

namespace {

using json::Shape;

constexpr std::array<std::string_view, 7> state_names{"provisioning", "configured", "stopped", "starting",
                                                      "running",      "stopping",   "failed"};
constexpr std::array<std::string_view, 4> phase_names{"configuring", "configured", "installed", "failed"};

using StateName = json::Choice<State, state_names>;
using PhaseName = json::Choice<Phase, phase_names>;

std::string_view text_of(State state) { return name_of(state); }
std::string_view text_of(Phase phase) { return name_of(phase); }

/// Writes an enum by its name.
template <auto Member>
void write_name(std::string_view name, Machine const& machine, json::Writer& out) {
    out.key(name).value(text_of(machine.*Member));
}

template <auto Member, class Kind>
constexpr Property property(std::string_view name, PropertyRules rules, std::string_view description) {
    constexpr auto write = [](Shown shown) -> Write<Machine> {
        switch (shown) {
            case Shown::when_set: return write_member<Member, Shown::when_set, Machine>;
            case Shown::always: return write_member<Member, Shown::always, Machine>;
            case Shown::when_true: return write_member<Member, Shown::when_true, Machine>;
        }
        std::unreachable();
    };
    return {.name = name,
            .need = rules.set == Set::required ? json::Need::required : json::Need::optional,
            .value = json::as<Member, Kind>,
            .description = description,
            .write = write(rules.shown),
            .clear = clear_member<Member, Machine>,
            .rules = rules};
}

template <auto Member, class Kind>
constexpr Property named(std::string_view name, PropertyRules rules, std::string_view description) {
    return {.name = name,
            .value = json::as<Member, Kind>,
            .description = description,
            .write = write_name<Member>,
            .clear = clear_member<Member, Machine>,
            .rules = rules};
}

/// A property that is computed from other members, and never read.
constexpr Property derived(std::string_view name, Column column, Shape const& shape, Write<Machine> write,
                           std::string_view description) {
    return {.name = name,
            .value = {.shape = &shape},
            .description = description,
            .write = write,
            .rules = {.set = Set::by_us, .column = column, .place = Place::observed}};
}

void write_type(std::string_view name, Machine const&, json::Writer& out) { out.key(name).value("LX"); }
void write_hvm(std::string_view name, Machine const&, json::Writer& out) { out.key(name).value(false); }
void write_filesystem(std::string_view name, Machine const& machine, json::Writer& out) {
    if (machine.zfs_filesystem)
        out.key(name).value(*machine.zfs_filesystem);
    else if (machine.zpool)
        out.key(name).value(*machine.zpool + "/" + machine.uuid.text());
}

void write_open_report(std::string_view name, Machine const& machine, json::Writer& out) {
    if (machine.launch_status) out.key(name).value(open_report(*machine.launch_status));
}
void write_open_failure(std::string_view name, Machine const& machine, json::Writer& out) {
    if (machine.failure)
        out.key(name).value(std::string_view(*machine.failure).substr(0, machine.failure->find(failure_words)));
}
constexpr Property partly_secret(Property property, Write<Machine> write_open) {
    property.write_open = write_open;
    return property;
}

constexpr PropertyRules seen(Column column = {}, Shown shown = Shown::when_set) {
    return {.set = Set::by_us, .column = column, .place = Place::observed, .shown = shown};
}
constexpr PropertyRules live(Column column = {}) { return {.takes = Takes::at_once, .column = column}; }
constexpr PropertyRules next(Column column = {}) { return {.takes = Takes::at_start, .column = column}; }
constexpr PropertyRules kept(Column column = {}) { return {.column = column}; }
constexpr PropertyRules idle(PropertyRules rules = {}) {
    rules.is_idle = true;
    return rules;
}
constexpr PropertyRules keys(Place place) {
    return {.takes = Takes::at_once, .place = place, .shown = Shown::always, .parts = Parts::keys};
}
constexpr PropertyRules secret(PropertyRules rules) {
    rules.is_secret = true;
    return rules;
}

using Count = Whole<0, std::int64_t{1} << 31>;
using Name = Line<255>;

}  // namespace

std::span<Property const> table(json::TableOf<Machine, json::Reading>) {
    // clang-format off
    static constexpr auto rows = std::to_array<Property>({
        property<&Machine::uuid, UuidText>("uuid", {.set = Set::at_create, .column = {36}}, "Its name for everything on the host; made if it is missing."),
        property<&Machine::alias, Name>("alias", kept({10}), "A name for people; commands accept it instead of the uuid if it is unique."),
        property<&Machine::brand, Name>("brand", {.set = Set::required, .column = {14}}, "`lx`: a Linux container."),
        derived("type", {4}, json::any_text, write_type, "Derived from the brand: `LX`."),
        derived("hvm", {5}, json::boolean, write_hvm, "Whether it has virtual hardware: never."),
        named<&Machine::state, StateName>("state", seen({16}), "Its current state: `provisioning`, `configured`, `stopped`, `starting`, `running`, `stopping` or `failed`."),
        partly_secret(property<&Machine::failure, Line<4096>>("failure", {.set = Set::by_us, .column = {40}}, "Why its state is `failed`: its latest start failed, which `vmadm start` repeats and `vmadm stop` clears; or a command could not undo its work, which `vmadm recover` repeats."), write_open_failure),
        property<&Machine::image_uuid, UuidText>("image_uuid", {.set = Set::required, .column = {36}, .alias = "dataset_uuid"}, "The image that it is made from."),
        property<&Machine::hostname, HostName>("hostname", next({32}), "Its host name, which is also written into its /etc/hostname. Default: its zonename, and the /etc/hostname of its image."),
        property<&Machine::zonename, HostName>("zonename", {.set = Set::at_create, .column = {12}}, "Stored. Default: its uuid."),
        property<&Machine::zonepath, PlainPath>("zonepath", seen({40}), "The directory of its tree."),
        derived("zfs_filesystem", {}, json::any_text, write_filesystem, "Its tree in the pool."),
        property<&Machine::zpool, Name>("zpool", {.set = Set::at_create, .column = {12}, .alias = "zfs_storage_pool_name"}, "The ZFS pool that it is in; any other is refused."),
        property<&Machine::owner_uuid, UuidText>("owner_uuid", kept({36}), "Stored. Default: zeros."),
        property<&Machine::billing_id, UuidText>("billing_id", kept({36}), "Stored. Default: zeros."),
        property<&Machine::package_name, Name>("package_name", kept({32}), "Stored."),
        property<&Machine::package_version, Name>("package_version", kept({11, "PACKAGE_VER"}), "Stored."),
        property<&Machine::autoboot, Flag>("autoboot", {.takes = Takes::at_once, .column = {8}}, "Whether it starts with the host. Default: true. `start` and `stop` set it."),
        property<&Machine::cpu_cap, Whole<0, 1'000'000>>("cpu_cap", live({7}), "The most that it may use of the processors, in percent of one; 0: no limit."),
        property<&Machine::cpu_shares, Whole<1, 65535>>("cpu_shares", live({9, "CPU_SHARE"}), "Its weight when processor time is scarce. Default: 100. systemd's highest weight is 10000."),
        property<&Machine::max_physical_memory, Mebibytes>("max_physical_memory", {.takes = Takes::at_once, .column = {8, "MAX_PHYS"}}, "MiB of memory; 0: no limit. Default: 256."),
        derived("ram", {7}, json::any_integer, [](std::string_view name, Machine const& machine, json::Writer& out) {
            if (machine.max_physical_memory) out.key(name).value(*machine.max_physical_memory); }, "The same as `max_physical_memory`, which a payload may set under this name."),
        property<&Machine::max_swap, Mebibytes>("max_swap", live({8}), "MiB of memory and swap together, at least 256 and `max_physical_memory`. Default: that."),
        property<&Machine::max_locked_memory, Mebibytes>("max_locked_memory", next({10, "MAX_LOCKED"}), "MiB that each of its processes may lock, at most `max_physical_memory`, which is the default."),
        property<&Machine::tmpfs, Mebibytes>("tmpfs", next({5}), "MiB of its /tmp in memory, at most `max_physical_memory`, which is the default; 0: /tmp is on disk."),
        property<&Machine::max_lwps, Whole<1, 1 << 22>>("max_lwps", live({7, "MAX_LWP"}), "Processes and threads. Default: 2000."),
        property<&Machine::quota, Gibibytes>("quota", live({5}), "GiB that its tree may take; 0: no limit. Default: 10."),
        property<&Machine::max_msg_ids, Count>("max_msg_ids", kept(), "Stored. Default: 4096."),
        property<&Machine::max_sem_ids, Count>("max_sem_ids", kept(), "Stored. Default: 4096."),
        property<&Machine::max_shm_ids, Count>("max_shm_ids", kept(), "Stored. Default: 4096."),
        property<&Machine::max_shm_memory, Mebibytes>("max_shm_memory", kept(), "Stored. Default: `max_physical_memory`."),
        property<&Machine::zfs_io_priority, Whole<0, 16384>>("zfs_io_priority", live({11, "IO_PRIORITY"}), "Its weight when the disk is busy, where the scheduler of that heeds weights (bfq, io.cost); ZFS does not. Default: 100. systemd's highest weight is 10000."),
        property<&Machine::zfs_root_compression, CompressionName>("zfs_root_compression", live(), "Of its tree, on a ZFS pool: `on`, `off`, `gzip`, `gzip-1` to `gzip-9`, `lz4`, `lzjb` or `zle`. Elsewhere stored."),
        property<&Machine::zfs_data_compression, CompressionName>("zfs_data_compression", kept(), "Stored."),
        property<&Machine::zfs_root_recsize, RecordSize>("zfs_root_recsize", live(), "The record size of its tree in bytes, on a ZFS pool. Elsewhere stored."),
        property<&Machine::zfs_data_recsize, RecordSize>("zfs_data_recsize", kept(), "Stored."),
        property<&Machine::zfs_filesystem_limit, Count>("zfs_filesystem_limit", live(), "File systems below its tree, on a ZFS pool. Elsewhere stored."),
        property<&Machine::zfs_snapshot_limit, Count>("zfs_snapshot_limit", live(), "Snapshots of its tree, on a ZFS pool. Elsewhere stored."),
        property<&Machine::indestructible_zoneroot, Flag>("indestructible_zoneroot", {.takes = Takes::at_once, .column = {12, "INDESTR_ROOT"}, .shown = Shown::when_true}, "Whether `delete` and `reprovision` are refused."),
        property<&Machine::indestructible_delegated, Flag>("indestructible_delegated", {.takes = Takes::at_once, .column = {12, "INDESTR_DATA"}, .shown = Shown::when_true}, "Whether `delete` is refused."),
        property<&Machine::do_not_inventory, Flag>("do_not_inventory", {.column = {5, "DNI"}, .shown = Shown::when_true}, "Stored, for tools that count machines."),
        property<&Machine::archive_on_delete, Flag>("archive_on_delete", {.shown = Shown::when_true}, "Whether `delete` keeps its properties and its metadata in /var/triton/vmadm/archive."),
        property<&Machine::firewall_enabled, Flag>("firewall_enabled", idle({.column = {16}, .shown = Shown::when_set}), "Stored: machines have no firewall of their own. Default: false."),
        property<&Machine::delegate_dataset, Flag>("delegate_dataset", idle({.set = Set::at_create}), "Stored: no dataset is delegated."),
        property<&Machine::dns_domain, HostName>("dns_domain", {.takes = Takes::at_start, .column = {32, "DOMAIN"}}, "The domain in which short host names are looked up: `search` of /etc/resolv.conf, if there are resolvers. Default: local."),
        property<&Machine::resolvers, TextList>("resolvers", {.takes = Takes::at_start, .shown = Shown::always}, "Addresses of name servers, for /etc/resolv.conf, which is written at create and reprovision."),
        property<&Machine::maintain_resolvers, Flag>("maintain_resolvers", next(), "Whether vmadm also writes /etc/resolv.conf at each start, reboot and update."),
        property<&Machine::init_name, PlainPath>("init_name", next(), "The program that is its PID 1. Default: the init of its image."),
        property<&Machine::kernel_version, Name>("kernel_version", kept(), "Stored; it has no effect on Linux."),
        property<&Machine::fs_allowed, TextList>("fs_allowed", idle(), "Stored; it has no effect on Linux."),
        property<&Machine::limit_priv, TextList>("limit_priv", idle(), "Stored; it has no effect on Linux."),
        property<&Machine::internal_metadata_namespaces, TextList>("internal_metadata_namespaces", kept(), "Prefixes of keys of internal_metadata that the machine may read, as PREFIX:KEY."),
        property<&Machine::mdata_exec_timeout, Whole<0, 86400>>("mdata_exec_timeout", {.set = Set::at_create}, "Stored: no image has an mdata:execute that create could wait for. Default: 300."),
        property<&Machine::filesystems, json::List<json::Record<Filesystem, filesystem_shape>>>("filesystems", {.takes = Takes::at_start, .parts = Parts::objects, .key = "target"}, "Volumes, and directories of the host, that it sees. `options`: `ro` or `readonly`, `rw`; for directories `idmap`."),
        property<&Machine::nics, json::List<json::Record<Nic, nic_shape>>>("nics", {.takes = Takes::at_start, .shown = Shown::always, .parts = Parts::objects, .key = "mac"}, "Its network interfaces."),
        property<&Machine::routes, Flat>("routes", keys(Place::routes_file), "Destination to gateway: an IPv4 address, `nics[N]` or `macs[MAC]`."),
        property<&Machine::tags, Flat>("tags", keys(Place::tags_file), "Keys and values of its owner."),
        property<&Machine::customer_metadata, Flat>("customer_metadata", secret(keys(Place::metadata_file)), "Keys and values that the machine may read."),
        property<&Machine::internal_metadata, Flat>("internal_metadata", secret(keys(Place::metadata_file)), "Keys and values of the operator."),
        property<&Machine::launch, AnyObject>("launch", {.takes = Takes::at_once, .place = Place::launch_file, .is_secret = true}, "A launch configuration. With it `triton-launch` is PID 1 of the machine and runs its programs."),
        partly_secret(property<&Machine::launch_status, AnyObject>("launch_status", seen(), "What the machine's `triton-launch` reports, without values that change all the time."), write_open_report),
        property<&Machine::snapshots, json::List<json::Record<Snapshot, snapshot_shape>>>("snapshots", seen({}, Shown::always), "Its snapshots."),
        property<&Machine::pid, Count>("pid", seen({6}), "The host's number of its PID 1."),
        property<&Machine::boot_timestamp, Name>("boot_timestamp", seen({24}), "When it was started."),
        property<&Machine::exit_status, Whole<INT64_MIN, INT64_MAX>>("exit_status", seen({4, "EXIT"}), "How it ended: the exit status of systemd-nspawn."),
        property<&Machine::exit_reason, Line<4096>>("exit_reason", seen({40}), "The same in words, with the processes that the kernel killed for want of memory since the machine was started."),
        property<&Machine::exit_timestamp, Name>("exit_timestamp", seen({24}), "When it ended."),
        property<&Machine::init_restarts, Count>("init_restarts", seen(), "How often systemd has restarted it."),
        property<&Machine::waits_for, Line<4096>>("waits_for", seen({40}), "What a machine that is `starting` waits for: a volume, and why it is not there."),
        property<&Machine::create_timestamp, Name>("create_timestamp", {.set = Set::by_us, .column = {24}}, "When it was created."),
        property<&Machine::last_modified, Name>("last_modified", seen(), "When its properties were changed."),
        property<&Machine::server_uuid, UuidText>("server_uuid", seen(), "The host that it is on."),
        property<&Machine::platform_buildstamp, Name>("platform_buildstamp", seen(), "`TRITON_RELEASE` of the host."),
        property<&Machine::v, Whole<1, 1>>("v", {.set = Set::at_create}, "The version of this format: 1."),
        named<&Machine::phase, PhaseName>("phase", {.set = Set::by_us, .place = Place::hidden}, "The progress of its provisioning."),
        property<&Machine::first_uid, Whole<65536, 0xfffeffff>>("first_uid", {.set = Set::by_us, .place = Place::hidden}, "The first of its 65,536 host uids."),
        property<&Machine::volume_snapshots, AnyObject>("volume_snapshots", {.set = Set::by_us, .place = Place::hidden}, "The volumes that were taken with each snapshot."),
        property<&Machine::nowait, Flag>("nowait", idle({.set = Set::at_create, .place = Place::payload}), "No effect: create returns once the machine's PID 1 runs, and waits for nothing in it."),
        property<&Machine::create_only, Flag>("create_only", {.set = Set::at_create, .place = Place::payload}, "Whether the machine is left for `vmadm install`."),
    });
    // clang-format on
    return rows;
}

std::span<std::string_view const> names_of_states() {
    static constexpr auto names = [] {
        std::array<std::string_view, state_names.size() + 1> all{};
        std::ranges::copy(state_names, all.begin());
        all.back() = "unreadable";
        return all;
    }();
    return names;
}

std::string_view name_of(State state) { return state_names[static_cast<std::size_t>(state)]; }
std::string_view name_of(Phase phase) { return phase_names[static_cast<std::size_t>(phase)]; }

std::string Property::title() const {
    std::string title(rules.column.title.empty() ? name : rules.column.title);
    std::ranges::transform(title, title.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c & ~0x20 : c; });
    return title;
}

Property const* find_property(std::string_view name) {
    auto const row = std::ranges::find_if(properties(), [name](Property const& property) {
        return property.name == name || (!property.rules.alias.empty() && property.rules.alias == name);
    });
    return row == properties().end() ? nullptr : &*row;
}

bool is_for_hardware(std::string_view name) {
    static constexpr auto names = std::to_array<std::string_view>({
        "bhyve_extra_opts",
        "boot",
        "bootrom",
        "com1",
        "com2",
        "cpu_type",
        "disk_driver",
        "disks",
        "add_disks",
        "update_disks",
        "remove_disks",
        "flexible_disk_size",
        "free_space",
        "nic_driver",
        "pci_devices",
        "add_pci_devices",
        "update_pci_devices",
        "remove_pci_devices",
        "qemu_opts",
        "qemu_extra_opts",
        "spice_opts",
        "spice_password",
        "spice_port",
        "vcpus",
        "vga",
        "virtio_txburst",
        "virtio_txtimer",
        "vnc_password",
        "vnc_port",
    });
    return std::ranges::find(names, name) != names.end();
}

std::string value_text(Property const& property, Machine const& machine) {
    json::Writer out;
    out.open('{');
    property.write("x", machine, out);
    std::string text = std::move(out).text();
    static constexpr std::string_view head = R"({"x":)";
    return text.size() > head.size() ? text.substr(head.size()) : "";
}

namespace {

template <class Wanted>
std::string object_text(Machine const& machine, Wanted wanted) {
    json::Writer out;
    out.open('{');
    for (Property const& property : properties()) {
        if (wanted(property)) property.write(property.name, machine, out);
    }
    out.close('}');
    return std::move(out).text();
}

}  // namespace

std::string public_text(Machine const& machine) {
    return object_text(machine, [](Property const& property) { return property.is_public(); });
}

std::string open_text(Machine const& machine) {
    json::Writer out;
    out.open('{');
    for (Property const& property : properties()) {
        if (property.is_open()) property.write_for_all(machine, out);
    }
    out.close('}');
    return std::move(out).text();
}

std::string file_text(Machine const& machine) {
    return object_text(machine, [](Property const& property) { return property.is_stored(); }) + "\n";
}

std::string whole_text(Machine const& machine) {
    return object_text(machine, [](Property const& property) { return property.is_kept(); });
}

std::string payload_text(Machine const& machine) {
    return object_text(machine, [](Property const& property) { return property.is_settable(); });
}

Result<Machine> parse_file(std::string_view text, std::string_view path) {
    json::Reading reading(20);
    Machine machine;
    auto const node = json::read_json(text, json::Limits{.document_bytes = 16 << 20}, reading.problems);
    json::Where const top{};
    auto const* const object = node ? json::expect<json::Object>("an object", *node, top, reading) : nullptr;
    bool has_uuid = false;
    for (std::size_t i = 0; object && i < object->size(); ++i) {
        json::Member const& member = (*object)[i];
        Property const* const property = find_property(member.key);
        if (!property || !property->is_kept()) continue;
        property->value.parse(member.node, json::Where{&top, property->name}, machine, reading);
        has_uuid = has_uuid || property->name == "uuid";
    }
    if (object && !has_uuid) reading.problems.add(json::Where{&top, "uuid"}, "required key is missing");
    if (reading.problems.empty()) return machine;
    auto problems = std::move(reading.problems).take();
    Error error = fail(ErrorKind::corrupt, "read " + std::string(path), problems.front().text()).error();
    for (json::Problem const& problem : problems)
        error.details.push_back(problem.text());
    return std::unexpected(std::move(error));
}

namespace {

std::vector<json::DescribedKey> described_properties(std::array<std::string_view, 4> const& setters,
                                                     std::array<std::string_view, 3> const& effects) {
    std::vector<json::DescribedKey> keys;
    for (Property const& property : properties()) {
        if (property.rules.place == Place::hidden) continue;
        std::string need(setters[static_cast<std::size_t>(property.rules.set)]);
        keys.push_back({property.name, property.need, std::move(need), property.value.shape, property.description,
                        std::string(effects[static_cast<std::size_t>(property.rules.takes)])});
    }
    return keys;
}

}  // namespace

std::string manual_page() {
    auto const keys = described_properties({"shown", "set by create", "create needs it", "set by create and update"},
                                           {"", "in force at once", "in force at the next start"});
    std::string page = R"(vmadm-properties(5)

# NAME

vmadm-properties - what a machine of vmadm is made of

# DESCRIPTION

Each machine has these properties. *vmadm get* shows them as one JSON object, *vmadm create* takes such an object (or
an image and KEY=VALUE words), and *vmadm update* changes parts of it:

```
vmadm create debian alias=web0 ram=1G cpu_cap=200 quota=20
vmadm update web0 ram=2G
echo '{"set_tags": {"role": "db"}}' | vmadm update web0
```

A number may be written as a text. A size in MiB or GiB may have a unit of its own instead: *ram=1G*, *quota=1.5T*. An
empty value or *null* takes a property away, or gives it its default again.

Of *tags*, *customer_metadata*, *internal_metadata* and *routes* an update changes parts with *set_tags* (an object) and
*remove_tags* (a list of keys), and so on; of *nics* and *filesystems* with *add_nics*, *update_nics* (lists of objects,
which *mac* or *target* identifies) and *remove_nics* (a list of these).
)";
    json::append_manual_section(page, "PROPERTIES", keys);
    json::append_manual_section(
        page, "NICS", json::described_keys<Nic, json::Reading>(),
        "The keys of an element of *nics*. *vminfo* and *vmadm list* name parts as *nics.0.ip*.");
    json::append_manual_section(page, "FILESYSTEMS", json::described_keys<Filesystem, json::Reading>(),
                                "The keys of an element of *filesystems*.");
    return page + "\n# SEE ALSO\n\n*vmadm*(8), *imgadm*(8), *vminfod*(8)\n";
}

std::string reference_page() {
    auto const keys =
        described_properties({"never", "create", "create (required)", "create, update"}, {"", "at once", "next start"});
    std::string page = "# Properties of machines\n\n";
    json::append_section(page, "machine", keys, "Who sets each, and when a running machine notices.", "Takes effect");
    json::append_section(page, "nic", json::described_keys<Nic, json::Reading>());
    json::append_section(page, "filesystem", json::described_keys<Filesystem, json::Reading>());
    return page;
}

}  // namespace triton::machine
