#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "host/info/agenda.h"
#include "host/info/cache.h"
#include "host/info/feed.h"
#include "host/machine/machines.h"
#include "host/observe/facts.h"
#include "lib/base/result.h"
#include "lib/base/uuid.h"
#include "lib/log/log.h"
#include "lib/net/loop.h"

namespace triton::observe {

/// Keeps the cache equal to the host. It watches files, systemd, the pool and the launchers of machines; the agenda
/// decides what to read again; its own threads read that and give the results to the cache.
///
/// It begins to watch before it loads, so that no change in between is missed. What it cannot watch it polls. When
/// notifications were lost it reads everything again.
class Observer {
public:
    struct Settings {
        std::string root = {};                            ///< comes before all paths of the host
        std::function<std::int64_t()> now;                ///< microseconds since 1970
        Duration poll_every = std::chrono::seconds(5);    ///< for files that cannot be watched
        Duration stuck_after = std::chrono::seconds(30);  ///< for one look that does not end
        std::string zpool_program = "zpool";
    };
    /// All borrowed. `has_grown` is called after events were added to the feed.
    struct Around {
        net::Loop& loop;
        info::Agenda& agenda;
        info::Cache& cache;
        info::Feed& feed;
        log::Log& log;
        std::function<void()> has_grown;
    };

    /// The pool need not exist yet, and is not made.
    static Result<std::unique_ptr<Observer>> create(Settings settings, Around around);
    ~Observer();
    Observer(Observer const&) = delete;
    Observer& operator=(Observer const&) = delete;

    /// Begins to watch and to load. `loaded` is called once, when all machines are in the cache.
    void start(std::function<void()> loaded);

    /// Ends child processes without waiting for anything, just before this process ends. Threads may hang.
    void abandon();

    using Text = std::shared_ptr<std::string const>;
    using GotText = std::function<void(Result<Text>)>;
    /// Calls `done` when the results of a reload that begins after this call are in the cache: of one machine, or
    /// (nullopt) of all. Errors: unavailable while a look hangs, since then nothing else is read.
    void look_again(std::optional<Uuid> const& machine, std::function<void(Result<>)> done);
    /// The present use of each machine, in the form of `vmadm stats -j`; made at most once a second. The use of disks
    /// is that of the latest measurement, which a call begins at most once a minute and does not wait for.
    void usage(GotText got);
    /// The lines of the history, the oldest first.
    void history(std::optional<Uuid> const& machine, GotText got);
    [[nodiscard]] std::string raw(std::string const& machine) const;
    [[nodiscard]] Facts facts() const;

private:
    class Impl;
    explicit Observer(std::shared_ptr<Impl> impl);
    std::shared_ptr<Impl> impl_;
};

}  // namespace triton::observe
