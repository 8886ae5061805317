#pragma once

#include <cstddef>
#include <string>

#include "lib/base/result.h"

namespace triton::volume {

/// Reads a file that decides what is trusted: public keys, or root certificates. It and all directories above it must
/// belong to root, and nobody else can be able to change them; a directory for everybody is good with the sticky bit.
/// No part of the path can be a symbolic link, which would make it another file.
/// Errors: `invalid`: "cannot trust /srv/keys: every user can change it; ..."; those of the read.
Result<std::string> read_trusted_file(std::string const& path, std::size_t most);

}  // namespace triton::volume
