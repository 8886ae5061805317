#pragma once

#include "host/network/documents.h"
#include "lib/base/result.h"
#include "lib/netlink/socket.h"

namespace triton::network {

/// Gives the links of our network namespace their names, addresses and routes. The socket must have been opened in it.
/// Errors name the NIC or the route.
Result<> set_up(Inside const& inside, netlink::Socket& socket);

/// The default routes that set_up() makes: each is used when those before it are gone.
std::vector<netlink::NewRoute> default_routes(Interface const& interface, int link);

}  // namespace triton::network
