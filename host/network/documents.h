#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "host/network/tags.h"
#include "lib/base/result.h"

namespace triton::network {

/// The host's side of a NIC. The names of what the host makes for it contain the NIC's hardware address, which is
/// unique.
struct Port {
    std::string nic = {};  ///< for messages: "nics[0] (02:08:20:0a:0b:0c)"
    std::string mac = {};
    NicTag tag = {};
    std::int64_t vlan = 0;                    ///< 0: none
    std::int64_t mtu = 0;                     ///< 0: that of the tag's link
    std::string alias = {};                   ///< shown by `ip link`: the machine, and the name of its interface
    std::vector<std::string> addresses = {};  ///< the machine's addresses on this port
    std::vector<std::string> rules = {};      ///< for nftables, about what the machine sends; empty: not guarded

    /// Returns "tm0208200a0b0c", for example: the end of the veth pair that stays on the host, and the chain of its
    /// rules.
    [[nodiscard]] std::string host_link() const;
    /// For a macvlan: the link that it is on, "eth0", or that of its VLAN, "eth0.5".
    [[nodiscard]] std::string macvlan_base() const;
};

/// What is done with a link inside the machine.
struct Interface {
    std::string nic = {};
    std::string link = {};  ///< its name by systemd-nspawn
    std::string name = {};  ///< "eth0"
    std::string mac = {};
    std::int64_t mtu = 0;                     ///< 0: unchanged
    bool is_joined_by_host = false;           ///< it gets a carrier when the host has joined its end to a bridge
    bool takes_advertisements = false;        ///< IPv6 addresses and routes come from routers
    std::vector<std::string> addresses = {};  ///< with prefixes
    std::vector<std::string> gateways = {};   ///< for the default route
};

struct Route {
    std::string destination = {};
    std::string gateway = {};    ///< empty: a destination on the interface's own network
    std::string interface = {};  ///< empty: the one by which the gateway is reached

    bool operator==(Route const&) const = default;
};

/// The network of a machine, as seen inside.
struct Inside {
    std::vector<Interface> interfaces = {};
    std::vector<Route> routes = {};
};

std::string ports_text(std::vector<Port> const& ports);
std::string inside_text(Inside const& inside);
/// Both functions read what we have written. Errors: corrupt.
Result<std::vector<Port>> parse_ports(std::string_view text, std::string const& path);
Result<Inside> parse_inside(std::string_view text, std::string const& path);

/// Reads ports from a file; none if it does not exist.
Result<std::vector<Port>> read_ports(std::string const& path);

/// Replaces a whole file of /run: a reader sees either the old or the new one.
Result<> save(std::string const& path, std::string_view text, mode_t mode);
/// The same for a file that is there; one that has gone meanwhile stays away. Returns whether it was there.
Result<bool> save_again(std::string const& path, std::string_view text, mode_t mode);

/// Files in the directory of a machine, which is below that of all machines.
inline constexpr std::string_view ports_name = "ports.json";    ///< for the next start
inline constexpr std::string_view raised_name = "raised.json";  ///< the ports of the start before, while they are there
inline constexpr std::string_view inside_name = "inside.json";  ///< likewise for the next start
inline constexpr std::string_view connect_name = "connect.json";  ///< what the machine of this start sees

/// The directory for all of this on a real host, including the program that connects a machine before its PID 1 runs.
inline constexpr std::string_view directory = "/run/triton/network";

}  // namespace triton::network
