#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/uuid.h"

namespace triton::program {

/// What only the daemon itself knows, for /status and /metrics. Times are microseconds since 1970.
struct DaemonFacts {
    /// Where notifications come from, or should: "files", "systemd", "machined", "zfs", "launchers".
    struct Source {
        std::string name;
        bool is_working = false;
        std::string note;                 ///< why it is not working, or works worse: "inotify limit: polls each 5 s"
        std::uint64_t notifications = 0;  ///< so far
        std::uint64_t losses = 0;         ///< how often it has told that it has lost some
    };
    struct Refresh {
        std::int64_t at = 0;
        std::int64_t took = 0;  ///< microseconds
        std::uint64_t machines = 0;
        std::uint64_t changes = 0;  ///< that nothing had told before: missed events
        std::string why;
    };
    struct Problem {
        std::int64_t at = 0;
        std::string text;
    };

    std::string state = "booting";  ///< "booting", "running", "refreshing", "stopping"
    std::string doing;              ///< one line for people: "working", "reading all machines"
    std::int64_t started_at = 0;
    std::optional<std::int64_t> refreshed_at;  ///< when the latest full refresh was complete
    std::uint64_t refreshes = 0;
    std::uint64_t missed = 0;       ///< events that only a refresh has found
    std::uint64_t reloads = 0;      ///< of one machine each
    std::uint64_t written_off = 0;  ///< threads that hang at a launcher
    std::vector<Source> sources;
    std::vector<Refresh> refresh_log;     ///< the latest five
    std::vector<Problem> refresh_errors;  ///< the latest five
};

/// What the HTTP service needs of the daemon around it. Each function is called in the thread of the loop and returns
/// at once; each callback comes once, in that thread, from outside of the function that took it.
class Daemon {
public:
    using Text = std::shared_ptr<std::string const>;
    using Done = std::function<void(Result<>)>;
    using GotText = std::function<void(Result<Text>)>;

    Daemon() = default;
    Daemon(Daemon const&) = delete;
    Daemon& operator=(Daemon const&) = delete;
    virtual ~Daemon() = default;

    /// Calls when what a reload has found is in the cache that has begun after this call: of one machine, or (nullopt)
    /// of all. A machine that does not exist is not an error.
    virtual void look_again(std::optional<Uuid> const& machine, Done done) = 0;
    /// Resources that each machine uses now, as `vmadm stats -j` writes them, with a newline at the end. Made at most
    /// once a second, however often it is asked for.
    virtual void usage(GotText got) = 0;
    /// The lines of the history, each with its newline, the oldest first.
    virtual void history(std::optional<Uuid> const& machine, GotText got) = 0;
    /// What was read of one machine, part by part, with when, why, its generation and the error: a line of JSON without
    /// a newline. It may hold secrets: the service shows it on the Unix socket only.
    [[nodiscard]] virtual std::string raw(std::string const& machine) const = 0;
    [[nodiscard]] virtual DaemonFacts facts() const = 0;
};

}  // namespace triton::program
