#include "host/machine/init.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/signal_names.h"
#include "lib/files/confined_path.h"

namespace triton::machine {

namespace {

constexpr Init with_container_interface{.kill_signal = rtmin + 3, .has_container_interface = true};

/// Where systemd-nspawn looks for the init of an image, in its order.
constexpr std::array inits{"/usr/lib/systemd/systemd", "/lib/systemd/systemd", "/sbin/init"};

struct Known {
    std::string_view name;
    Init init;
};
constexpr std::array known{
    Known{"systemd", with_container_interface},
    Known{"triton-launch", with_container_interface},
    Known{"busybox", {.kill_signal = SIGUSR2}},
};

/// Whether the machine itself has no such file: nothing of that name, or links that lead nowhere, that are too long, or
/// that change while they are followed. Its root makes them, and must not keep us from changing the machine.
bool is_missing(Error const& error) {
    return error.kind == ErrorKind::not_found || error.kind == ErrorKind::refused || error.kind == ErrorKind::invalid ||
           error.kind == ErrorKind::denied || error.code == EAGAIN || error.code == ESTALE || error.code == EOVERFLOW;
}

/// The name of the file that a path leads to inside of a machine; nullopt: to none.
Result<std::optional<std::string>> name_behind(std::string const& root, std::string const& path) {
    auto const file = files::open_confined(root, path, O_PATH | O_CLOEXEC);
    if (!file && is_missing(file.error())) return std::nullopt;
    if (!file) return std::unexpected(file.error());
    struct stat status;
    if (::fstat(file->get(), &status) != 0) return fail(errno, "look at " + path + " inside " + root);
    if (!S_ISREG(status.st_mode)) return std::nullopt;
    std::array<char, PATH_MAX> link;
    ssize_t const size = ::readlink(("/proc/self/fd/" + std::to_string(file->get())).c_str(), link.data(), link.size());
    if (size < 0) return fail(errno, "look at " + path + " inside " + root);
    std::string_view const found(link.data(), static_cast<std::size_t>(size));
    return std::string(found.substr(found.rfind('/') + 1));
}

}  // namespace

Init init_of_name(std::string_view name) {
    auto const* const found = std::ranges::find(known, name, &Known::name);
    return found == known.end() ? Init{} : found->init;
}

Result<std::optional<Init>> init_of(Machine const& machine, std::string const& root) {
    if (machine.launch) return Init{.kill_signal = SIGTERM, .has_container_interface = true};
    if (machine.init_name) {
        auto const name = TRY(name_behind(root, *machine.init_name));
        return name.transform(init_of_name);
    }
    for (char const* const path : inits)
        if (auto const name = TRY(name_behind(root, path))) return init_of_name(*name);
    return std::nullopt;
}

Result<std::string> init_path(std::string const& root) {
    for (char const* const path : inits)
        if (TRY(name_behind(root, path))) return std::string(path);
    return std::string();
}

Result<bool> has_os_release(std::string const& root) {
    return TRY(name_behind(root, "/etc/os-release")) || TRY(name_behind(root, "/usr/lib/os-release"));
}

Result<bool> make_usr(std::string const& root) {
    UniqueFd const directory{::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    if (!directory) return false;  // what starts it says so
    struct stat own{};
    if (::fstat(directory.get(), &own) != 0) return fail(errno, "look at " + root);
    if (::mkdirat(directory.get(), "usr", 0755) != 0) {
        if (errno == EEXIST) return false;
        return fail(errno, "make /usr in " + root);
    }
    // On a file system without idmapped mounts the files belong to uids of the machine.
    if (::fchownat(directory.get(), "usr", own.st_uid, own.st_gid, AT_SYMLINK_NOFOLLOW) != 0)
        return fail(errno, "make /usr in " + root);
    return true;
}

std::string no_init_text(Machine const& machine) {
    if (machine.init_name) return "its init_name " + *machine.init_name + " is not a program of its image";
    std::string tried;
    for (char const* const path : inits)
        tried += (tried.empty() ? "" : ", ") + std::string(path);
    return "its image has no init (tried: " + tried + "): name a program in init_name, or several in launch";
}

}  // namespace triton::machine
