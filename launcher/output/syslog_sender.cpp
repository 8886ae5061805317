#include "launcher/output/syslog_sender.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "config/syslog.h"
#include "lib/base/place.h"

namespace triton::launcher {

namespace {

using std::chrono::steady_clock;

constexpr Duration time_to_be_well = std::chrono::seconds(30);  // until a fault is over

std::string path_of(std::string_view address) {
    auto const target = config::parse_syslog_address(address);
    return target ? std::string(target->path) : std::string();
}

/// Whether the error is about the message, and not about the daemon.
bool is_about_message(int err) { return err == EMSGSIZE || err == EINVAL; }

}  // namespace

SyslogSender::SyslogSender(EventLoop& loop, SyslogRelay& relay, std::string address, std::function<void()> on_room,
                           MayTouch may_touch)
    : loop_(loop),
      relay_(relay),
      address_(std::move(address)),
      path_(path_of(address_)),
      on_room_(std::move(on_room)),
      may_touch_(std::move(may_touch)) {}

void SyslogSender::write(std::string_view messages) {
    if (sent_ > capacity / 2) waiting_.erase(0, std::exchange(sent_, 0));
    waiting_ += messages;
    flush();
}

/// Opens the path first and connects through the descriptor: nothing else can take its place in between.
Result<UniqueFd> SyslogSender::open_socket(int type) const {
    std::string const attempted = "connect to " + path_;
    auto const place = Place::find(path_, Place::LastLink::follow);
    if (!place) return about(attempted, place.error());
    UniqueFd const there = place->open(O_PATH);
    if (!there) return fail(errno, attempted);
    struct stat status{};
    if (::fstat(there.get(), &status) != 0) return fail(errno, attempted);
    if (!S_ISSOCK(status.st_mode)) return fail(ErrorKind::invalid, attempted, "it is not a socket");
    UniqueFd socket{::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) return fail(errno, "make a socket");
    // Whatever the daemon might send us, descriptors included, would be closed with the socket, which may take long.
    (void)::shutdown(socket.get(), SHUT_RD);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string const name = "/proc/self/fd/" + std::to_string(there.get());
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    if (::connect(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        return fail(errno, attempted);
    return socket;
}

bool SyslogSender::connect() {
    if (socket_) return true;
    if (steady_clock::now() < not_before_) return false;
    if (may_touch_ && !may_touch_(path_, [this] { (void)open_socket(SOCK_DGRAM); })) {
        disconnect(fail(ErrorKind::unavailable, "connect to " + path_, "its file system does not answer").error());
        return false;
    }
    auto socket = open_socket(SOCK_DGRAM);
    is_stream_ = !socket && socket.error().code == EPROTOTYPE;
    if (is_stream_) socket = open_socket(SOCK_STREAM);
    if (!socket) {
        disconnect(std::move(socket.error()));
        return false;
    }
    socket_ = std::move(*socket);
    return true;
}

void SyslogSender::disconnect(Error why) {
    watch_ = {};
    socket_ = {};
    part_sent_ = 0;  // the rest alone would not be a message
    failed_ = steady_clock::now();
    not_before_ = failed_ + pace;
    error_ = std::move(why);
    if (error_.code == 0) error_.code = EPROTO;  // it is told by its code
}

void SyslogSender::flush() {
    if (pending() == 0 || watch_) return;
    while (pending() > 0) {
        std::string_view const rest = waiting();
        std::size_t const end = rest.find('\n');
        if (send(rest.substr(0, end)) == Sent::not_now) return;
        sent_ += end + 1;
    }
    waiting_.clear();
    if (waiting_.capacity() > capacity / 4) waiting_ = {};
    sent_ = 0;
    if (error_.code != 0 && steady_clock::now() - failed_ >= time_to_be_well) error_ = {};
}

SyslogSender::Sent SyslogSender::send(std::string_view message) {
    if (is_local()) return send_local(message);
    return relay_.send(address_, message) ? Sent::taken : Sent::not_now;
}

SyslogSender::Sent SyslogSender::send_local(std::string_view message) {
    if (!connect()) return Sent::not_now;
    // On a stream the newline belongs to the message.
    std::string_view const whole{message.data(), message.size() + (is_stream_ ? 1 : 0)};
    while (true) {
        std::string_view const part = whole.substr(part_sent_);
        ssize_t const size = ::send(socket_.get(), part.data(), part.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size >= 0) {
            part_sent_ += static_cast<std::size_t>(size);
            if (part_sent_ < whole.size()) continue;
            part_sent_ = 0;
            return Sent::taken;
        }
        int const err = errno;
        if (err == EINTR) continue;
        if (err == EAGAIN || err == ENOBUFS) {
            watch(socket_.get());
            return Sent::not_now;
        }
        if (is_about_message(err)) return Sent::taken;
        disconnect(fail(err, "write to " + path_).error());
        return Sent::not_now;
    }
}

/// Watches the socket. If the kernel has no memory for that, it is tried again after a moment.
void SyslogSender::watch(int fd) {
    auto made = loop_.on_writable(fd, [this] {
        watch_ = {};
        flush();
        if (on_room_) on_room_();
    });
    if (made) watch_ = std::move(*made);
}

void SyslogSender::drain(milliseconds limit) {
    auto const deadline = steady_clock::now() + limit;
    watch_ = {};
    flush();
    while (pending() > 0 && socket_) {
        pollfd ready{socket_.get(), POLLOUT, 0};
        auto const left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
        if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) return;
        watch_ = {};
        flush();
    }
}

}  // namespace triton::launcher
