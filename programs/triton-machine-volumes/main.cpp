#include <cstdlib>
#include <string>
#include <string_view>

#include <unistd.h>

#include "host/machine/store.h"
#include "lib/base/root_prefix.h"
#include "lib/base/uuid.h"
#include "lib/base/write_all.h"
#include "programs/triton-machine-volumes/attach.h"

namespace triton::program {

namespace {

int say(std::string const& text) {
    (void)write_all(STDERR_FILENO, "triton-machine-volumes: " + text + "\n");  // nobody to tell
    return 1;
}

/// triton-machine-volumes up|down NAME: runs before and after systemd-nspawn@NAME.service. Machines that are not ours
/// are left alone.
int run(int count, char** arguments) {
    std::string_view const verb = count == 3 ? arguments[1] : "";
    if (verb != "up" && verb != "down") return say("usage: triton-machine-volumes up|down NAME");
    auto const uuid = Uuid::parse(arguments[2]);
    if (!uuid) return 0;
    char const* const root = std::getenv("TRITON_ROOT");
    machine::Layout const layout{root_prefix(root ? root : "")};
    auto const done = verb == "up" ? attach_volumes(layout, *uuid) : detach_volumes(layout, *uuid);
    return done ? 0 : say(done.error().text());
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) { return triton::program::run(argc, argv); }
