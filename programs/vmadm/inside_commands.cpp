#include <array>
#include <functional>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/machine/file_transfer.h"
#include "host/machine/properties.h"
#include "host/machine/unit_texts.h"
#include "lib/json/text.h"
#include "lib/text/printable.h"
#include "programs/vmadm/context.h"
#include "programs/vmadm/enter.h"
#include "programs/vmadm/lend_file.h"

namespace triton::program {

namespace {

using machine::Machine;
using machine::Machines;

/// A running machine and its PID 1.
struct Running {
    Uuid uuid;
    std::int64_t leader = 0;
};

/// Returns a question that can be asked again: whether that PID 1 is still the machine's.
std::function<bool()> is_current(Host& host, Running const& running) {
    return [&host, running] {
        auto const status = host.units().status(running.uuid);
        return status && status->leader == running.leader;
    };
}

/// The machine with a name. Its leader is 0 when it does not run.
Result<Running> find_running(Host& host, std::string const& name) {
    Uuid const uuid = TRY(host.machines().find(name));
    (void)TRY(host.machines().store().load(uuid));
    return Running{uuid, TRY(host.units().status(uuid)).leader};
}

Outcome exit_with(int code) {
    if (code == 0) return {};
    return std::unexpected(Failure{.error = {}, .exit_code = code, .is_told = true});
}

Outcome run_exec(Options const& options) {
    if (options.words.empty()) return usage("Invalid or missing UUID for exec");
    if (options.words.front().starts_with('-'))
        return usage("exec has no option " + options.words.front() + ": it takes a terminal if it is run in one");
    auto const host = TRY_RUN(Host::open(options));
    Running const running = TRY_RUN(find_running(*host, options.words.front()));
    std::vector<std::string> words(options.words.begin() + 1, options.words.end());
    if (!words.empty() && words.front() == "--") words.erase(words.begin());
    if (words.empty()) return usage("Missing command for exec");
    if (running.leader <= 0)
        return failed(ErrorKind::refused,
                      "Cannot execute a command in VM " + running.uuid.text() + ": it is not running");
    return exit_with(
        TRY_RUN(run_inside(running.uuid.text(), running.leader, {words}, false, is_current(*host, running))));
}

/// The programs for a console: the first one that the machine has is run.
std::vector<std::vector<std::string>> console_programs() {
    return {{"/bin/login", "-f", "root"}, {"/bin/bash", "-l"}, {"/bin/sh", "-l"}, {"/usr/bin/busybox", "sh", "-l"}};
}

Outcome run_console(Options const& options) {
    auto const host = TRY_RUN(Host::open(options));
    auto const uuid = TRY_RUN(one_machine(host->machines(), options, "console"));
    Machine const machine = TRY_RUN(host->machines().get(uuid));
    if (!machine.pid)  // one that is still starting has a console, too
        return failed(ErrorKind::refused, "cannot connect to the console of VM " + uuid.text() + ": its state is \"" +
                                              std::string(name_of(machine.state)) + "\", not \"running\"");
    if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
        return failed(ErrorKind::refused, "A console needs a terminal; exec runs a command without one.");
    Running const running{uuid, *machine.pid};
    host->note("Connected to VM " + uuid.text() + ". Ctrl-] leaves.");
    return exit_with(
        TRY_RUN(run_inside(uuid.text(), running.leader, console_programs(), true, is_current(*host, running))));
}

/// One side of `vmadm cp`: "VM:/path", or a path of the host. With a "/" before the ":" it is a path of the host.
struct Side {
    std::optional<std::string> machine;
    std::string path;
};
Side side_of(std::string const& word) {
    std::size_t const colon = word.find(':');
    if (colon == std::string::npos || colon == 0 || word.find('/') < colon) return {std::nullopt, word};
    return {word.substr(0, colon), word.substr(colon + 1)};
}

/// Opens a side. `root` keeps the root directory of a machine open, by which the path is found.
Result<machine::FilePlace> place_of(Host& host, Side const& side, UniqueFd& root) {
    if (!side.machine) return machine::FilePlace{.path = side.path};
    Running const running = TRY(find_running(host, *side.machine));
    std::string directory = host.pool().path(machine::tree_of(running.uuid)) + "/root";
    // A running machine has its own file systems, and perhaps mapped owners: what it sees is what counts.
    if (running.leader > 0) directory = "/proc/" + std::to_string(running.leader) + "/root";
    root = UniqueFd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat status{};
    if (!root || ::fstat(root.get(), &status) != 0)
        return fail(errno, "open the root directory of VM " + running.uuid.text());
    if (running.leader > 0 && !is_current(host, running)())
        return fail(ErrorKind::busy, "VM " + running.uuid.text() + " has just ended");
    return machine::FilePlace{.root = "/proc/self/fd/" + std::to_string(root.get()),
                              .path = side.path,
                              .machine = running.uuid.text(),
                              .owner = status.st_uid,
                              .group = status.st_gid};
}

std::string counted(std::uint64_t count, std::string_view what) {
    return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

Outcome run_cp(Options const& options) {
    if (options.words.size() != 2) return usage("expected: cp SOURCE TARGET, with VM:/PATH for one of them or both");
    std::array const sides{side_of(options.words[0]), side_of(options.words[1])};
    if (!sides[0].machine && !sides[1].machine)
        return usage("neither " + json::quoted(options.words[0]) + " nor " + json::quoted(options.words[1]) +
                     " is of a VM: expected VM:/PATH");
    auto const host = TRY_RUN(Host::open(options));
    std::array<UniqueFd, 2> roots;
    machine::FilePlace const from = TRY_RUN(place_of(*host, sides[0], roots[0]));
    machine::FilePlace const to = TRY_RUN(place_of(*host, sides[1], roots[1]));
    machine::Transferred const done = TRY_RUN(machine::transfer_files(from, to));
    for (std::string const& name : done.skipped_names)
        host->note("skipped: " + text::printable(name));
    if (done.skipped > done.skipped_names.size())
        host->note("skipped: " + std::to_string(done.skipped - done.skipped_names.size()) + " more");
    host->note("Successfully copied " + counted(done.files, "file") + " and " +
               (done.directories == 1 ? "1 directory" : std::to_string(done.directories) + " directories") + ", " +
               counted(done.bytes, "byte"));
    return {};
}

Result<parts::HostLauncher::Versions> upgrade_launcher(Host& host, Uuid const& uuid) {
    TRY(host.units().check_host());
    Machine const machine = TRY(host.machines().get(uuid));
    std::string const what = "upgrade the launcher of VM " + uuid.text();
    if (!machine.launch) return fail(ErrorKind::refused, what, "it has no launch configuration");
    if (!machine.pid) return fail(ErrorKind::refused, what, "it is not running");
    std::string const program = TRY(host.launcher().program());
    struct stat status{};
    if (::stat(program.c_str(), &status) != 0) return fail(errno, "open " + program);
    // each version gets its own place until the machine is started again
    std::string const inside = std::string(machine::launcher_inside) + "-" + std::to_string(status.st_ino) + "-" +
                               std::to_string(status.st_mtim.tv_sec);
    TRY(lend_file(uuid.text(), *machine.pid, program, inside, is_current(host, {uuid, *machine.pid})));
    return host.launcher().upgrade(*machine.pid, machine.first_uid.value_or(0), inside);
}

Outcome run_upgrade_launcher(Options const& options) {
    return for_each_machine(options, "upgrade-launcher", [](Host& host, Uuid const& uuid) -> Result<> {
        auto const versions = TRY(recorded(host, uuid, "upgrade-launcher", "",
                                           [&] { return upgrade_launcher(host, uuid); }));
        say("Successfully upgraded the launcher of VM " + uuid.text() + " from " + text::printable(versions.from) +
            " to " + text::printable(versions.to));
        return {};
    });
}

void add_nothing(CLI::App&, Options&) {}

}  // namespace

std::span<Command const> inside_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"console", "", "VM", "opens a terminal in a VM; Ctrl-] leaves it", add_words, run_console},
        {"cp", "", "SOURCE TARGET", "copies files into or out of a VM: VM:/PATH", add_words, run_cp},
        {"exec", "", "VM COMMAND [ARG...]", "runs a command in a VM, as its root", add_nothing, run_exec, true},
        {"upgrade-launcher", "", "VM...", "replaces the launcher of running VMs with that of this host", add_words,
         run_upgrade_launcher},
    });
    return rows;
}

}  // namespace triton::program
