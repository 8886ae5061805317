#include "host/systemd/daemon.h"

#include <cstdint>

#include <sys/socket.h>
#include <systemd/sd-daemon.h>

namespace triton::systemd {

void notify(std::string const& text) { (void)sd_notify(0, text.c_str()); }

std::optional<Duration> watchdog_limit() {
    std::uint64_t microseconds = 0;
    if (sd_watchdog_enabled(0, &microseconds) <= 0) return std::nullopt;
    return std::chrono::microseconds(microseconds);
}

Result<std::vector<HandedSocket>> take_sockets() {
    int const count = sd_listen_fds(1);
    if (count < 0) return fail(-count, "take the sockets that systemd hands over");
    std::vector<HandedSocket> sockets;
    for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; ++fd) {
        UniqueFd owned(fd);
        bool const is_unix = sd_is_socket(fd, AF_UNIX, SOCK_STREAM, 1) > 0;
        if (!is_unix && sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0)
            return fail(ErrorKind::invalid, "use the sockets that systemd hands over",
                        "descriptor " + std::to_string(fd) + " is not a listening stream socket");
        sockets.push_back({std::move(owned), is_unix});
    }
    return sockets;
}

}  // namespace triton::systemd
