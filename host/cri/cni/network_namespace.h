#pragma once

#include <map>
#include <string>

#include "lib/base/result.h"

namespace triton::cri {

/// Makes a network namespace with its loopback up, and pins it by a mount on `path`, whose directory is made. One that
/// is there already is removed before. `sysctls`: those of "net." are set in it. `existing`: path of one that is used
/// in place of a new one. It blocks, for a short time.
Result<> make_network_namespace(std::string const& path, std::map<std::string, std::string> const& sysctls,
                                std::string const& existing = {});

/// Whether a namespace is pinned there.
bool has_network_namespace(std::string const& path);

/// Succeeds when there is none.
Result<> remove_network_namespace(std::string const& path);

/// The counters of its interfaces: the text of /proc/net/dev in it.
Result<std::string> read_network_counters(std::string const& path);

}  // namespace triton::cri
