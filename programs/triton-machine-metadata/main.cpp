#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <unistd.h>

#include "host/machine/machines.h"
#include "host/machine/payload.h"
#include "host/metadata/answers.h"
#include "host/parts/held_volumes.h"
#include "host/parts/host_launcher.h"
#include "host/parts/installed_images.h"
#include "host/parts/late_pool.h"
#include "host/parts/running_host.h"
#include "host/systemd/daemon.h"
#include "lib/base/clock.h"
#include "lib/base/root_prefix.h"
#include "lib/base/uuid.h"
#include "lib/base/write_all.h"
#include "programs/triton-machine-metadata/place.h"
#include "programs/triton-machine-metadata/service.h"

namespace triton::program {

namespace {

int say(std::string const& text) {
    (void)write_all(STDERR_FILENO, "triton-machine-metadata: " + text + "\n");  // nobody to tell
    return 1;
}

/// The machines of this host, for one of them.
class Host {
public:
    explicit Host(machine::Layout const& layout)
        : pool_(parts::late_host_pool(layout)),
          images_(layout),
          volumes_(layout),
          running_(parts::running_host(layout, "metadata")),
          machines_(layout, parts()) {}
    machine::Machines& machines() { return machines_; }

private:
    machine::HostParts parts() {
        machine::HostParts parts{.pool = *pool_,
                                 .images = images_,
                                 .units = *running_.units,
                                 .launcher = launcher_,
                                 .now = wall_microseconds};
        parts.networks = running_.networks.get();
        parts.volumes = &volumes_;
        return parts;
    }

    std::unique_ptr<storage::Pool> pool_;
    parts::InstalledImages images_;
    parts::HeldVolumes volumes_;
    parts::HostLauncher launcher_;
    parts::RunningHost running_;
    machine::Machines machines_;
};

/// The answers of one client's process. An update that the machine asks for is not in the history of commands, which
/// the machine could fill.
class OwnAnswers final : public metadata::Answers {
public:
    OwnAnswers(machine::Layout const& layout, Uuid uuid) : host_(layout), uuid_(std::move(uuid)) {}

    Result<std::optional<std::string>> get(std::string_view key) override { return answers_.get(key); }
    Result<std::vector<std::string>> keys() override { return answers_.keys(); }
    Result<> put(std::string_view key, std::string_view value) override { return answers_.put(key, value); }
    Result<> remove(std::string_view key) override { return answers_.remove(key); }

private:
    Result<> change(metadata::MachineAnswers::Make const& payload_for) {
        auto const make = [this, &payload_for](machine::Machine const& before) -> Result<machine::Update> {
            auto update = machine::read_update(before, TRY(payload_for(before)));
            if (!update) return std::unexpected(update.error().error("change the metadata of VM " + uuid_.text()));
            return *std::move(update);
        };
        auto const updated = host_.machines().update(uuid_, make);
        return updated ? Result<>() : std::unexpected(updated.error());
    }

    Host host_;
    Uuid uuid_;
    metadata::MachineAnswers answers_{[this] { return host_.machines().read(uuid_); },
                                      [this](metadata::MachineAnswers::Make const& make) { return change(make); }};
};

Result<> serve(machine::Layout const& layout, Uuid const& uuid) {
    auto const sockets = TRY(systemd::take_sockets());
    if (sockets.size() != 1) return fail("serve needs the one socket of its socket unit");
    systemd::notify("READY=1");
    return serve_metadata(sockets.front().fd.get(),
                          [&layout, &uuid] { return std::make_unique<OwnAnswers>(layout, uuid); });
}

/// triton-machine-metadata up|serve|down NAME: before, during and after systemd-nspawn@NAME.service. Machines that are
/// not ours are left alone.
int run(int count, char** arguments) {
    std::string_view const verb = count == 3 ? arguments[1] : "";
    if (verb != "up" && verb != "serve" && verb != "down")
        return say("usage: triton-machine-metadata up|serve|down NAME");
    auto const uuid = Uuid::parse(arguments[2]);
    if (!uuid) return 0;
    std::signal(SIGPIPE, SIG_IGN);  // write(2) tells when a client has gone
    char const* const root = std::getenv("TRITON_ROOT");
    machine::Layout const layout{root_prefix(root ? root : "")};
    Result<> done;
    if (verb == "serve") {
        done = serve(layout, *uuid);
    } else if (verb == "down") {
        done = remove_metadata_place(layout, *uuid);
    } else {
        Host host(layout);
        done = make_metadata_place(host.machines(), *uuid);
    }
    return done ? 0 : say(done.error().text());
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) { return triton::program::run(argc, argv); }
