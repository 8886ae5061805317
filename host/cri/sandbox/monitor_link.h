#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/cri/monitor/message.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/net/loop.h"

namespace triton::cri {

/// Connects to the monitor of a pod; any thread may. Errors: those of connect(2): nobody listens.
Result<UniqueFd> connect_to_monitor(std::string const& run);
/// The pid of the monitor at the other end.
Result<int> monitor_pid(int socket);

/// What a monitor says of a container.
struct MonitoredContainer {
    std::string id;
    std::int64_t phase = 0;  ///< see monitor::ContainerNumber
    int pid = 0;
    int exit_code = 0;
    bool is_out_of_memory = false;
    std::int64_t exited_at = 0;
};
/// Asks for all of them, on a fresh connection, and blocks until `limit`. From then on the connection tells of exits.
/// Errors: `timeout`; `unavailable`.
Result<std::vector<MonitoredContainer>> ask_for_table(int socket, std::chrono::milliseconds limit);

/// A connection to the monitor of a pod, for the loop.
class MonitorLink : public std::enable_shared_from_this<MonitorLink> {
public:
    using Answer = std::function<void(Result<std::int64_t> const&)>;
    struct Events {
        std::function<void(MonitoredContainer const&)> exited;
        std::function<void()> lost;  ///< called once; no more answers come
    };
    MonitorLink(net::Loop& loop, UniqueFd socket, Events events);

    void start();
    /// Asks something; `done` is called once, later, in the loop. Returns the sequence of the request.
    std::uint64_t ask(monitor::Message message, Answer done, std::vector<int> const& descriptors = {});
    void close();
    /// Of the monitor.
    [[nodiscard]] int pid() const { return pid_; }

private:
    bool receive_all();
    void lose();

    net::Loop& loop_;
    net::Descriptor socket_;
    Events events_;
    int pid_ = 0;
    std::uint64_t next_ = 1;
    std::map<std::uint64_t, Answer> waiting_;
    bool is_lost_ = false;
};

}  // namespace triton::cri
