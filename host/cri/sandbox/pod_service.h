#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "host/cri/wire/router.h"
#include "host/image/image_service.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/net/listen_address.h"
#include "lib/net/loop.h"

namespace triton::cri {

class NodeCalls;
class Pods;
class StraySearch;
class StreamCalls;

struct PodSettings {
    std::string root;  ///< before all paths of the host
    image::Settings images = {};
    std::string runtime = "crun";  ///< the program that starts containers: a path, or a name that PATH has
    bool is_systemd = false;       ///< who makes control groups
    std::string cgroups = "/sys/fs/cgroup";
    std::string monitor = {};                                      ///< path of triton-pod
    std::string network_directory = {};                            ///< where networks are configured
    std::string plugin_directories = "/opt/cni/bin:/usr/lib/cni";  ///< separated by colons
    milliseconds plugin_limit{60'000};                             ///< for a call of a plugin
    net::ListenAddress stream_address{"127.0.0.1", 0};             ///< of the server of streams
    milliseconds stray_pause = std::chrono::hours(1);              ///< between two searches for what nothing knows
};

/// Serves the calls about pods and containers.
class PodService {
public:
    struct Surroundings {
        net::Loop& loop;
        /// Calls it later in the loop's thread; from any thread.
        std::function<void(std::function<void()>)> post;
        /// A sentence for the log; from the loop's thread.
        std::function<void(std::string const& warning)> warn;
    };
    PodService(PodSettings const& settings, Surroundings const& around);
    ~PodService();

    void add_to(Router& router);
    /// Finds what the daemon before has left, and begins to search for more now and then; to be called once, before
    /// anything is served. Blocks.
    void recover();
    /// Starts the server of streams; to be called once, in the loop's thread.
    void start_streams();
    /// Ends the answers that have no end of their own.
    void end_streams();
    /// What pods cannot run without; nullopt: nothing is missing. Blocks.
    [[nodiscard]] std::optional<Error> missing() const;

private:
    std::unique_ptr<Pods> pods_;
    std::unique_ptr<StreamCalls> streams_;
    std::unique_ptr<NodeCalls> node_;
    std::unique_ptr<StraySearch> strays_;
};

}  // namespace triton::cri
