#include "programs/vmadm/context.h"
#include "programs/vmadm/enter.h"

namespace triton::program {

namespace {

using machine::Machine;
using machine::Machines;

Outcome run_exec(Options const& options) {
    if (options.words.empty()) return usage("Invalid or missing UUID for exec");
    auto host = Host::open(options);
    if (!host) return std::unexpected(host.error());
    Uuid const uuid = TRY_RUN((*host)->machines().find(options.words.front()));
    std::vector<std::string> words(options.words.begin() + 1, options.words.end());
    if (!words.empty() && words.front() == "--") words.erase(words.begin());
    if (words.empty()) return usage("Missing command for exec");
    auto const leader = [&]() -> Result<std::int64_t> {
        (void)TRY((*host)->machines().store().load(uuid));
        return TRY((*host)->units().status(uuid)).leader;
    };
    std::int64_t const pid = TRY_RUN(leader());
    if (pid <= 0)
        return std::unexpected(Failure{
            fail(ErrorKind::refused, "Cannot execute a command in VM " + uuid.text() + ": it is not running").error()});
    int const code = TRY_RUN(run_inside(pid, words, [&] { return leader().value_or(0) == pid; }));
    if (code == 0) return {};
    return std::unexpected(Failure{.error = {}, .exit_code = code, .is_told = true});
}

void add_nothing(CLI::App&, Options&) {}

}  // namespace

std::span<Command const> inside_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"exec", "", "VM COMMAND [ARG...]", "runs a command in a VM, as its root", add_nothing, run_exec, true},
    });
    return rows;
}

}  // namespace triton::program
