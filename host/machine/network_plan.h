#pragma once

#include <vector>

#include "host/machine/machine.h"
#include "host/network/documents.h"
#include "host/network/guard.h"
#include "host/network/tags.h"
#include "lib/base/result.h"

namespace triton::machine {

/// What a machine's NICs and routes become: links of the host, and what is set up inside.
struct NetworkPlan {
    std::vector<network::Port> ports;
    network::Inside inside;
};

/// Errors: `invalid`, with the NIC or the route: `nics[0] (02:..): unknown nic_tag "x" (known: admin)`; a macvlan that
/// would have to be guarded; a route by a NIC that is not there.
Result<NetworkPlan> network_plan(Machine const& machine, network::Tags const& tags);

/// What the machine may send by a NIC.
network::Guard guard_of(Nic const& nic);

/// The ports of a machine that runs, with the rules that its properties ask for now. It has the addresses with which it
/// was started until it is started again, and may use them until then.
std::vector<network::Port> guarded(std::vector<network::Port> raised, Machine const& machine);

/// The text of /etc/resolv.conf; empty: the machine has no resolvers.
std::string resolvers_text(Machine const& machine);

}  // namespace triton::machine
