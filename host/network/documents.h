#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "host/network/tags.h"
#include "lib/base/result.h"

namespace triton::network {

/// The host's side of a NIC. What a host makes of it has names of the NIC's hardware address, which no other has.
struct Port {
    std::string nic = {};  ///< for messages: "nics[0] (02:08:20:0a:0b:0c)"
    std::string mac = {};
    NicTag tag = {};
    std::int64_t vlan = 0;                    ///< 0: none
    std::int64_t mtu = 0;                     ///< 0: that of the tag's link
    std::string alias = {};                   ///< what `ip link` shows beside it
    std::vector<std::string> addresses = {};  ///< that the machine has by it
    std::vector<std::string> rules = {};      ///< of nftables, for what the machine sends; empty: it is not guarded

    /// "tm0208200a0b0c": the end of the veth pair that stays, and the chain of its rules.
    [[nodiscard]] std::string host_link() const;
    /// Of a macvlan: the link that it is on, "eth0", or that of its VLAN, "eth0.5".
    [[nodiscard]] std::string macvlan_base() const;
};

/// What becomes of a link inside the machine.
struct Interface {
    std::string nic = {};
    std::string link = {};  ///< how systemd-nspawn names it
    std::string name = {};  ///< "eth0"
    std::string mac = {};
    std::int64_t mtu = 0;                     ///< 0: as it is
    bool is_joined_by_host = false;           ///< it has a carrier when the host has joined its end to a bridge
    bool takes_advertisements = false;        ///< IPv6 addresses and routes come from routers
    std::vector<std::string> addresses = {};  ///< with prefixes
    std::vector<std::string> gateways = {};   ///< of the default route
};

struct Route {
    std::string destination = {};
    std::string gateway = {};    ///< empty: it is on the interface's own network
    std::string interface = {};  ///< empty: the one that the gateway is reached by

    bool operator==(Route const&) const = default;
};

/// The network of a machine as it is seen inside.
struct Inside {
    std::vector<Interface> interfaces = {};
    std::vector<Route> routes = {};
};

std::string ports_text(std::vector<Port> const& ports);
std::string inside_text(Inside const& inside);
/// Both read what we have written. Errors: corrupt.
Result<std::vector<Port>> parse_ports(std::string_view text, std::string const& path);
Result<Inside> parse_inside(std::string_view text, std::string const& path);

/// A file of that content; of one that is not there: none.
Result<std::vector<Port>> read_ports(std::string const& path);

/// Replaces a file of /run as a whole: who reads it sees the old one or the new one.
Result<> save(std::string const& path, std::string_view text, mode_t mode);

/// The directory of a machine below that of all, and what is in it.
inline constexpr std::string_view ports_name = "ports.json";    ///< for the next start
inline constexpr std::string_view raised_name = "raised.json";  ///< the ports of the start before, while they are there
inline constexpr std::string_view inside_name = "inside.json";  ///< likewise for the next start
inline constexpr std::string_view connect_name = "connect.json";  ///< what the machine of this start sees

/// Where everything that is on a real host, and what connects a machine before its PID 1 runs.
inline constexpr std::string_view directory = "/run/triton/network";

}  // namespace triton::network
