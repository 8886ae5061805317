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

/// Makes what has to be there before systemd-nspawn starts, and tells each interface its MTU. Errors: as above.
Result<> prepare_ports(std::span<Port const> ports, Inside& inside, Host& host);

/// Waits until systemd-nspawn has made the links of a machine that starts, and joins each to its network: first the
/// rules, then the bridge, and it is brought up last. Errors: `timeout`, and as above.
Result<> join_ports(std::span<Port const> ports, TimePoint deadline, Host& host);

/// Removes links and rules. Success too when there are none.
Result<> lower_ports(std::span<Port const> ports, Host& host);

/// Gives ports that are there other rules, at once and as a whole.
Result<> guard_ports(std::span<Port const> ports, Host& host);

}  // namespace triton::network
