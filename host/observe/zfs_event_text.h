#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/uuid.h"

namespace triton::observe {

/// Reads what `zpool events -f -H -v` writes, as it comes: which machines' trees something has happened to, and whether
/// the kernel has dropped events. Everything that is about other datasets is passed over. Source: zpool-events(8).
class ZfsEventText {
public:
    /// A longer line is passed over.
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

/// The machine whose tree, or snapshot of it, a dataset is: "tank/triton/machines/<uuid>@vmsnap-a". What a machine has
/// below its tree is its own.
std::optional<Uuid> machine_of_dataset(std::string_view dataset);

}  // namespace triton::observe
