#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/machine.h"
#include "host/machine/row.h"

namespace triton::machine {

/// What a network interface may have, for reading, writing, filters and the reference page.
std::span<Row<Nic> const> table(json::TableOf<Nic, json::Reading>);
inline constexpr json::Shape nic_shape = json::object_shape("nic");

std::span<Row<Filesystem> const> table(json::TableOf<Filesystem, json::Reading>);
inline constexpr json::Shape filesystem_shape = json::object_shape("filesystem");

std::span<Row<Snapshot> const> table(json::TableOf<Snapshot, json::Reading>);
inline constexpr json::Shape snapshot_shape = json::object_shape("snapshot");

enum class Family : std::uint8_t { v4, v6 };

/// "192.168.0.7/24": an address with the length of its network's prefix; without a slash that of the whole address.
struct Address {
    std::string text = {};  ///< as inet_ntop(3) writes it, without the prefix
    Family family = Family::v4;
    int prefix = 32;

    [[nodiscard]] std::string cidr() const { return text + "/" + std::to_string(prefix); }
};
std::optional<Address> parse_address(std::string_view text);

/// The prefix length of "255.255.255.0"; nullopt when it is not a netmask.
std::optional<int> prefix_of_netmask(std::string_view netmask);
std::string netmask_of_prefix(int prefix);

/// Brings the network interfaces of a machine into one form: each has `ips` and, for those who look for them, `ip` and
/// `netmask` of the first IPv4 address; `gateways` and `gateway`; a name that no other has; one of them is primary.
/// Those without a MAC get one. Errors: those of getrandom(2).
Result<> normalise_nics(std::vector<Nic>& nics);

/// What is wrong with them, in the words that users of vmadm know; empty: nothing.
std::vector<std::string> nic_faults(std::vector<Nic> const& nics);

/// The same of a machine's routes: destination -> gateway.
std::vector<std::string> route_faults(json::Object const& routes);

/// Whether two machines cannot both have what they have: one MAC, or one address in one network.
bool conflict(std::vector<Nic> const& ours, std::vector<Nic> const& theirs);
inline constexpr std::string_view conflict_text =
    "Conflict detected with another vm, please check the MAC, IP, and VRID";

}  // namespace triton::machine
