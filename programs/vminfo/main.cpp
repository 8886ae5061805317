// vminfo: what runs here and what has just changed, as vminfod knows it.

#include <csignal>

#include "lib/base/standard_descriptors.h"
#include "programs/vminfo/command_line.h"

int main(int argc, char** argv) {
    triton::reserve_missing_standard_descriptors();
    std::signal(SIGPIPE, SIG_IGN);  // write(2) tells when a reader has gone
    triton::program::Options options;
    auto const bound = triton::program::bind_rows(triton::program::commands(), options);
    return triton::program::run_frame(triton::program::vminfo_frame, options, bound, {argv + 1, argv + argc});
}
