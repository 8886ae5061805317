#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/host.h"
#include "host/machine/host_facts.h"
#include "host/machine/lock_file.h"
#include "host/machine/machine_stream.h"
#include "host/machine/network_plan.h"
#include "host/machine/payload.h"
#include "host/machine/store.h"
#include "host/storage/pool.h"

namespace triton::machine {

/// What Machines works with; everything is borrowed.
struct HostParts {
    storage::Pool& pool;
    Images& images;
    Units& units;
    Launcher& launcher;
    std::function<std::int64_t()> now;             ///< microseconds since 1970
    Progress progress = {};                        ///< of long work
    std::function<void(std::string)> notice = {};  ///< a sentence that the user should read
    Networks* networks = nullptr;                  ///< none: NICs are kept, but not made
    Volumes* volumes = nullptr;                    ///< none: machines have no volumes
    std::string metadata_client = {};              ///< the program behind mdata-get; empty: machines do not get it
};

struct StopOptions {
    bool force = false;
    std::chrono::seconds limit{60};
};

/// The machines of a host: vmadm is its client.
///
///     no state -> configured -> installed -> running
///
/// A machine is configured when its file and its tree exist, installed when what systemd needs has been made from them,
/// and running when its PID 1 is. create() goes from no state to installed or running; destroy() goes back. Every
/// change consists of steps (steps.h). A command that is killed leaves a mark, and the next command on that machine, or
/// recover(), finishes or undoes it. The files for systemd are derived: they are made again at each start, and a
/// running machine does not notice that.
class Machines {
public:
    Machines(Layout layout, HostParts parts)
        : facts_(read_host_facts(layout.root)), store_(std::move(layout)), parts_(parts) {}

    [[nodiscard]] Store const& store() const { return store_; }

    struct Listed {
        std::vector<Machine> machines;
        std::vector<BrokenFile> broken;
        Result<> states;  ///< why the states are not known, if systemd does not tell them
    };
    /// All machines with their present state. Where systemd does not tell it, that is "stopped", or what their files
    /// say.
    Result<Listed> list();
    /// One machine, with its snapshots and its launcher's report. Where systemd does not tell its state, it is as
    /// above, and the user is told. Errors: `not_found`.
    Result<Machine> get(Uuid const& uuid);
    /// The part of a machine that is in its files, without what systemd and the pool know, for callers that keep the
    /// rest.
    /// Errors: `not_found`; corrupt.
    Result<Machine> read(Uuid const& uuid);
    /// The limit of its tree in bytes, whoever has set it; 0: no limit. None: the tree does not exist, or its file
    /// system keeps no limits. Errors: those of the pool.
    Result<std::optional<std::uint64_t>> tree_limit(Uuid const& uuid);
    /// The snapshots of a machine, newest first. Errors: those of the pool.
    Result<std::vector<Snapshot>> snapshots(Uuid const& uuid);
    /// Finds a machine by its uuid, the beginning of one (at least four characters), or its alias.
    /// Errors: `not_found`; `refused` when several match.
    Result<Uuid> find(std::string_view name);

    /// Errors: `exists`: "VM with UUID <uuid> already exists", or its tree without it; `not_found` when there is no
    /// such image; `refused` for a conflict of NICs.
    Result<> create(Creation const& creation);
    /// Makes a machine with the content of another one: of one of its snapshots, or, without a name, of its present
    /// state. The two are independent afterwards. Errors: as create(); `not_found` snapshot.
    Result<> clone(Uuid const& source, std::string_view snapshot, Creation const& creation);
    /// The payload for such a copy, before any changes: everything that was requested, except what only one machine can
    /// have (uuid, alias, NICs, and names made from the uuid).
    Result<json::Object> payload_of_copy(Uuid const& source);

    /// Writes a machine as a stream, with its present tree but without its snapshots. `to` is borrowed.
    Result<> send(Uuid const& uuid, int to);
    /// Makes a machine from the rest of a stream whose head has said `storage`; it is not started. Errors: as create(),
    /// although the image may be missing; `unsupported` when its tree is for another kind of pool; `corrupt`.
    Result<> receive(StreamReader& stream, std::string_view storage, Creation const& creation);

