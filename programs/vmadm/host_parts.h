#pragma once

#include <memory>
#include <optional>
#include <string>

#include "host/image/image_service.h"
#include "host/machine/host.h"
#include "host/machine/machines.h"
#include "host/storage/pool.h"
#include "host/systemd/bus.h"

namespace triton::program {

/// The images that imgadm has installed. Its catalog is opened when it is first needed.
class InstalledImages final : public machine::Images {
public:
    explicit InstalledImages(machine::Layout const& layout) : root_(layout.root) {}
    Result<machine::ImageTree> find(Uuid const& image) override;
    Result<> hold(Uuid const& image, Uuid const& holder) override;
    Result<> release(Uuid const& image, Uuid const& holder) override;
    Result<> release_all(Uuid const& holder) override;

private:
    Result<image::ImageService*> service();
    std::string root_;
    std::optional<image::ImageService> service_;
};

/// systemd on the system's bus, connected to when it is first needed.
class SystemdUnits final : public machine::Units {
public:
    Result<machine::UnitStatus> status(Uuid const& uuid) override;
    Result<std::map<Uuid, machine::UnitStatus>> all() override;
    Result<> start(Uuid const& uuid, std::chrono::seconds limit) override;
    Result<> stop(Uuid const& uuid, std::chrono::seconds limit) override;
    Result<> halt(Uuid const& uuid) override;
    Result<> reboot(Uuid const& uuid, std::chrono::seconds limit) override;
    Result<> kill(Uuid const& uuid, int signal) override;
    Result<> reset(Uuid const& uuid) override;
    Result<> set_limits(Uuid const& uuid, std::span<machine::UnitProperty const> limits) override;
    Result<> forget_limits(Uuid const& uuid) override;
    Result<> set_autostart(Uuid const& uuid, bool is_on) override;

    /// The path of a machine's control group; empty when it does not run.
    Result<std::string> control_group(Uuid const& uuid);

    /// Whether all() also asks for each machine's processes and times.
    void set_detailed(bool is_detailed) { is_detailed_ = is_detailed; }

private:
    Result<systemd::Bus*> bus();
    std::optional<systemd::Bus> bus_;
    bool is_detailed_ = false;
};

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

/// Opens the pool that the host's configuration names. Errors: those of image::read_site() and storage::open_pool().
Result<std::unique_ptr<storage::Pool>> open_host_pool(machine::Layout const& layout);

}  // namespace triton::program
