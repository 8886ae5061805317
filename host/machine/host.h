#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/unit_texts.h"
#include "host/machine/uuid.h"
#include "host/network/documents.h"
#include "host/storage/names.h"
#include "lib/base/result.h"

namespace triton::machine {

/// What machines need of the rest of the host. Programs join these with host/image and host/systemd, tests with fakes.

/// The image tree that a machine is made from.
struct ImageTree {
    storage::TreeName tree;
    storage::SnapshotName snapshot;
    std::string title;  ///< "debian@12.7"
};

/// The names of an installed image.
struct InstalledImage {
    Uuid uuid;
    std::string name;
    std::string version;
    std::string published_at = {};  ///< RFC 3339, in UTC
};

class Images {
public:
    virtual ~Images() = default;
    virtual Result<std::vector<InstalledImage>> list() = 0;
    /// Errors: `not_found`: "image <uuid> is not installed".
    virtual Result<ImageTree> find(Uuid const& image) = 0;
    /// Holds an image, which stays as long as it is held; twice is once. `holder`: the uuid of a machine.
    virtual Result<> hold(Uuid const& image, Uuid const& holder) = 0;
    /// Releases it. Succeeds also when it is not held or does not exist.
    virtual Result<> release(Uuid const& image, Uuid const& holder) = 0;
    /// Releases every image of a holder: a machine with a corrupt file does not tell which it has.
    virtual Result<> release_all(Uuid const& holder) = 0;
};

/// The state of a machine's unit according to systemd.
struct UnitStatus {
    enum class Activity : std::uint8_t { inactive, activating, active, deactivating, failed };
    Activity activity = Activity::inactive;
    std::int64_t leader = 0;       ///< the pid of the machine's PID 1 on the host; 0: none
    std::int64_t started_at = 0;   ///< microseconds since 1970; 0: never
    std::int64_t ended_at = 0;     ///< likewise
    std::int64_t exit_status = 0;  ///< of a machine that has ended
    std::string exit_reason = {};  ///< the same for people; empty: not known
    std::int64_t restarts = 0;
    std::string failure = {};    ///< why its latest start has failed; empty: it has not
    std::string waits_for = {};  ///< what a machine that is starting waits for before its PID 1; add_awaited() adds it

    [[nodiscard]] bool is_down() const { return activity == Activity::inactive || activity == Activity::failed; }
};

/// The part of systemd that machines need. We choose the names of units: unit_of().
class Units {
public:
    virtual ~Units() = default;
    /// Whether there is a running host to change. Errors: `unavailable` below another root, with what needs it.
    virtual Result<> check_host() { return {}; }
    /// Whether this machine may be changed. Errors: `refused` below another root, when it is one that this host runs.
    virtual Result<> check_machine(Uuid const&) { return {}; }
    /// Errors: `unavailable` when systemd does not answer.
    virtual Result<UnitStatus> status(Uuid const& uuid) = 0;
    /// The states of all machines' units that systemd has loaded.
    virtual Result<std::map<Uuid, UnitStatus>> all() = 0;
    /// Whether all() also asks for each machine's processes and times.
    virtual void set_detailed(bool) {}
    /// The path of a machine's control group; empty when it does not run.
    virtual Result<std::string> control_group(Uuid const& uuid) = 0;
    /// The name of a machine's unit, for programs that read its log.
    virtual Result<std::string> unit(Uuid const& uuid) { return unit_of(uuid); }

    /// Called when a change of a unit has begun, and is only waited for.
    using Begun = std::function<void()>;
    /// Called a few times a second during the wait for a start. An error ends the wait.
    using Check = std::function<Result<>()>;
    /// Starts it, unless somebody has done that, and waits until it is up. Errors: `timeout`, while it goes on
    /// starting, with a limit of 0 as soon as systemd has been told; `refused` when the job fails, with the reason;
    /// those of `check`, while it goes on starting.
    virtual Result<> start(Uuid const& uuid, std::chrono::seconds limit, Begun const& begun, Check const& check) = 0;
    /// Asks PID 1 to shut down and waits; whatever is left after the limit is killed. Succeeds when it is not running.
    virtual Result<> stop(Uuid const& uuid, std::chrono::seconds limit, Begun const& begun) = 0;
    /// Waits until the PID 1 of a machine that has just been started notices a signal, two seconds at most. Before that
    /// the kernel drops the signal. `status`: as it was seen last. Source: pid_namespaces(7).
    virtual void await_listener(Uuid const& uuid, UnitStatus const& status, int signal) = 0;
    /// Stops it without asking.
    virtual Result<> halt(Uuid const& uuid) = 0;
    /// Asks PID 1 to reboot, and waits until another one is up. Errors: `timeout`; `refused` when it ends instead;
    /// those of `check`.
    virtual Result<> reboot(Uuid const& uuid, std::chrono::seconds limit, Begun const& begun, Check const& check) = 0;
    /// Sends a signal to its PID 1. Errors: `refused` when it is not running.
    virtual Result<> kill(Uuid const& uuid, int signal) = 0;
    /// Resets a failed unit, so that it may be started again.
    virtual Result<> reset(Uuid const& uuid) = 0;

