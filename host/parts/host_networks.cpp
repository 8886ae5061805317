#include "host/parts/host_networks.h"

#include "host/network/host.h"
#include "host/network/ports.h"
#include "host/parts/libexec.h"

namespace triton::parts {

Result<network::Tags> HostNetworks::tags() { return network::Tags::read(configuration_); }

Result<std::string> HostNetworks::first_program() { return libexec_program("triton-machine-init"); }

Result<> HostNetworks::check(std::span<network::Port const> ports) {
    auto host = TRY(network::RealHost::open());
    return network::check_ports(ports, host);
}

Result<> HostNetworks::guard(std::span<network::Port const> ports) {
    auto host = TRY(network::RealHost::open());
    return network::guard_ports(ports, host);
}

Result<> HostNetworks::lower(std::span<network::Port const> ports) {
    auto host = TRY(network::RealHost::open());
    return network::lower_ports(ports, host);
}

}  // namespace triton::parts
