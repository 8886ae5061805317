#pragma once

#include <span>

#include "host/network/documents.h"
#include "host/network/host.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::network {

/// Whether the host has what these ports need, without changing anything.
/// Errors: `nics[0] (02:..): bridge "br0" of nic_tag "admin" does not exist`.
Result<> check_ports(std::span<Port const> ports, Host& host);

/// Makes what must exist before systemd-nspawn starts, and tells each interface its MTU. Errors: as above.
Result<> prepare_ports(std::span<Port const> ports, Inside& inside, Host& host);

/// Waits until systemd-nspawn has made the links of a starting machine, and joins each to its network: first come the
/// rules, then the bridge, and the link is brought up last. Errors: `timeout`, and as above.
Result<> join_ports(std::span<Port const> ports, TimePoint deadline, Host& host);

/// Removes links and rules, unless they have become another machine's. Succeeds also when there are none.
Result<> lower_ports(std::span<Port const> ports, Host& host);

/// Gives ports other rules, at once and completely. Those whose links are not there yet are left out.
Result<> guard_ports(std::span<Port const> ports, Host& host);

}  // namespace triton::network
