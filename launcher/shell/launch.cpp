#include "launcher/shell/launch.h"

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

#include "launcher/children/process_setup.h"
#include "launcher/shell/shell.h"
#include "lib/base/error_kinds.h"
#include "lib/process/start_plan.h"

namespace triton::launcher {

namespace {

/// The state that an earlier version of us has left, if that version has executed us; nullopt: an ordinary start.
/// Errors: the state exists and cannot be read, although this version has said that it can.
Result<std::optional<UpgradeState>> inherited_state() {
    char const* const value = std::getenv(upgrade_variable);
    if (!value) return std::nullopt;
    int fd = -1;
    auto const [end, error] = std::from_chars(value, value + std::strlen(value), fd);
    if (error != std::errc{} || *end != '\0') return std::nullopt;
    auto const text = read_sealed(fd);
    // Kind `denied`: the variable belongs to somebody else, because what it names is not sealed.
    if (!text && text.error().kind == ErrorKind::denied) return std::nullopt;
    if (!text) return fail("the state of the previous version cannot be read: " + text.error().text());
    auto state = read_upgrade_state(*text);
    if (!state) {
        std::string why = state.error().error;
        for (std::string const& place : state.error().lost)
            why += (why.empty() ? "would be lost: " : ", ") + place;
        return fail("the state of the previous version cannot be read: " + why);
    }
    if (state->pid != ::getpid()) return std::nullopt;  // meant for our parent, whose environment it was
    (void)::close(fd);
    if (state->script) (void)::close(*std::exchange(state->script, std::nullopt));
    return std::move(*state);
}

/// Makes what an upgrade cannot do without. The version before is gone, and nobody else can keep what runs: a lack of
/// descriptors or memory is waited for, up to five seconds.
template <class Make>
auto make_for_upgrade(Make const& make) {
    constexpr int most_attempts = 50;
    constexpr std::chrono::milliseconds pause{100};
    auto made = make();
    for (int left = most_attempts; !made && is_shortage(made.error().kind) && left > 0; --left) {
        std::this_thread::sleep_for(pause);
        made = make();
    }
    return made;
}

/// Sets the name in ps(1) as execve(2) does for a path. We were executed by a descriptor, so its number would be the
/// name.
void set_own_name(std::string_view path) {
    std::string const name{path.substr(path.rfind('/') + 1)};
    (void)::prctl(PR_SET_NAME, name.c_str());
}

/// No configuration mends a command line. With the variables of a file it is only known later which PATH the command
/// has.
std::expected<void, LaunchFailure> check_command(SourceOptions const& options, char const* const* environment) {
    if (options.command.empty() || options.export_environment_file) return {};
    std::vector<std::string> entries;
    for (; *environment; ++environment)
        entries.emplace_back(*environment);
    auto const found = process::find_program(options.command.front(), entries, {});
    if (found) return {};
    return std::unexpected(LaunchFailure(found.error(), found.error().kind == ErrorKind::not_found ? 127 : 126));
}

}  // namespace

std::expected<int, LaunchFailure> launch(LaunchOptions const& options, char const* const* environment) {
    auto state = TRY(inherited_state());
    if (!state) TRY(check_command(options.source, environment));
    if (state) set_own_name(options.arguments[0]);
    auto const set_up = [&] { return set_up_process(options.parent_death_signal, state.has_value()); };
    ProcessSetup setup = TRY(state ? make_for_upgrade(set_up) : set_up());
    auto const loop = TRY(state ? make_for_upgrade(EventLoop::create) : EventLoop::create());
    // PID 1 needs no signal for its orphans: the kernel ends its namespace with it.
    int const orphan_signal = setup.is_pid_1 ? 0 : options.orphan_signal;
    if (!state) {
        RealSys sys(setup.inherited, orphan_signal);
        return Shell{options, environment, std::move(setup), sys, *loop}.run();
    }
    setup.inherited.mask = state->inherited_mask;
    setup.inherited.sigchld = {};
    setup.inherited.sigchld_was_ignored = state->sigchld_was_ignored;
    if (state->sigchld_was_ignored) setup.inherited.sigchld.handler = SIG_IGN;
    RealSys sys(setup.inherited, orphan_signal);
    return Shell{options, environment, std::move(setup), sys, *loop}.take_over(std::move(*state));
}

}  // namespace triton::launcher
