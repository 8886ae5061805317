#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/host.h"
#include "host/machine/host_facts.h"
#include "host/machine/machine_stream.h"
#include "host/machine/network_plan.h"
#include "host/machine/payload.h"
#include "host/machine/store.h"
#include "host/storage/pool.h"

namespace triton::machine {

/// What Machines works with; all borrowed.
struct HostParts {
    storage::Pool& pool;
    Images& images;
    Units& units;
    Launcher& launcher;
    std::function<std::int64_t()> now;             ///< microseconds since 1970
    Progress progress = {};                        ///< of long work
    std::function<void(std::string)> notice = {};  ///< a sentence that the user should read
    Networks* networks = nullptr;                  ///< none: NICs are kept, and nothing is made of them
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
/// running when its PID 1 is. create() goes from no state to installed, or running; destroy() goes back. Every change
/// is made of steps (steps.h): a command that is killed leaves a mark, and the next command on that machine, or
/// recover(), finishes or undoes it. The files for systemd are derived: they are made again at each start, and a
/// machine that runs does not notice.
class Machines {
public:
    Machines(Layout layout, HostParts parts)
        : facts_(read_host_facts(layout.root)), store_(std::move(layout)), parts_(parts) {}

    [[nodiscard]] Store const& store() const { return store_; }

    struct Listed {
        std::vector<Machine> machines;
        std::vector<BrokenFile> broken;
    };
    /// All of them, with what is seen of them. Without systemd their states are "stopped" or what their files say.
    Result<Listed> list();
    /// One, with its snapshots and what its launcher reports. Errors: `not_found`.
    Result<Machine> get(Uuid const& uuid);
    /// The parts of that, for whoever keeps the others: what its files say, without what systemd and the pool know.
    /// Errors: `not_found`; corrupt.
    Result<Machine> read(Uuid const& uuid);
    /// Its snapshots, the newest first. Errors: those of the pool.
    Result<std::vector<Snapshot>> snapshots(Uuid const& uuid);
    /// By uuid, by the beginning of one (at least four characters), or by alias.
    /// Errors: `not_found`; `refused` when several have it.
    Result<Uuid> find(std::string_view name);

    /// Errors: `exists`: "VM with UUID <uuid> already exists"; `not_found` when there is no such image; `refused` for a
    /// conflict of NICs.
    Result<> create(Creation const& creation);
    /// A machine with the content of another one: of one of its snapshots, or, without a name, as it is now. The two
    /// have nothing in common afterwards. Errors: as create(); `not_found` snapshot.
    Result<> clone(Uuid const& source, std::string_view snapshot, Creation const& creation);
    /// The payload of such a copy, before anybody changes it: everything requested, except what only one machine can
    /// have (uuid, alias, NICs, and names that are made of the uuid).
    Result<json::Object> payload_of_copy(Uuid const& source);

    /// Writes a machine with its tree as it is now, without its snapshots, as a stream. `to` is borrowed.
    Result<> send(Uuid const& uuid, int to);
    /// Makes a machine of the rest of a stream whose head has said `storage`; it is not started. Errors: as create(),
    /// but that the image need not be there; `unsupported` when its tree is for another kind of pool; `corrupt`.
    Result<> receive(StreamReader& stream, std::string_view storage, Creation const& creation);

    /// The second half of a creation with `create_only`.
    Result<> install(Uuid const& uuid);
    /// `make` says what is to become of the machine as it is while nobody else can change it. Returns that.
    /// Errors: those of `make`.
    Result<Update> update(Uuid const& uuid, std::function<Result<Update>(Machine const& before)> const& make);
    Result<> destroy(Uuid const& uuid);
    /// Replaces what the machine holds by a fresh clone of an image. Its properties, its metadata and its uids stay;
    /// its snapshots go. If it was running it is started again. Errors: `not_found` image; `refused` when it is
    /// indestructible.
    Result<> reprovision(Uuid const& uuid, Uuid const& image);

    /// Returns whether it was not running before.
    Result<bool> start(Uuid const& uuid);
    /// Returns whether it was running before.
    Result<bool> stop(Uuid const& uuid, StopOptions const& options);
    Result<> reboot(Uuid const& uuid, bool force);
    /// Sends a signal to PID 1 of a machine.
    Result<> kill(Uuid const& uuid, int signal);

    Result<> create_snapshot(Uuid const& uuid, std::string_view name);
    Result<> delete_snapshot(Uuid const& uuid, std::string_view name);
    Result<> rollback_snapshot(Uuid const& uuid, std::string_view name);

    /// Finishes or undoes what was interrupted, of one machine or of all, and names the trees that belong to no
    /// machine; that of `uuid` is removed.
    /// Returns a sentence for each thing that it did. Errors: `not_found` when there is neither a machine `uuid` nor
    /// anything left of one.
    Result<std::vector<std::string>> recover(std::optional<Uuid> const& uuid);

