#include "lib/netlink/socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include <linux/if_addr.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include "lib/netlink/message.h"

namespace triton::netlink {

namespace {

constexpr std::size_t most_answer = 64 << 10;  // of one datagram; the kernel sends at most 32 KiB
constexpr std::uint16_t answered = NLM_F_ACK;
constexpr std::uint16_t made = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;

template <class T>
std::optional<T> take(std::string_view& text) {
    T value{};
    if (text.size() < sizeof value) return std::nullopt;
    std::memcpy(&value, text.data(), sizeof value);
    text.remove_prefix(std::min<std::size_t>(NLMSG_ALIGN(sizeof value), text.size()));
    return value;
}

ifinfomsg link_body(int index) {
    ifinfomsg body{};
    body.ifi_family = AF_UNSPEC;
    body.ifi_index = index;
    return body;
}

std::optional<Link> read_link(std::string_view text) {
    auto const body = take<ifinfomsg>(text);
    if (!body) return std::nullopt;
    Link link{.index = body->ifi_index};
    constexpr unsigned lower_up = 1U << 16;  // IFF_LOWER_UP of linux/if.h, which net/if.h lacks
    link.is_up = (body->ifi_flags & IFF_UP) != 0;
    link.has_carrier = (body->ifi_flags & lower_up) != 0;
    link.name = text_of(find_attribute(text, IFLA_IFNAME));
    link.alias = text_of(find_attribute(text, IFLA_IFALIAS));
    link.mtu = number_of(find_attribute(text, IFLA_MTU)).value_or(0);
    link.master = static_cast<int>(number_of(find_attribute(text, IFLA_MASTER)).value_or(0));
    auto const info = find_attribute(text, IFLA_LINKINFO);
    if (!info) return link;
    link.kind = text_of(find_attribute(*info, IFLA_INFO_KIND));
    auto const data = find_attribute(*info, IFLA_INFO_DATA);
    if (link.kind == "bridge" && data) {
        auto const filtering = find_attribute(*data, IFLA_BR_VLAN_FILTERING);
        if (filtering && !filtering->empty()) link.does_filter_vlans = filtering->front() != 0;
    }
    if (link.kind == "vlan" && data) {
        link.parent = static_cast<int>(number_of(find_attribute(text, IFLA_LINK)).value_or(0));
        auto id = find_attribute(*data, IFLA_VLAN_ID);
        if (id) link.vlan = take<std::uint16_t>(*id).value_or(0);
    }
    return link;
}

/// The error in an answer, or success when it reports that.
Result<> result_of(std::uint16_t flags, std::string_view body, std::string const& what) {
    auto const error = take<nlmsgerr>(body);
    if (!error) return fail(ErrorKind::corrupt, what, "the kernel's answer is not understood");
    if (error->error == 0) return {};
    auto failure = fail(-error->error, what);
    // with NETLINK_CAP_ACK the request's header alone is repeated, and attributes follow
    std::string const reason = (flags & NLM_F_ACK_TLVS) != 0 ? text_of(find_attribute(body, NLMSGERR_ATTR_MSG)) : "";
    if (!reason.empty()) failure.error().reason += " (" + reason + ")";
    return failure;
}

}  // namespace

Result<Socket> Socket::open() {
    UniqueFd socket{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)};
    if (!socket) return fail(errno, "talk to the kernel's network");
    int const on = 1;
    // without these options an error is only a number
    (void)::setsockopt(socket.get(), SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on);
    (void)::setsockopt(socket.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
    return Socket(std::move(socket));
}

Result<> Socket::send(Message& message, std::string const& what) {
    std::string const& text = message.finish(++sequence_);
    ssize_t sent = 0;
    do {
        sent = ::send(socket_.get(), text.data(), text.size(), 0);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) return fail(errno, what);
    return {};
}

Result<> Socket::answer(std::string const& what,
                        std::function<void(std::uint16_t type, std::string_view body)> const& take_message) {
    std::string buffer(most_answer, '\0');
    for (;;) {  // ends, because the kernel ends each answer
        ssize_t const got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(errno, what);
        std::string_view rest(buffer.data(), static_cast<std::size_t>(got));
        while (rest.size() >= sizeof(nlmsghdr)) {
            std::string_view message = rest;
            nlmsghdr const header = *take<nlmsghdr>(message);
            if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size())
                return fail(ErrorKind::corrupt, what, "the kernel's answer is cut short");
            message = message.substr(0, header.nlmsg_len - sizeof header);
            rest.remove_prefix(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), rest.size()));
            if (header.nlmsg_seq != sequence_) continue;
            if (header.nlmsg_type == NLMSG_DONE) return {};
            if (header.nlmsg_type == NLMSG_ERROR) return result_of(header.nlmsg_flags, message, what);
            take_message(header.nlmsg_type, message);
        }
    }
}

