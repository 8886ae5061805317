#include <cstdlib>
#include <string>

#include <unistd.h>

#include "host/machine/last_exit.h"
#include "host/machine/store.h"
#include "lib/base/clock.h"
#include "lib/base/uuid.h"
#include "lib/base/write_all.h"

namespace triton::program {

namespace {

int say(std::string const& text) {
    (void)write_all(STDERR_FILENO, "triton-machine-exit: " + text + "\n");  // nobody to tell
    return 1;
}

/// triton-machine-exit NAME: runs after systemd-nspawn@NAME.service. Machines that are not ours are left alone. A start
/// that failed before there was a main process is not an exit: systemd then gives no EXIT_STATUS.
int run(int count, char** arguments) {
    if (count != 2) return say("usage: triton-machine-exit NAME");
    auto const uuid = Uuid::parse(arguments[1]);
    char const* const given = std::getenv("EXIT_STATUS");
    machine::Store const store(machine::Layout{});
    if (!uuid || !given || !store.exists(*uuid)) return 0;
    auto const status = machine::parse_exit_status(given);
    if (!status) return say("EXIT_STATUS is not an exit status: " + std::string(given));
    Result<> const saved = store.save_last_exit(*uuid, {.ended_at = wall_microseconds(), .exit_status = *status});
    return saved ? 0 : say(saved.error().text());
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) { return triton::program::run(argc, argv); }
