#include "host/cri/container/mounts.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "host/cri/wire/messages.h"
#include "lib/base/mount_table.h"
#include "lib/base/read_file.h"
#include "lib/json/text.h"

namespace triton::cri {

namespace {

constexpr std::size_t largest_mountinfo = 64U << 20U;
constexpr int most_mounts = 4096;

std::vector<SpecMount> usual_mounts(v1::ContainerConfig const& config, PodFiles const& files) {
    auto const& context = config.linux().security_context();
    bool const is_privileged = context.privileged();
    char const* const access = is_privileged ? "rw" : "ro";
    bool const has_writable_groups = is_privileged || context.cgroup_mount_mode() == v1::CGROUP_MOUNT_MODE_READ_WRITE;
    std::vector<SpecMount> mounts{
        {"/proc", "proc", "proc", {"nosuid", "noexec", "nodev"}},
        {"/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"}},
        {"/dev/pts", "devpts", "devpts", {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
        {"/dev/mqueue", "mqueue", "mqueue", {"nosuid", "noexec", "nodev"}},
        {"/sys", "sysfs", "sysfs", {"nosuid", "noexec", "nodev", access}},
        {"/sys/fs/cgroup",
         "cgroup",
         "cgroup",
         {"nosuid", "noexec", "nodev", "relatime", has_writable_groups ? "rw" : "ro"}},
    };
    std::string const memory = files.has_ipc ? files.memory : "/dev/shm";
    if (!files.has_ipc)
        std::erase_if(mounts, [](SpecMount const& mount) { return mount.destination == "/dev/mqueue"; });
    mounts.push_back({"/dev/shm", "bind", memory, {"rbind", "rprivate", "nosuid", "noexec", "nodev", "rw"}});
    char const* const files_access = context.readonly_rootfs() ? "ro" : "rw";
    std::pair<char const*, std::string> const generated[] = {
        {"/etc/resolv.conf", files.resolver}, {"/etc/hostname", files.hostname}, {"/etc/hosts", files.hosts}};
    for (auto const& [destination, source] : generated)
        if (!source.empty()) mounts.push_back({destination, "bind", source, {"rbind", "rprivate", files_access}});
    return mounts;
}

/// The path without "." and "//"; one with ".." is none.
Result<std::string> clean_path(std::string const& path, char const* what) {
    std::filesystem::path const parsed(path);
    bool const has_dots = std::ranges::any_of(parsed, [](auto const& part) { return part == ".."; });
    if (!parsed.is_absolute() || has_dots || path.size() >= PATH_MAX || path.find('\0') != std::string::npos)
        return fail(ErrorKind::invalid, json::quoted(path) + " cannot be the " + what + " of a mount");
    std::string clean = parsed.lexically_normal().string();
    while (clean.size() > 1 && clean.ends_with('/'))
        clean.pop_back();
    return clean;
}

/// The source on this host, links followed. One that does not exist becomes a directory.
Result<std::string> find_source(std::string const& path) {
    auto const resolve = [&] {
        return std::unique_ptr<char, void (*)(void*)>(::realpath(path.c_str(), nullptr), std::free);
    };
    auto found = resolve();
    if (!found && errno == ENOENT) {
        std::error_code error;
        std::filesystem::create_directories(path, error);
        if (error) return fail(error.value(), "make " + path);
        found = resolve();
    }
    if (!found) return fail(errno, "find " + path);
    return std::string(found.get());
}

/// Nobody writes to an image, and nothing of it has rights that its reader does not have.
SpecMount image_mount(std::string destination, std::string const& source) {
    return {.destination = std::move(destination),
            .type = "bind",
            .source = source,
            .options = {"rbind", "rprivate", "ro", "nosuid", "nodev"}};
}

/// `source`: where it is found; null: by its path on this host.
Result<SpecMount> requested_mount(v1::Mount const& mount, std::string const* source, std::string_view mountinfo) {
    SpecMount made{.destination = {}, .type = "bind", .source = {}, .options = {"rbind"}};
    made.destination = TRY(clean_path(mount.container_path(), "container_path"));
    if (mount.has_image() && !mount.image().image().empty()) {
        if (!mount.readonly()) return fail(ErrorKind::invalid, "a volume that is an image must be read-only");
        if (!source) return fail(ErrorKind::internal, "the image of a volume was not looked for");
        return image_mount(std::move(made.destination), *source);
    }
    if (mount.recursive_read_only() && (!mount.readonly() || mount.propagation() != v1::PROPAGATION_PRIVATE))
        return fail(ErrorKind::invalid, "a mount that is recursively read-only must be read-only and private");
    made.source = TRY(host_source(mount));
    Propagation const of_source = propagation_of(mountinfo, made.source);
    switch (mount.propagation()) {
        case v1::PROPAGATION_HOST_TO_CONTAINER:
            if (!of_source.is_shared && !of_source.is_slave)
                return fail(ErrorKind::invalid, made.source + " is on a mount that is neither shared nor a slave");
            made.options.emplace_back("rslave");
            break;
        case v1::PROPAGATION_BIDIRECTIONAL:
            if (!of_source.is_shared)
                return fail(ErrorKind::invalid, made.source + " is on a mount that is not shared");
            made.options.emplace_back("rshared");
            break;
        default: made.options.emplace_back("rprivate");
    }
    made.options.emplace_back(mount.recursive_read_only() ? "rro" : mount.readonly() ? "ro" : "rw");
    if (source) made.source = *source;
    for (std::string const& option : mount.mount_options()) {
        if (option != "nosuid" && option != "nodev" && option != "noexec")
            return fail(ErrorKind::invalid, json::quoted(option) + " is not an option of a mount");
        made.options.push_back(option);
    }
    return made;
}

bool is_at_or_below(std::string const& path, std::string const& above) {
    return path == above || path.starts_with(above == "/" ? above : above + "/");
}

}  // namespace

Result<std::string> host_source(v1::Mount const& mount) {
    return find_source(TRY(clean_path(mount.host_path(), "host_path")));
}

Propagation propagation_of(std::string_view mountinfo, std::string const& path) {
    auto const mount = mount_above(mountinfo, path);
    if (!mount) return {};
    return {.is_shared = mount->optional.find("shared:") != std::string_view::npos,
            .is_slave = mount->optional.find("master:") != std::string_view::npos};
}

Result<ContainerMounts> find_mounts(v1::ContainerConfig const& config, PodFiles const& files) {
    if (config.mounts_size() > most_mounts) return fail(ErrorKind::invalid, "a container cannot have so many mounts");
    std::string const mountinfo = TRY(read_file("/proc/self/mountinfo", largest_mountinfo));
    std::vector<SpecMount> requested;
    ContainerMounts found;
    for (int i = 0; i < config.mounts_size(); ++i) {
        v1::Mount const& mount = config.mounts(i);
        auto const source = files.sources.find(i);
        requested.push_back(
            TRY(requested_mount(mount, source == files.sources.end() ? nullptr : &source->second, mountinfo)));
        if (mount.propagation() == v1::PROPAGATION_BIDIRECTIONAL) found.propagation = "rshared";
        if (mount.propagation() == v1::PROPAGATION_HOST_TO_CONTAINER && found.propagation == "rprivate")
            found.propagation = "rslave";
    }
    for (SpecMount& usual : usual_mounts(config, files)) {
        bool const gives_way = std::ranges::any_of(requested, [&](SpecMount const& one) {
            return one.destination == usual.destination ||
                   (one.destination == "/dev" && is_at_or_below(usual.destination, one.destination));
        });
        if (!gives_way) found.mounts.push_back(std::move(usual));
    }
    std::ranges::stable_sort(requested, {},
                             [](SpecMount const& mount) { return std::ranges::count(mount.destination, '/'); });
    std::ranges::move(requested, std::back_inserter(found.mounts));
    return found;
}

}  // namespace triton::cri