    /// Sets limits for now and for later starts.
    virtual Result<> set_limits(Uuid const& uuid, std::span<UnitProperty const> limits) = 0;
    /// Whether this host has control groups of version 2 only.
    [[nodiscard]] virtual bool has_unified_cgroups() const = 0;
    /// Undoes set_limits() for later starts.
    virtual Result<> forget_limits(Uuid const& uuid) = 0;
    /// Sets whether it starts with the host.
    virtual Result<> set_autostart(Uuid const& uuid, bool is_on) = 0;
};

/// Judges launch configurations as the launcher would.
class Launcher {
public:
    virtual ~Launcher() = default;
    /// Errors: `invalid`, in the launcher's words. `unavailable` when there is no launcher on this host.
    virtual Result<> check(std::string_view document) = 0;
    /// The path of the program that machines get.
    virtual Result<std::string> program() = 0;
    /// The report of the launcher of a running machine, as JSON; nullopt: it does not answer. `root_uid`: the uid on
    /// the host of the machine's root.
    virtual std::optional<std::string> status(std::int64_t leader, std::int64_t root_uid) = 0;
    /// Has the launcher of a running machine read its configuration again, and waits until it is in force.
    /// Errors: `invalid` when the launcher rejects it, with the reasons as details; `timeout`; `unavailable` when there
    /// is no launcher, or none that can answer.
    virtual Result<> reload(std::int64_t leader, std::int64_t root_uid) = 0;
};

/// A volume that a machine uses, by its key "<uuid>#<generation>".
struct VolumeUse {
    std::string volume;
    bool is_read_only = false;

    bool operator==(VolumeUse const&) const = default;
};

/// The volumes of the host. Those who use them hold them, without the volume manager.
class Volumes {
public:
    virtual ~Volumes() = default;
    /// The key of the volume that a word means: a key, a UUID or a name. Errors: `not_found`; `refused` when several
    /// volumes have the name.
    virtual Result<std::string> find(std::string_view word) = 0;
    /// Called when nobody else can change what is held, so that a concurrent change of what is wanted is not lost.
    using Wanted = std::function<Result<std::vector<VolumeUse>>()>;
    /// Holds what is wanted, and releases everything else unless `keeps_others`. Twice is once.
    /// Errors: `not_found` volume; `refused`: it is being deleted, it is read-only, or another user excludes this one.
    virtual Result<> hold(Uuid const& holder, Wanted const& wanted, bool keeps_others) = 0;
    /// Whether a mount of the volume can have the machine's own uids (idmapped mounts). If not, its files belong to the
    /// uids of one machine. Errors: `not_found`.
    virtual Result<bool> maps_owners(std::string const& volume) = 0;
    /// The machines that hold volumes.
    virtual Result<std::vector<Uuid>> holders() = 0;

    // Snapshots that a machine has of its volumes. Those of others have other names, and are not touched.
    /// Replaces what an earlier attempt has left. Errors: those of storage::Pool.
    virtual Result<> snapshot(std::string const& volume, Uuid const& machine, std::string_view name) = 0;
    /// Succeeds also when there is none, or no such volume.
    virtual Result<> delete_snapshot(std::string const& volume, Uuid const& machine, std::string_view name) = 0;
    /// Whether rollback() can be done. Errors: `not_found`; `refused`: somebody else uses the volume, or, on ZFS, has a
    /// later snapshot of it; `busy`: a clone needs a later one.
    virtual Result<> check_rollback(std::string const& volume, Uuid const& machine, std::string_view name) = 0;
    /// Restores the content, and removes later snapshots of this machine where the pool needs that. Twice is once.
    virtual Result<> rollback(std::string const& volume, Uuid const& machine, std::string_view name) = 0;
};

/// The networks of the host. A machine's unit makes its links before each start, and removes them afterwards; these
/// functions are for commands that change machines.
class Networks {
public:
    virtual ~Networks() = default;
    /// Errors: `invalid` configuration of the host, with the place.
    virtual Result<network::Tags> tags() = 0;
    /// The path of triton-machine-init. Errors: `unavailable`.
    virtual Result<std::string> first_program() = 0;
    /// Checks that the host has what these ports need. Errors: with the NIC.
    virtual Result<> check(std::span<network::Port const> ports) = 0;
    /// Gives ports other rules, as far as their links exist.
    virtual Result<> guard(std::span<network::Port const> ports) = 0;
    /// Removes ports. Succeeds also when they do not exist.
    virtual Result<> lower(std::span<network::Port const> ports) = 0;
};

}  // namespace triton::machine
