#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace runtime::v1 {
class DNSConfig;
}

namespace triton::cri {

/// The text of a resolv.conf. Errors: `invalid`: a word with a space or a newline, or too many of them.
Result<std::string> resolver_text(runtime::v1::DNSConfig const& dns);

/// The text of an /etc/hosts for a pod with these addresses; kubelet brings its own.
std::string hosts_text(std::string const& hostname, std::vector<std::string> const& addresses);

/// Whether a pod may set it: its namespaces have it. Errors: `invalid`, with what is wrong.
Result<> check_sysctl(std::string const& name, std::string const& value, bool has_network, bool has_ipc);

}  // namespace triton::cri
