#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "host/machine/host.h"
#include "host/machine/store.h"

namespace triton::parts {

/// The running host as machines see it: its systemd and its links.
struct RunningHost {
    std::unique_ptr<machine::Units> units;
    std::unique_ptr<machine::Networks> networks;
};

/// Connects to the running host, or, below another root directory (--root), to none. Such a directory has the files of
/// another host, which may have the uuids and the addresses of this one: nothing there may reach units, links or logs
/// of the host that runs. `purpose`: what errors call the caller, for example "stop". `limit`: for one answer of
/// systemd; none: its default.
RunningHost running_host(machine::Layout const& layout, std::string_view purpose,
                         std::optional<std::chrono::milliseconds> limit = {});

}  // namespace triton::parts
