#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>
#include <sys/un.h>

#include "lib/base/place.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::varlink {

/// A listening socket on its way through an execve: the new program inherits `fd`, the rest says which file was made
/// for it.
struct HandedSocket {
    int fd = -1;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;

    bool operator==(HandedSocket const&) const = default;
};

/// The address of a Unix socket. Errors: ENAMETOOLONG; EINVAL when empty. Source: unix(7), "Pathname sockets".
Result<sockaddr_un> socket_address(std::string const& path);

/// Who is at the other end of a connection. Source: unix(7), SO_PEERCRED; ids as our namespaces show them.
struct Peer {
    uid_t uid = 0;
    gid_t gid = 0;
    pid_t pid = 0;  ///< 0: outside our PID namespace
};

/// nullopt when the descriptor is not a Unix socket.
std::optional<Peer> peer_of(int fd);
bool is_unix_stream(int fd);
/// Whether the peer was in a group when it connected. Source: Linux 4.13, SO_PEERGROUPS.
bool is_in_group(int fd, Peer const& peer, gid_t group);

/// Listens on a socket of its own file, and removes the file at the end if it is still that one.
class Listener {
public:
    /// Does not listen.
    Listener() = default;
    /// Makes the last part of the directory (0755) when it is missing, and the socket with this mode and group before
    /// anybody can connect. What a dead program has left is replaced.
    /// Errors: those of mkdir(2), bind(2), chown(2), chmod(2), listen(2); EADDRINUSE when somebody listens there;
    /// EEXIST when the path is not a socket; EINVAL, ENAMETOOLONG.
    static Result<Listener> create(std::string path, mode_t mode, std::optional<gid_t> group);
    /// Takes over a socket of the program before us or of the service manager, which then no longer blocks. Errors:
    /// ENOTSOCK when the descriptor is not a socket; `invalid` when it is not listening; those of fcntl(2).
    static Result<Listener> adopt(std::string path, HandedSocket const& socket);

    Listener(Listener&&) = default;
    Listener& operator=(Listener&&) = delete;
    ~Listener();

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] HandedSocket socket() const { return {fd_.get(), file_.device, file_.inode}; }

private:
    Listener(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

    std::string path_;
    UniqueFd fd_;
    FileId file_;
};

}  // namespace triton::varlink
