#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "host/machine/host.h"
#include "lib/base/clock.h"
#include "lib/varlink/connection.h"

namespace triton::parts {

/// Connects to the launcher of a running machine, as root of the machine: the launcher asks the kernel who has
/// connected, and root of the host is nobody there. Only the calling thread becomes somebody else meanwhile.
/// `leader`: the host's number of the machine's PID 1. `root_uid`: the uid that its root has on the host.
/// Errors: those of connect(2); `timeout`.
Result<varlink::Connection> connect_to_launcher(std::int64_t leader, std::int64_t root_uid, TimePoint deadline);

/// What it says of itself and of its programs, as one JSON object; nullopt: it has not answered by the deadline.
std::optional<std::string> launcher_status(std::int64_t leader, std::int64_t root_uid, TimePoint deadline);

/// The triton-launch of this host.
class HostLauncher final : public machine::Launcher {
public:
    Result<> check(std::string_view document) override;
    Result<std::string> program() override;
    std::optional<std::string> status(std::int64_t leader, std::int64_t root_uid) override;

    struct Versions {
        std::string from;
        std::string to;
    };
    /// Has the launcher of a machine replace itself by the program at a path inside, and waits until it has.
    /// Errors: `unavailable` when it does not answer; `refused` with its reason.
    Result<Versions> upgrade(std::int64_t leader, std::int64_t root_uid, std::string_view inside);
};

}  // namespace triton::parts
