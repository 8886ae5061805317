#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/uuid.h"
#include "lib/net/loop.h"

namespace triton::observe {

/// Learns from ZFS what happens to the trees of machines, by a child `zpool events`. A child that ends is started
/// again. One that never lives for long (zfs-fuse has no events) is tried less and less often.
class ZfsWatch {
public:
    struct Settings {
        std::string program = "zpool";
        Duration first_pause = std::chrono::seconds(1);
        Duration longest_pause = std::chrono::minutes(5);
        Duration short_life = std::chrono::seconds(10);  ///< a child that ends sooner counts as not having worked
    };
    struct Notices {
        std::function<void(Uuid const& machine)> machine;
        std::function<void(std::string_view why)> lost;
        std::function<void()> heard;  ///< after some of the others
    };
    ZfsWatch(net::Loop& loop, Settings settings, Notices notices);
    /// Ends the child.
    ~ZfsWatch();
    ZfsWatch(ZfsWatch const&) = delete;
    ZfsWatch& operator=(ZfsWatch const&) = delete;

    void start();
    [[nodiscard]] bool is_working() const;
    /// Why it does not work; empty: it does.
    [[nodiscard]] std::string const& trouble() const;
    [[nodiscard]] std::uint64_t events() const;
    [[nodiscard]] std::uint64_t losses() const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace triton::observe
