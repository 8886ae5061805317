#pragma once

#include <span>
#include <vector>

#include "host/machine/machine.h"
#include "host/network/documents.h"
#include "host/network/guard.h"
#include "host/network/tags.h"
#include "lib/base/result.h"

namespace triton::machine {

/// What is made of a machine's NICs and routes: links of the host, and settings inside the machine.
struct NetworkPlan {
    std::vector<network::Port> ports;
    network::Inside inside;
};

/// Errors: `invalid`, with the NIC or the route: `nics[0] (02:..): unknown nic_tag "x" (known: admin)`; a macvlan that
/// would have to be guarded; a route by a NIC that does not exist.
Result<NetworkPlan> network_plan(Machine const& machine, network::Tags const& tags);

/// What the machine may send from a NIC. `all`: the machine's; a virtual router's addresses are also those of the NIC
/// by which it speaks.
network::Guard guard_of(Nic const& nic, std::span<Nic const> all);

/// The ports of a running machine, with the rules for its present properties. The addresses with which it was started
/// stay allowed until it is started again.
std::vector<network::Port> guarded(std::vector<network::Port> raised, Machine const& machine);

/// The text of /etc/resolv.conf; empty when the machine has no resolvers.
std::string resolvers_text(Machine const& machine);

}  // namespace triton::machine
