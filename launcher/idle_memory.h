#pragma once

namespace triton::launcher {

/// Gives back the memory that only starting up needed: free heap, and the pages of our program file that were read once
/// (they stay in the page cache and come back by a minor fault each). What remains is what an idle launcher costs.
void release_idle_memory();

}  // namespace triton::launcher
