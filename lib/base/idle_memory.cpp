#include "lib/base/idle_memory.h"

#include <cstdint>

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

namespace triton {

namespace {

/// Only segments that are never written: a written page of a private mapping exists nowhere else.
int drop_read_only_segments(dl_phdr_info* program, std::size_t, void*) {
    auto const page = static_cast<std::uintptr_t>(::getpagesize());
    for (int i = 0; i < program->dlpi_phnum; ++i) {
        ElfW(Phdr) const& segment = program->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
        std::uintptr_t const begin = (program->dlpi_addr + segment.p_vaddr) / page * page;
        std::uintptr_t const end = (program->dlpi_addr + segment.p_vaddr + segment.p_filesz + page - 1) / page * page;
        (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    }
    return 1;  // the first object is the program itself
}

}  // namespace

void release_idle_memory() {
    (void)::malloc_trim(0);
    (void)::dl_iterate_phdr(drop_read_only_segments, nullptr);
}

}  // namespace triton
