#include "host/machine/nic.h"

#include <algorithm>
#include <array>
#include <set>

#include <arpa/inet.h>

#include "host/machine/values.h"

namespace triton::machine {

namespace {

using Text = Line<255>;

constexpr std::size_t most_ips = 20;
constexpr std::size_t most_addresses = 32;
constexpr std::size_t most_client_ids = 20;

/// The 32 bits of an IPv4 address.
std::uint32_t bits_of(Address const& address) {
    in_addr bytes{};
    (void)::inet_pton(AF_INET, address.text.c_str(), &bytes);  // it was parsed before
    return ntohl(bytes.s_addr);
}

std::optional<Address> first_v4(Nic const& nic) {
    for (std::string const& ip : nic.ips) {
        if (auto const address = parse_address(ip); address && address->family == Family::v4) return address;
    }
    return std::nullopt;
}

/// Turns `ip` and `netmask` of older payloads into the first of `ips`, and makes them from it again.
void normalise_addresses(Nic& nic) {
    if (nic.ips.empty() && nic.ip) nic.ips.push_back(entry_of(*nic.ip, nic.netmask));
    if (auto const address = first_v4(nic)) {
        nic.ip = address->text;
        nic.netmask = netmask_of_prefix(address->prefix);
    } else if (!nic.ips.empty()) {
        nic.ip = is_dynamic(nic.ips.front()) ? std::optional(nic.ips.front()) : std::nullopt;
        nic.netmask.reset();
    }
    if (nic.gateways.empty() && nic.gateway) nic.gateways.push_back(*nic.gateway);
    if (!nic.gateways.empty()) nic.gateway = nic.gateways.front();
}

/// A locally administered address, which no maker of hardware uses. Source: IEEE 802, "U/L bit".
Result<std::string> random_mac() {
    std::string const bytes = TRY(random_bytes(5));
    std::string mac = "02";
    for (char const byte : bytes) {
        static constexpr std::string_view digits = "0123456789abcdef";
        auto const value = static_cast<unsigned char>(byte);
        mac += {':', digits[value >> 4], digits[value & 0xf]};
    }
    return mac;
}

/// The address that all routers of a virtual router answer with. Source: RFC 5798, 7.3.
std::string mac_of_router(std::int64_t vrid) {
    static constexpr std::string_view digits = "0123456789abcdef";
    auto const byte = static_cast<std::size_t>(vrid);
    return std::string("00:00:5e:00:01:") + digits[byte >> 4 & 0xf] + digits[byte & 0xf];
}

/// Gives the NIC the first name of eth0, eth1 .. that is free.
void name_interface(Nic& nic, std::vector<Nic> const& nics) {
    for (std::size_t number = 0; number <= nics.size() && !nic.interface; ++number) {
        std::string const name = "eth" + std::to_string(number);
        if (std::ranges::none_of(nics, [&name](Nic const& other) { return other.interface == name; }))
            nic.interface = name;
    }
}

bool is_tag(std::string_view tag) {
    return !tag.empty() && tag.size() <= 31 && std::ranges::all_of(tag, [](char c) {
        return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '/';
    });
}

bool is_client_id(std::string_view text) {
    return text.size() >= 4 && text.size() % 2 == 0 && text.starts_with("0x") &&
           text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string_view::npos;
}

bool is_port(std::string_view text) {
    auto const port = integer_of(text);
    return port && *port >= 1 && *port <= 65535;
}

bool is_interface_name(std::string_view name) {
    return !name.empty() && name.size() <= 15 &&
           std::ranges::all_of(name,
                               [](char c) {
                                   return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                                          c == '_' || c == '.' || c == '-';
                               }) &&
           name != "." && name != ".." && name != "lo" &&
           name.find_first_not_of("0123456789") != std::string_view::npos &&  // systemd-nspawn takes that for an index
           name != "all" && name != "default";  // directories of the kernel's settings have these two names
}

/// Whether an address can be that of one host in a network. The kernel refuses others when the machine starts.
bool is_of_a_host(Address const& address) {
    std::string const& text = address.text;
    if (address.family == Family::v6)
        return text != "::" && text != "::1" && !(text.starts_with("ff") && text.find(':') == 4);
    auto const first = integer_of(std::string_view(text).substr(0, text.find('.'))).value_or(0);
    bool const is_of_group = first >= 224 && first <= 239;
    return text != "0.0.0.0" && text != "255.255.255.255" && first != 127 && !is_of_group;
}
constexpr std::string_view not_of_a_host = " (not the address of a host)";

void check_gateways(Nic const& nic, std::vector<std::string>& faults) {
    for (std::string const& gateway : nic.gateways) {
        auto const address = parse_host(gateway);
        if (!address || address->family != Family::v4)
            faults.push_back("Static gateways must be IPv4 addresses: " + json::shown(gateway));
        else if (!is_of_a_host(*address))
            faults.push_back("Invalid gateway for NIC: " + gateway + std::string(not_of_a_host));
        else if (is_broadcast_of(nic, gateway))
            faults.push_back("Invalid gateway for NIC: " + gateway + " (the broadcast address of its network)");
    }
}

/// The smallest packets of an IPv6 link. Linux has no IPv6 on links of less. Source: RFC 8200, 5.
constexpr std::int64_t least_mtu_of_v6 = 1280;

void check_mtu(Nic const& nic, std::vector<std::string>& faults) {
    if (nic.mtu.value_or(least_mtu_of_v6) >= least_mtu_of_v6) return;
    for (std::string const& ip : nic.ips) {
        auto const address = parse_address(ip);
        if (ip != "addrconf" && !(address && address->family == Family::v6)) continue;
        faults.push_back("invalid .mtu option for NIC: " + std::to_string(*nic.mtu) +
                         " (IPv6 needs 1280 or more: " + ip + ")");
    }
}

void check_addresses(Nic const& nic, std::vector<std::string>& faults) {
    for (std::string const& ip : nic.ips) {
        if (is_dynamic(ip)) continue;
        if (!parse_address(ip))
            faults.push_back("Invalid IP for NIC: " + json::shown(ip) +
                             " (expected an address with the length of its prefix or a netmask, as in 10.0.0.5/24)");
        else if (ip.find('/') == std::string::npos)
            faults.push_back("Invalid IP for NIC: " + ip + " (without the length of its prefix, as in 10.0.0.5/24)");
        else if (!is_of_a_host(*parse_address(ip)))
            faults.push_back("Invalid IP for NIC: " + ip + std::string(not_of_a_host));
    }
    for (std::string const& ip : nic.allowed_ips) {
        if (!parse_address(ip)) faults.push_back("Invalid allowed IP for NIC: " + json::shown(ip));
    }
    if (nic.ips.empty()) faults.push_back("Invalid IP for NIC: it has none (nor \"dhcp\" or \"addrconf\")");
    check_gateways(nic, faults);
    check_mtu(nic, faults);
    if (nic.ips.size() > most_ips)
        faults.push_back("nic.*.ips contains " + std::to_string(nic.ips.size()) + " addresses, but is limited to " +
                         std::to_string(most_ips));
    if (nic.ips.size() + nic.allowed_ips.size() + (nic.vrrp_primary_ip ? 1 : 0) > most_addresses)
        faults.push_back("More than 32 IPs cannot be associated with a NIC");
}

/// Whether an address is of one host: not all zeros, and not that of a group, whose first byte is odd.
bool is_of_one_host(std::string_view mac) {
    return mac != "00:00:00:00:00:00" && mac.size() > 1 && std::string_view("02468ace").find(mac[1]) != mac.npos;
}

void check_rest(Nic const& nic, std::vector<std::string>& faults) {
    if (!is_of_one_host(nic.mac)) faults.push_back("Invalid MAC for NIC: " + nic.mac);
    if (!is_tag(nic.nic_tag))
        faults.push_back(nic.nic_tag.empty()
                             ? "nic_tag is missing for NIC " + nic.mac +
                                   ": the network that it is in, as a tag that the host's triton.json defines"
                             : "invalid .nic_tag option for NIC: " + json::quoted(nic.nic_tag));
    if (nic.interface && !is_interface_name(*nic.interface))
        faults.push_back("invalid .interface option for NIC: " + json::quoted(*nic.interface));
    if (nic.primary == std::optional(false))
        faults.emplace_back("invalid value for NIC's primary flag: false (must be true)");
    if (nic.allowed_dhcp_cids.size() > most_client_ids)
        faults.push_back("nic.*.allowed_dhcp_cids contains " + std::to_string(nic.allowed_dhcp_cids.size()) +
                         " entries, but is limited to " + std::to_string(most_client_ids));
    for (std::string const& id : nic.allowed_dhcp_cids) {
        if (!is_client_id(id)) faults.push_back("Invalid DHCP client ID for NIC: " + json::shown(id));
    }
    for (std::string const& port : nic.blocked_outgoing_ports) {
        if (!is_port(port)) faults.push_back("Invalid blocked outgoing port for NIC: " + json::shown(port));
    }
    if (nic.vrrp_vrid && !nic.vrrp_primary_ip) faults.emplace_back("A NIC with .vrrp_vrid needs a .vrrp_primary_ip");
}

/// Checks virtual routers: each speaks from the address of an interface that is not a virtual router itself.
void check_routers(std::vector<Nic> const& nics, std::vector<std::string>& faults) {
    std::set<std::string> hosts;
    for (Nic const& nic : nics) {
        for (std::string const& ip : nic.ips) {
            auto const address = parse_address(ip);
            if (address && !nic.vrrp_vrid) hosts.insert(address->text);
        }
    }
    for (Nic const& nic : nics) {
        if (!nic.vrrp_primary_ip) continue;
        auto const address = parse_host(*nic.vrrp_primary_ip);
        if (!address || !hosts.contains(address->text))
            faults.push_back("Invalid vrrp_primary_ip for NIC: " + json::shown(*nic.vrrp_primary_ip) +
                             " (must be the IP of another NIC, without .vrrp_vrid)");
    }
}

/// Adds `Cannot add multiple NICs with the same <what>: X` for each value that is there twice.
void check_nics_twice(std::string_view what, std::vector<std::string> const& values, std::vector<std::string>& faults) {
    std::set<std::string_view> seen;
    for (std::string const& value : values) {
        if (!seen.insert(value).second)
            faults.push_back("Cannot add multiple NICs with the same " + std::string(what) + ": " + value);
    }
}

/// The values of a NIC that may exist only once in a network: the addresses, with the network that they are in.
std::vector<std::string> places(Nic const& nic) {
    std::vector<std::string> places;
    for (std::string const& ip : nic.ips) {
        if (auto const address = parse_address(ip))
            places.push_back(nic.nic_tag + " " + std::to_string(nic.vlan_id.value_or(0)) + " " + address->text);
    }
    return places;
}

bool is_gateway(std::string_view text) {
    if (auto const address = parse_host(text)) return address->family == Family::v4 && is_of_a_host(*address);
    if (!text.ends_with("]")) return false;
    if (text.starts_with("nics[")) return integer_of(text.substr(5, text.size() - 6)).value_or(-1) >= 0;
    return text.starts_with("macs[") && canonical_mac(text.substr(5, text.size() - 6)).has_value();
}

}  // namespace

std::span<Row<Nic> const> table(json::TableOf<Nic, json::Reading>) {
    static constexpr auto rows = std::to_array<Row<Nic>>({
        row_of<&Nic::mac, Mac, Nic>("mac", "Its hardware address; made if it is missing. The key of updates."),
        row_of<&Nic::interface, Text, Nic>("interface",
                                           "Its name in the machine. Default: the lowest free one of eth0, eth1 .."),
        row_of<&Nic::nic_tag, Text, Nic>("nic_tag", "Its network: a name of the host's configuration."),
        row_of<&Nic::vlan_id, Whole<0, 4095>, Nic>("vlan_id", "The VLAN on that network; 0: none."),
        row_of<&Nic::ips, TextList, Nic>("ips", "Addresses with their prefix lengths, `dhcp` or `addrconf`."),
        row_of<&Nic::ip, Text, Nic>("ip", "The first IPv4 address of `ips`."),
        row_of<&Nic::netmask, Text, Nic>("netmask", "The netmask of `ip`."),
        row_of<&Nic::gateway, Text, Nic>("gateway", "The first of `gateways`."),
        row_of<&Nic::gateways, TextList, Nic>("gateways", "IPv4 routers; used on the primary interface."),
        row_of<&Nic::primary, Flag, Nic>("primary", "Whether the default route goes through it; exactly one has it."),
        row_of<&Nic::mtu, Whole<576, 9000>, Nic>("mtu", "The largest packet in bytes. Default: the link's."),
        row_of<&Nic::network_uuid, UuidText, Nic>("network_uuid", "Stored."),
        row_of<&Nic::model, Text, Nic>("model", "Stored; for virtual hardware."),
        row_of<&Nic::allow_dhcp_spoofing, Flag, Nic>("allow_dhcp_spoofing", "It may answer as a DHCP server."),
        row_of<&Nic::allow_ip_spoofing, Flag, Nic>("allow_ip_spoofing", "It may send from any address."),
        row_of<&Nic::allow_mac_spoofing, Flag, Nic>("allow_mac_spoofing", "It may send from any hardware address."),
        row_of<&Nic::allow_restricted_traffic, Flag, Nic>("allow_restricted_traffic",
                                                          "It may send packets that are neither IP nor ARP."),
        row_of<&Nic::allowed_ips, TextList, Nic>("allowed_ips",
                                                 "Further addresses and networks from which it may send."),
        row_of<&Nic::allowed_dhcp_cids, TextList, Nic>(
            "allowed_dhcp_cids", "DHCP client IDs that it may use, in hexadecimal. Stored, not enforced."),
        row_of<&Nic::blocked_outgoing_ports, TextList, Nic>("blocked_outgoing_ports",
                                                            "TCP and UDP ports to which it may not send."),
        row_of<&Nic::dhcp_server, Flag, Nic>("dhcp_server", "It may answer as a DHCP server."),
        row_of<&Nic::vrrp_vrid, Whole<0, 255>, Nic>(
            "vrrp_vrid",
            "Its virtual router, which sets `mac` (7: `00:00:5e:00:01:07`). The machine's own VRRP program "
            "adds `ips` to it while it is the master."),
        row_of<&Nic::vrrp_primary_ip, Text, Nic>("vrrp_primary_ip",
                                                 "The address of another interface, from which it speaks VRRP."),
    });
    return rows;
}

std::span<Row<Filesystem> const> table(json::TableOf<Filesystem, json::Reading>) {
    static constexpr auto rows = std::to_array<Row<Filesystem>>({
        row_of<&Filesystem::type, Text, Filesystem>(
            "type", "`lofs` or `bind`: a directory of the host. `volume`: a volume.", json::Need::required),
        row_of<&Filesystem::source, Line<4095>, Filesystem>(
            "source",
            "The absolute path of the directory; or the volume: its name, UUID or key, of which the key is kept.",
            json::Need::required),
        row_of<&Filesystem::target, PlainPath, Filesystem>("target", "Where the machine sees it. The key of updates.",
                                                           json::Need::required),
        row_of<&Filesystem::raw, Text, Filesystem>("raw", "Stored."),
        row_of<&Filesystem::options, TextList, Filesystem>(
            "options", "`ro` or `readonly`, `rw`; for directories of the host `idmap`."),
    });
    return rows;
}

std::span<Row<Snapshot> const> table(json::TableOf<Snapshot, json::Reading>) {
    static constexpr auto rows = std::to_array<Row<Snapshot>>({
        row_of<&Snapshot::name, Text, Snapshot>("name", "Its name."),
        row_of<&Snapshot::created_at, Text, Snapshot>("created_at", "When it was made."),
        row_of<&Snapshot::size, Whole<0, INT64_MAX>, Snapshot>(
            "size", "Bytes that deleting it gives back. Only ZFS counts them."),
        row_of<&Snapshot::volumes, TextList, Snapshot>("volumes",
                                                       "The volumes that were taken with it, by their keys."),
    });
    return rows;
}

std::optional<Address> parse_address(std::string_view text) {
    std::size_t const slash = std::min(text.find('/'), text.size());
    std::string const host(text.substr(0, slash));
    Address address;
    std::array<unsigned char, 16> bytes{};
    std::array<char, INET6_ADDRSTRLEN> shown{};
    address.family = host.find(':') == std::string::npos ? Family::v4 : Family::v6;
    int const family = address.family == Family::v4 ? AF_INET : AF_INET6;
    int const bits = address.family == Family::v4 ? 32 : 128;
    if (::inet_pton(family, host.c_str(), bytes.data()) != 1) return std::nullopt;
    if (!::inet_ntop(family, bytes.data(), shown.data(), shown.size())) return std::nullopt;
    address.text = shown.data();
    address.prefix = bits;
    if (slash == text.size()) return address;
    auto const prefix = integer_of(text.substr(slash + 1));
    if (!prefix || *prefix < 0 || *prefix > bits) return std::nullopt;
    address.prefix = static_cast<int>(*prefix);
    return address;
}

std::optional<Address> parse_host(std::string_view text) {
    if (text.find('/') != std::string_view::npos) return std::nullopt;
    return parse_address(text);
}

bool is_dynamic(std::string_view ip) { return ip == "dhcp" || ip == "addrconf"; }

std::string entry_of(std::string const& ip, std::optional<std::string> const& netmask) {
    auto const prefix = netmask ? prefix_of_netmask(*netmask) : std::nullopt;
    // a text that is not a netmask stays unchanged, and is refused together with the address
    std::string const network = prefix ? std::to_string(*prefix) : netmask.value_or("");
    bool const is_v6 = ip.find(':') != std::string::npos;  // it has a prefix of its own
    return is_dynamic(ip) || is_v6 || network.empty() ? ip : ip + "/" + network;
}

bool is_broadcast_of(Nic const& nic, std::string_view text) {
    constexpr int longest_prefix_with_broadcast = 30;
    auto const address = parse_host(text);
    if (!address || address->family != Family::v4) return false;
    return std::ranges::any_of(nic.ips, [&address](std::string const& ip) {
        auto const own = parse_address(ip);
        if (!own || own->family != Family::v4 || own->prefix > longest_prefix_with_broadcast) return false;
        std::uint32_t const hosts = own->prefix == 0 ? ~std::uint32_t{0} : (std::uint32_t{1} << (32 - own->prefix)) - 1;
        return bits_of(*address) == (bits_of(*own) | hosts);
    });
}

std::optional<int> prefix_of_netmask(std::string_view netmask) {
    in_addr bytes{};
    if (::inet_pton(AF_INET, std::string(netmask).c_str(), &bytes) != 1) return std::nullopt;
    std::uint32_t const mask = ntohl(bytes.s_addr);
    int const prefix = __builtin_popcount(mask);
    if (netmask_of_prefix(prefix) != netmask) return std::nullopt;
    return prefix;
}

std::string netmask_of_prefix(int prefix) {
    std::uint32_t const mask = prefix == 0 ? 0 : ~std::uint32_t{0} << (32 - prefix);
    return std::to_string(mask >> 24) + "." + std::to_string(mask >> 16 & 255) + "." + std::to_string(mask >> 8 & 255) +
           "." + std::to_string(mask & 255);
}

Result<> normalise_nics(std::vector<Nic>& nics) {
    constexpr std::size_t most = 128;
    if (nics.size() > most)
        return fail(ErrorKind::invalid, "nics contains " + std::to_string(nics.size()) + " NICs, but is limited to " +
                                            std::to_string(most));
    for (Nic& nic : nics) {
        if (nic.vrrp_vrid) nic.mac = mac_of_router(*nic.vrrp_vrid);
        if (nic.mac.empty()) nic.mac = TRY(random_mac());
        normalise_addresses(nic);
        name_interface(nic, nics);
    }
    bool const has_primary = std::ranges::any_of(nics, [](Nic const& nic) { return nic.primary.has_value(); });
    if (has_primary || nics.empty()) return {};
    // A virtual router has its addresses only while it is the master.
    auto const first = std::ranges::find_if(nics, [](Nic const& nic) { return !nic.vrrp_vrid; });
    (first == nics.end() ? nics.front() : *first).primary = true;
    return {};
}

std::vector<std::string> nic_faults(std::vector<Nic> const& nics) {
    std::vector<std::string> faults, macs, ips, vrids, names;
    std::int64_t primaries = 0;
    for (Nic const& nic : nics) {
        check_addresses(nic, faults);
        check_rest(nic, faults);
        primaries += nic.primary == std::optional(true);
        macs.push_back(nic.mac);
        for (std::string const& ip : nic.ips)
            if (auto const address = parse_address(ip)) ips.push_back(address->text);
        if (nic.vrrp_vrid) vrids.push_back(std::to_string(*nic.vrrp_vrid));
        if (nic.interface) names.push_back(*nic.interface);
    }
    if (primaries > 1) faults.emplace_back("payload specifies more than 1 primary NIC");
    check_nics_twice("VRID", vrids, faults);  // first: it is why their MACs are the same
    check_nics_twice("MAC", macs, faults);
    check_nics_twice("IP", ips, faults);
    check_nics_twice("interface", names, faults);
    check_routers(nics, faults);
    return faults;
}

std::vector<std::string> route_faults(json::Object const& routes) {
    std::vector<std::string> faults;
    for (json::Member const& route : routes) {
        auto const destination = parse_address(route.key);
        if (!destination || destination->family != Family::v4)
            faults.push_back("Invalid route destination: " + json::quoted(route.key) + " (must be IP address or CIDR)");
        auto const* const gateway = route.node.get<std::string>();
        if (!gateway || !is_gateway(*gateway))
            faults.push_back(
                "Invalid route gateway: " + (gateway ? json::quoted(*gateway) : std::string(route.node.kind())) +
                " (must be IP address, nics[] or macs[])");
    }
    return faults;
}

bool conflict(std::vector<Nic> const& ours, std::vector<Nic> const& theirs) {
    std::set<std::string> taken;
    for (Nic const& nic : theirs) {
        taken.insert(nic.mac);
        for (std::string& place : places(nic))
            taken.insert(std::move(place));
    }
    return std::ranges::any_of(ours, [&taken](Nic const& nic) {
        return taken.contains(nic.mac) ||
               std::ranges::any_of(places(nic), [&taken](std::string const& place) { return taken.contains(place); });
    });
}

}  // namespace triton::machine
