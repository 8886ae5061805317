#include "host/volume/work/secret.h"

#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"
#include "lib/json/text.h"
#include "lib/process/run_command.h"

namespace triton::volume {

namespace {

constexpr std::size_t largest_secret = 1 << 20;
constexpr std::string_view sealed_suffix = ".cred";
constexpr std::size_t longest_reason = 200;
constexpr std::chrono::seconds patience{30};  // a TPM takes its time

/// The last line, which names the reason.
std::string reason_of(std::string errors) {
    while (errors.ends_with('\n'))
        errors.pop_back();
    return json::quoted(errors.substr(errors.rfind('\n') + 1), longest_reason);
}

/// The name that a file was sealed under is a part of what is checked: another host's, or another file, is refused.
Result<std::string> unseal(int file, std::string const& path) {
    std::string const name = path.substr(path.rfind('/') + 1);
    auto completed = process::run_command({.arguments = {"systemd-creds", "decrypt", "--name=" + name, "-", "-"},
                                           .in = file,
                                           .timeout = patience,
                                           .most_output = largest_secret});
    if (!completed && completed.error().kind == ErrorKind::not_found)
        return fail(ErrorKind::unsupported, "open " + path, "systemd-creds is not installed");
    if (!completed) return std::unexpected(completed.error());
    if (!completed->is_ok()) return fail(ErrorKind::invalid, "open " + path, reason_of(std::move(completed->errors)));
    if (!completed->is_whole) return fail(ErrorKind::invalid, "open " + path, "it is larger than a secret can be");
    return std::move(completed->output);
}

}  // namespace

Result<std::string> read_secret(std::string const& path) {
    UniqueFd const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) return fail(errno, "read " + path);
    if (!S_ISREG(status.st_mode)) return fail("read " + path + ": it is not a regular file");
    bool const is_sealed = path.ends_with(sealed_suffix);
    if (is_sealed && (status.st_uid != 0 || (status.st_mode & 022) != 0))
        return fail(ErrorKind::refused, "use " + path, "others than root can change it; chmod go-w " + path);
    if (is_sealed) return unseal(file.get(), path);
    if (status.st_uid != 0 || (status.st_mode & 077) != 0)
        return fail(ErrorKind::refused, "use " + path, "others than root can read it; chmod 600 " + path);
    return read_open_file(file.get(), path, largest_secret);
}

}  // namespace triton::volume
