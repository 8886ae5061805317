#pragma once

#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/netlink/link_watch.h"
#include "lib/netlink/socket.h"

namespace triton::network {

/// What ports need from the kernel. RealHost calls it; tests have their own.
class Host {
public:
    virtual ~Host() = default;
    /// Errors: `not_found`.
    virtual Result<netlink::Link> link(std::string const& name) = 0;
    virtual Result<> add(netlink::NewVlan const& vlan) = 0;
    virtual Result<> change(int link, netlink::LinkChange const& change) = 0;
    virtual Result<> set_port_vlan(int link, std::uint16_t vlan) = 0;
    /// Removes a link. Succeeds also when it does not exist.
    virtual Result<> remove(std::string const& name) = 0;
    /// Executes a transaction of nft(8). Errors: `unavailable` when there is no such program; `unsupported` when the
    /// kernel or nft refuses it, with its words.
    virtual Result<> change_rules(std::string const& transaction) = 0;
    /// Waits until udev, if it is running, has seen this link: systemd-nspawn refuses one that udev does not know yet.
    virtual Result<> wait_until_known(netlink::Link const& link) = 0;
    /// Waits for a change of links since the host was opened, or since the last call. Errors: `timeout`.
    virtual Result<> wait_for_links(TimePoint deadline) = 0;
};

class RealHost final : public Host {
public:
    static Result<RealHost> open();

    Result<netlink::Link> link(std::string const& name) override { return socket_.link(name); }
    Result<> add(netlink::NewVlan const& vlan) override { return socket_.add(vlan); }
    Result<> change(int link, netlink::LinkChange const& change) override { return socket_.change(link, change); }
    Result<> set_port_vlan(int link, std::uint16_t vlan) override { return socket_.set_port_vlan(link, vlan); }
    Result<> remove(std::string const& name) override { return socket_.remove(name); }
    Result<> change_rules(std::string const& transaction) override;
    Result<> wait_until_known(netlink::Link const& link) override;
    Result<> wait_for_links(TimePoint deadline) override;

private:
    RealHost(netlink::Socket socket, netlink::LinkWatch watch) : socket_(std::move(socket)), watch_(std::move(watch)) {}
    netlink::Socket socket_;
    netlink::LinkWatch watch_;
};

}  // namespace triton::network
