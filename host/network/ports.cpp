#include "host/network/ports.h"

#include <utility>

#include "host/network/guard.h"
#include "lib/json/text.h"

namespace triton::network {

namespace {

std::string text_of(NicTag const& tag) {
    return std::string(attachment_names[static_cast<std::size_t>(tag.attachment)]) + " " + json::quoted(tag.link) +
           " of nic_tag " + json::quoted(tag.name);
}

/// The link that a port is joined to. Errors: it does not exist, is of another kind, or cannot have this port.
Result<netlink::Link> find_base(Port const& port, Host& host) {
    auto base = host.link(port.tag.link);
    if (!base && base.error().kind == ErrorKind::not_found)
        return fail(ErrorKind::not_found, text_of(port.tag) + " does not exist on this host");
    TRY(base);
    if (port.tag.attachment == Attachment::bridge && base->kind != "bridge")
        return fail(ErrorKind::invalid, text_of(port.tag) + " is not a bridge");
    if (port.mtu > base->mtu)
        return fail(ErrorKind::invalid, "mtu " + std::to_string(port.mtu) + " is more than the " +
                                            std::to_string(base->mtu) + " of " + text_of(port.tag));
    if (port.tag.attachment == Attachment::bridge && port.vlan > 0 && base->does_filter_vlans != std::optional(true))
        return fail(ErrorKind::unsupported,
                    "vlan_id " + std::to_string(port.vlan) + ": " + text_of(port.tag) + " does not filter VLANs");
    return base;
}

netlink::HardwareAddress hardware_address(Port const& port) {
    return netlink::parse_hardware_address(port.mac).value_or(netlink::HardwareAddress{});
}

/// The hardware address of our end. A bridge takes the lowest address of its ports as its own, so ours is one of the
/// highest.
netlink::HardwareAddress host_address(netlink::HardwareAddress address) {
    address[0] = 0xfe;
    return address;
}

/// Joins the host's end of the pair that systemd-nspawn has made.
Result<> join_bridge_port(Port const& port, Host& host) {
    netlink::Link const bridge = TRY(find_base(port, host));
    int const link = TRY(host.link(port.host_link())).index;
    TRY(host.change(link, {.is_up = false}));
    TRY(host.change(link, {.alias = port.alias,
                           .mac = host_address(hardware_address(port)),
                           .mtu = bridge.mtu,  // a bridge takes the lowest of its ports
                           .has_no_own_addresses = true}));
    if (!port.rules.empty()) TRY(host.change_rules(guard_transaction(port.host_link(), port.rules)));
    TRY(host.change(link, {.master = bridge.index}));
    if (port.vlan > 0) TRY(host.set_port_vlan(link, static_cast<std::uint16_t>(port.vlan)));
    return host.change(link, {.is_up = true});
}

/// Finds or makes the link for a VLAN of another link; all machines in the VLAN share it. Errors: `invalid` when
/// another kind of link has its name.
Result<netlink::Link> vlan_link(Port const& port, netlink::Link const& base, Host& host) {
    std::string const name = port.macvlan_base();
    auto const id = static_cast<std::uint16_t>(port.vlan);
    auto link = host.link(name);
    if (!link && link.error().kind == ErrorKind::not_found) {
        auto const added = host.add(netlink::NewVlan{name, base.index, id});
        bool const is_there = !added && added.error().kind == ErrorKind::exists;  // another machine has made it first
        if (!is_there) TRY(added);
        link = host.link(name);
    }
    TRY(link);
    if (link->kind != "vlan" || link->parent != base.index || link->vlan != id)
        return fail(ErrorKind::invalid, "the link " + json::quoted(name) + " of this host is not VLAN " +
                                            std::to_string(id) + " of " + text_of(port.tag));
    return link;
}

Result<> prepare_vlan(Port const& port, netlink::Link const& base, Host& host) {
    constexpr char alias[] = "VLAN of machines";
    netlink::Link const link = TRY(vlan_link(port, base, host));
    // The command that has made it may have been killed before this. One that the host's owner has made stays as it is.
    bool const is_ours = link.alias == alias || (link.alias.empty() && !link.is_up);
    if (is_ours)
        TRY(host.change(link.index, {.alias = alias, .is_up = true, .has_no_own_addresses = true}));
    else
        TRY(host.change(link.index, {.is_up = true}));
    return host.wait_until_known(link);
}

Result<> prepare_macvlan(Port const& port, netlink::Link const& base, Host& host) {
    return port.vlan > 0 ? prepare_vlan(port, base, host) : host.wait_until_known(base);
}

Result<> prepare_port(Port const& port, Interface& interface, Host& host) {
    netlink::Link const base = TRY(find_base(port, host));
    interface.mtu = port.mtu > 0 ? port.mtu : base.mtu;
    switch (port.tag.attachment) {
        case Attachment::bridge: return {};
        case Attachment::macvlan: return prepare_macvlan(port, base, host);
    }
    std::unreachable();
}

Result<> unguard_port(Port const& port, Host& host) {
    auto const unguarded = host.change_rules(unguard_transaction(port.host_link()));
    bool const was_never_guarded = !unguarded && (unguarded.error().kind == ErrorKind::unavailable ||
                                                  unguarded.error().kind == ErrorKind::unsupported);
    if (was_never_guarded) return {};  // this host does not support it
    return unguarded;
}

/// The machine in an alias.
std::string_view owner_of(std::string_view alias) { return alias.substr(0, alias.find(' ')); }

/// Whether the link of a port has become another machine's, which has taken the NIC over. One without an alias has not
/// been joined.
Result<bool> is_of_another(Port const& port, Host& host) {
    auto const link = host.link(port.host_link());
    if (!link && link.error().kind == ErrorKind::not_found) return false;
    std::string const alias = TRY(link).alias;
    return !alias.empty() && owner_of(alias) != owner_of(port.alias);
}

Result<> lower_port(Port const& port, Host& host) {
    if (TRY(is_of_another(port, host))) return {};
    TRY(host.remove(port.host_link()));
    return port.rules.empty() ? Result<>() : unguard_port(port, host);
}

/// Adds the NIC to the front of an error.
template <class T>
Result<> of_port(Port const& port, Result<T> const& done) {
    if (done) return {};
    return fail(done.error().kind, port.nic + ": " + done.error().text());
}

}  // namespace

Result<> check_ports(std::span<Port const> ports, Host& host) {
    for (Port const& port : ports)
        TRY(of_port(port, find_base(port, host)));
    return {};
}

Result<> prepare_ports(std::span<Port const> ports, Inside& inside, Host& host) {
    if (inside.interfaces.size() != ports.size())
        return fail(ErrorKind::corrupt, "the documents of the machine's network do not belong together");
    for (std::size_t i = 0; i < ports.size(); ++i)
        TRY(of_port(ports[i], prepare_port(ports[i], inside.interfaces[i], host)));
    return {};
}

Result<> join_ports(std::span<Port const> ports, TimePoint deadline, Host& host) {
    for (Port const& port : ports) {
        if (port.tag.attachment != Attachment::bridge) continue;
        for (;;) {  // until the deadline
            auto const link = host.link(port.host_link());
            if (link) break;
            if (link.error().kind != ErrorKind::not_found) return of_port(port, link);
            TRY(of_port(port, host.wait_for_links(deadline)));
        }
        TRY(of_port(port, join_bridge_port(port, host)));
    }
    return {};
}

Result<> lower_ports(std::span<Port const> ports, Host& host) {
    Result<> result;
    for (Port const& port : ports) {  // goes on after errors: what can be removed should be
        if (auto lowered = of_port(port, lower_port(port, host)); !lowered && result) result = std::move(lowered);
    }
    return result;
}

Result<> guard_ports(std::span<Port const> ports, Host& host) {
    for (Port const& port : ports) {
        if (port.tag.attachment != Attachment::bridge) continue;
        auto const link = host.link(port.host_link());
        if (!link && link.error().kind == ErrorKind::not_found) continue;  // it comes, and is joined with its rules
        TRY(of_port(port, link));
        if (TRY(is_of_another(port, host))) continue;
        TRY(of_port(port, port.rules.empty() ? unguard_port(port, host)
                                             : host.change_rules(guard_transaction(port.host_link(), port.rules))));
    }
    return {};
}

}  // namespace triton::network
