#pragma once

#include <string>

#include "host/cri/cni/network_list.h"
#include "lib/base/result.h"

namespace triton::cri {

/// A network as it is configured now.
struct NetworkFile {
    std::string path;
    std::string text;
    NetworkList list;
};

/// Reads the first file of a directory, by name, of those that end in .conflist, .conf or .json. It is read each time:
/// so whatever an administrator or a network's own pods put there counts at once, the directory itself too. Source: the
/// container network interface's specification, "Network configuration format". Errors: `not_found` when the directory
/// has no such file or does not exist; those of parse_network_list().
Result<NetworkFile> find_network(std::string const& directory);

}  // namespace triton::cri
