#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::cri::monitor {

/// Where the runtime's program delivers the master of a terminal that it has made (--console-socket): a listening Unix
/// socket, whose name is removed with it.
class ConsoleSocket {
public:
    /// In a directory that only root can enter. Errors: those of socket(2) and bind(2).
    static Result<ConsoleSocket> create(std::string const& directory);
    ConsoleSocket() = default;
    ConsoleSocket(ConsoleSocket&& other) noexcept;
    ConsoleSocket& operator=(ConsoleSocket other) noexcept;
    ~ConsoleSocket();

    [[nodiscard]] std::string const& path() const { return path_; }
    explicit operator bool() const { return static_cast<bool>(socket_); }
    /// What was delivered, once the program has ended; it does not block. Errors: `unavailable`: nothing was.
    [[nodiscard]] Result<UniqueFd> take() const;

private:
    ConsoleSocket(UniqueFd socket, std::string path) : socket_(std::move(socket)), path_(std::move(path)) {}

    UniqueFd socket_;
    std::string path_;
};

}  // namespace triton::cri::monitor
