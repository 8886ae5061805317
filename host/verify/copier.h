#pragma once

#include "host/role/verify_messages.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::verify {

/// Copies a file to which others may still write into one to which only we write, then hashes the copy.
/// Errors: `corrupt` for wrong bytes; `invalid` when it is not a regular file; those of reading and writing.
Result<role::Verified> copy_and_check(int source, int file, role::Expected const& expected);

}  // namespace triton::verify
