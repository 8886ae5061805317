#include "host/content/role_wait.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include <poll.h>

#include "lib/base/clock.h"

namespace triton::content {

namespace {

/// Returns false when the deadline comes first. Errors: `refused`.
Result<bool> wait_readable(int fd, int cancel, TimePoint deadline) {
    for (;;) {
        std::array<pollfd, 2> watched{pollfd{.fd = fd, .events = POLLIN, .revents = 0},
                                      pollfd{.fd = cancel, .events = POLLIN, .revents = 0}};
        auto const left = std::chrono::ceil<milliseconds>(deadline - steady_now());
        int const ready = ::poll(watched.data(), watched.size(),
                                 static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX)));
        if (ready < 0 && errno != EINTR) return fail(errno, "wait for a role");
        if (ready > 0 && watched[1].revents != 0) return fail(ErrorKind::refused, "cancelled");
        if (ready > 0) return true;
        if (ready == 0 && left.count() <= INT_MAX) return false;
    }
}

}  // namespace

TimePoint end_deadline() { return steady_now() + std::chrono::seconds(10); }

Result<bool> wait_for_message(role::RoleProcess& process, TimePoint deadline, int cancel) {
    return wait_readable(process.channel().fd(), cancel, deadline);
}

Result<role::Packet> receive_from(role::RoleProcess& process, TimePoint deadline, int cancel,
                                  std::size_t expected_descriptors) {
    if (cancel >= 0 && !TRY(wait_for_message(process, deadline, cancel)))
        return fail(ErrorKind::timeout, "a role has not answered in time");
    auto packet = process.channel().receive(deadline, expected_descriptors);
    if (packet) return packet;
    Error const error = packet.error();
    if (error.kind == ErrorKind::unavailable) {
        TRY(process.finish(end_deadline()));
        return fail(ErrorKind::corrupt, "a role has ended without an answer");
    }
    if (error.kind == ErrorKind::corrupt) process.kill();
    return std::unexpected(error);
}

std::unexpected<Error> distrust(role::RoleProcess& process, std::string_view why) {
    std::string const program(process.program());
    process.kill();
    return fail(ErrorKind::corrupt, program + " lies: " + std::string(why));
}

}  // namespace triton::content
