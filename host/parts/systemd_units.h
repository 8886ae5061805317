#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "host/machine/host.h"
#include "host/systemd/bus.h"

namespace triton::parts {

/// systemd on the system's bus; the connection is made when it is first needed.
class SystemdUnits final : public machine::Units {
public:
    SystemdUnits() = default;
    /// The limit is for calls that only look; changes may take longer.
    explicit SystemdUnits(std::chrono::milliseconds call_limit) : call_limit_(call_limit) {}

    Result<machine::UnitStatus> status(Uuid const& uuid) override;
    Result<std::map<Uuid, machine::UnitStatus>> all() override;
    Result<> start(Uuid const& uuid, std::chrono::seconds limit, Begun const& begun, Check const& check) override;
    Result<> stop(Uuid const& uuid, std::chrono::seconds limit, Begun const& begun) override;
    void await_listener(Uuid const& uuid, machine::UnitStatus const& status, int signal) override;
    Result<> halt(Uuid const& uuid) override;
    Result<> reboot(Uuid const& uuid, std::chrono::seconds limit, Begun const& begun, Check const& check) override;
    Result<> kill(Uuid const& uuid, int signal) override;
    Result<> reset(Uuid const& uuid) override;
    Result<> set_limits(Uuid const& uuid, std::span<machine::UnitProperty const> limits) override;
    [[nodiscard]] bool has_unified_cgroups() const override;
    Result<> forget_limits(Uuid const& uuid) override;
    Result<> set_autostart(Uuid const& uuid, bool is_on) override;

    void set_detailed(bool is_detailed) override { is_detailed_ = is_detailed; }
    Result<std::string> control_group(Uuid const& uuid) override;

private:
    Result<systemd::Bus*> bus();
    Result<machine::UnitStatus> status_of(Uuid const& uuid);
    std::chrono::milliseconds call_limit_ = std::chrono::seconds(30);
    std::optional<systemd::Bus> bus_;
    bool is_detailed_ = false;
};

}  // namespace triton::parts
