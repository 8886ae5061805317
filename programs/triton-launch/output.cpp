#include "programs/triton-launch/output.h"

#include <cerrno>
#include <climits>
#include <string>

#include <poll.h>
#include <unistd.h>

#include "lib/base/result.h"
#include "lib/base/write_all.h"

namespace triton::program {

namespace {

constexpr int between_questions_ms = 50;

}  // namespace

bool write_while(int fd, std::string_view text, std::function<bool()> const& keep_going) {
    while (!text.empty()) {
        // A write of PIPE_BUF bytes does not wait if poll(2) says that the pipe is writable.
        pollfd writable{fd, POLLOUT, 0};
        if (::poll(&writable, 1, between_questions_ms) == 0) {
            if (keep_going()) continue;
            errno = EINTR;
            return false;
        }
        std::string_view const piece = text.substr(0, PIPE_BUF);
        if (!write_all(fd, piece)) return false;
        text.remove_prefix(piece.size());
    }
    return true;
}

int complain(std::string_view text, int exit_code) {
    (void)write_all(STDERR_FILENO, "triton-launch: " + std::string(text) + "\n");  // nobody else to tell
    return exit_code;
}

int complain_of_output() { return complain("cannot write to standard output: " + errno_text(errno), 1); }

int print(std::string_view text, int exit_code) {
    if (write_all(STDOUT_FILENO, text)) return exit_code;
    return complain_of_output();
}

}  // namespace triton::program