    /// Does the second half of a creation with `create_only`.
    Result<> install(Uuid const& uuid);
    /// Updates a machine as `make` says, while nobody else can change it. Returns that.
    /// Errors: those of `make`.
    Result<Update> update(Uuid const& uuid, std::function<Result<Update>(Machine const& before)> const& make);
    Result<> destroy(Uuid const& uuid);
    /// Lets machines have an alias that another one has already.
    void let_aliases_repeat() { may_aliases_repeat_ = true; }
    /// Those that commands are for from now on, if not each that they name: what was chosen by its properties may have
    /// other ones by the time that nobody else can change it, and then the command is `refused`.
    void only_while(std::function<bool(Machine const&)> is_meant) { is_meant_ = std::move(is_meant); }
    /// Replaces the content of a machine by a fresh clone of an image. Its properties, metadata and uids stay; its
    /// snapshots are removed. If it was running it is started again. Errors: `not_found` image; `refused` when it is
    /// indestructible.
    Result<> reprovision(Uuid const& uuid, Uuid const& image);

    /// Returns whether it was not running before.
    Result<bool> start(Uuid const& uuid);
    /// Returns whether it was running before.
    Result<bool> stop(Uuid const& uuid, StopOptions const& options);
    Result<> reboot(Uuid const& uuid, bool force);
    /// Sends a signal to a machine's PID 1.
    Result<> kill(Uuid const& uuid, int signal);

    /// `with_volumes`: also of the volumes that it may write, all or none. Then a rollback restores these, too.
    Result<> create_snapshot(Uuid const& uuid, std::string_view name, bool with_volumes = false);
    Result<> delete_snapshot(Uuid const& uuid, std::string_view name);
    Result<> rollback_snapshot(Uuid const& uuid, std::string_view name);

    using Told = std::function<void(std::string)>;
    /// Finishes or undoes interrupted operations, for one machine or all; of all, those that another command has to
    /// itself are left to that. Names trees and networks without a machine, and removes those of `uuid`. `told` gets a
    /// sentence for each thing that it did, and for each error but the first. Errors: the first one, after all is done;
    /// `not_found` when there is neither a machine `uuid` nor anything left of one.
    Result<> recover(std::optional<Uuid> const& uuid, Told const& told);

    /// Makes what systemd needs from the machine's properties: before each start, and when the host boots.
    Result<> derive(Machine const& machine);
    /// Before its PID 1 is asked to end: one that has just been started may not notice yet.
    void await_listener(Machine const& machine, UnitStatus const& status);
    /// Starts its unit, and waits until the machine has booted. Meanwhile it may be stopped by another command.
    /// Errors: `invalid` when its launcher rejects the launch configuration: it is halted then.
    Result<> start_unit(Machine const& machine, OwnMachine& own);

    /// For the boot of the host, when /run is empty: finishes or undoes interrupted operations, and derives for all
    /// installed machines. Returns those that could not be made ready, with the reasons. They will not start; all
    /// others are ready.
    Result<std::vector<BrokenFile>> prepare();

    /// Refuses a launch configuration that the launcher refuses. Errors: `invalid`.
    Result<> check_launch(Machine const& machine);

