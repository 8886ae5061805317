// Verifies content for imgadm: hashes, documents, signatures. It has no network, and only the files that it is handed.

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <span>

#include <unistd.h>

#include "host/role/sandbox.h"
#include "host/verify/job.h"

int main(int argc, char** argv) {
    // OpenSSL compares the times of certificates by functions that read /etc/localtime, unless the time zone is known.
    ::setenv("TZ", "UTC0", 1);
    ::tzset();
    auto started = triton::role::take_over(triton::role::Role::verify, std::span(argv, static_cast<std::size_t>(argc)));
    if (!started) {
        (void)std::fprintf(stderr, "%s\n", started.error().text().c_str());
        return 2;
    }
    // Does not use exit(3): in the sandbox nothing is left to tidy up, and trying to would be killed.
    ::_exit(triton::verify::run_job(*started));
}
