#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/machine/uuid.h"
#include "lib/json/reader.h"

namespace triton::machine {

/// A network interface of a machine, as requested by the owner.
struct Nic {
    std::string mac = {};  ///< "02:08:20:0a:0b:0c"
    std::optional<std::string> interface = {};
    std::string nic_tag = {};
    std::optional<std::int64_t> vlan_id = {};
    std::vector<std::string> ips = {};  ///< CIDR, "dhcp", "addrconf"
    std::optional<std::string> ip = {};
    std::optional<std::string> netmask = {};
    std::optional<std::string> gateway = {};
    std::vector<std::string> gateways = {};
    std::optional<bool> primary = {};
    std::optional<std::int64_t> mtu = {};
    std::optional<Uuid> network_uuid = {};
    std::optional<std::string> model = {};
    std::optional<bool> allow_dhcp_spoofing = {};
    std::optional<bool> allow_ip_spoofing = {};
    std::optional<bool> allow_mac_spoofing = {};
    std::optional<bool> allow_restricted_traffic = {};
    std::vector<std::string> allowed_ips = {};
    std::vector<std::string> allowed_dhcp_cids = {};
    std::vector<std::string> blocked_outgoing_ports = {};
    std::optional<bool> dhcp_server = {};
    std::optional<std::int64_t> vrrp_vrid = {};
    std::optional<std::string> vrrp_primary_ip = {};
};

/// A directory of the host or a volume that is visible in a machine.
struct Filesystem {
    std::string type = {};
    std::string source = {};
    std::string target = {};
    std::optional<std::string> raw = {};
    std::vector<std::string> options = {};
};

/// Whether a machine may not write there.
inline bool is_read_only(Filesystem const& filesystem) {
    return std::ranges::any_of(filesystem.options,
                               [](std::string const& option) { return option == "ro" || option == "readonly"; });
}
/// Whether the uids of the machine are those of the host there, so that its root is the host's.
inline bool is_mapped(Filesystem const& filesystem) {
    return std::ranges::find(filesystem.options, "idmap") != filesystem.options.end();
}

inline constexpr std::string_view volume_type = "volume";
/// Whether it is a volume; its source is the volume's key then.
inline bool is_volume(Filesystem const& filesystem) { return filesystem.type == volume_type; }

/// How far the provisioning of a machine has come, according to its file, which outlives a reboot.
enum class Phase : std::uint8_t {
    configuring,  ///< its parts are being made; `vmadm recover` removes them
    configured,   ///< complete except for install(): made with `create_only`
    installed,    ///< creation is complete
    failed,       ///< something could not be undone, see `failure`
};

/// The current state of a machine, according to systemd and its phase.
enum class State : std::uint8_t { provisioning, configured, stopped, starting, running, stopping, failed };

struct Snapshot {
    std::string name = {};
    std::optional<std::string> created_at = {};
    std::optional<std::int64_t> size = {};
    std::vector<std::string> volumes = {};  ///< that were taken with it
};

/// A machine: what its owner asked for, what we have added, and what we see of it. The table in properties.h tells what
/// each member means, who may set it and where it is kept. Memory is in MiB, the quota in GiB.
struct Machine {
    Uuid uuid = {};
    std::int64_t v = 1;
    std::string brand = {};
    std::optional<std::string> alias = {};
    std::optional<std::string> hostname = {};
    std::optional<std::string> zonename = {};
    std::optional<std::string> dns_domain = {};
    std::optional<Uuid> owner_uuid = {};
    std::optional<Uuid> billing_id = {};
    std::optional<std::string> package_name = {};
    std::optional<std::string> package_version = {};
    std::optional<Uuid> image_uuid = {};
    std::optional<bool> autoboot = {};
    std::optional<bool> do_not_inventory = {};
    std::optional<bool> archive_on_delete = {};
    std::optional<bool> indestructible_zoneroot = {};
    std::optional<bool> indestructible_delegated = {};
    std::optional<bool> firewall_enabled = {};
    std::optional<bool> maintain_resolvers = {};
    std::optional<bool> delegate_dataset = {};
    std::optional<std::int64_t> cpu_cap = {};
    std::optional<std::int64_t> cpu_shares = {};
    std::optional<std::int64_t> max_lwps = {};
    std::optional<std::int64_t> max_physical_memory = {};
    std::optional<std::int64_t> max_swap = {};
    std::optional<std::int64_t> max_locked_memory = {};
    std::optional<std::int64_t> max_msg_ids = {};
    std::optional<std::int64_t> max_sem_ids = {};
    std::optional<std::int64_t> max_shm_ids = {};
    std::optional<std::int64_t> max_shm_memory = {};
    std::optional<std::int64_t> tmpfs = {};
    std::optional<std::int64_t> quota = {};
    std::optional<std::int64_t> zfs_io_priority = {};
    std::optional<std::string> zfs_root_compression = {};
    std::optional<std::string> zfs_data_compression = {};
    std::optional<std::int64_t> zfs_root_recsize = {};
    std::optional<std::int64_t> zfs_data_recsize = {};
    std::optional<std::int64_t> zfs_filesystem_limit = {};
    std::optional<std::int64_t> zfs_snapshot_limit = {};
    std::optional<std::string> zpool = {};
    std::optional<std::string> init_name = {};
    std::optional<std::string> kernel_version = {};
    std::optional<std::int64_t> mdata_exec_timeout = {};
    std::vector<std::string> fs_allowed = {};
    std::vector<std::string> limit_priv = {};
    std::vector<std::string> internal_metadata_namespaces = {};
    std::vector<std::string> resolvers = {};
    std::vector<Filesystem> filesystems = {};
    std::vector<Nic> nics = {};
    std::optional<std::string> create_timestamp = {};

    json::Object customer_metadata = {};
    json::Object internal_metadata = {};
    json::Object tags = {};
    json::Object routes = {};
    std::optional<json::Object> launch = {};

    // only for the host, in the machine's file
    Phase phase = Phase::configuring;
    std::optional<std::string> failure = {};
    std::optional<std::int64_t> first_uid = {};  ///< of its 65,536 host uids
    json::Object volume_snapshots = {};          ///< by the name of a snapshot, the volumes that were taken with it

    // only for create
    bool nowait = false;
    bool create_only = false;

    // observed, never set
    State state = State::provisioning;
    std::optional<std::int64_t> pid = {};
    std::optional<std::string> boot_timestamp = {};
    std::optional<std::string> exit_timestamp = {};
    std::optional<std::int64_t> exit_status = {};
    std::optional<std::string> exit_reason = {};
    std::optional<std::int64_t> init_restarts = {};
    std::optional<std::string> waits_for = {};
    std::optional<std::string> last_modified = {};
    std::optional<std::string> zonepath = {};
    std::optional<std::string> zfs_filesystem = {};
    std::optional<Uuid> server_uuid = {};
    std::optional<std::string> platform_buildstamp = {};
    std::vector<Snapshot> snapshots = {};
    std::optional<json::Object> launch_status = {};
};

}  // namespace triton::machine
