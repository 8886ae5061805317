#include "launcher/services/notify_receiver.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/place.h"

namespace triton::launcher {

namespace {

constexpr std::size_t longest_datagram = 4096;  // as in systemd; longer ones are refused
constexpr std::int64_t longest_extension =
    3'600'000'000LL * 24 * 366;     // a year: points in time can still be added to it
constexpr int most_per_round = 16;  // of one process, before it is the turn of others

bool take_prefix(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

void parse_assignment(std::string_view line, Notification& into) {
    if (line == "READY=1")
        into.is_ready = true;
    else if (line == "RELOADING=1")
        into.is_reloading = true;
    else if (line == "STOPPING=1")
        into.is_stopping = true;
    else if (line == "WATCHDOG=1")
        into.is_watchdog_ping = true;
    else if (line == "WATCHDOG=trigger")
        into.is_watchdog_trigger = true;
    else if (take_prefix(line, "STATUS="))
        into.status = line;
    else if (take_prefix(line, "EXTEND_TIMEOUT_USEC=")) {
        std::int64_t value = 0;
        auto const [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
        bool const is_good = error == std::errc{} && end == line.data() + line.size() && value >= 0;
        if (is_good) into.extend_timeout = std::chrono::microseconds(std::min(value, longest_extension));
    }
}

}  // namespace

Notification parse_notification(std::string_view datagram) {
    Notification notification;
    while (!datagram.empty()) {
        std::size_t const end = datagram.find('\n');
        parse_assignment(datagram.substr(0, end), notification);
        if (end == std::string_view::npos) break;
        datagram.remove_prefix(end + 1);
    }
    return notification;
}

NotifyReceiver::NotifyReceiver(EventLoop& loop, process::Quarantine& quarantine, std::string directory,
                               Callbacks callbacks)
    : loop_(loop), quarantine_(quarantine), directory_(std::move(directory)), callbacks_(std::move(callbacks)) {}

NotifyReceiver::~NotifyReceiver() {
    while (!sockets_.empty())
        close(sockets_.begin()->first);
}

/// Makes the directory when it is first needed, in that of the control socket, which a first program may come before.
/// Nobody else may write to it, and nobody lists it.
bool NotifyReceiver::has_directory() {
    if (has_directory_) return *has_directory_;
    has_directory_ = false;
    if (directory_.empty()) return false;
    auto place = Place::find(directory_, Place::LastLink::keep);
    if (!place && place.error().kind == ErrorKind::not_found) {
        auto const above = Place::find(directory_.substr(0, directory_.rfind('/')), Place::LastLink::keep);
        if (above && above->make_directory(0755)) place = Place::find(directory_, Place::LastLink::keep);
    }
    if (!place) return false;
    place->make_directory(0711);
    UniqueFd const directory = place->open(O_PATH | O_DIRECTORY);
    struct stat status;
    has_directory_ = directory && place->is_guarded() && ::fstat(directory.get(), &status) == 0 &&
                     status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    return *has_directory_;
}

/// The mode that lets the process's user send. If we may change users and the process starts as our user, it may still
/// become another one by itself; so everybody may write then.
mode_t NotifyReceiver::mode_of(SocketSettings const& settings) {
    return settings.user || ::geteuid() != 0 ? 0600 : 0622;
}

/// Whether a process with these settings finds the socket, can send to it, and has none that is reached by more than it
/// should. The file is asked, not a memory of it: a socket may come from another version of us, or have lost its name.
/// Its group has no rights that others do not have.
bool NotifyReceiver::is_fit(Socket const& socket, SocketSettings const& settings) {
    if (socket.address.starts_with('@')) return settings.has_own_root || !has_directory();
    struct stat status;
    return !settings.has_own_root && ::lstat(socket.address.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) &&
           status.st_uid == settings.user.value_or(::geteuid()) && (status.st_mode & 0777) == mode_of(settings);
}

/// Whether a launcher that was killed has left the name of this socket. A living launcher may use the same directory.
bool NotifyReceiver::is_abandoned(sockaddr_un const& address) {
    struct stat status;
    if (::lstat(address.sun_path, &status) != 0) return false;
    if (!S_ISSOCK(status.st_mode)) return true;
    UniqueFd const probe{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    return probe && ::connect(probe.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0 &&
           errno == ECONNREFUSED;
}

/// Binds to a path that only the process's user may write to. Returns whether that was possible.
bool NotifyReceiver::bind_path(Socket& socket, NotifyKey key, SocketSettings const& settings) {
    if (settings.has_own_root || !has_directory()) return false;
    std::string path = directory_ + "/notify." + std::to_string(key.program) + "." + std::to_string(key.process);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return false;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (is_abandoned(address)) (void)::unlink(path.c_str());
    mode_t const umask = ::umask(~mode_of(settings) & 0777);
    bool const is_bound = ::bind(socket.fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0;
    ::umask(umask);
    if (!is_bound) return false;
    bool const has_owner = settings.user || settings.group;
    if (has_owner && ::lchown(path.c_str(), settings.user.value_or(static_cast<uid_t>(-1)),
                              settings.group.value_or(static_cast<gid_t>(-1))) != 0) {
        (void)::unlink(path.c_str());
        return false;  // it cannot be bound again: a socket has one name
    }
    socket.address = std::move(path);
    return true;
}

/// Binds to an abstract name that the kernel chooses. Source: unix(7), "Autobind feature".
Result<> NotifyReceiver::bind_abstract(Socket& socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address.sun_family;
    if (::bind(socket.fd.get(), generic, length) != 0) return fail(errno, "bind a notify socket");
    length = sizeof address;
    if (::getsockname(socket.fd.get(), generic, &length) != 0) return fail(errno, "name a notify socket");
    socket.address.assign(address.sun_path, length - offsetof(sockaddr_un, sun_path));
    socket.address[0] = '@';
    return {};
}

Result<UniqueFd> NotifyReceiver::make_socket() {
    UniqueFd fd{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!fd) return fail(errno, "make a notify socket");
    int const yes = 1;
    if (::setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0)
        return fail(errno, "set up a notify socket");
    return fd;
}

Result<char const*> NotifyReceiver::open_socket(NotifyKey key, SocketSettings const& settings) {
    if (auto const at = sockets_.find(key); at != sockets_.end()) {
        if (is_fit(at->second, settings)) return at->second.address.c_str();
        close(key);
    }
    Socket socket{TRY(make_socket()), {}, {}, {}};
    if (!bind_path(socket, key, settings)) {
        socket.fd = TRY(make_socket());
        TRY(bind_abstract(socket));
    }
    TRY(watch_socket(key, socket));
    return sockets_.emplace(key, std::move(socket)).first->second.address.c_str();
}

Result<UniqueFd> NotifyReceiver::open_pipe(NotifyKey key) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail(errno, "make a pipe for readiness");
    UniqueFd write_end{ends[1]};
    Pipe pipe{UniqueFd{ends[0]}, {}};
    // On our end only: the process expects its end to block.
    if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return fail(errno, "set up a pipe for readiness");
    pipe.watch = TRY(loop_.on_readable(ends[0], [this, key] { read_pipe(key); }));
    pipes_.insert_or_assign(key, std::move(pipe));
    return write_end;
}

Result<> NotifyReceiver::watch_socket(NotifyKey key, Socket& socket) {
    socket.watch = TRY(loop_.on_readable(socket.fd.get(), [this, key] { read_socket(key, most_per_round); }));
    return {};
}

/// Reads some messages; `callbacks_` may close the socket meanwhile. A message with descriptors counts like any other;
/// with BARRIER=1 the sender waits until they are closed.
void NotifyReceiver::read_socket(NotifyKey key, int most) {
    std::array<char, longest_datagram> buffer;
    for (; most > 0; --most) {
        auto const at = sockets_.find(key);
        if (at == sockets_.end() || at->second.ticket) return;
        Socket& socket = at->second;
        process::Peeked const front = process::peek_with_sender(socket.fd.get(), buffer);
        if (front.state != process::Peeked::State::message) return;
        std::span<char> const text(buffer.data(), front.size);
        if (front.has_descriptors) {
            socket.watch = {};  // the socket stays readable until that message is gone
            socket.ticket = quarantine_.discard(socket.fd.get(), [this, key] { message_is_gone(key); });
        } else {
            process::take(socket.fd.get(), text);
        }
        if (text.empty() || front.is_cut || !callbacks_.is_allowed(key, {front.pid, front.user})) continue;
        callbacks_.notified(key, parse_notification({text.data(), text.size()}));
    }
}

void NotifyReceiver::message_is_gone(NotifyKey key) {
    auto const at = sockets_.find(key);
    if (at == sockets_.end()) return;
    at->second.ticket = {};
    (void)watch_socket(key, at->second);  // if the kernel has no memory for that it stays deaf, as in import_state()
}

void NotifyReceiver::read_pipe(NotifyKey key) {
    auto const at = pipes_.find(key);
    if (at == pipes_.end()) return;
    std::array<char, 512> buffer;
    ssize_t const size = ::read(at->second.fd.get(), buffer.data(), buffer.size());
    if (size < 0) return;
    bool const is_ready = size > 0 && std::memchr(buffer.data(), '\n', static_cast<std::size_t>(size));
    if (size > 0 && !is_ready) return;
    pipes_.erase(at);
    callbacks_.pipe_ready(key, is_ready);
}

void NotifyReceiver::process_ended(NotifyKey key) {
    // What exceeds a socket's queue (net.unix.max_dgram_qlen) comes from others that still write.
    read_socket(key, 16 * most_per_round);
    auto const at = pipes_.find(key);
    if (at == pipes_.end()) return;
    std::array<char, 4096> buffer;
    ssize_t const size = ::read(at->second.fd.get(), buffer.data(), buffer.size());
    pipes_.erase(at);
    if (size > 0 && std::memchr(buffer.data(), '\n', static_cast<std::size_t>(size))) callbacks_.pipe_ready(key, true);
}

void NotifyReceiver::close(NotifyKey key) {
    pipes_.erase(key);
    auto const at = sockets_.find(key);
    if (at == sockets_.end()) return;
    if (at->second.address.starts_with('/')) (void)::unlink(at->second.address.c_str());
    UniqueFd fd = std::move(at->second.fd);
    sockets_.erase(at);
    quarantine_.close(std::move(fd));  // it may hold descriptors, and closing those may take any time
}

NotifyState NotifyReceiver::export_state() const {
    NotifyState state;
    for (auto const& [key, socket] : sockets_)
        state.sockets.push_back({key, socket.fd.get(), socket.address});
    for (auto const& [key, pipe] : pipes_)
        state.pipes.push_back({key, pipe.fd.get()});
    return state;
}

Result<> NotifyReceiver::import_state(NotifyState state) {
    Result<> done;
    for (NotifyState::Socket& saved : state.sockets) {
        (void)::fcntl(saved.fd, F_SETFD, FD_CLOEXEC);  // a descriptor that is not open is noticed below
        Socket socket{UniqueFd{saved.fd}, std::move(saved.address), {}, {}};
        auto watch = loop_.on_readable(saved.fd, [this, key = saved.key] { read_socket(key, most_per_round); });
        if (watch)
            socket.watch = std::move(*watch);
        else
            done = std::unexpected(std::move(watch.error()));
        sockets_.insert_or_assign(saved.key, std::move(socket));
    }
    for (NotifyState::Pipe const& saved : state.pipes) {
        (void)::fcntl(saved.fd, F_SETFD, FD_CLOEXEC);
        Pipe pipe{UniqueFd{saved.fd}, {}};
        auto watch = loop_.on_readable(saved.fd, [this, key = saved.key] { read_pipe(key); });
        if (watch)
            pipe.watch = std::move(*watch);
        else
            done = std::unexpected(std::move(watch.error()));
        pipes_.insert_or_assign(saved.key, std::move(pipe));
    }
    return done;
}

}  // namespace triton::launcher
