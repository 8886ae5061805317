#include "host/parts/host_networks.h"

#include <cerrno>
#include <cstdlib>

#include <unistd.h>

#include "host/network/host.h"
#include "host/network/ports.h"

namespace triton::parts {

namespace {

constexpr char init_name[] = "/triton-machine-init";
constexpr char installed_directory[] = "/usr/libexec/triton";

/// The directory of this program; in a build tree, the other programs are next to it.
Result<std::string> own_directory() {
    std::string self(4096, '\0');
    ssize_t const length = ::readlink("/proc/self/exe", self.data(), self.size());
    if (length < 0) return fail(errno, "find this program");
    self.resize(static_cast<std::size_t>(length));
    return self.substr(0, self.rfind('/'));
}

}  // namespace

Result<network::Tags> HostNetworks::tags() { return network::Tags::read(configuration_); }

Result<std::string> HostNetworks::first_program() {
    char const* const given = std::getenv("TRITON_LIBEXEC");
    std::string const beside = given && *given ? std::string(given) : TRY(own_directory());
    for (std::string const& directory : {beside, std::string(installed_directory)}) {
        std::string program = directory + init_name;
        if (::access(program.c_str(), X_OK) == 0) return program;
    }
    return fail(ErrorKind::unavailable, "find triton-machine-init, which machines with NICs need",
                beside + init_name + " is not there");
}

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
