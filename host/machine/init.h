#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "host/machine/machine.h"
#include "lib/base/result.h"

namespace triton::machine {

/// What the PID 1 of a machine understands.
/// Source: https://systemd.io/CONTAINER_INTERFACE; init(8) of busybox, sysvinit, dinit and openrc-init.
struct Init {
    int kill_signal = SIGTERM;             ///< shuts the machine down
    bool has_container_interface = false;  ///< it says READY=1 when the machine has booted, and SIGINT reboots

    bool operator==(Init const&) const = default;
};

/// What an init understands, by its own name, that of no link. systemd and triton-launch have the container interface;
/// busybox switches off at SIGUSR2 and would reboot at SIGTERM; everything else is taken for a program that ends at
/// SIGTERM.
Init init_of_name(std::string_view name);

/// The PID 1 of a machine: the launcher, its `init_name`, or the init of its image. The root directory is the
/// machine's: what it holds is looked at, not trusted, and matters to this machine alone. nullopt: it has none.
/// Errors: those of openat2(2), but for a path that is not there.
Result<std::optional<Init>> init_of(Machine const& machine, std::string const& root);

/// The path of the init of an image, inside of it; empty: it has none. Errors: as init_of().
Result<std::string> init_path(std::string const& root);
/// Whether an image has an os-release, without which systemd-nspawn boots none. Errors: as init_of().
Result<bool> has_os_release(std::string const& root);
/// Makes /usr where an image has none: without it systemd-nspawn starts nothing. Returns whether it has made it.
Result<bool> make_usr(std::string const& root);

/// Why such a machine cannot start: "its image has no init (tried: /sbin/init)", and what to do.
std::string no_init_text(Machine const& machine);

}  // namespace triton::machine
