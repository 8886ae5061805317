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
/// connected, and the host's root does not exist there. Only the calling thread changes its user meanwhile. `leader`:
/// the pid of the machine's PID 1 on the host. `root_uid`: the uid of its root on the host.
/// Errors: those of connect(2); `timeout`.
Result<varlink::Connection> connect_to_launcher(std::int64_t leader, std::int64_t root_uid, TimePoint deadline);

/// The state of a launcher and its programs, as one JSON object; nullopt: it has not answered by the deadline.
std::optional<std::string> launcher_status(std::int64_t leader, std::int64_t root_uid, TimePoint deadline);

/// The triton-launch of this host.
class HostLauncher final : public machine::Launcher {
public:
    Result<> check(std::string_view document) override;
    Result<std::string> program() override;
    std::optional<std::string> status(std::int64_t leader, std::int64_t root_uid) override;
    Result<> reload(std::int64_t leader, std::int64_t root_uid) override;

    struct Versions {
        std::string from;
        std::string to;
    };
    /// Makes a machine's launcher replace itself by the program at a path inside, and waits for that.
    /// Errors: `unavailable` when it does not answer; `refused` with its reason.
    Result<Versions> upgrade(std::int64_t leader, std::int64_t root_uid, std::string_view inside);
};

}  // namespace triton::parts
