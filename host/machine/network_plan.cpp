#include "host/machine/network_plan.h"

#include <algorithm>

#include "host/machine/nic.h"
#include "host/machine/values.h"
#include "lib/json/text.h"

namespace triton::machine {

namespace {

bool is_on(std::optional<bool> flag) { return flag.value_or(false); }

std::string plan_text(Nic const& nic, std::size_t number) {
    return "nics[" + std::to_string(number) + "] (" + nic.mac + ")";
}

/// Those texts of a list that are addresses, without words such as "dhcp".
std::vector<netlink::Address> addresses_of(std::vector<std::string> const& texts) {
    std::vector<netlink::Address> addresses;
    for (std::string const& text : texts)
        if (auto const address = netlink::Address::parse(text)) addresses.push_back(*address);
    return addresses;
}

Result<network::Port> port_of(Machine const& machine, std::size_t number, network::Tags const& tags) {
    Nic const& nic = machine.nics[number];
    std::string const name = plan_text(nic, number);
    auto tag = tags.get(nic.nic_tag);
    if (!tag) return fail(name + ": " + tag.error().text());
    // The 12 bits of IEEE 802.1Q have it, and Linux keeps it for itself.
    constexpr std::int64_t reserved_vlan = 4095;
    if (nic.vlan_id == std::optional(reserved_vlan))
        return fail(name + ": invalid vlan_id for NIC: 4095 (Linux has VLANs up to 4094)");
    network::Guard const guard = guard_of(nic, machine.nics);
    std::vector<std::string> addresses;
    for (netlink::Address const& address : addresses_of(nic.ips))
        addresses.push_back(address.host_text());
    if (tag->attachment == network::Attachment::macvlan && !guard.is_open())
        return fail(
            name + ": nic_tag " + json::quoted(nic.nic_tag) +
            " is a macvlan, where nothing can limit what a machine sends: it needs allow_dhcp_spoofing, "
            "allow_ip_spoofing, allow_mac_spoofing and allow_restricted_traffic, and no blocked_outgoing_ports");
    constexpr std::size_t longest_base = 12;  // systemd-nspawn puts "mv-" before it
    network::Port port{.nic = name,
                       .mac = nic.mac,
                       .tag = std::move(*tag),
                       .vlan = nic.vlan_id.value_or(0),
                       .mtu = nic.mtu.value_or(0),
                       .alias = machine.uuid.text() + " " + nic.interface.value_or(""),
                       .addresses = std::move(addresses),
                       .rules = network::guard_rules(guard)};
    if (port.tag.attachment == network::Attachment::macvlan && port.macvlan_base().size() > longest_base)
        return fail(name + ": the name of " + json::quoted(port.macvlan_base()) + " is too long for a macvlan");
    return port;
}

network::Interface interface_of(Nic const& nic, network::Port const& port) {
    bool const is_bridged = port.tag.attachment == network::Attachment::bridge;
    network::Interface interface{.nic = port.nic,
                                 .link = is_bridged ? nic.interface.value_or("") : "mv-" + port.macvlan_base(),
                                 .name = nic.interface.value_or(""),
                                 .mac = nic.mac,
                                 .mtu = port.mtu,
                                 .is_joined_by_host = is_bridged};
    interface.takes_advertisements = std::ranges::find(nic.ips, "addrconf") != nic.ips.end();
    // Several machines have the addresses of a virtual router, and the master alone answers for them.
    for (std::string const& ip : nic.vrrp_vrid ? std::vector<std::string>() : nic.ips)
        if (auto const address = netlink::Address::parse(ip)) interface.addresses.push_back(address->text());
    if (is_on(nic.primary)) interface.gateways = nic.gateways;
    return interface;
}

/// The NIC that "nics[1]" or "macs[02:..]" refers to.
Nic const* find_nic(Machine const& machine, std::string_view gateway) {
    std::size_t const open = gateway.find('[');
    std::string_view const inside = gateway.substr(open + 1, gateway.size() - open - 2);
    if (gateway.starts_with("nics")) {
        auto const number = integer_of(inside).value_or(-1);
        bool const is_there = number >= 0 && static_cast<std::size_t>(number) < machine.nics.size();
        return is_there ? &machine.nics[static_cast<std::size_t>(number)] : nullptr;
    }
    auto const found = std::ranges::find(machine.nics, canonical_mac(inside).value_or(""), &Nic::mac);
    return found == machine.nics.end() ? nullptr : &*found;
}

/// Whether a NIC has an address in the gateway's network.
bool is_reached(Machine const& machine, std::string const& gateway) {
    auto const wanted = netlink::Address::parse(gateway);
    return wanted && std::ranges::any_of(machine.nics, [&wanted](Nic const& nic) {
               return !nic.vrrp_vrid && std::ranges::any_of(addresses_of(nic.ips), [&](netlink::Address const& own) {
                   return own.contains(*wanted);
               });
           });
}

Result<network::Route> route_of(Machine const& machine, json::Member const& member) {
    network::Route route{.destination = member.key};
    std::string const& gateway = std::get<std::string>(member.node.value);  // checked: see route_faults()
    if (!gateway.ends_with("]")) {
        // an address from a server would come too late: PID 1 finds its routes in place
        if (!is_reached(machine, gateway))
            return fail("routes: " + member.key + ": the gateway " + gateway + " is in no network of a NIC");
        if (std::ranges::any_of(machine.nics, [&](Nic const& nic) { return is_broadcast_of(nic, gateway); }))
            return fail("routes: " + member.key + ": the gateway " + gateway +
                        " is the broadcast address of a network");
        route.gateway = gateway;
        return route;
    }
    Nic const* const nic = find_nic(machine, gateway);
    if (!nic) return fail("routes: " + member.key + ": " + gateway + " does not exist");
    route.interface = nic->interface.value_or("");
    return route;
}

/// The addresses of virtual routers that speak from an address of a NIC.
std::vector<netlink::Address> routed_by(Nic const& nic, std::span<Nic const> all) {
    std::vector<netlink::Address> own = addresses_of(nic.ips);
    std::vector<netlink::Address> routed;
    for (Nic const& other : all) {
        auto const from = netlink::Address::parse(other.vrrp_primary_ip.value_or(""));
        bool const is_ours = from && std::ranges::any_of(own, [&from](netlink::Address const& address) {
                                 return address.host_text() == from->host_text();
                             });
        if (!other.vrrp_vrid || !is_ours) continue;
        for (netlink::Address address : addresses_of(other.ips)) {
            address.prefix = address.whole_prefix();
            routed.push_back(address);
        }
    }
    return routed;
}

}  // namespace

network::Guard guard_of(Nic const& nic, std::span<Nic const> all) {
    network::Guard guard{.mac = netlink::parse_hardware_address(nic.mac).value_or(netlink::HardwareAddress{})};
    for (netlink::Address address : addresses_of(nic.ips)) {
        address.prefix = address.whole_prefix();
        guard.addresses.push_back(address);
    }
    for (netlink::Address const& address : addresses_of(nic.allowed_ips))
        guard.addresses.push_back(address);
    // Both are in one network, and Linux answers by either.
    for (netlink::Address const& address : routed_by(nic, all))
        guard.addresses.push_back(address);
    if (nic.vrrp_primary_ip) {
        if (auto const address = netlink::Address::parse(*nic.vrrp_primary_ip)) guard.addresses.push_back(*address);
    }
    guard.has_any_v4 = std::ranges::find(nic.ips, "dhcp") != nic.ips.end();
    guard.has_any_v6 = std::ranges::find(nic.ips, "addrconf") != nic.ips.end();
    guard.allows_other_macs = is_on(nic.allow_mac_spoofing);
    guard.allows_other_addresses = is_on(nic.allow_ip_spoofing);
    guard.allows_dhcp_server = is_on(nic.allow_dhcp_spoofing) || is_on(nic.dhcp_server);
    guard.allows_other_protocols = is_on(nic.allow_restricted_traffic);
    for (std::string const& port : nic.blocked_outgoing_ports)
        guard.blocked_ports.push_back(static_cast<std::uint16_t>(integer_of(port).value_or(0)));
    return guard;
}

Result<NetworkPlan> network_plan(Machine const& machine, network::Tags const& tags) {
    NetworkPlan plan;
    for (std::size_t i = 0; i < machine.nics.size(); ++i) {
        network::Port port = TRY(port_of(machine, i, tags));
        bool const is_taken = std::ranges::any_of(plan.ports, [&port](network::Port const& other) {
            return other.tag.attachment == network::Attachment::macvlan &&
                   other.tag.attachment == port.tag.attachment && other.macvlan_base() == port.macvlan_base();
        });
        if (is_taken)
            return fail(port.nic + ": the machine has another macvlan of " + json::quoted(port.macvlan_base()));
        plan.ports.push_back(std::move(port));
        plan.inside.interfaces.push_back(interface_of(machine.nics[i], plan.ports.back()));
    }
    for (json::Member const& member : machine.routes)
        plan.inside.routes.push_back(TRY(route_of(machine, member)));
    return plan;
}

std::vector<network::Port> guarded(std::vector<network::Port> raised, Machine const& machine) {
    std::erase_if(raised, [&machine](network::Port& port) {
        auto const nic = std::ranges::find(machine.nics, port.mac, &Nic::mac);
        if (nic == machine.nics.end()) return true;  // it takes effect with the next start
        network::Guard guard = guard_of(*nic, machine.nics);
        for (std::string const& text : port.addresses)
            if (auto const address = netlink::Address::parse(text)) guard.addresses.push_back(*address);
        port.rules = network::guard_rules(guard);
        return false;
    });
    return raised;
}

std::string resolvers_text(Machine const& machine) {
    if (machine.resolvers.empty()) return {};
    std::string text = "# Made by vmadm from the properties resolvers and dns_domain of the machine.\n";
    if (machine.dns_domain) text += "search " + *machine.dns_domain + "\n";
    for (std::string const& resolver : machine.resolvers)
        text += "nameserver " + resolver + "\n";
    return text;
}

}  // namespace triton::machine
