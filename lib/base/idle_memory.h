#pragma once

#include <cstddef>
#include <vector>

namespace triton {

/// Gives back the memory that only work has needed: free heap, and the pages of our program file that were read once
/// (they stay in the page cache and come back by a minor fault each). The rest is the cost of an idle program.
void release_idle_memory();

/// Gives back the whole pages of a buffer whose content nobody needs. They take no memory until they are written to.
void release_pages(void* begin, std::size_t size);

/// The same for the room that a vector has reserved, so that it is not out of memory when it is needed.
template <class T>
void release_room(std::vector<T>& reserved) {
    release_pages(reserved.data() + reserved.size(), (reserved.capacity() - reserved.size()) * sizeof(T));
}

}  // namespace triton
