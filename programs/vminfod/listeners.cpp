#include "programs/vminfod/listeners.h"

#include <cerrno>
#include <cstring>

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/systemd/daemon.h"
#include "lib/files/copy_file.h"
#include "lib/net/listen_address.h"

namespace triton::program {

namespace {

constexpr int backlog = 1024;  // reduced by the kernel to net.core.somaxconn
constexpr char readers_group[] = "triton-info";

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

Result<UniqueFd> open_unix_socket(std::string const& path) {
    std::string const directory = path.substr(0, path.rfind('/'));
    if (!directory.empty()) (void)TRY(files::make_directories(directory));
    sockaddr_un const address = TRY(address_of(path));
    TRY(remove_stale(path, address));
    UniqueFd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    mode_t const before = ::umask(0117);
    bool const is_bound =
        socket && ::bind(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0;
    int const err = errno;
    ::umask(before);
    if (!is_bound) return fail(err, "listen on " + path);
    // set before anybody can connect; without that group the socket stays root's
    if (group const* const readers = ::getgrnam(readers_group))
        (void)::lchown(path.c_str(), static_cast<uid_t>(-1), readers->gr_gid);
    if (::listen(socket.get(), backlog) != 0) return fail(errno, "listen on " + path);
    return socket;
}

/// The address of a TCP socket without its port; empty when it is not on the loopback interface.
std::string loopback_host(int socket) {
    std::string const address = net::local_address(socket);
    return parse_loopback_address(address) ? address.substr(0, address.rfind(':')) : "";
}

}  // namespace

Result<Listeners> open_listeners(DaemonOptions const& options, InfoConfiguration const& configuration) {
    Listeners listeners;
    bool has_unix = false;
    bool has_tcp = false;
    for (systemd::HandedSocket& handed : TRY(systemd::take_sockets())) {
        (handed.is_unix ? has_unix : has_tcp) = true;
        if (!handed.is_unix) listeners.tcp_host = loopback_host(handed.fd.get());
        listeners.open.push_back({std::move(handed.fd), handed.is_unix ? Entrance::unix_socket : Entrance::tcp,
                                  handed.is_unix ? "a Unix socket of systemd" : "a TCP socket of systemd"});
    }
    if (!has_unix) {
        std::string const path = options.socket.empty() ? options.root + "/run/triton/vminfod.socket" : options.socket;
        listeners.open.push_back({TRY(open_unix_socket(path)), Entrance::unix_socket, path});
    }
    std::string const address = !options.listen.empty() ? options.listen : configuration.listen.value_or("none");
    if (has_tcp || address == "none") return listeners;
    auto const parsed = TRY(parse_loopback_address(address));
    auto socket = net::open_listening_socket(parsed);
    if (!socket && !options.listen.empty()) return std::unexpected(std::move(socket).error());
    if (!socket) {
        listeners.missing = socket.error().text();
        return listeners;
    }
    listeners.tcp_host = loopback_host(socket->get());
    std::string shown = net::local_address(socket->get());
    listeners.open.push_back({*std::move(socket), Entrance::tcp, std::move(shown)});
    return listeners;
}

}  // namespace triton::program
