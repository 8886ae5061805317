#include "host/image/preparation.h"

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include "lib/process/run_command.h"

namespace triton::image {

namespace {

constexpr auto most_time = std::chrono::hours(1);
constexpr std::size_t most_lines = 10;
constexpr char const* nspawn = "/usr/bin/systemd-nspawn";
constexpr char const* inside = "/run/prepare-image";

/// Leaves what programs of a machine's root need to change its files, and takes everything that reaches the host.
constexpr char const* dropped_capabilities =
    "--drop-capability=CAP_AUDIT_CONTROL,CAP_AUDIT_WRITE,CAP_IPC_OWNER,CAP_LEASE,CAP_LINUX_IMMUTABLE,CAP_MKNOD,"
    "CAP_NET_ADMIN,CAP_NET_BIND_SERVICE,CAP_NET_BROADCAST,CAP_NET_RAW,CAP_SYS_ADMIN,CAP_SYS_BOOT,CAP_SYS_NICE,"
    "CAP_SYS_PTRACE,CAP_SYS_RESOURCE,CAP_SYS_TTY_CONFIG";

/// The last lines that the program, and systemd-nspawn, have written to standard error.
std::vector<std::string> last_lines(std::string_view text) {
    std::vector<std::string> lines;
    while (lines.size() < most_lines && !text.empty()) {
        if (text.ends_with('\n')) text.remove_suffix(1);
        std::size_t const start = text.rfind('\n') + 1;  // 0 when there is none
        lines.insert(lines.begin(), std::string(text.substr(start)));
        text = text.substr(0, start);
    }
    return lines;
}

}  // namespace

Result<> run_preparation(std::string const& script, std::string const& root, int cancel) {
    std::unique_ptr<char, decltype(&std::free)> const absolute(::realpath(script.c_str(), nullptr), &std::free);
    if (!absolute) return fail(errno, "find " + script);
    if (::access(absolute.get(), X_OK) != 0) return fail(errno, "run " + script);
    std::string path;
    for (char const* at = absolute.get(); *at; ++at)
        path += *at == ':' || *at == '\\' ? std::string("\\") + *at : std::string(1, *at);
    if (::access(nspawn, X_OK) != 0)
        return fail(ErrorKind::unsupported, "a script needs systemd-nspawn, of the package systemd-container");
    // Root runs programs of a tenant here, so they end with us, whatever ends us.
    auto const completed = process::run_command(
        {.arguments = {nspawn, "--quiet", "--settings=no", "--register=no", "--keep-unit", "--as-pid2", "--pipe",
                       "--private-network", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
                       "--no-new-privileges=yes", dropped_capabilities, "--directory=" + root,
                       "--bind-ro=" + path + ":" + inside, inside},
         .timeout = most_time,
         .cancel = cancel,
         .dies_with_us = true});
    if (!completed) return std::unexpected(completed.error());
    if (completed->is_ok()) return {};
    auto failed = fail(ErrorKind::refused, "prepare the image with " + script,
                       completed->signal != 0 ? "it was ended by signal " + std::to_string(completed->signal)
                                              : "its exit code is " + std::to_string(completed->exit_code));
    failed.error().details = last_lines(completed->errors);
    return failed;
}

}  // namespace triton::image
