#pragma once

namespace triton::storage {

/// Whether files in a directory (borrowed) can share blocks; tries it with files that have no name.
bool can_reflink(int directory);

}  // namespace triton::storage
