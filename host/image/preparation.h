#pragma once

#include <string>

#include "lib/base/result.h"

namespace triton::image {

/// Runs a program of the host inside a tree, to prepare it for becoming an image: as root without the rights to change
/// the host, without a network, in namespaces of its own (systemd-nspawn). `script` is read-only there; `root` is the
/// absolute path of the root directory.
/// Errors: `refused`, with its exit code and its last lines of standard error; `timeout` after an hour; `unsupported`
/// without systemd-nspawn.
Result<> run_preparation(std::string const& script, std::string const& root);

}  // namespace triton::image
