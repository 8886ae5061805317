#include "host/cri/sandbox/cgroups.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/base/new_calls.h"
#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/json/text.h"

namespace triton::cri {

namespace {

constexpr int most_rounds = 200;
constexpr int round_milliseconds = 10;
constexpr std::size_t most_process_bytes = 16U << 20U;
constexpr std::size_t most_held = 256;  // descriptors of processes at one time

/// "a-b.slice" is below "a.slice".
std::string slice_path(std::string const& slice) {
    std::string const name = slice.substr(0, slice.rfind(".slice"));
    std::string path;
    for (std::size_t dash = name.find('-'); dash != std::string::npos; dash = name.find('-', dash + 1))
        path += "/" + name.substr(0, dash) + ".slice";
    return path + "/" + slice;
}

std::vector<std::string> with_below(std::string const& place) {
    std::vector<std::string> all{place};
    std::error_code error;
    for (auto it = std::filesystem::recursive_directory_iterator(place, error);
         !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error))
        if (it->is_directory(error)) all.push_back(it->path().string());
    return all;
}

std::vector<pid_t> processes_in(std::string const& group) {
    auto const text = read_file(group + "/cgroup.procs", most_process_bytes);
    std::string_view rest = text ? std::string_view(*text) : std::string_view();
    std::vector<pid_t> found;
    while (!rest.empty()) {
        std::string_view const line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        pid_t pid = 0;
        std::from_chars(line.data(), line.data() + line.size(), pid);
        if (pid > 1) found.push_back(pid);  // 0: of a PID namespace that we do not see
    }
    std::ranges::sort(found);
    return found;
}

/// Signals processes of a group, never another one that has got the number of one that has ended: the number is looked
/// up again when a descriptor holds its process. Returns whether one was signalled.
bool kill_some(std::string const& group, std::span<pid_t const> pids) {
    std::vector<std::pair<pid_t, UniqueFd>> held;
    bool has_some = false;
    for (pid_t const pid : pids) {
        UniqueFd process{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
        if (process)
            held.emplace_back(pid, std::move(process));
        else if (is_missing_call(errno))
            has_some = ::kill(pid, SIGKILL) == 0 || has_some;
    }
    auto const now = processes_in(group);
    for (auto const& [pid, process] : held)
        if (std::ranges::binary_search(now, pid)) has_some = signal_child(process.get(), pid, SIGKILL) == 0 || has_some;
    return has_some;
}

bool has_processes(std::string const& place) {
    return std::ranges::any_of(with_below(place),
                               [](std::string const& group) { return !processes_in(group).empty(); });
}

/// Returns whether there was a process.
bool signal_all(std::string const& place) {
    bool has_some = false;
    for (std::string const& group : with_below(place)) {
        auto pids = processes_in(group);
        std::erase(pids, ::getpid());
        for (std::size_t i = 0; i < pids.size(); i += most_held)
            has_some = kill_some(group, std::span(pids).subspan(i, std::min(most_held, pids.size() - i))) || has_some;
    }
    return has_some;
}

/// Stops everything in a group of the freezer (version 1) as long as this exists, so that nothing is started between
/// the signals. SIGKILL waits until then.
class Frozen {
public:
    explicit Frozen(std::string place) : place_(std::move(place)) {
        auto const groups = with_below(place_);
        bool const is_ours = std::ranges::any_of(groups, [](std::string const& group) {
            return std::ranges::binary_search(processes_in(group), ::getpid());
        });
        if (is_ours || !write("FROZEN")) place_.clear();
    }
    ~Frozen() {
        if (!place_.empty()) (void)write("THAWED");  // of a group that is gone
    }
    Frozen(Frozen const&) = delete;
    Frozen& operator=(Frozen const&) = delete;

private:
    [[nodiscard]] bool write(char const* state) const {
        UniqueFd const file{::open((place_ + "/freezer.state").c_str(), O_WRONLY | O_CLOEXEC)};
        return file && write_all(file.get(), state);
    }

    std::string place_;
};

/// An empty mount point, as of the v2 hierarchy that somebody has unmounted, is not one.
bool is_hierarchy(std::string const& path) {
    struct statfs status{};
    return ::statfs(path.c_str(), &status) == 0 &&
           (status.f_type == CGROUP_SUPER_MAGIC || status.f_type == CGROUP2_SUPER_MAGIC);
}

}  // namespace

Result<> check_cgroup_parent(std::string const& parent) {
    bool const has_dots = ("/" + parent + "/").find("/../") != std::string::npos;
    if (has_dots || parent.find('\0') != std::string::npos || parent.size() > 2048)
        return fail(ErrorKind::invalid, json::quoted(parent) + " cannot be a cgroup_parent");
    return {};
}

bool Cgroups::is_unified() const { return ::access((top_ + "/cgroup.controllers").c_str(), F_OK) == 0; }

std::string Cgroups::specified(std::string const& parent, std::string const& container) const {
    if (!is_systemd_) return path(parent, container);
    std::string const slice = parent.substr(parent.rfind('/') + 1);
    return (slice.empty() ? "system.slice" : slice) + ":triton:" + container;
}

std::string Cgroups::pod_path(std::string const& parent) const {
    if (parent.empty() || parent == "/") return {};
    if (!is_systemd_) return parent.starts_with('/') ? parent : "/" + parent;
    return slice_path(parent.substr(parent.rfind('/') + 1));
}

std::string Cgroups::path(std::string const& parent, std::string const& container) const {
    if (!is_systemd_) return (parent.starts_with('/') || parent.empty() ? parent : "/" + parent) + "/" + container;
    std::string const slice = parent.substr(parent.rfind('/') + 1);
    return slice_path(slice.empty() ? "system.slice" : slice) + "/triton-" + container + ".scope";
}

std::vector<std::string> Cgroups::hierarchies() const {
    if (is_unified()) return {top_};
    std::vector<std::string> found;
    std::error_code error;
    for (auto const& entry : std::filesystem::directory_iterator(top_, error))
        if (!entry.is_symlink(error) && is_hierarchy(entry.path().string())) found.push_back(entry.path().string());
    return found;
}

std::vector<std::string> Cgroups::places(std::string const& path) const {
    std::vector<std::string> found;
    for (std::string const& hierarchy : hierarchies())
        if (::access((hierarchy + path).c_str(), F_OK) == 0) found.push_back(hierarchy + path);
    return found;
}

std::string Cgroups::oom_files(std::string const& path) const {
    return is_unified() ? top_ + path + "/memory.events" : top_ + "/memory" + path + "/memory.oom_control";
}

Result<> Cgroups::kill(std::string const& path) const {
    if (path.size() < 2) return {};
    for (std::string const& place : places(path)) {
        UniqueFd const all{::open((place + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC)};
        if (all && write_all(all.get(), "1")) continue;
        int round = 0;
        for (; round < most_rounds && has_processes(place); ++round) {
            if (round > 1) ::poll(nullptr, 0, round_milliseconds);
            std::optional<Frozen> frozen;
            if (!is_unified()) frozen.emplace(top_ + "/freezer" + path);
            if (!signal_all(place)) break;
        }
        if (round == most_rounds)
            return fail(ErrorKind::timeout, "kill what is in " + place, "processes are still there");
    }
    return {};
}

void Cgroups::remove(std::string const& path) const {
    if (path.size() < 2) return;
    for (std::string const& place : places(path)) {
        auto groups = with_below(place);
        std::ranges::reverse(groups);
        for (int round = 0; round < most_rounds; ++round) {  // the kernel needs a moment after the last exit
            for (std::string const& group : groups)
                ::rmdir(group.c_str());
            if (::access(place.c_str(), F_OK) != 0) break;
            ::poll(nullptr, 0, round_milliseconds);
        }
    }
}

}  // namespace triton::cri
