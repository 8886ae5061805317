#include "host/network/inside.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <fcntl.h>

#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/netlink/link_watch.h"

namespace triton::network {

namespace {

using netlink::Address;

constexpr std::uint32_t metric_step = 100;
constexpr std::chrono::seconds carrier_limit{60};

/// Adds the NIC or the route to the front of an error.
Result<> within(std::string const& what, Result<> const& done) {
    if (done) return done;
    return fail(done.error().kind, what + ": " + done.error().text());
}

Result<Address> address_of(std::string const& text) {
    auto const address = Address::parse(text);
    if (!address) return fail(ErrorKind::corrupt, "\"" + text + "\" is not an address");
    return *address;
}

/// Accepts or refuses addresses and routes from routers: a host may give its namespaces its own settings
/// (net.core.devconf_inherit_init_net). A kernel without IPv6 has no such files, and then routers send nothing.
void take_advertisements(std::string const& interface, bool are_taken) {
    for (std::string const name : {"accept_ra", "autoconf"}) {
        std::string const path = "/proc/sys/net/ipv6/conf/" + interface + "/" + name;
        UniqueFd const file{::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW)};
        // if it cannot be written, the machine has more routes, or none
        if (file) (void)write_all(file.get(), are_taken ? "1\n" : "0\n");
    }
}

/// Waits until the host has finished: it brings its end of the link up last.
Result<> wait_for_carrier(std::string const& name, netlink::Socket& socket, netlink::LinkWatch& watch) {
    TimePoint const deadline = std::chrono::steady_clock::now() + carrier_limit;
    while (!TRY(socket.link(name)).has_carrier) {
        if (!TRY(watch.wait(deadline)))
            return fail(ErrorKind::timeout, "the host has not joined it to its network within 60 s");
    }
    return {};
}

Result<> set_up_interface(Interface const& interface, netlink::Socket& socket) {
    netlink::Link const link = TRY(socket.link(interface.link));
    // the name, the address and the size of packets can only be changed while the link is down
    TRY(socket.change(link.index, {.is_up = false}));
    netlink::LinkChange wanted{.mac = netlink::parse_hardware_address(interface.mac)};
    if (interface.name != interface.link) wanted.name = interface.name;
    if (interface.mtu > 0) wanted.mtu = static_cast<std::uint32_t>(interface.mtu);
    TRY(socket.change(link.index, wanted));
    take_advertisements(interface.name, interface.takes_advertisements);
    netlink::LinkWatch watch = TRY(netlink::LinkWatch::open());
    TRY(socket.change(link.index, {.is_up = true}));
    if (interface.is_joined_by_host) TRY(wait_for_carrier(interface.name, socket, watch));
    for (std::string const& text : interface.addresses) {
        Address const address = TRY(address_of(text));
        TRY(socket.add_address(link.index, address));
    }
    for (netlink::NewRoute const& route : default_routes(interface, link.index))
        TRY(socket.add_route(route));
    return {};
}

Result<> set_up_route(Route const& route, netlink::Socket& socket) {
    netlink::NewRoute wanted;
    wanted.destination = TRY(address_of(route.destination));
    if (!route.gateway.empty()) wanted.gateway = TRY(address_of(route.gateway));
    if (!route.interface.empty()) wanted.link = TRY(socket.link(route.interface)).index;
    return socket.add_route(wanted);
}

}  // namespace

std::vector<netlink::NewRoute> default_routes(Interface const& interface, int link) {
    std::vector<netlink::NewRoute> routes;
    for (std::string const& text : interface.gateways) {
        auto const gateway = Address::parse(text);
        if (!gateway) continue;  // checked when the machine was made
        bool const is_near = std::ranges::any_of(interface.addresses, [&gateway](std::string const& own) {
            auto const address = Address::parse(own);
            return address && address->contains(*gateway);
        });
        Address any = *gateway;
        any.prefix = 0;
        routes.push_back({.destination = any.network(),
                          .gateway = gateway,
                          .link = link,
                          .is_on_link = !is_near,
                          .metric = static_cast<std::uint32_t>(routes.size()) * metric_step});
    }
    return routes;
}

Result<> set_up(Inside const& inside, netlink::Socket& socket) {
    for (Interface const& interface : inside.interfaces)
        TRY(within(interface.nic, set_up_interface(interface, socket)));
    for (Route const& route : inside.routes)
        TRY(within("routes: " + route.destination, set_up_route(route, socket)));
    return {};
}

}  // namespace triton::network
