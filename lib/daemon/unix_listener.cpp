#include "lib/daemon/unix_listener.h"

#include <cerrno>
#include <cstring>

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/files/copy_file.h"

namespace triton::daemon {

namespace {

constexpr int backlog = 1024;  // reduced by the kernel to net.core.somaxconn

Result<sockaddr_un> address_of(std::string const& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return fail(ENAMETOOLONG, "listen on " + path);
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

/// Removes a socket that nobody listens on any more.
Result<> remove_stale(std::string const& path, sockaddr_un const& address) {
    UniqueFd const probe{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!probe) return fail(errno, "listen on " + path);
    bool const is_alive =
        ::connect(probe.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0 || errno == EAGAIN;
    if (is_alive) return fail(ErrorKind::exists, "listen on " + path, "another process does");
    if (errno == ECONNREFUSED) (void)::unlink(path.c_str());  // if that matters, bind says so
    return {};
}

}  // namespace

Result<UniqueFd> listen_on_unix_socket(std::string const& path, std::string const& group) {
    std::string const directory = path.substr(0, path.rfind('/'));
    if (!directory.empty()) (void)TRY(files::make_directories(directory));
    sockaddr_un const address = TRY(address_of(path));
    TRY(remove_stale(path, address));
    UniqueFd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    mode_t const before = ::umask(group.empty() ? 0177 : 0117);
    bool const is_bound =
        socket && ::bind(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0;
    int const err = errno;
    ::umask(before);
    if (!is_bound) return fail(err, "listen on " + path);
    // set before anybody can connect
    if (::group const* const found = group.empty() ? nullptr : ::getgrnam(group.c_str()))
        (void)::lchown(path.c_str(), static_cast<uid_t>(-1), found->gr_gid);
    if (::listen(socket.get(), backlog) != 0) return fail(errno, "listen on " + path);
    return socket;
}

}  // namespace triton::daemon
