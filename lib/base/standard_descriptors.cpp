#include "lib/base/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace triton {

void open_missing_standard_descriptors() {
    // open(2) takes the lowest free number
    for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
        if (::fcntl(fd, F_GETFD) >= 0 || ::open("/dev/null", O_RDWR) >= 0) continue;
        if (::open("/", O_PATH) < 0) return;
    }
}

void reserve_missing_standard_descriptors() {
    // Not a directory: children inherit it, and one of them may be in a machine.
    for (int fd = 0; fd <= STDERR_FILENO; ++fd)
        if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_PATH) < 0) return;
}

}  // namespace triton
