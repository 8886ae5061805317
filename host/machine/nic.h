#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/machine.h"
#include "host/machine/row.h"

namespace triton::machine {

/// The keys of a network interface, for reading, writing, filters and the reference page.
std::span<Row<Nic> const> table(json::TableOf<Nic, json::Reading>);
inline constexpr json::Shape nic_shape = json::object_shape("nic");

std::span<Row<Filesystem> const> table(json::TableOf<Filesystem, json::Reading>);
inline constexpr json::Shape filesystem_shape = json::object_shape("filesystem");

std::span<Row<Snapshot> const> table(json::TableOf<Snapshot, json::Reading>);
inline constexpr json::Shape snapshot_shape = json::object_shape("snapshot");

enum class Family : std::uint8_t { v4, v6 };

/// An address with the length of its network's prefix: "192.168.0.7/24"; without a slash it is that of the whole
/// address.
struct Address {
    std::string text = {};  ///< as inet_ntop(3) writes it, without the prefix
    Family family = Family::v4;
    int prefix = 32;

    [[nodiscard]] std::string cidr() const { return text + "/" + std::to_string(prefix); }
};
std::optional<Address> parse_address(std::string_view text);
/// Parses an address without a prefix.
std::optional<Address> parse_host(std::string_view text);

/// Whether an entry of `ips` says that a server gives the address.
bool is_dynamic(std::string_view ip);
/// The entry of `ips` that `ip` and `netmask` make: "10.0.0.5/24".
std::string entry_of(std::string const& ip, std::optional<std::string> const& netmask);

/// Whether a text is the broadcast address of an IPv4 network of the interface.
bool is_broadcast_of(Nic const& nic, std::string_view text);

/// The prefix length of "255.255.255.0"; nullopt when it is not a netmask.
std::optional<int> prefix_of_netmask(std::string_view netmask);
std::string netmask_of_prefix(int prefix);

/// Normalises the network interfaces of a machine. Each gets `ips`, with `ip` and `netmask` of the first IPv4 address
/// for those who expect them; `gateways` and `gateway`; and a unique name. One is primary. Those without a MAC get one,
/// and a virtual router has that of its number.
/// Errors: those of getrandom(2).
Result<> normalise_nics(std::vector<Nic>& nics);

/// What is wrong with the interfaces, in words that users of vmadm know; empty: nothing.
std::vector<std::string> nic_faults(std::vector<Nic> const& nics);

/// Likewise for a machine's routes: destination -> gateway.
std::vector<std::string> route_faults(json::Object const& routes);

/// Whether two machines have something that only one can have: a MAC, or an address in a network.
bool conflict(std::vector<Nic> const& ours, std::vector<Nic> const& theirs);
inline constexpr std::string_view conflict_text =
    "Conflict detected with another vm, please check the MAC, IP, and VRID";

}  // namespace triton::machine
