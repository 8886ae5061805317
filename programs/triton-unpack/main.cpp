// Unpacks one layer for imgadm. It sees nothing but its target directory.

#include <cstdio>
#include <span>

#include <unistd.h>

#include "host/role/sandbox.h"
#include "host/unpack/job.h"

int main(int argc, char** argv) {
    auto started = triton::role::take_over(triton::role::Role::unpack, std::span(argv, static_cast<std::size_t>(argc)));
    if (!started) {
        (void)std::fprintf(stderr, "%s\n", started.error().text().c_str());
        return 2;
    }
    // Does not use exit(3): in the sandbox nothing is left to tidy up, and trying to would be killed.
    ::_exit(triton::unpack::run_job(*started));
}
