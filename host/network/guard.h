#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/netlink/address.h"

namespace triton::network {

/// What a machine may send from one NIC.
struct Guard {
    netlink::HardwareAddress mac = {};
    std::vector<netlink::Address> addresses = {};  ///< those that it may send from, including networks
    bool has_any_v4 = false;                       ///< a server that we do not know gives the address
    bool has_any_v6 = false;
    bool allows_other_macs = false;
    bool allows_other_addresses = false;
    bool allows_dhcp_server = false;
    bool allows_other_protocols = false;
    std::vector<std::uint16_t> blocked_ports = {};

    /// Whether the machine may send anything.
    [[nodiscard]] bool is_open() const {
        return allows_other_macs && allows_other_addresses && allows_dhcp_server && allows_other_protocols &&
               blocked_ports.empty();
    }
};

/// The rules of the chain, in the order in which they are applied: what none of them accepts is dropped. Without the
/// words that name the chain. Source: nft(8).
std::vector<std::string> guard_rules(Guard const& guard);

/// A transaction of nft(8) that gives a link exactly these rules for what it receives, whatever it had before.
std::string guard_transaction(std::string_view link, std::vector<std::string> const& rules);
/// A transaction that removes them. It succeeds also when there are none.
std::string unguard_transaction(std::string_view link);

}  // namespace triton::network
