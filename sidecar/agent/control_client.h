#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>  // Boost 1.74's awaitable.hpp needs std::exchange and does not say so
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "config/json_reader.h"

namespace triton::sidecar {

/// Calls the launcher by Varlink: JSON messages ended by NUL on a Unix socket. Calls go out at once and are answered in
/// order, so that one slow answer delays those behind it, but nothing else here.
///
/// One I/O thread; every function is called in it.
/// Source: https://varlink.org, "Protocol".
class ControlClient {
public:
    /// With a descriptor (connected, taken over) or a path, or both; with neither, each call fails.
    /// `lost`: called when the connection has ended and there is no path to make another by.
    ControlClient(boost::asio::io_context& io, std::string path, int connected_fd, std::function<void()> lost);
    ~ControlClient();
    ControlClient(ControlClient const&) = delete;
    ControlClient& operator=(ControlClient const&) = delete;

    [[nodiscard]] bool has_launcher() const { return is_configured_; }

    /// The `parameters` of each reply (objects): one, or with `more` as many as come.
    /// `parameters`: a JSON object. Errors: ENOTCONN when the launcher cannot be reached; ETIMEDOUT; ENOSYS when it has
    /// no such method; else code 0 with the error's name and its parameters.
    boost::asio::awaitable<Result<std::vector<config::Node>>> call(std::string method, std::string parameters,
                                                                   bool more, Duration limit);

private:
    using Socket = boost::asio::local::stream_protocol::socket;
    struct Call;
    struct Connection;
    struct CloseGuard;

    Result<std::shared_ptr<Connection>> connection();
    boost::asio::awaitable<void> read_replies(std::shared_ptr<Connection> connection);
    static boost::asio::awaitable<void> read_until_end(std::shared_ptr<Connection> connection);
    static boost::asio::awaitable<void> write_calls(std::shared_ptr<Connection> connection);

    boost::asio::io_context& io_;
    std::string path_;
    bool is_configured_;
    std::function<void()> lost_;
    std::shared_ptr<Connection> connection_;
};

}  // namespace triton::sidecar
