#include "launcher/services/sockets.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

using config::SocketAddress;
using config::SocketKind;

bool has_path(SocketAddress const& address) {
    return address.kind != SocketKind::tcp && address.kind != SocketKind::udp;
}

bool is_stream(SocketKind kind) { return kind == SocketKind::tcp || kind == SocketKind::unix_stream; }

int type_of(SocketKind kind) { return (is_stream(kind) ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC; }

std::unexpected<Error> refuse(SocketRequest const& request, int err) {
    std::string text =
        request.place + ": cannot listen on " + config::format_socket_address(request.address) + ": " + errno_text(err);
    return std::unexpected(Error{kind_of_errno(err), {}, std::move(text), {}, err});
}

/// A socket address of any family with its length.
struct BoundTo {
    sockaddr_storage storage{};
    socklen_t length = 0;

    [[nodiscard]] sockaddr const* get() const { return reinterpret_cast<sockaddr const*>(&storage); }
};

template <class T>
BoundTo bound_to(T const& address) {
    BoundTo to;
    std::memcpy(&to.storage, &address, sizeof address);
    to.length = sizeof address;
    return to;
}

BoundTo unix_address(std::string const& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
    return bound_to(address);
}

BoundTo ip4_address(in_addr host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr = host;
    address.sin_port = htons(port);
    return bound_to(address);
}

BoundTo ip6_address(in6_addr const& host, std::uint16_t port) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = host;
    address.sin6_port = htons(port);
    return bound_to(address);
}

/// A bound socket, or -1 and errno.
UniqueFd bind_ip(SocketKind kind, BoundTo const& to, bool both_families) {
    UniqueFd fd{::socket(to.storage.ss_family, type_of(kind), 0)};
    if (!fd) return fd;
    int const yes = 1;
    int const only = both_families ? 0 : 1;
    // A connection that the process before has left in TIME_WAIT is no reason to refuse. For datagrams it would let two
    // sockets share a port without a word.
    bool const is_set =
        (kind != SocketKind::tcp || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0) &&
        (to.storage.ss_family != AF_INET6 ||
         ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only) == 0);
    return is_set && ::bind(fd.get(), to.get(), to.length) == 0 ? std::move(fd) : UniqueFd{};
}

UniqueFd open_ip(SocketAddress const& address) {
    in_addr host4{};
    in6_addr host6{};
    if (::inet_pton(AF_INET, address.host.c_str(), &host4) == 1)
        return bind_ip(address.kind, ip4_address(host4, address.port), false);
    if (::inet_pton(AF_INET6, address.host.c_str(), &host6) == 1)
        return bind_ip(address.kind, ip6_address(host6, address.port), false);
    if (!address.host.empty()) {
        errno = EINVAL;
        return {};
    }
    UniqueFd fd = bind_ip(address.kind, ip6_address(in6addr_any, address.port), true);
    // No IPv6: not in this kernel, or switched off for this network namespace.
    if (!fd && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
        fd = bind_ip(address.kind, ip4_address({INADDR_ANY}, address.port), false);
    return fd;
}

/// Whether a name in the file system is a socket that nobody listens on any more.
bool is_stale(SocketKind kind, std::string const& path) {
    struct stat status;
    if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
    UniqueFd const probe{::socket(AF_UNIX, type_of(kind) | SOCK_NONBLOCK, 0)};
    BoundTo const to = unix_address(path);
    // Anything but a refusal, a full queue or another type of socket (EPROTOTYPE) say, means that somebody is there.
    return probe && ::connect(probe.get(), to.get(), to.length) != 0 && errno == ECONNREFUSED;
}

UniqueFd open_unix(SocketAddress const& address) {
    UniqueFd fd{::socket(AF_UNIX, type_of(address.kind), 0)};
    if (!fd) return fd;
    BoundTo const to = unix_address(address.path);
    // Nobody but us may connect until owner and mode are set.
    mode_t const umask = ::umask(0777);
    bool is_bound = ::bind(fd.get(), to.get(), to.length) == 0;
    if (!is_bound && errno == EADDRINUSE) {
        bool const may_replace = is_stale(address.kind, address.path) && ::unlink(address.path.c_str()) == 0;
        is_bound = may_replace && ::bind(fd.get(), to.get(), to.length) == 0;
        if (!may_replace) errno = EADDRINUSE;
    }
    int const err = errno;
    ::umask(umask);
    errno = err;
    return is_bound ? std::move(fd) : UniqueFd{};
}

/// `is_ours`: it was not there before.
UniqueFd open_fifo(std::string const& path, bool& is_ours) {
    is_ours = ::mkfifo(path.c_str(), 0600) == 0;
    if (!is_ours && errno != EEXIST) return {};
    // For reading and writing: never waits for the other end (fifo(7)). O_NONBLOCK in case it is a device; taken off.
    UniqueFd fd{::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)};
    struct stat status;
    if (!fd || ::fstat(fd.get(), &status) != 0) return {};
    if (!S_ISFIFO(status.st_mode)) {
        errno = EEXIST;
        return {};
    }
    return ::fcntl(fd.get(), F_SETFL, O_RDWR) == 0 ? std::move(fd) : UniqueFd{};
}

