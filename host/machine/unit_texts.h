#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/init.h"
#include "host/machine/machine.h"

namespace triton::machine {

/// The paths of one machine's parts on the host.
struct MachinePaths {
    std::string root;                     ///< its root directory
    std::string launch;                   ///< the directory of its launch configuration
    std::string launcher;                 ///< the triton-launch that is its PID 1
    std::string network = {};             ///< the description of its network; empty: it gets no links
    std::string first_program = {};       ///< the triton-machine-init that reads it
    std::vector<std::string> links = {};  ///< lines of the section [Network]
    std::string volume_links = {};        ///< the directory with a link to each of its volumes
    std::string metadata = {};            ///< the directory that the machine has as `metadata_inside`; empty: none
    std::string metadata_client = {};     ///< the program behind mdata-get, which goes there; empty: none
    /// Those whose mounts cannot map owners: their files have the machine's uids of the host.
    std::set<std::string> unmapped_volumes = {};
    std::string init = {};  ///< of an image that has no os-release, which systemd-nspawn wants for a boot; else empty
    bool has_shifted_files = false;  ///< they belong to the machine's uids on the host, not to its own
};

/// A path inside a machine with network interfaces.
inline constexpr std::string_view first_program_inside = "/run/triton/triton-machine-init";
inline constexpr std::string_view network_inside = "/run/triton/network.json";

/// A path inside a machine with a launch configuration.
inline constexpr std::string_view launcher_inside = "/run/triton/triton-launch";
inline constexpr std::string_view launch_directory_inside = "/run/triton/launch";
inline constexpr std::string_view control_socket_inside = "/run/triton-launch/control";
inline constexpr std::string_view launch_file_name = "config.json";

/// The drop-in that the unit of each machine has, and the link that leads to it.
inline constexpr std::string_view unit_settings = "/usr/lib/triton/machine.conf";
inline constexpr std::string_view drop_in_name = "50-triton.conf";

/// How many uids each machine has.
inline constexpr std::int64_t uids_of_machine = 65536;

/// The text of /run/systemd/nspawn/<uuid>.nspawn. It overrides the template unit's command line, so no machine needs a
/// unit of its own. Source: systemd.nspawn(5).
std::string nspawn_text(Machine const& machine, MachinePaths const& paths, Init const& init);

/// The text of /run/systemd/nspawn/<uuid>.environment, for systemd-nspawn itself; empty: none. On a host with only
/// version 2, systemd-nspawn gives version 1 to each tree without a newer systemd (231). Then the launcher has no
/// control group for limits. Source of both variables: systemd's ENVIRONMENT.md.
std::string nspawn_environment(Machine const& machine, bool has_unified_cgroups);

/// The variables for substitutions in a launch configuration: TRITON_UUID, TRITON_ALIAS, TRITON_HOSTNAME,
/// TRITON_DNS_DOMAIN, TRITON_OWNER_UUID, TRITON_IMAGE_UUID, TRITON_MEMORY_MIB; TRITON_IP and TRITON_GATEWAY of the
/// primary interface; for each interface TRITON_NIC<N>_INTERFACE, _IP (an address, never the word "dhcp"), _NETMASK,
/// _GATEWAY, _MAC, _TAG and _VLAN; and TRITON_METADATA_<KEY> for each key of the customer metadata, in upper case, with
/// "_" for everything but letters and digits. Values of several lines, or longer than 4096 bytes, are left out.
/// The form is NAME=value.
std::vector<std::string> launch_environment(Machine const& machine);

/// Returns "systemd-nspawn@371f18c0-9f73-6e86-94f6-c1cf71188d23.service", for example.
std::string unit_of(Uuid const& uuid);
/// The uuid in such a name; nullopt: the unit is not one of ours.
std::optional<Uuid> uuid_of_unit(std::string_view unit);

/// A property of a unit that is a number. Source: org.freedesktop.systemd1(5).
struct UnitProperty {
    std::string name;
    std::uint64_t value = 0;

    bool operator==(UnitProperty const&) const = default;
};
inline constexpr std::uint64_t unlimited = UINT64_MAX;

/// The limits of a machine as properties of its unit.
std::vector<UnitProperty> unit_properties(Machine const& machine);

}  // namespace triton::machine
