#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include <unistd.h>

#include "host/machine/cgroup_usage.h"
#include "host/machine/last_exit.h"
#include "host/machine/store.h"
#include "lib/base/clock.h"
#include "lib/base/read_file.h"
#include "lib/base/uuid.h"
#include "lib/base/write_all.h"

namespace triton::program {

namespace {

int say(std::string const& text) {
    (void)write_all(STDERR_FILENO, "triton-machine-exit: " + text + "\n");  // nobody to tell
    return 1;
}

/// Of the unit's own control group, in which we run, too.
std::int64_t oom_kills() {
    auto const groups = read_file("/proc/self/cgroup", 64 << 10);
    std::int64_t most = 0;
    std::string_view rest = groups ? std::string_view(*groups) : std::string_view();
    while (!rest.empty()) {
        std::string_view const line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        std::size_t const colon = line.find(':', line.find(':') + 1);
        if (colon == line.npos || line.size() < colon + 2) continue;
        std::string_view path = line.substr(colon + 1);
        // systemd runs what comes after the main process in a group of its own below, where the hierarchy is its own.
        if (path.ends_with("/.control")) path.remove_suffix(std::string_view("/.control").size());
        auto const usage = machine::read_cgroup_usage("/sys/fs/cgroup", std::string(path));
        most = std::max(most, static_cast<std::int64_t>(usage.oom_kills.value_or(0)));
    }
    return most;
}

/// What no command of vmadm has asked for goes into the history by itself.
void record(machine::Store const& store, Uuid const& uuid, machine::LastExit const& exit) {
    if (store.is_being_changed(uuid)) return;
    std::string detail = machine::last_exit_text(exit);
    detail.pop_back();  // the end of the line
    machine::Event const event{exit.ended_at, uuid, "exit", machine::reason_of(exit), std::move(detail)};
    if (auto const added = store.add_event(event); !added) (void)say(added.error().text());
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
    char const* const code = std::getenv("EXIT_CODE");
    machine::LastExit const exit{.ended_at = wall_microseconds(),
                                 .exit_status = *status,
                                 .is_signal = code && std::string_view(code) != "exited",
                                 .oom_kills = oom_kills()};
    Result<> const saved = store.save_last_exit(*uuid, exit);
    record(store, *uuid, exit);
    return saved ? 0 : say(saved.error().text());
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) { return triton::program::run(argc, argv); }
