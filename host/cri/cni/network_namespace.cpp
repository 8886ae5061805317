#include "host/cri/cni/network_namespace.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/base/read_file.h"
#include "lib/base/start_thread.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/netlink/socket.h"

namespace triton::cri {

namespace {

constexpr std::size_t most_counter_bytes = 1U << 20;

Result<> set_sysctl(std::string const& name, std::string const& value) {
    std::string path = name;
    std::ranges::replace(path, '.', '/');
    path = "/proc/sys/" + path;
    UniqueFd const file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (!file || !write_all(file.get(), value)) return fail(errno, "set sysctl " + name + " to " + value);
    return {};
}

Result<> enter_network(std::string const& path) {
    UniqueFd const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!file) return fail(errno, "open " + path);
    if (::setns(file.get(), CLONE_NEWNET) != 0) return fail(errno, "enter " + path);
    return {};
}

/// In a thread of its own, which ends with this: its namespace is not the others'.
Result<> fill_namespace(std::string const& path, std::map<std::string, std::string> const& sysctls,
                        std::string const& existing) {
    if (existing.empty()) {
        if (::unshare(CLONE_NEWNET) != 0) return fail(errno, "make a network namespace");
    } else {
        TRY(enter_network(existing));
    }
    auto netlink = TRY(netlink::Socket::open());
    auto const loopback = TRY(netlink.link("lo"));
    netlink::LinkChange change;
    change.is_up = true;
    TRY(netlink.change(loopback.index, change));
    for (auto const& [name, value] : sysctls)
        if (name.starts_with("net.") || name.starts_with("net/")) TRY(set_sysctl(name, value));
    if (::mount("/proc/thread-self/ns/net", path.c_str(), nullptr, MS_BIND, nullptr) != 0)
        return fail(errno, "pin a network namespace on " + path);
    return {};
}

Result<std::string> read_counters_inside(std::string const& path) {
    TRY(enter_network(path));
    return read_file("/proc/thread-self/net/dev", most_counter_bytes);
}

}  // namespace

bool has_network_namespace(std::string const& path) {
    struct statfs status{};
    return ::statfs(path.c_str(), &status) == 0 && status.f_type == NSFS_MAGIC;
}

Result<> make_network_namespace(std::string const& path, std::map<std::string, std::string> const& sysctls,
                                std::string const& existing) {
    TRY(remove_network_namespace(path));
    std::error_code error;
    std::string const directory = path.substr(0, path.rfind('/'));
    bool const is_new = std::filesystem::create_directories(directory, error);
    if (error) return fail(error.value(), "make directory " + directory);
    if (is_new)  // others look there, and are told the path
        std::filesystem::permissions(directory, std::filesystem::perms(0755), error);
    UniqueFd const file{::open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0)};
    if (!file) return fail(errno, "make " + path);
    Result<> done;
    auto thread = TRY(start_thread([&] { done = fill_namespace(path, sysctls, existing); }));
    thread.join();
    if (!done) (void)remove_network_namespace(path);
    return done;
}

Result<std::string> read_network_counters(std::string const& path) {
    Result<std::string> text;
    auto thread = TRY(start_thread([&] { text = read_counters_inside(path); }));
    thread.join();
    return text;
}

Result<> remove_network_namespace(std::string const& path) {
    while (has_network_namespace(path))
        if (::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) return fail(errno, "unmount " + path);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail(errno, "remove " + path);
    return {};
}

}  // namespace triton::cri
