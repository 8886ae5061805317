#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/uuid.h"

namespace triton::observe {

/// Reads the output of `zpool events -f -H -v` as it arrives: which machines' trees have changed, and whether the
/// kernel has dropped events. Everything about other datasets is ignored. Source: zpool-events(8).
class ZfsEventText {
public:
    /// Longer lines are ignored.
    static constexpr std::size_t longest_line = 64 << 10;

    struct Tell {
        std::function<void(Uuid const& machine)> machine;
        std::function<void()> dropped;
    };
    void take(std::string_view bytes, Tell const& tell);

private:
    static void take_line(std::string_view line, Tell const& tell);
    std::string line_;
    bool is_too_long_ = false;
};

/// The machine to whose tree a dataset or snapshot belongs: "tank/triton/machines/<uuid>@vmsnap-a". Datasets below a
/// machine's tree are its own business.
std::optional<Uuid> machine_of_dataset(std::string_view dataset);

}  // namespace triton::observe