Result<> Socket::request(Message& message, std::string const& what) {
    TRY(send(message, what));
    return answer(what, [](std::uint16_t, std::string_view) {});
}

Result<std::vector<Link>> Socket::links() {
    Message message(RTM_GETLINK, NLM_F_DUMP);
    message.body(link_body(0));
    TRY(send(message, "list the links"));
    std::vector<Link> links;
    TRY(answer(
        "list the links",
        [&links](std::uint16_t type, std::string_view body) {
            auto link = type == RTM_NEWLINK ? read_link(body) : std::nullopt;
            if (link) links.push_back(std::move(*link));
        }));
    return links;
}

Result<Link> Socket::link(std::string const& name) {
    std::string const what = "find the link " + name;
    Message message(RTM_GETLINK, answered);
    message.body(link_body(0)).put(IFLA_IFNAME, name);
    TRY(send(message, what));
    std::optional<Link> found;
    auto const done = answer(what, [&found](std::uint16_t type, std::string_view body) {
        if (type == RTM_NEWLINK) found = read_link(body);
    });
    if (!done && done.error().code == ENODEV) return fail(ErrorKind::not_found, what, "it does not exist");
    TRY(done);
    if (!found) return fail(ErrorKind::corrupt, what, "the kernel's answer is not understood");
    return std::move(*found);
}

Result<> Socket::add(NewVlan const& vlan) {
    Message message(RTM_NEWLINK, made);
    message.body(link_body(0)).put(IFLA_IFNAME, vlan.name).put(IFLA_LINK, static_cast<std::uint32_t>(vlan.parent));
    std::size_t const info = message.open(IFLA_LINKINFO);
    message.put(IFLA_INFO_KIND, std::string_view("vlan"));
    std::size_t const data = message.open(IFLA_INFO_DATA);
    message.put(IFLA_VLAN_ID, {reinterpret_cast<std::uint8_t const*>(&vlan.id), sizeof vlan.id});
    message.close(data);
    message.close(info);
    return request(message, "make the link " + vlan.name);
}

