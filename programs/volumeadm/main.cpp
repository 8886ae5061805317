// volumeadm: the volumes of this host.

#include <csignal>

#include "lib/base/default_signals.h"
#include "lib/base/standard_descriptors.h"
#include "programs/volumeadm/command_line.h"

int main(int argc, char** argv) {
    triton::reserve_missing_standard_descriptors();
    triton::take_default_signals();
    std::signal(SIGPIPE, SIG_IGN);  // write(2) tells when a reader has gone
    triton::program::Options options;
    auto const bound = triton::program::bind_rows(triton::program::commands(), options);
    return triton::program::run_frame(triton::program::volumeadm_frame, options, bound, {argv + 1, argv + argc});
}
