#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "host/observe/records.h"
#include "lib/base/clock.h"
#include "lib/base/unique_fd.h"
#include "lib/net/loop.h"

namespace triton::observe {

/// Learns that something has happened in machines, through connections to their launchers. What they send is not read:
/// it comes from inside a machine, and is only a reason to look again. A machine that sends all the time is heard a few
/// times a second.
class LauncherEvents {
public:
    struct Settings {
        Duration pause = milliseconds(50);              ///< between two readings of one connection
        Duration short_life = std::chrono::seconds(1);  ///< after a shorter one the next is not made at once
        Duration retry = std::chrono::seconds(10);
    };
    /// `heard`: something has happened. `ended`: the connection has ended.
    struct Notices {
        std::function<void(std::string const& machine)> heard;
        std::function<void(std::string const& machine)> ended;
    };
    LauncherEvents(net::Loop& loop, Settings settings, Notices notices);
    ~LauncherEvents();
    LauncherEvents(LauncherEvents const&) = delete;
    LauncherEvents& operator=(LauncherEvents const&) = delete;

    /// Whether to connect to this launcher: there is no connection, and the one before has lasted long enough.
    [[nodiscard]] bool is_wanted(std::string const& machine, LauncherAddress const& address) const;
    void follow(std::string const& machine, LauncherAddress const& address, UniqueFd connection);
    void forget(std::string const& machine);

    [[nodiscard]] std::size_t connections() const;
    [[nodiscard]] std::uint64_t notifications() const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace triton::observe