Result<> Socket::take_own_addresses(int link) {
    Message message(RTM_NEWLINK, answered);
    message.body(link_body(link));
    std::size_t const families = message.open(IFLA_AF_SPEC);
    std::size_t const v6 = message.open(AF_INET6);
    message.put_byte(IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
    message.close(v6);
    message.close(families);
    auto const done = request(message, "keep the link " + std::to_string(link) + " from addresses of its own");
    // The kernel has no IPv6 (ipv6.disable=1), or none on this link, whose MTU is below 1280.
    if (!done && done.error().code == EAFNOSUPPORT) return {};
    return done;
}

Result<> Socket::change(int link, LinkChange const& change) {
    if (change.has_no_own_addresses) TRY(take_own_addresses(link));  // before it may come up
    Message message(RTM_NEWLINK, answered);
    ifinfomsg body = link_body(link);
    if (change.is_up) {
        body.ifi_change = IFF_UP;
        body.ifi_flags = *change.is_up ? IFF_UP : 0;
    }
    message.body(body);
    if (!change.name.empty()) message.put(IFLA_IFNAME, change.name);
    if (!change.alias.empty()) message.put(IFLA_IFALIAS, change.alias);
    if (change.mac) message.put(IFLA_ADDRESS, *change.mac);
    if (change.mtu) message.put(IFLA_MTU, *change.mtu);
    if (change.master) message.put(IFLA_MASTER, static_cast<std::uint32_t>(*change.master));
    return request(message, "change the link " + std::to_string(link));
}

Result<> Socket::set_port_vlan(int link, std::uint16_t vlan) {
    auto const change = [&](std::uint16_t type, std::initializer_list<bridge_vlan_info> infos,
                            std::string const& what) {
        Message message(type, answered);
        ifinfomsg body = link_body(link);
        body.ifi_family = AF_BRIDGE;
        message.body(body);
        std::size_t const families = message.open(IFLA_AF_SPEC);
        for (bridge_vlan_info const& info : infos)
            message.put(IFLA_BRIDGE_VLAN_INFO, {reinterpret_cast<std::uint8_t const*>(&info), sizeof info});
        message.close(families);
        return request(message, what);
    };
    constexpr std::uint16_t untagged = BRIDGE_VLAN_INFO_PVID | BRIDGE_VLAN_INFO_UNTAGGED;
    constexpr std::uint16_t last = 4094;
    // A bridge gives each port a VLAN, which is not always the first one (vlan_default_pvid). Missing ones are not an
    // error.
    TRY(change(RTM_DELLINK, {{BRIDGE_VLAN_INFO_RANGE_BEGIN, 1}, {BRIDGE_VLAN_INFO_RANGE_END, last}},
               "take the VLANs from the link " + std::to_string(link)));
    return change(RTM_SETLINK, {{untagged, vlan}}, "set the VLAN of the link " + std::to_string(link));
}

Result<> Socket::remove(std::string const& name) {
    Message message(RTM_DELLINK, answered);
    message.body(link_body(0)).put(IFLA_IFNAME, name);
    auto const done = request(message, "remove the link " + name);
    if (!done && done.error().code == ENODEV) return {};
    return done;
}

Result<> Socket::add_address(int link, Address const& address) {
    Message message(RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE);
    ifaddrmsg body{};
    body.ifa_family = address.is_v6 ? AF_INET6 : AF_INET;
    body.ifa_prefixlen = address.prefix;
    body.ifa_flags = address.is_v6 ? IFA_F_NODAD : 0;
    body.ifa_index = static_cast<std::uint32_t>(link);
    message.body(body).put(IFA_LOCAL, address.octets()).put(IFA_ADDRESS, address.octets());
    constexpr std::uint8_t shortest_with_broadcast = 30;
    if (!address.is_v6 && address.prefix <= shortest_with_broadcast) {
        Address broadcast = address.network();
        for (std::size_t bit = address.prefix; bit < address.whole_prefix(); ++bit)
            broadcast.bytes[bit / 8] |= static_cast<std::uint8_t>(0x80U >> (bit % 8));
        message.put(IFA_BROADCAST, broadcast.octets());
    }
    return request(message, "add the address " + address.text());
}

Result<> Socket::add_route(NewRoute const& route) {
    Message message(RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_APPEND);
    rtmsg body{};
    body.rtm_family = route.destination.is_v6 ? AF_INET6 : AF_INET;
    body.rtm_dst_len = route.destination.prefix;
    body.rtm_table = RT_TABLE_MAIN;
    body.rtm_protocol = RTPROT_STATIC;
    body.rtm_scope = route.gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
    body.rtm_type = RTN_UNICAST;
    body.rtm_flags = route.is_on_link ? RTNH_F_ONLINK : 0;
    message.body(body);
    if (route.destination.prefix > 0) message.put(RTA_DST, route.destination.network().octets());
    if (route.gateway) message.put(RTA_GATEWAY, route.gateway->octets());
    if (route.link > 0) message.put(RTA_OIF, static_cast<std::uint32_t>(route.link));
    if (route.metric > 0) message.put(RTA_PRIORITY, route.metric);
    return request(message, "add the route to " + route.destination.network().text());
}

}  // namespace triton::netlink
