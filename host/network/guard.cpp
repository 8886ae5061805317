#include "host/network/guard.h"

#include <algorithm>

namespace triton::network {

namespace {

using netlink::Address;

constexpr std::string_view our_table = "netdev triton ";

/// Writes a set of nft: "{ a, b }".
template <class List, class Text>
std::string set_of(List const& list, Text text) {
    std::string set = "{ ";
    for (auto const& element : list) {
        if (set.size() > 2) set += ", ";
        set += text(element);
    }
    return set + " }";
}

/// Writes an element as nft does: networks by their first address, addresses without a prefix.
std::string nft_text(Address const& address) {
    return address.prefix == address.whole_prefix() ? address.host_text() : address.network().text();
}

std::string hexadecimal(Address const& address) {
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string text = "0x";
    for (std::uint8_t const byte : address.octets()) {
        text += digits[byte >> 4];
        text += digits[byte & 0xf];
    }
    return text;
}

/// The addresses of one family. Sets of nft may not have elements inside each other, so a network replaces what lies in
/// it.
std::vector<Address> of_family(std::vector<Address> const& all, bool is_v6) {
    std::vector<Address> kept;
    for (Address const& address : all) {
        bool const is_covered = std::ranges::any_of(all, [&](Address const& other) {
            return &other != &address && other.contains(address) &&
                   (other.prefix < address.prefix || (other.prefix == address.prefix && &other < &address));
        });
        if (address.is_v6 == is_v6 && !is_covered) kept.push_back(address);
    }
    return kept;
}

void add_v4(Guard const& guard, std::vector<std::string>& rules) {
    std::vector<Address> addresses = of_family(guard.addresses, false);
    // a client without an address asks for one from this address
    Address const none = *Address::parse("0.0.0.0");
    rules.emplace_back("ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept");
    rules.push_back(addresses.empty() ? "meta protocol ip drop"
                                      : "ip saddr != " + set_of(addresses, nft_text) + " drop");
    addresses.insert(addresses.begin(), none);  // it asks whether somebody has an address
    rules.push_back("arp saddr ip != " + set_of(addresses, nft_text) + " drop");
}

void add_v6(Guard const& guard, std::vector<std::string>& rules) {
    std::vector<Address> all = guard.addresses;
    Address own = netlink::link_local_of(guard.mac);
    own.prefix = own.whole_prefix();
    all.push_back(own);
    std::vector<Address> addresses = of_family(all, true);
    // checks which addresses are announced. A network has no single address to compare with.
    std::vector<Address> hosts = addresses;
    std::erase_if(hosts, [](Address const& address) { return address.prefix != address.whole_prefix(); });
    if (hosts.size() == addresses.size())
        rules.push_back("icmpv6 type nd-neighbor-advert @th,64,128 != " + set_of(hosts, hexadecimal) + " drop");
    addresses.insert(addresses.begin(), *Address::parse("::"));  // it asks whether somebody has an address
    rules.push_back("ip6 saddr != " + set_of(addresses, nft_text) + " drop");
}

}  // namespace

std::vector<std::string> guard_rules(Guard const& guard) {
    std::vector<std::string> rules;
    if (guard.is_open()) return rules;
    rules.emplace_back("ether type { 8021q, 8021ad } drop");  // only the host chooses its VLAN
    if (!guard.allows_other_macs) {
        std::string const own = netlink::text_of(guard.mac);
        rules.push_back("ether saddr != " + own + " drop");
        rules.push_back("arp saddr ether != " + own + " drop");
    }
    if (!guard.allows_dhcp_server) {
        rules.emplace_back("udp sport 67 drop");
        rules.emplace_back("udp sport 547 drop");
        rules.emplace_back("icmpv6 type nd-router-advert drop");
    }
    if (!guard.blocked_ports.empty())
        rules.push_back("meta l4proto { tcp, udp } th dport " +
                        set_of(guard.blocked_ports, [](std::uint16_t port) { return std::to_string(port); }) + " drop");
    if (!guard.allows_other_addresses && !guard.has_any_v4) add_v4(guard, rules);
    if (!guard.allows_other_addresses && !guard.has_any_v6) add_v6(guard, rules);
    rules.emplace_back(guard.allows_other_protocols ? "accept" : "ether type { ip, arp, ip6 } accept");
    return rules;
}

std::string guard_transaction(std::string_view link, std::vector<std::string> const& rules) {
    std::string const name(link);
    std::string text = unguard_transaction(link);
    text.append("add chain ")
        .append(our_table)
        .append(name)
        .append(R"( { type filter hook ingress device ")")
        .append(name);
    text.append("\" priority 0; policy drop; }\n");
    for (std::string const& rule : rules)
        text.append("add rule ").append(our_table).append(name).append(" ").append(rule).append("\n");
    return text;
}

std::string unguard_transaction(std::string_view link) {
    std::string text = "add table netdev triton\n";
    // nft of Debian 12 has no "destroy", so what may not exist is made first
    for (std::string_view const verb : {"add chain ", "flush chain ", "delete chain "})
        text.append(verb).append(our_table).append(link).append("\n");
    return text;
}

}  // namespace triton::network
