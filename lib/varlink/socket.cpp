#include "lib/varlink/socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace triton::varlink {

namespace {

constexpr int backlog = 64;

Result<UniqueFd> open_socket() {
    UniqueFd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    int const err = errno;
    if (!fd) return fail(err, "make a socket");
    return fd;
}

sockaddr const* as_address(sockaddr_un const& address) { return reinterpret_cast<sockaddr const*>(&address); }

Result<> make_directory_of(std::string const& path) {
    std::string const directory = path.substr(0, path.rfind('/'));
    if (directory.empty() || directory == path) return {};  // the root, or our working directory
    // Does not use our umask, which is for the files of our processes.
    mode_t const umask = ::umask(0);
    bool const is_made = ::mkdir(directory.c_str(), 0755) == 0;
    int const err = errno;
    ::umask(umask);
    if (is_made) return {};
    struct stat status;
    if (err == EEXIST || (::stat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode))) return {};
    return fail(err, "make the directory " + directory);
}

/// Removes the socket of a program that has died. Errors: as of Listener::create().
Result<> make_way(Place const& place, std::string const& path, sockaddr_un const& address) {
    auto const there = place.status();
    if (!there) return {};  // if something is wrong, bind(2) says so
    if (!S_ISSOCK(there->st_mode)) return fail(ErrorKind::exists, "listen on " + path, "it exists and is not a socket");
    UniqueFd const probe = TRY(open_socket());
    int const result = ::connect(probe.get(), as_address(address), sizeof address);
    int const err = errno;
    // EAGAIN: there is a listener with a full queue.
    if (result == 0 || err == EAGAIN) return fail(ErrorKind::busy, "listen on " + path, "another launcher does");
    if (err != ECONNREFUSED && err != ENOENT) return fail(err, "find out what listens on " + path);
    if (!place.remove() && errno != ENOENT) return fail(errno, "replace " + path);
    return {};
}

}  // namespace

Result<sockaddr_un> socket_address(std::string const& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty()) return fail("the path of the socket is empty");
    if (path.size() >= sizeof address.sun_path) return fail(ENAMETOOLONG, "use " + path + " as a socket");
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

std::optional<Peer> peer_of(int fd) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
    return Peer{credentials.uid, credentials.gid, credentials.pid};
}

bool is_unix_stream(int fd) {
    int domain = 0;
    int type = 0;
    socklen_t size = sizeof domain;
    return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
           ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

bool is_in_group(int fd, Peer const& peer, gid_t group) {
    if (peer.gid == group) return true;
    std::vector<gid_t> groups(256);
    auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    int result = ::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size);
    if (result != 0 && errno == ERANGE) {  // size says how many there are
        groups.resize(size / sizeof(gid_t));
        result = ::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size);
    }
    if (result != 0) return false;
    groups.resize(size / sizeof(gid_t));
    return std::ranges::find(groups, group) != groups.end();
}

Result<Listener> Listener::create(std::string path, mode_t mode, std::optional<gid_t> group) {
    sockaddr_un const address = TRY(socket_address(path));
    TRY(make_directory_of(path));
    auto const place = Place::find(path, Place::LastLink::keep);
    if (!place) return about("listen on " + path, place.error());
    TRY(make_way(*place, path, address));
    UniqueFd fd = TRY(open_socket());
    mode_t const umask = ::umask(~mode & 0777);
    bool const is_bound = ::bind(fd.get(), as_address(address), sizeof address) == 0;
    int const err = errno;
    ::umask(umask);
    if (!is_bound) return fail(err, "listen on " + path);
    // From here on the file is ours, and is removed when something fails. Nobody can connect before listen(2), so the
    // group may be wrong until then.
    Listener listener{path, std::move(fd)};
    if (auto const made = place->status(); made && S_ISSOCK(made->st_mode)) listener.file_ = id_of(*made);
    Result<> const is_set = place->set_access(listener.file_, std::nullopt, group, mode);
    if (!is_set) return about("set the group and mode of " + path, is_set.error());
    if (::listen(listener.fd(), backlog) != 0) return fail(errno, "listen on " + path);
    return listener;
}

Result<Listener> Listener::adopt(std::string path, HandedSocket const& socket) {
    int is_listening = 0;
    socklen_t size = sizeof is_listening;
    if (::getsockopt(socket.fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) != 0) {
        int const err = errno;
        return fail(err, "take over the control socket " + path);
    }
    if (is_listening == 0)
        return fail(ErrorKind::invalid, "take over the control socket " + path, "it is not listening");
    int const flags = ::fcntl(socket.fd, F_GETFL);
    if (flags < 0 || ::fcntl(socket.fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return fail(errno, "take over the control socket " + path);
    (void)::fcntl(socket.fd, F_SETFD, FD_CLOEXEC);  // it was open over an execve; cannot fail for an open descriptor
    Listener listener{std::move(path), UniqueFd{socket.fd}};
    listener.file_ = {socket.device, socket.inode};
    return listener;
}

Listener::~Listener() {
    if (!fd_ || file_.inode == 0) return;
    if (auto const place = Place::find(path_, Place::LastLink::keep)) place->remove_if(file_);
}

}  // namespace triton::varlink
