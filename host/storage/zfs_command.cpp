#include "host/storage/zfs_command.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/process/run_command.h"

namespace triton::storage {

namespace {

constexpr milliseconds first_pause{5};
constexpr milliseconds longest_busy_pause{500};
constexpr int slow_factor = 20;
constexpr std::size_t most_output = 64U << 20U;  // enough for the names of some 100,000 trees

struct Meaning {
    std::string_view text;
    ErrorKind kind;
};
/// Texts of OpenZFS and zfs-fuse (lib/libzfs and cmd/zfs), in one line each. The first one that is found counts.
constexpr std::array meanings{
    Meaning{"dependent clones", ErrorKind::busy},
    Meaning{"has children", ErrorKind::busy},
    Meaning{"is busy", ErrorKind::busy},
    Meaning{"not currently mounted", ErrorKind::not_found},
    Meaning{"cannot unmount", ErrorKind::busy},
    Meaning{"more recent snapshots", ErrorKind::refused},
    Meaning{"has been modified", ErrorKind::refused},
    Meaning{"does not match incremental source", ErrorKind::refused},
    Meaning{"less than current used", ErrorKind::refused},
    Meaning{"already exists", ErrorKind::exists},
    Meaning{"parent does not exist", ErrorKind::not_found},
    Meaning{"does not exist", ErrorKind::not_found},
    Meaning{"could not find any snapshots", ErrorKind::not_found},
    Meaning{"destination '", ErrorKind::exists},
    Meaning{"no such pool", ErrorKind::unavailable},
    Meaning{"currently suspended", ErrorKind::unavailable},
    Meaning{"out of space", ErrorKind::exhausted},
    Meaning{"no space left", ErrorKind::exhausted},
    Meaning{"quota exceeded", ErrorKind::exhausted},
    Meaning{"Broken pipe", ErrorKind::unavailable},
    Meaning{"warning: cannot send", ErrorKind::unavailable},
    Meaning{"internal error: out of memory", ErrorKind::unavailable},
    Meaning{"connect", ErrorKind::unavailable},
    Meaning{"/dev/zfs", ErrorKind::unavailable},
    Meaning{"modules are not loaded", ErrorKind::unavailable},
    Meaning{"permission denied", ErrorKind::denied},
    Meaning{"invalid stream", ErrorKind::corrupt},
    Meaning{"invalid backup stream", ErrorKind::corrupt},
    Meaning{"checksum mismatch", ErrorKind::corrupt},
    Meaning{"incomplete stream", ErrorKind::corrupt},
    Meaning{"failed to read from stream", ErrorKind::corrupt},
    Meaning{"unrecognized command", ErrorKind::unsupported},
    Meaning{"invalid option", ErrorKind::unsupported},
    Meaning{"unsupported", ErrorKind::unsupported},
    Meaning{"invalid property", ErrorKind::unsupported},
    Meaning{"must be one of", ErrorKind::unsupported},  // for the values of a property
};

/// Finds a program as a shell would, and also in the usual places of those who do not have sbin in their path.
std::string find_program(std::string const& name) {
    char const* const path = std::getenv("PATH");
    std::string const places = std::string(path != nullptr ? path : "") + ":/usr/sbin:/sbin:/usr/local/sbin";
    for (std::size_t begin = 0; begin < places.size();) {
        std::size_t const end = std::min(places.find(':', begin), places.size());
        std::string candidate = places.substr(begin, end - begin) + '/' + name;
        if (candidate.size() > name.size() + 1 && ::access(candidate.c_str(), X_OK) == 0) return candidate;
        begin = end + 1;
    }
    return {};
}

}  // namespace

Error zfs_error(std::string const& attempted, std::string_view message) {
    while (message.ends_with('\n'))
        message.remove_suffix(1);
    std::string line(message);
    std::ranges::replace(line, '\n', ' ');
    auto const* const found =
        std::ranges::find_if(meanings, [&](Meaning const& meaning) { return line.find(meaning.text) != line.npos; });
    Error error;
    error.kind = found == meanings.end() ? ErrorKind::internal : found->kind;
    error.attempted = attempted;
    error.reason = line.empty() ? "zfs failed and did not say why" : line;
    return error;
}

std::vector<std::vector<std::string>> zfs_fields(std::string_view output) {
    std::vector<std::vector<std::string>> lines;
    while (!output.empty()) {
        std::string_view line = output.substr(0, output.find('\n'));
        output.remove_prefix(std::min(line.size() + 1, output.size()));
        auto& fields = lines.emplace_back();
        while (true) {
            std::size_t const tab = line.find('\t');
            fields.emplace_back(line.substr(0, tab));
            if (tab == line.npos) break;
            line.remove_prefix(tab + 1);
        }
    }
    return lines;
}

Result<ZfsCommand> ZfsCommand::find(std::chrono::milliseconds patience) {
    std::string program = find_program("zfs");
    if (program.empty()) return fail(ErrorKind::unsupported, "use ZFS", "there is no program zfs");
    return ZfsCommand(std::move(program), patience);
}

Result<std::string> ZfsCommand::run_once(Call const& call) const {
    process::Command command{.arguments = {program_},
                             .environment = {{"LC_ALL=C", "PATH=/usr/sbin:/sbin:/usr/bin:/bin"}},
                             .in = call.in,
                             .out = call.out,
                             // What receives keeps its tree busy until its stream ends.
                             .dies_with_us = call.in >= 0,
                             .most_output = most_output};
    command.arguments.insert(command.arguments.end(), call.arguments.begin(), call.arguments.end());
    if (call.pace != Pace::unlimited) command.timeout = patience_ * (call.pace == Pace::slow ? slow_factor : 1);
    auto completed = TRY(process::run_command(command));
    if (completed.is_ok()) return std::move(completed.output);
    if (completed.signal != 0 && completed.errors.empty())
        return fail(completed.signal == SIGPIPE ? ErrorKind::unavailable : ErrorKind::internal, call.attempted,
                    "zfs was ended by signal " + std::to_string(completed.signal));
    return std::unexpected(zfs_error(call.attempted, completed.errors));
}

Result<std::string> ZfsCommand::run(Call const& call) const {
    auto const deadline = std::chrono::steady_clock::now() + patience_;
    auto pause = first_pause;
    while (true) {
        auto done = run_once(call);
        // Just after its use a dataset is sometimes busy for a moment, and nothing tells when that ends. Clones,
        // however, stay.
        bool const is_passing = !done && done.error().kind == ErrorKind::busy && call.in < 0 && call.out < 0 &&
                                done.error().reason.find("busy") != std::string::npos &&
                                done.error().reason.find(made_without_mount) == std::string::npos;
        if (!is_passing || std::chrono::steady_clock::now() + pause >= deadline) return done;
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, longest_busy_pause);
    }
}

}  // namespace triton::storage
