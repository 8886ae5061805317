#pragma once

#include "host/network/documents.h"
#include "lib/base/result.h"
#include "lib/netlink/socket.h"

namespace triton::network {

/// Gives the links of the network namespace that we are in their names, addresses and routes. The socket was opened in
/// it. Errors name the NIC or the route.
Result<> set_up(Inside const& inside, netlink::Socket& socket);

/// What set_up() asks for a default route: those behind the first are used when it is gone.
std::vector<netlink::NewRoute> default_routes(Interface const& interface, int link);

}  // namespace triton::network
