#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/netlink/address.h"

namespace triton::netlink {

class Message;

/// A link of a network namespace as the kernel knows it.
struct Link {
    int index = 0;
    std::string name = {};
    std::string kind = {};  ///< "veth", "bridge", "macvlan", "vlan"; empty: hardware, or the loopback
    std::uint32_t mtu = 0;
    bool is_up = false;
    bool has_carrier = false;                    ///< it is up, and so is the other end
    int parent = 0;                              ///< of a VLAN: the link that it is on
    std::uint16_t vlan = 0;                      ///< of a VLAN: its number
    int master = 0;                              ///< the bridge that it is a port of; 0: none
    std::string alias = {};                      ///< a text for people
    std::optional<bool> does_filter_vlans = {};  ///< of a bridge
};

struct NewVlan {
    std::string name;
    int parent = 0;
    std::uint16_t id = 0;
};

/// Changes of a link; absent values stay.
struct LinkChange {
    std::string name = {};
    std::string alias = {};
    std::optional<HardwareAddress> mac = {};
    std::optional<std::uint32_t> mtu = {};
    std::optional<int> master = {};
    std::optional<bool> is_up = {};
    bool has_no_own_addresses = false;  ///< it gives itself no IPv6 address
};

struct NewRoute {
    Address destination = {};  ///< a prefix of 0: the default route
    std::optional<Address> gateway = {};
    int link = 0;             ///< 0: the one that the gateway is reached by
    bool is_on_link = false;  ///< the gateway is there although no address of the link is in its network
    std::uint32_t metric = 0;
};

/// Changes links, addresses and routes of the network namespace in which it was opened. Each call waits for the
/// kernel's answer. Errors: the kernel's, with the sentence that it adds to some of them.
class Socket {
public:
    static Result<Socket> open();

    Result<std::vector<Link>> links();
    /// Errors: `not_found`.
    Result<Link> link(std::string const& name);

    /// Errors: `exists`.
    Result<> add(NewVlan const& vlan);
    Result<> change(int link, LinkChange const& change);
    /// A port of a bridge gets this VLAN, untagged, instead of those that it has.
    Result<> set_port_vlan(int link, std::uint16_t vlan);
    /// Success too when it is not there.
    Result<> remove(std::string const& name);

    /// An IPv6 address can be used at once: no duplicate address detection takes place.
    Result<> add_address(int link, Address const& address);
    Result<> add_route(NewRoute const& route);

private:
    explicit Socket(UniqueFd socket) : socket_(std::move(socket)) {}
    Result<> send(Message& message, std::string const& what);
    /// Takes each message of the answer, until the last one.
    Result<> answer(std::string const& what,
                    std::function<void(std::uint16_t type, std::string_view body)> const& take);
    Result<> request(Message& message, std::string const& what);
    /// A request of its own: with the others, one that makes the MTU too small for IPv6 would make it fail.
    Result<> take_own_addresses(int link);

    UniqueFd socket_;
    std::uint32_t sequence_ = 0;
};

}  // namespace triton::netlink
