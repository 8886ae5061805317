#pragma once

namespace triton {

/// Gives back the memory that only work has needed: free heap, and the pages of our program file that were read once
/// (they stay in the page cache and come back by a minor fault each). The rest is the cost of an idle program.
void release_idle_memory();

}  // namespace triton
