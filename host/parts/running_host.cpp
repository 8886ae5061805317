#include "host/parts/running_host.h"

#include <string>

#include <sys/stat.h>

#include "host/machine/unit_texts.h"
#include "host/parts/host_networks.h"
#include "host/parts/systemd_units.h"

namespace triton::parts {

namespace {

using machine::UnitStatus;

/// Whether a machine of this host is up. systemd and machined have such a file as long as it is; neither is asked.
bool is_running_here(Uuid const& uuid) {
    struct stat status{};
    return ::lstat(("/run/systemd/units/invocation:" + machine::unit_of(uuid)).c_str(), &status) == 0 ||
           ::lstat(("/run/systemd/machines/" + uuid.text()).c_str(), &status) == 0;
}

/// Refuses what needs the running host, in the name of the command.
class Refusal {
public:
    Refusal(std::string_view purpose, std::string_view root)
        : text_(std::string(purpose) + " needs the running host; --root covers the files below " + std::string(root) +
                " and the pool that its configuration names") {}
    [[nodiscard]] std::unexpected<Error> operator()() const { return fail(ErrorKind::unavailable, text_); }

private:
    std::string text_;
};

class NoUnits final : public machine::Units {
public:
    explicit NoUnits(Refusal refuse) : refuse_(std::move(refuse)) {}
    Result<> check_host() override { return refuse_(); }
    Result<> check_machine(Uuid const& uuid) override {
        if (!is_running_here(uuid)) return {};
        return fail(ErrorKind::refused, "VM " + uuid.text() + " runs on this host: below --root it cannot be changed");
    }
    Result<UnitStatus> status(Uuid const&) override { return refuse_(); }
    Result<std::map<Uuid, UnitStatus>> all() override { return refuse_(); }
    Result<> start(Uuid const&, std::chrono::seconds, Begun const&, Check const&) override { return refuse_(); }
    Result<> stop(Uuid const&, std::chrono::seconds, Begun const&) override { return refuse_(); }
    void await_listener(Uuid const&, UnitStatus const&, int) override {}
    Result<> halt(Uuid const&) override { return refuse_(); }
    Result<> reboot(Uuid const&, std::chrono::seconds, Begun const&, Check const&) override { return refuse_(); }
    Result<> kill(Uuid const&, int) override { return refuse_(); }
    Result<> reset(Uuid const&) override { return refuse_(); }
    Result<> set_limits(Uuid const&, std::span<machine::UnitProperty const>) override { return refuse_(); }
    [[nodiscard]] bool has_unified_cgroups() const override { return false; }
    Result<> forget_limits(Uuid const&) override { return refuse_(); }
    Result<> set_autostart(Uuid const&, bool) override { return refuse_(); }
    Result<std::string> control_group(Uuid const&) override { return refuse_(); }
    Result<std::string> unit(Uuid const&) override { return refuse_(); }

private:
    Refusal refuse_;
};

/// The configuration below the root is read; no link exists.
class NoLinks final : public machine::Networks {
public:
    NoLinks(machine::Layout const& layout, Refusal refuse) : files_(layout), refuse_(std::move(refuse)) {}
    Result<network::Tags> tags() override { return files_.tags(); }
    Result<std::string> first_program() override { return files_.first_program(); }
    Result<> check(std::span<network::Port const>) override { return refuse_(); }
    Result<> guard(std::span<network::Port const>) override { return refuse_(); }
    Result<> lower(std::span<network::Port const>) override { return {}; }

private:
    HostNetworks files_;
    Refusal refuse_;
};

}  // namespace

RunningHost running_host(machine::Layout const& layout, std::string_view purpose,
                         std::optional<std::chrono::milliseconds> limit) {
    if (layout.root.empty())
        return {limit ? std::make_unique<SystemdUnits>(*limit) : std::make_unique<SystemdUnits>(),
                std::make_unique<HostNetworks>(layout)};
    Refusal const refuse(purpose, layout.root);
    return {std::make_unique<NoUnits>(refuse), std::make_unique<NoLinks>(layout, refuse)};
}

}  // namespace triton::parts
