#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/log/log.h"
#include "lib/net/loop.h"
#include "programs/vminfod/daemon.h"
#include "programs/vminfod/status.h"

namespace triton::info {
class Agenda;
class Cache;
class Feed;
}  // namespace triton::info

namespace triton::program {

struct ServiceSettings {
    std::string version;
    bool has_open_secrets = false;      ///< TCP shows all, too
    std::string served_host = {};       ///< the address of the TCP port, "127.0.0.2"; empty: as if it were 127.0.0.1
    std::function<std::int64_t()> now;  ///< microseconds since 1970
    std::size_t streams = 1200;         ///< listeners at once, for each entrance
    Duration heartbeat = std::chrono::seconds(15);
    Duration status_age = milliseconds(100);             ///< /status and /metrics are not made more often
    Duration fresh_limit = std::chrono::seconds(30);     ///< for a fresh look
    Duration snapshot_limit = std::chrono::seconds(30);  ///< for a listener to take something of a snapshot
    Duration snapshot_turn = std::chrono::seconds(5);    ///< for all of it, while others wait for its place
};

/// The daemon's HTTP interface, documented in docs/host/vminfod-api.md. It changes nothing: GET and HEAD only.
///
/// Each entrance has its own server and limits, so that a flood at the TCP port takes nothing from the Unix
/// socket. All answers are made in the loop's thread, in short steps; documents go out as they lie in the cache.
class Service {
public:
    /// All borrowed.
    struct Surroundings {
        net::Loop& loop;
        info::Cache const& cache;
        info::Feed const& feed;
        info::Agenda const& agenda;
        Daemon& daemon;
        log::Log& log;
    };

    /// Errors: those of epoll_create1(2).
    static Result<std::unique_ptr<Service>> create(ServiceSettings settings, Surroundings around);
    ~Service();
    Service(Service const&) = delete;
    Service& operator=(Service const&) = delete;

    /// Accepts from a listening socket from now on. Errors: as net::HttpServer::listen().
    Result<> listen(UniqueFd socket, Entrance entrance);

    /// To be called after events were added to the feed; listeners are woken in a later round of the loop, once for all
    /// of a round.
    void feed_has_grown();

    /// Accepts no more, ends the listeners, and calls `stopped` when the answers that are under way are written.
    void stop(std::function<void()> stopped);

private:
    class Impl;
    explicit Service(std::shared_ptr<Impl> impl);
    std::shared_ptr<Impl> impl_;
};

}  // namespace triton::program
