#include "launcher/plan/program_attributes.h"

#include <chrono>
#include <iterator>
#include <string>
#include <utility>

namespace triton::launcher {

namespace {

/// Checks that the readiness descriptor does not have a socket's number.
void check_ready_target(config::Program const& program, json::Where const& at, json::Problems& problems) {
    if (!program.readiness || program.readiness->type != config::ReadinessType::fd || program.sockets.empty()) return;
    int const last = 2 + static_cast<int>(program.sockets.size());
    if (program.readiness->fd > last) return;
    json::Where const readiness{&at, std::string_view("readiness")};
    problems.push_back(
        {json::Where{&readiness, std::string_view("fd")}.text(),
         std::to_string(program.readiness->fd) + " is taken by the sockets, which are 3 to " + std::to_string(last)});
}

}  // namespace

std::expected<process::Attributes, json::Problems> resolve_attributes(config::Program const& program,
                                                                      json::Where const& at,
                                                                      process::MachineCheck check,
                                                                      process::LoadMemory& memory,
                                                                      process::AccountFiles const& files) {
    json::Problems problems;
    check_ready_target(program, at, problems);
    auto resolved = process::resolve_attributes(program, at, check, memory, files);
    if (!resolved) std::ranges::move(resolved.error(), std::back_inserter(problems));
    if (!problems.empty()) return std::unexpected(std::move(problems));
    for (config::ListenSocket const& socket : program.sockets)
        resolved->listen_names.push_back(socket.name);
    if (program.watchdog)
        resolved->watchdog_microseconds =
            static_cast<std::uint64_t>(std::chrono::microseconds(*program.watchdog).count());
    if (program.readiness && program.readiness->type == config::ReadinessType::fd)
        resolved->ready_target = program.readiness->fd;
    return resolved;
}

std::expected<process::Attributes, json::Problems> resolve_attributes(config::Program const& program,
                                                                      json::Where const& at,
                                                                      process::MachineCheck check) {
    process::LoadMemory memory;
    return resolve_attributes(program, at, check, memory);
}

}  // namespace triton::launcher
