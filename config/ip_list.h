#pragma once

#include <optional>
#include <string_view>

#include "config/process_configuration.h"

namespace triton::config {

/// The first address of a family in a comma-separated list, as it is written there, without the blanks around it.
/// Unparsable entries are skipped. An IPv4-mapped IPv6 address (::ffff:10.0.0.1) counts as IPv4, as it does in Go's
/// net.IP.
std::optional<std::string_view> first_address(std::string_view list, IpFamily family);

}  // namespace triton::config
