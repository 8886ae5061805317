#pragma once

namespace triton {

/// Opens /dev/null for whichever of standard input, output and error is closed, before something else gets that number
/// and is written to. Without a /dev/null it is a descriptor that can neither be read nor written. The call must
/// come before everything that opens a descriptor.
void open_missing_standard_descriptors();

}  // namespace triton
