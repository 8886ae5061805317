#include "host/cri/sandbox/monitor_link.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/clock.h"

namespace triton::cri {

namespace {

MonitoredContainer container_of(monitor::Message const& message) {
    return {.id = message.container,
            .phase = message.numbers[monitor::container_phase],
            .pid = static_cast<int>(message.numbers[monitor::container_pid]),
            .exit_code = static_cast<int>(message.numbers[monitor::container_exit_code]),
            .is_out_of_memory = message.numbers[monitor::container_oom] != 0,
            .exited_at = message.numbers[monitor::container_exited_at]};
}

Result<std::int64_t> result_of(monitor::Message const& message) {
    std::int64_t const kind = message.numbers[0];
    if (kind == 0) return message.numbers[1];
    bool const is_known = kind > 0 && kind <= static_cast<std::int64_t>(ErrorKind::internal) + 1;
    return fail(is_known ? static_cast<ErrorKind>(kind - 1) : ErrorKind::internal,
                message.texts.empty() ? "the monitor gives no reason" : message.texts.front());
}

}  // namespace

/// The path of a socket has 107 bytes at most, so it is named through its directory.
Result<UniqueFd> connect_to_monitor(std::string const& run) {
    std::string const shown = run + "/monitor.sock";
    UniqueFd const directory{::open(run.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!directory) return fail(errno, "open " + run);
    UniqueFd socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) return fail(errno, "make a socket");
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::string const path = "/proc/self/fd/" + std::to_string(directory.get()) + "/monitor.sock";
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    if (::connect(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        return fail(errno, "connect to " + shown);
    return socket;
}

Result<int> monitor_pid(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return fail(errno, "look at a monitor's socket");
    return peer.pid;
}

Result<std::vector<MonitoredContainer>> ask_for_table(int socket, std::chrono::milliseconds limit) {
    TRY(monitor::send_message(socket, {.kind = monitor::Kind::table}));
    TimePoint const deadline = steady_now() + limit;
    std::vector<MonitoredContainer> table;
    for (;;) {
        auto const received = monitor::receive_message(socket);
        if (!received && received.error().kind != ErrorKind::busy) return std::unexpected(received.error());
        if (!received) {
            auto const left = std::chrono::duration_cast<milliseconds>(deadline - steady_now()).count();
            pollfd one{socket, POLLIN, 0};
            if (left <= 0 || ::poll(&one, 1, static_cast<int>(left)) == 0)
                return fail(ErrorKind::timeout, "ask a monitor for its containers", "it does not answer");
            continue;
        }
        if (received->message.kind == monitor::Kind::answer) return table;
        table.push_back(container_of(received->message));
    }
}

MonitorLink::MonitorLink(net::Loop& loop, UniqueFd socket, Events events)
    : loop_(loop),
      socket_(loop, std::move(socket)),
      events_(std::move(events)),
      pid_(monitor_pid(socket_.fd()).value_or(0)) {}

void MonitorLink::start() {
    socket_.call_when_readable([self = shared_from_this()](bool is_open) {
        if (is_open && self->socket_.is_open() && self->receive_all()) return self->start();
        self->lose();
    });
}

/// Returns whether more can come.
bool MonitorLink::receive_all() {
    while (!is_lost_ && socket_.is_open()) {
        auto const received = monitor::receive_message(socket_.fd());
        if (!received) return received.error().kind == ErrorKind::busy;
        monitor::Message const& message = received->message;
        if (message.kind == monitor::Kind::exited) {
            events_.exited(container_of(message));
        } else if (message.kind == monitor::Kind::answer) {
            if (auto const node = waiting_.extract(message.sequence)) node.mapped()(result_of(message));
        }
    }
    return false;
}

std::uint64_t MonitorLink::ask(monitor::Message message, Answer done, std::vector<int> const& descriptors) {
    message.sequence = next_++;
    auto const sent = is_lost_ ? fail(ErrorKind::unavailable, "the monitor of the pod has ended")
                               : monitor::send_message(socket_.fd(), message, descriptors);
    if (sent) {
        waiting_.emplace(message.sequence, std::move(done));
    } else {
        net::post(loop_, [done = std::move(done), error = sent.error()] { done(std::unexpected(error)); });
    }
    return message.sequence;
}

void MonitorLink::close() {
    events_ = {.exited = [](MonitoredContainer const&) {}, .lost = [] {}};
    socket_.close();
}

void MonitorLink::lose() {
    if (std::exchange(is_lost_, true)) return;
    socket_.close();
    Error const error{
        .kind = ErrorKind::unavailable, .attempted = {}, .reason = "the monitor of the pod has ended", .details = {}};
    for (auto& [sequence, done] : std::exchange(waiting_, {}))
        done(std::unexpected(error));
    auto const lost = events_.lost;
    lost();
}

}  // namespace triton::cri
