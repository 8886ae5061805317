#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>
#include <sys/un.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// A listening control socket on its way through an upgrade: the new launcher inherits `fd`, the rest says which file
/// was made for it.
struct ControlSocket {
    int fd = -1;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;

    bool operator==(ControlSocket const&) const = default;
};

/// The address of a Unix socket. Errors: ENAMETOOLONG; EINVAL when empty. Source: unix(7), "Pathname sockets".
Result<sockaddr_un> unix_address(std::string const& path);

/// Listens on a socket of its own file, and removes the file at the end if it is still that one.
class ControlListener {
public:
    /// Listens to nobody.
    ControlListener() = default;
    /// Makes the last part of the directory (0755) when it is missing, and the socket with this mode and group before
    /// anybody can connect. What a dead launcher has left is replaced.
    /// Errors: those of mkdir(2), bind(2), chown(2), chmod(2), listen(2); EADDRINUSE when somebody listens there;
    /// EEXIST when the path is no socket; EINVAL, ENAMETOOLONG.
    static Result<ControlListener> create(std::string path, mode_t mode, std::optional<gid_t> group);
    /// That of the launcher before us. Errors: ENOTSOCK when the descriptor is none.
    static Result<ControlListener> adopt(std::string path, ControlSocket const& socket);

    ControlListener(ControlListener&&) = default;
    ControlListener& operator=(ControlListener&&) = delete;
    ~ControlListener();

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] ControlSocket socket() const { return {fd_.get(), device_, inode_}; }

private:
    ControlListener(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

    std::string path_;
    UniqueFd fd_;
    std::uint64_t device_ = 0;
    std::uint64_t inode_ = 0;
};

}  // namespace triton::launcher
