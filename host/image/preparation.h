#pragma once

#include <string>

#include "lib/base/result.h"

namespace triton::image {

/// Runs a program of the host inside a tree, to prepare it for becoming an image: as root, but without rights that
/// reach the host, without a network, in its own namespaces (systemd-nspawn). It sees `script` read-only; `root` is the
/// absolute path of the root directory.
/// Errors: `refused`, with its exit code and its last lines of standard error; `timeout` after an hour; `unsupported`
/// without systemd-nspawn; `refused`: "cancelled" once `cancel` is readable.
Result<> run_preparation(std::string const& script, std::string const& root, int cancel);

}  // namespace triton::image
