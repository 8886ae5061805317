#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/http/grpc/client_session.h"

namespace triton::http::grpc {

/// What a status that is not `ok` means to a caller. `attempted`: what was called.
Error error_of(Status const& status, std::string attempted = {});

/// A connection of a command to a server of gRPC on a Unix socket. It blocks.
class Client {
public:
    /// Errors: `unavailable`: nobody listens there, or the server accepts nobody for `limit`; those of connect(2).
    static Result<Client> connect(std::string const& path, Duration limit);

    /// A call whose answer is one message. The server learns the limit, too.
    std::expected<std::string, Status> call(std::string const& path, std::string message, Duration limit);
    /// Several calls of one method at the same time; the answers are in the order of the messages.
    std::vector<std::expected<std::string, Status>> call_each(std::string const& path,
                                                              std::vector<std::string> messages, Duration limit);

    struct Following {
        std::optional<TimePoint> deadline = {};
        int reader = -1;  ///< of our output: the answer is given up when it hangs up; -1: nobody
    };
    /// A call whose answer is any number of messages. `take` returns whether it wants more; when it does not, or the
    /// reader has gone, the status is `cancelled`.
    Status follow(std::string const& path, std::string message, Following const& following,
                  std::function<bool(std::string const&)> const& take);

private:
    explicit Client(UniqueFd socket) : socket_(std::move(socket)), session_(std::make_unique<ClientSession>()) {}

    std::expected<void, Status> exchange(std::optional<TimePoint> deadline, int reader);
    std::expected<void, Status> send(std::string const& bytes, std::optional<TimePoint> deadline);

    UniqueFd socket_;
    std::unique_ptr<ClientSession> session_;
};

}  // namespace triton::http::grpc
