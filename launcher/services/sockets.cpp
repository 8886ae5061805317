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

/// An error that names the request that failed.
std::unexpected<Error> refuse(SocketRequest const& request, Error const& why) {
    std::string text =
        request.place + ": cannot listen on " + config::format_socket_address(request.address) + ": " + why.reason;
    return std::unexpected(Error{why.kind, {}, std::move(text), {}, why.code});
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

/// Returns a bound socket, or -1 and errno.
UniqueFd bind_ip(SocketKind kind, BoundTo const& to, bool both_families) {
    UniqueFd fd{::socket(to.storage.ss_family, type_of(kind), 0)};
    if (!fd) return fd;
    int const yes = 1;
    int const only = both_families ? 0 : 1;
    // A connection that the process before has left in TIME_WAIT must not make us fail. With datagrams the option would
    // silently let two sockets share a port.
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
    // There is no IPv6 in this kernel, or it is switched off for this network namespace.
    if (!fd && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
        fd = bind_ip(address.kind, ip4_address({INADDR_ANY}, address.port), false);
    return fd;
}

/// An opened socket or FIFO, and its file.
struct Opened {
    UniqueFd fd;
    FileId file;
    bool is_ours = false;  // we have made the file
};

/// Removes a socket that nobody listens on any more. Returns whether the name is free.
bool make_way(SocketKind kind, Place const& place, BoundTo const& to) {
    auto const there = place.status();
    if (!there) return true;  // if something is wrong, bind(2) says so
    if (!S_ISSOCK(there->st_mode)) return false;
    UniqueFd const probe{::socket(AF_UNIX, type_of(kind) | SOCK_NONBLOCK, 0)};
    // Any other answer than a refusal (a full queue or EPROTOTYPE for another type of socket, for example) means that
    // somebody listens.
    if (!probe || ::connect(probe.get(), to.get(), to.length) == 0 || errno != ECONNREFUSED) return false;
    return place.is(id_of(*there)) && place.remove();
}

/// Binds by the whole path, which its users see in getsockname(2). If somebody turns a directory of the path into a
/// link at the right moment, the socket is made elsewhere. It is then not under the name that we walked to, and is not
/// used.
Result<Opened> open_unix(SocketAddress const& address, mode_t mode) {
    Place const place = TRY(Place::find(address.path, Place::LastLink::keep));
    BoundTo const to = unix_address(address.path);
    if (!make_way(address.kind, place, to)) return fail(EADDRINUSE, {});
    UniqueFd fd{::socket(AF_UNIX, type_of(address.kind), 0)};
    mode_t const umask = ::umask(~mode & 0777);
    bool const is_bound = fd && ::bind(fd.get(), to.get(), to.length) == 0;
    int const err = errno;
    ::umask(umask);
    if (!is_bound) return fail(err, {});
    auto const made = place.status();
    if (!made || !S_ISSOCK(made->st_mode)) return fail(ErrorKind::refused, {}, "another file has replaced it");
    return Opened{std::move(fd), id_of(*made), true};
}

Result<Opened> open_fifo(std::string const& path) {
    Place const place = TRY(Place::find(path, Place::LastLink::keep));
    Opened opened;
    opened.is_ours = place.make_fifo();
    if (!opened.is_ours && errno != EEXIST) return fail(errno, {});
    // Opened for reading and writing, a FIFO never waits for its other end (fifo(7)). O_NONBLOCK is only for the case
    // that it is a device, and is taken off below.
    opened.fd = place.open(O_RDWR | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    if (!opened.fd || ::fstat(opened.fd.get(), &status) != 0) return fail(errno, {});
    if (!S_ISFIFO(status.st_mode)) return fail(EEXIST, {});
    opened.file = id_of(status);
    if (::fcntl(opened.fd.get(), F_SETFL, O_RDWR) != 0) return fail(errno, {});
    return opened;
}

Result<Opened> open_address(SocketRequest const& request) {
    SocketAddress const& address = request.address;
    switch (address.kind) {
        case SocketKind::tcp:
        case SocketKind::udp: {
            UniqueFd fd = open_ip(address);
            if (!fd) return fail(errno, {});
            return Opened{std::move(fd), {}, false};
        }
        case SocketKind::unix_stream:
        case SocketKind::unix_datagram: return open_unix(address, request.mode);
        case SocketKind::fifo: return open_fifo(address.path);
    }
    std::unreachable();
}

/// Sets what can be changed at any time.
Result<> set_up(SocketRequest const& request, FileId file, int fd) {
    if (has_path(request.address)) {
        Place const place = TRY(Place::find(request.address.path, Place::LastLink::keep));
        TRY(place.set_access(file, request.user, request.group, request.mode));
    }
    if (is_stream(request.address.kind) && ::listen(fd, request.backlog) != 0) return fail(errno, {});
    return {};
}

}  // namespace

SocketTable::~SocketTable() {
    for (Entry& entry : entries_)
        close_one(entry);
}

Result<SocketTable::Entry> SocketTable::open_one(SocketRequest const& request) {
    Opened opened = TRY(open_address(request));
    Entry entry{request.address, std::move(opened.fd), opened.is_ours, opened.file};
    Result<> const done = set_up(request, entry.file, entry.fd.get());
    if (done) return entry;
    close_one(entry);
    return std::unexpected(done.error());
}

/// Of a socket that was opened before: its directory may be on a file system that has begun to hang since.
Result<> SocketTable::set_up_again(SocketRequest const& request, Entry const& entry) const {
    std::string const& path = request.address.path;
    auto const look = [&path] { (void)Place::find(path, Place::LastLink::keep); };
    if (has_path(request.address) && paths_.may_touch && !paths_.may_touch(path, look))
        return fail(ErrorKind::unavailable, {}, "the file system of its path does not answer");
    return set_up(request, entry.file, entry.fd.get());
}

void SocketTable::close_one(Entry& entry) {
    auto const remove = [&entry] {
        if (auto const place = Place::find(entry.address.path, Place::LastLink::keep)) place->remove_if(entry.file);
    };
    if (entry.is_ours) paths_.change ? paths_.change(entry.address.path, remove) : remove();
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
            done = set_up_again(request, *entry);
        } else if (Result<Entry> made = open_one(request)) {
            entries_.push_back(std::move(*made));
        } else {
            done = std::unexpected(std::move(made.error()));
        }
        if (done) continue;
        std::for_each(entries_.begin() + static_cast<std::ptrdiff_t>(before), entries_.end(),
                      [this](Entry& entry) { close_one(entry); });
        entries_.resize(before);
        return refuse(request, done.error());
    }
    return {};
}

void SocketTable::go_back_to(std::vector<SocketRequest> const& requests) {
    keep_only(requests);
    for (SocketRequest const& request : requests)
        if (Entry* const entry = find(request.address)) (void)set_up_again(request, *entry);
}

void SocketTable::keep_only(std::vector<SocketRequest> const& wanted) {
    std::erase_if(entries_, [this, &wanted](Entry& entry) {
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
        state.entries.push_back({entry.address, entry.fd.get(), entry.is_ours, entry.file.device, entry.file.inode});
    return state;
}

void SocketTable::import_state(SocketState const& state) {
    for (SocketState::Entry const& saved : state.entries) {
        (void)::fcntl(saved.fd, F_SETFD, FD_CLOEXEC);  // fails if it is not open, which is noticed at its use
        entries_.push_back({saved.address, UniqueFd{saved.fd}, saved.is_ours, {saved.device, saved.inode}});
    }
}

}  // namespace triton::launcher
