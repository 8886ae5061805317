#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// What probes and health checks print while they run: the end of it is kept, so that somebody can see why one has
/// failed. Each has a pipe of its own. It is read as long as the check runs, whatever it prints: a check that waits
/// for room in the pipe would fail for its output. What a check leaves behind gets SIGPIPE when it goes on printing.
class CheckOutput {
public:
    using Key = std::uint64_t;  ///< the caller's: whose check, and which
    static constexpr std::size_t longest = 1024;

    /// Outlives this.
    explicit CheckOutput(EventLoop& loop) : loop_(loop) {}

    /// Returns the end that the check writes to; borrowed, until end_start().
    /// Errors: those of pipe2(2) and epoll_ctl(2).
    Result<int> begin(Key key);
    /// The check has been started, or could not be.
    void end_start(Key key);
    /// The check has ended: the last bytes that it has printed. Empty when it was not begun.
    std::string end(Key key);

    // For an upgrade.
    struct Open {
        Key key = 0;
        int read_end = -1;
        std::string text;

        bool operator==(Open const&) const = default;
    };
    /// The descriptors stay owned here.
    [[nodiscard]] std::vector<Open> export_state() const;
    /// Takes over those descriptors.
    void import_state(std::vector<Open> open);

private:
    struct Check {
        UniqueFd read_end;
        UniqueFd write_end;
        std::string text;
        EventLoop::Watch watch{};
    };
    static ssize_t read(Check& check);
    Result<> watch(Check& check);

    EventLoop& loop_;
    std::map<Key, Check> checks_;  // that run
};

}  // namespace triton::launcher
