#include "sidecar/agent/handed_over.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace triton::agent {

namespace {

constexpr int first_fd = 3;
constexpr int most_fds = 1000;

/// The number in a variable; -1 when it is not set or not a number.
int number_of(char const* name) {
    std::string_view const text = std::getenv(name) ? std::getenv(name) : "";
    int number = -1;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? number : -1;
}

bool has_option(int fd, int option, int value) {
    int found = 0;
    socklen_t size = sizeof found;
    return ::getsockopt(fd, SOL_SOCKET, option, &found, &size) == 0 && found == value;
}

Result<> take(HandedOver& handed, UniqueFd fd, std::string_view name) {
    if (::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0)
        return fail(errno, "use descriptor " + std::to_string(fd.get()) + ", which LISTEN_FDS counts");
    if (name == "output") {
        handed.output = std::move(fd);
    } else if (name == "launcher") {
        if (!has_option(fd.get(), SO_TYPE, SOCK_SEQPACKET))
            return fail("descriptor " + std::to_string(fd.get()) + " (launcher) is not a socket for messages");
        handed.launcher = std::move(fd);
    } else if (name == "syslog") {
        if (!has_option(fd.get(), SO_TYPE, SOCK_SEQPACKET))
            return fail("descriptor " + std::to_string(fd.get()) + " (syslog) is not a socket for messages");
        handed.syslog = std::move(fd);
    } else if (name == "syslog-answers") {
        struct stat status{};
        if (::fstat(fd.get(), &status) != 0 || !S_ISFIFO(status.st_mode))
            return fail("descriptor " + std::to_string(fd.get()) + " (syslog-answers) is not a pipe");
        handed.syslog_answers = std::move(fd);
    } else if (has_option(fd.get(), SO_ACCEPTCONN, 1)) {
        (name.starts_with("probe") ? handed.probes : handed.listening).push_back(std::move(fd));
    } else {
        return fail("descriptor " + std::to_string(fd.get()) + " (" + std::string(name) +
                    ") is not a listening socket");
    }
    return {};
}

}  // namespace

Result<HandedOver> take_handed_over() {
    HandedOver handed;
    if (number_of("LISTEN_PID") != ::getpid()) return handed;
    int const count = number_of("LISTEN_FDS");
    std::string const all_names = std::getenv("LISTEN_FDNAMES") ? std::getenv("LISTEN_FDNAMES") : "";
    for (char const* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"})
        ::unsetenv(name);
    if (count < 0 || count > most_fds) return fail("LISTEN_FDS is not a number from 0 to " + std::to_string(most_fds));
    std::string_view names = all_names;
    for (int fd = first_fd; fd < first_fd + count; ++fd) {
        std::size_t const colon = names.find(':');
        TRY(take(handed, UniqueFd{fd}, names.substr(0, colon)));
        names.remove_prefix(colon == names.npos ? names.size() : colon + 1);
    }
    return handed;
}

}  // namespace triton::agent
