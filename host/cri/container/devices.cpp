#include "host/cri/container/devices.h"

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "host/cri/wire/messages.h"
#include "lib/json/text.h"

namespace triton::cri {

namespace {

constexpr std::size_t most_devices = 4096;

/// nullopt: it is no device, or cannot be looked at.
std::optional<SpecDevice> look(std::string const& host_path, std::string path) {
    struct stat status{};
    if (::stat(host_path.c_str(), &status) != 0) return std::nullopt;
    if (!S_ISCHR(status.st_mode) && !S_ISBLK(status.st_mode)) return std::nullopt;
    return SpecDevice{.path = std::move(path),
                      .type = S_ISCHR(status.st_mode) ? 'c' : 'b',
                      .major = major(status.st_rdev),
                      .minor = minor(status.st_rdev),
                      .mode = status.st_mode & 0777U,
                      .user = status.st_uid,
                      .group = status.st_gid};
}

/// Those below a directory. Terminals, and what the container has of its own, are left out.
void add_directory(std::string const& host_path, std::string const& path, std::vector<SpecDevice>& found) {
    constexpr std::array<std::string_view, 5> own{"pts", "shm", "fd", "mqueue", "console"};
    std::error_code error;
    for (auto const& entry : std::filesystem::directory_iterator(host_path, error)) {
        std::string const name = entry.path().filename().string();
        if (std::ranges::find(own, name) != own.end() || entry.is_symlink(error) || found.size() >= most_devices)
            continue;
        std::string const inside = path + "/" + name;
        if (entry.is_directory(error))
            add_directory(entry.path().string(), inside, found);
        else if (auto device = look(entry.path().string(), inside))
            found.push_back(*std::move(device));
    }
}

}  // namespace

Result<std::vector<SpecDevice>> find_devices(v1::ContainerConfig const& config) {
    std::vector<SpecDevice> found;
    if (config.linux().security_context().privileged()) add_directory("/dev", "/dev", found);
    for (v1::Device const& wanted : config.devices()) {
        std::string const permissions = wanted.permissions().empty() ? "rwm" : wanted.permissions();
        if (permissions.find_first_not_of("rwm") != std::string::npos)
            return fail(ErrorKind::invalid, json::quoted(permissions) + " are not permissions of a device");
        std::string const path = wanted.container_path().empty() ? wanted.host_path() : wanted.container_path();
        std::vector<SpecDevice> some;
        struct stat status{};
        if (::stat(wanted.host_path().c_str(), &status) != 0) return fail(errno, "find device " + wanted.host_path());
        if (S_ISDIR(status.st_mode))
            add_directory(wanted.host_path(), path, some);
        else if (auto device = look(wanted.host_path(), path))
            some.push_back(*std::move(device));
        else
            return fail(ErrorKind::invalid, wanted.host_path() + " is not a device");
        for (SpecDevice& device : some) {
            device.permissions = permissions;
            std::erase_if(found, [&](SpecDevice const& other) { return other.path == device.path; });
            found.push_back(std::move(device));
        }
    }
    return found;
}

}  // namespace triton::cri
