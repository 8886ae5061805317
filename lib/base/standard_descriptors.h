#pragma once

namespace triton {

/// Opens /dev/null for whichever of standard input, output and error is closed, before something else gets that number
/// and is written to. Without a /dev/null it is a descriptor that can neither be read nor written. The call must
/// come before everything that opens a descriptor.
void open_missing_standard_descriptors();

/// The same for programs that are run for their output: the descriptor can neither be read nor written (EBADF), so
/// that lost output is an error, as it is with a closed descriptor.
void reserve_missing_standard_descriptors();

}  // namespace triton
