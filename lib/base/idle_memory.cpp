#include "lib/base/idle_memory.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

namespace triton {

namespace {

struct Range {
    std::uintptr_t begin = 0;
    std::size_t size = 0;
};
using Ranges = std::array<Range, 8>;

/// Finds the segments that are never written: a written page of a private mapping exists nowhere else.
int find_read_only_segments(dl_phdr_info* program, std::size_t, void* to) {
    auto const page = static_cast<std::uintptr_t>(::getpagesize());
    auto* next = static_cast<Ranges*>(to)->begin();
    for (int i = 0; i < program->dlpi_phnum; ++i) {
        ElfW(Phdr) const& segment = program->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
        std::uintptr_t const begin = (program->dlpi_addr + segment.p_vaddr) / page * page;
        std::uintptr_t const end = (program->dlpi_addr + segment.p_vaddr + segment.p_filesz + page - 1) / page * page;
        *next++ = {begin, end - begin};
        if (next == static_cast<Ranges*>(to)->end()) break;
    }
    return 1;  // the first object is the program itself
}

}  // namespace

void release_idle_memory() {
    (void)::malloc_trim(0);
    Ranges ranges{};
    (void)::dl_iterate_phdr(find_read_only_segments, &ranges);
    // Comes last: whatever runs afterwards brings its pages back, and 15 around each.
    for (Range const& range : ranges) {
        if (range.size > 0) (void)::madvise(reinterpret_cast<void*>(range.begin), range.size, MADV_DONTNEED);
    }
}

void release_pages(void* begin, std::size_t size) {
    auto const page = static_cast<std::uintptr_t>(::getpagesize());
    auto const address = reinterpret_cast<std::uintptr_t>(begin);
    std::uintptr_t const first = (address + page - 1) / page * page;
    std::uintptr_t const end = (address + size) / page * page;
    if (first < end) (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace triton
