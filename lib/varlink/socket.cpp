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
    if (directory.empty() || directory == path) return {};  // the root, or where we stand
    // Not bound by our umask: that is for the files of our processes.
    if (::mkdir(directory.c_str(), 0755) == 0) {
        (void)::chmod(directory.c_str(), 0755);  // ours, just made; with less, others see less
        return {};
    }
    int const err = errno;
    struct stat status;
    if (err == EEXIST || (::stat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode))) return {};
    return fail(err, "make the directory " + directory);
}

/// Removes what a dead program has left. Errors: as of Listener::create().
Result<> make_way(std::string const& path, sockaddr_un const& address) {
    struct stat status;
    if (::lstat(path.c_str(), &status) != 0) return {};  // bind(2) says what is wrong, if something is
    if (!S_ISSOCK(status.st_mode)) return fail(ErrorKind::exists, "listen on " + path, "it exists and is not a socket");
    UniqueFd const probe = TRY(open_socket());
    int const result = ::connect(probe.get(), as_address(address), sizeof address);
    int const err = errno;
    // EAGAIN: there is a listener, and a crowd before it.
    if (result == 0 || err == EAGAIN) return fail(ErrorKind::busy, "listen on " + path, "another launcher does");
    if (err != ECONNREFUSED && err != ENOENT) return fail(err, "find out who listens on " + path);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        int const unlink_error = errno;
        return fail(unlink_error, "replace " + path);
    }
    return {};
}

}  // namespace

Result<sockaddr_un> socket_address(std::string const& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty()) return fail(EINVAL, "use an empty path as a socket");
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
    TRY(make_way(path, address));
    UniqueFd fd = TRY(open_socket());
    if (::bind(fd.get(), as_address(address), sizeof address) != 0) {
        int const err = errno;
        return fail(err, "listen on " + path);
    }
    // From here on the file is ours and goes when this fails. Nobody can connect before listen(2), so that the mode
    // need not be right before it, whatever the umask is.
    Listener listener{path, std::move(fd)};
    struct stat status;
    if (::lstat(path.c_str(), &status) == 0) {
        listener.device_ = status.st_dev;
        listener.inode_ = status.st_ino;
    }
    bool const is_set =
        (!group || ::lchown(path.c_str(), static_cast<uid_t>(-1), *group) == 0) && ::chmod(path.c_str(), mode) == 0;
    int const set_error = errno;
    if (!is_set) return fail(set_error, "set the group and mode of " + path);
    if (::listen(listener.fd(), backlog) != 0) {
        int const err = errno;
        return fail(err, "listen on " + path);
    }
    return listener;
}

Result<Listener> Listener::adopt(std::string path, HandedSocket const& socket) {
    int is_listening = 0;
    socklen_t size = sizeof is_listening;
    if (::getsockopt(socket.fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) != 0) {
        int const err = errno;
        return fail(err, "take over the control socket " + path);
    }
    if (is_listening == 0) return fail(EINVAL, "take over the control socket " + path);
    (void)::fcntl(socket.fd, F_SETFD, FD_CLOEXEC);  // it was open over an execve; cannot fail for an open descriptor
    Listener listener{std::move(path), UniqueFd{socket.fd}};
    listener.device_ = socket.device;
    listener.inode_ = socket.inode;
    return listener;
}

Listener::~Listener() {
    struct stat status;
    bool const is_ours = fd_ && inode_ != 0 && ::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ &&
                         status.st_ino == inode_;
    if (is_ours) (void)::unlink(path_.c_str());  // whoever comes next replaces it otherwise
}

}  // namespace triton::varlink
