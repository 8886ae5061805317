#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "host/observe/records.h"
#include "lib/base/clock.h"
#include "lib/base/unique_fd.h"
#include "lib/net/loop.h"

namespace triton::observe {

/// The result of a look at a launcher.
struct LauncherSeen {
    Report report;
    UniqueFd events;  ///< a connection that reports events; closed: not wanted, or failed
};

/// Looks at the launchers of machines. A machine's owner can make a look hang for ever, in system calls that nobody can
/// interrupt, so each has a thread of its own. One that takes too long is written off: others get its place, and its
/// machine is not looked at again while the thread hangs. Only a few can be written off.
class LauncherLooks {
public:
    struct Settings {
        std::size_t at_once = 8;
        /// An owner can make each of his machines hang one thread, which takes some 20 KiB and no processor.
        std::size_t written_off = 1024;
        Duration grace = std::chrono::seconds(2);  ///< after which a look must have ended
    };
    struct Order {
        LauncherAddress address;
        bool wants_events = false;
        Duration patience = std::chrono::seconds(1);  ///< for the whole look
    };
    /// Runs in a thread of its own.
    using Look = std::function<LauncherSeen(Order const& order)>;
    /// `freed`: a thread that was written off has returned after all, and its machine can be looked at again.
    LauncherLooks(net::Loop& loop, Settings settings, Look look,
                  std::function<void(std::string const& machine)> freed = {});
    /// Threads that are still looking are left behind, and their results are dropped.
    ~LauncherLooks();
    LauncherLooks(LauncherLooks const&) = delete;
    LauncherLooks& operator=(LauncherLooks const&) = delete;

    /// Whether begin() may be called now.
    [[nodiscard]] bool has_room() const;
    /// Whether a thread hangs at this machine.
    [[nodiscard]] bool hangs(std::string const& machine) const;
    /// `done` is called once, in the loop; with an empty report when patience and grace are over.
    void begin(std::string machine, Order const& order, std::function<void(LauncherSeen)> done);

    /// The number of hanging threads.
    [[nodiscard]] std::size_t written_off() const { return hanging_.size(); }

private:
    struct Mailbox;
    struct Underway {
        std::string machine;
        LauncherAddress address;
        std::function<void(LauncherSeen)> done;
        std::unique_ptr<net::Timer> timer;
    };
    void arrived(std::uint64_t number, LauncherSeen seen);
    void write_off(std::uint64_t number);

    net::Loop& loop_;
    Settings settings_;
    Look look_;
    std::function<void(std::string const& machine)> freed_;
    std::shared_ptr<Mailbox> mailbox_;
    std::map<std::uint64_t, Underway> underway_;
    std::map<std::uint64_t, std::string> hanging_;  // the machines where they hang
    std::uint64_t last_ = 0;
};

/// Makes a look: subscribes to the launcher's events if wanted, then asks for its state.
LauncherSeen look_at_launcher(LauncherLooks::Order const& order);

}  // namespace triton::observe