/// Owner, group, mode. A FIFO through its descriptor; a socket through its name, because its descriptor is not its
/// file.
bool set_access(SocketRequest const& request, int fd) {
    char const* const path = request.address.path.c_str();
    bool const is_fifo = request.address.kind == SocketKind::fifo;
    uid_t const user = request.user.value_or(static_cast<uid_t>(-1));
    gid_t const group = request.group.value_or(static_cast<gid_t>(-1));
    if (request.user || request.group) {
        if ((is_fifo ? ::fchown(fd, user, group) : ::lchown(path, user, group)) != 0) return false;
    }
    return (is_fifo ? ::fchmod(fd, request.mode) : ::chmod(path, request.mode)) == 0;
}

/// What can be set at any time. Returns whether it could; errno tells why not.
bool set_up(SocketRequest const& request, int fd) {
    if (has_path(request.address) && !set_access(request, fd)) return false;
    return !is_stream(request.address.kind) || ::listen(fd, request.backlog) == 0;
}

}  // namespace

SocketTable::~SocketTable() {
    for (Entry& entry : entries_)
        close_one(entry);
}

Result<SocketTable::Entry> SocketTable::open_one(SocketRequest const& request) {
    SocketAddress const& address = request.address;
    Entry entry;
    entry.address = address;
    switch (address.kind) {
        case SocketKind::tcp:
        case SocketKind::udp: entry.fd = open_ip(address); break;
        case SocketKind::unix_stream:
        case SocketKind::unix_datagram:
            entry.fd = open_unix(address);
            entry.is_ours = static_cast<bool>(entry.fd);
            break;
        case SocketKind::fifo: entry.fd = open_fifo(address.path, entry.is_ours); break;
    }
    if (!entry.fd) {
        int const err = errno;
        if (entry.is_ours) (void)::unlink(address.path.c_str());
        return refuse(request, err);
    }
    struct stat status{};
    if (has_path(address) && ::lstat(address.path.c_str(), &status) == 0) {
        entry.device = status.st_dev;
        entry.inode = status.st_ino;
    }
    if (!set_up(request, entry.fd.get())) {
        int const err = errno;
        close_one(entry);
        return refuse(request, err);
    }
    return entry;
}

void SocketTable::close_one(Entry& entry) {
    struct stat status;
    bool const is_ours = entry.is_ours && ::lstat(entry.address.path.c_str(), &status) == 0 &&
                         status.st_dev == entry.device && status.st_ino == entry.inode;
    if (is_ours) (void)::unlink(entry.address.path.c_str());  // a name that stays is replaced by the next one
    entry.fd = {};
}

SocketTable::Entry* SocketTable::find(SocketAddress const& address) {
    auto const at = std::ranges::find(entries_, address, &Entry::address);
    return at == entries_.end() ? nullptr : &*at;
}

Result<> SocketTable::open(std::vector<SocketRequest> const& wanted) {
    std::size_t const before = entries_.size();
    for (SocketRequest const& request : wanted) {
        Result<> done;
        if (Entry* const entry = find(request.address)) {
            if (!set_up(request, entry->fd.get())) done = refuse(request, errno);
        } else if (Result<Entry> made = open_one(request)) {
            entries_.push_back(std::move(*made));
        } else {
            done = std::unexpected(std::move(made.error()));
        }
        if (done) continue;
        std::for_each(entries_.begin() + static_cast<std::ptrdiff_t>(before), entries_.end(), close_one);
        entries_.resize(before);
        return done;
    }
    return {};
}

void SocketTable::keep_only(std::vector<SocketRequest> const& wanted) {
    std::erase_if(entries_, [&wanted](Entry& entry) {
        if (std::ranges::find(wanted, entry.address, &SocketRequest::address) != wanted.end()) return false;
        close_one(entry);
        return true;
    });
}

int SocketTable::fd(SocketAddress const& address) const {
    auto const at = std::ranges::find(entries_, address, &Entry::address);
    return at == entries_.end() ? -1 : at->fd.get();
}

SocketState SocketTable::export_state() const {
    SocketState state;
    for (Entry const& entry : entries_)
        state.entries.push_back({entry.address, entry.fd.get(), entry.is_ours, entry.device, entry.inode});
    return state;
}

void SocketTable::import_state(SocketState const& state) {
    for (SocketState::Entry const& saved : state.entries) {
        (void)::fcntl(saved.fd, F_SETFD, FD_CLOEXEC);  // fails for what is not open, which is found out at its use
        entries_.push_back({saved.address, UniqueFd{saved.fd}, saved.is_ours, saved.device, saved.inode});
    }
}

}  // namespace triton::launcher
