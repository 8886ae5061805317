#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace triton::observe {

/// What the observation of the host reports about itself, for /status and /metrics. Times are microseconds since 1970.
struct Facts {
    /// A source of notifications: "files", "systemd", "machined", "zfs", "launchers".
    struct Source {
        std::string name;
        bool is_working = false;
        std::string note;                 ///< why it does not work, or only partly: "inotify limit: polls each 5 s"
        std::uint64_t notifications = 0;  ///< so far
        std::uint64_t losses = 0;         ///< how often it has reported that it has lost some
    };
    struct Refresh {
        std::int64_t at = 0;
        std::int64_t took = 0;  ///< microseconds
        std::uint64_t machines = 0;
        std::uint64_t changes = 0;  ///< those found; missed are those that nothing reports soon after
        std::string why;
    };
    struct Problem {
        std::int64_t at = 0;
        std::string text;
    };

    std::string state = "booting";  ///< "booting", "running", "refreshing", "stuck", "stopping"
    std::string doing;              ///< one line for people: "working", "reading all machines"
    std::int64_t started_at = 0;
    std::int64_t uptime = 0;                   ///< microseconds, also where the wall clock has stepped
    std::optional<std::int64_t> refreshed_at;  ///< when the latest full refresh was complete
    std::int64_t since_refresh = 0;            ///< microseconds since then, likewise
    std::uint64_t refreshes = 0;
    std::uint64_t missed = 0;       ///< events that only a refresh has found
    std::uint64_t reloads = 0;      ///< each of one machine
    std::uint64_t written_off = 0;  ///< threads that hang at a launcher
    bool is_stuck = false;          ///< a look hangs, for example at a pool's disk; nothing else is read
    std::string
        not_listening;  ///< why the port that the configuration names is not served; empty: it is, or none is named
    std::vector<Source> sources;
    std::vector<Refresh> refresh_log;     ///< the latest five
    std::vector<Problem> refresh_errors;  ///< the latest five
};

}  // namespace triton::observe