    /// Makes what systemd needs from the machine's properties: before each start, and at the boot of the host.
    Result<> derive(Machine const& machine);

    /// For the boot of the host, whose /run is empty: finishes or undoes what was interrupted, and derives for all that
    /// are installed. Returns those that could not be made ready, with the reasons: they will not start, the others are
    /// ready all the same.
    Result<std::vector<BrokenFile>> prepare();

    /// Refuses a launch configuration that the launcher refuses. Errors: `invalid`.
    Result<> check_launch(Machine const& machine);

    /// Refuses NICs and routes that this host cannot make. Errors: `invalid`.
    Result<> check_network(Machine const& machine);

private:
    Result<MachineLock> lock(Uuid const& uuid, std::string_view command);
    Result<Machine> load(Uuid const& uuid);
    Result<Machine> load_installed(Uuid const& uuid);
    Result<> load_parts(Machine& machine);
    void observe_files(Machine& machine) const;
    Result<> check_conflicts(Machine const& machine);
    Result<> finish_interrupted(Uuid const& uuid);
    Result<> recover_marked(Uuid const& uuid);
    Result<> prepare_one(Uuid const& uuid);
    Result<Operation> operation_of(Mark const& mark, Uuid const& uuid);
    /// Makes a machine by an operation; uids and addresses are looked for and taken by one command at a time.
    Result<> add(Machine machine, std::string_view command, std::function<Operation(Machine const&)> const& make);
    /// `name`: "create", "clone" or "receive". `tree`: how its tree is made.
    Operation creation(Machine const& machine, std::string_view name = "create", std::function<Result<>()> tree = {});
    Result<Operation> operation_of_clone(std::string_view data, Uuid const& uuid);
    Operation cloning(Machine const& machine, Uuid const& source, std::string_view snapshot);
    Result<> copy_tree(Uuid const& source, storage::SnapshotName const& snapshot, Uuid const& to);
    Result<> receive_tree(StreamReader& stream, Uuid const& uuid);
    Operation installation(Machine const& machine);
    Operation deletion(Uuid const& uuid);
    Operation change(Machine const& machine);
    Operation reprovisioning(Machine const& machine);
    Operation rollback(Uuid const& uuid, storage::SnapshotName const& snapshot);
    void add_install_steps(Operation& operation, Machine const& machine);
    Result<> perform_marked(Uuid const& uuid, Operation const& operation);
    Result<> underive(Uuid const& uuid);
    Result<NetworkPlan> plan_network(Machine const& machine);
    Result<> derive_network(Machine const& machine, MachinePaths& paths);
    Result<> underive_network(Uuid const& uuid);
    Result<> guard_network(Machine const& machine);
    Result<> check_links(Machine const& machine);
    struct StrayNetwork {
        Uuid owner;
        std::string removed;  ///< says so
    };
    Result<std::vector<StrayNetwork>> remove_stray_networks();
    void write_host_name(Machine const& machine, std::string const& tree);
    void write_resolvers(Machine const& machine, std::string const& tree);
    void write_etc(std::string const& tree, std::string const& name, std::string_view text);
    [[nodiscard]] std::string network_path(Uuid const& uuid) const;
    Result<> write_config(Machine const& machine) { return write_config(machine, path(machine.uuid)); }
    Result<> write_config(Machine const& machine, std::string const& tree);
    Result<> apply_limits(Machine const& machine);
    /// `is_told`: whether a pool that cannot have what is asked for is worth a notice.
    Result<> tune_tree(Machine const& machine, bool is_told);
    Result<> set_quota(Machine const& machine, bool is_told);
    Result<> archive(Uuid const& uuid);
    Result<> destroy_tree(Uuid const& uuid);
    Result<> forget_config(storage::TreeName const& tree);
    Result<std::int64_t> free_uids();
    [[nodiscard]] std::string path(Uuid const& uuid) const;
    void notice(std::string text) const {
        if (parts_.notice) parts_.notice(std::move(text));
    }

    HostFacts facts_;
    Store store_;
    HostParts parts_;
};

/// Adds to what systemd says of a machine that is down how it ended last, unless systemd knows of a later end.
void add_last_exit(UnitStatus& status, Store const& store, Uuid const& uuid);

/// Adds what systemd says to what is read of a machine.
void observe(Machine& machine, UnitStatus const& status);

/// The tree of a machine.
storage::TreeName tree_of(Uuid const& uuid);

/// How snapshots that people make are named in the pool: "vmsnap-<name>". Errors: invalid: "Invalid snapshot name".
Result<storage::SnapshotName> snapshot_name(std::string_view name);

}  // namespace triton::machine