    /// Refuses NICs and routes that this host cannot make. Errors: `invalid`.
    Result<> check_network(Machine const& machine);

private:
    Result<MachineLock> lock(Uuid const& uuid, std::string_view command);
    /// Makes a machine ours alone, if it is one that may be changed. Errors: those of Store::lock().
    Result<MachineLock> lock(Uuid const& uuid, std::string_view purpose, milliseconds patience);
    Result<Machine> load(Uuid const& uuid);
    Result<Machine> load_whole(Uuid const& uuid);
    Result<Machine> load_installed(Uuid const& uuid);
    Result<> load_parts(Machine& machine);
    void observe_files(Machine& machine) const;
    Result<> check_conflicts(Machine const& machine);
    Result<> check_alias(Machine const& machine);
    Result<> finish_interrupted(Uuid const& uuid);
    Result<> start_again(Uuid const& uuid);
    Result<> check_init(Machine const& machine) const;
    Result<> recover_marked(Uuid const& uuid);
    Result<> recover_snapshots(Uuid const& uuid, Told const& told);
    Result<> recover_failed(Uuid const& uuid, Told const& told);
    Result<> recover_tree(Uuid const& owner, Told const& told);
    Result<> recover_network(Uuid const& owner, Told const& told);
    class Recovered;
    Result<> prepare_one(Uuid const& uuid);
    Result<Operation> operation_of(Mark const& mark, Uuid const& uuid);
    /// Makes a machine by an operation. Only one command at a time looks for uids and addresses and takes them.
    /// `source`: another machine that is needed until this one is complete.
    Result<> add(Machine machine, std::string_view command, std::function<Operation(Machine const&)> const& make,
                 OwnMachine* source = nullptr);
    bool is_kept(Uuid const& uuid);
    /// `name`: "create", "clone" or "receive". `tree` makes the machine's tree.
    Operation creation(Machine const& machine, std::string_view name = "create", std::function<Result<>()> tree = {});
    [[nodiscard]] std::optional<Machine> being_made(Machine const& machine) const;
    static Result<Machine> machine_of_clone(std::string_view data, Uuid const& uuid);
    Result<Operation> operation_of_clone(std::string_view data, Uuid const& uuid);
    Operation cloning(Machine const& machine, Uuid const& source, std::string_view snapshot);
    Result<> copy_tree(Uuid const& source, storage::SnapshotName const& snapshot, Uuid const& to);
    /// Removes the snapshots that a killed clone or send of a machine has left. Returns whether there were any.
    Result<bool> forget_copy_snapshots(Uuid const& uuid);
    Result<> receive_tree(StreamReader& stream, Uuid const& uuid);
    Operation installation(Machine const& machine);
    Operation deletion(Uuid const& uuid);
    /// The limits that an update sets, and the quota of the tree that was in force before, whoever had set it.
    struct NewLimits {
        std::vector<UnitProperty> of_unit = {};
        bool is_quota_new = false;
        std::optional<std::uint64_t> tree_limit = {};
        bool has_volumes = false;  ///< before or after the update
    };
    Operation change(Machine const& machine, bool is_resumed, NewLimits const& limits);
    Operation reprovisioning(Machine const& machine, bool was_running, bool is_resumed);
    Operation rollback(Uuid const& uuid, storage::SnapshotName const& snapshot, bool was_running);
    Operation snapshooting(Uuid const& uuid, std::string_view name, std::vector<std::string> const& volumes);
    Result<Operation> operation_of_snapshot(std::string_view data, Uuid const& uuid);
    /// The machine's file records which volumes each of its snapshots has.
    Result<> record_snapshot(Uuid const& uuid, std::string_view name, std::vector<std::string> const& volumes);
    /// Removes the snapshots of volumes whose snapshot of the machine does not exist any more.
    Result<> forget_volume_snapshots(Uuid const& uuid);
    Result<> forget_all_volume_snapshots(Uuid const& uuid);
    Operation rebooting(Uuid const& uuid, bool force);
    void add_start_step(Operation& operation, Uuid const& uuid);
    void add_install_steps(Operation& operation, Machine const& machine);
    void take_back_until_rules(Operation& operation, Machine const& before, NewLimits const& limits);
    Result<> perform_marked(Uuid const& uuid, Operation const& operation);
    Result<> underive(Uuid const& uuid);
    Result<> adopt_unit(Uuid const& uuid) const;
    Result<> leave_unit(Uuid const& uuid) const;
    Result<NetworkPlan> plan_network(Machine const& machine);
    Result<> derive_network(Machine const& machine, MachinePaths& paths);
    Result<> underive_network(Uuid const& uuid);
    Result<> guard_network(Machine const& machine);
    /// The NICs with which a machine was started, by their MACs, while it is up. An update takes effect later.
    [[nodiscard]] std::vector<Nic> raised_nics(Uuid const& uuid) const;
    Result<> check_links(Machine const& machine);
    /// The owners of networks that do not exist.
    Result<std::vector<Uuid>> stray_networks();
    Result<> find_volumes(Machine& machine);
    Result<> hold_volumes(Uuid const& uuid, std::vector<VolumeUse> const& uses, bool keeps_others);
    /// Releases the volumes that neither the file of the machine nor its present run needs.
    Result<> release_volumes(Uuid const& uuid);
    Result<> release_all_volumes(Uuid const& uuid);
    Result<> derive_volumes(Machine const& machine, MachinePaths& paths);
    Result<std::vector<Uuid>> stray_volume_holders();
    Result<> recover_volumes(Uuid const& owner, Told const& told);
    void reclaim_leftovers(Uuid const& uuid, std::string_view command);
    void write_into_tree(Machine const& machine, std::string const& tree);
    void write_resolvers(Machine const& machine, std::string const& tree);
    void write_etc(std::string const& tree, std::string const& name, std::string_view text);
    [[nodiscard]] std::string network_path(Uuid const& uuid) const;
    Result<> write_config(Machine const& machine) { return write_config(machine, path(machine.uuid)); }
    Result<> write_config(Machine const& machine, std::string const& tree);
    Result<> write_config_beyond_quota(Machine const& machine);
    Result<> apply_limits(Machine const& machine);
    /// Has the launcher of a running machine accept what update() has written. `is_resumed`: nobody knows any more what
    /// to go back to. Errors: `invalid` when it is rejected.
    Result<> offer_launch(Machine const& machine, bool is_resumed);
    /// Errors: `invalid` when the launcher of a machine that is starting has rejected its configuration.
    Result<> check_accepted(Machine const& machine);
    Result<> halt_rejected(Machine const& machine, Result<> started);
    /// `is_told`: whether to notify the user when the pool does not support the request.
    Result<> tune_tree(Machine const& machine, storage::TreeName const& tree, bool is_told);
    /// Likewise. Errors: `refused`: the tree holds more already (ZFS).
    Result<> set_quota(Machine const& machine, storage::TreeName const& tree, bool is_told);
    Result<> keep_quota(Machine const& machine, bool is_told);
    Result<> restore_quota(Machine const& machine, std::optional<std::uint64_t> limit);
    Result<> archive(Uuid const& uuid);
    Result<> destroy_tree(Uuid const& uuid);
    Result<> forget_config(storage::TreeName const& tree);
    Result<std::int64_t> free_uids();
    [[nodiscard]] std::string path(Uuid const& uuid) const;
    [[nodiscard]] std::string root_of(Uuid const& uuid) const { return path(uuid) + "/root"; }
    void notice(std::string text) const {
        if (parts_.notice) parts_.notice(std::move(text));
    }

    HostFacts facts_;
    Store store_;
    HostParts parts_;
    std::function<bool(Machine const&)> is_meant_;
    bool may_aliases_repeat_ = false;
    bool is_quota_meant_ = true;  // false: it is the default, which nobody has asked for
};

/// Adds the last exit of a machine that is down to its status, unless systemd knows of a later one.
void add_last_exit(UnitStatus& status, Store const& store, Uuid const& uuid);

/// Adds to the snapshots of a machine the volumes that were taken with them.
void add_volumes_of_snapshots(Machine& machine);

/// Adds what a machine that is starting waits for to its status.
void add_awaited(UnitStatus& status, Store const& store, Uuid const& uuid);

/// Adds what systemd says to a machine.
void observe(Machine& machine, UnitStatus const& status);

/// Refuses a zpool that is not that of the pool. Errors: invalid, with the one that there is.
Result<> check_zpool(Machine const& machine, storage::Pool const& pool);

/// The tree of a machine.
storage::TreeName tree_of(Uuid const& uuid);

/// The name in the pool for a snapshot that a user has named: "vmsnap-<name>". Errors: invalid: "Invalid snapshot
/// name".
Result<storage::SnapshotName> snapshot_name(std::string_view name);

}  // namespace triton::machine
