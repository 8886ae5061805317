#include "lib/base/pipe.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace triton {

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(errno, "make a pipe");
    return Pipe{UniqueFd{ends[0]}, UniqueFd{ends[1]}};
}

}  // namespace triton
