#include "lib/process/cgroup.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/mount_table.h"
#include "lib/base/new_calls.h"
#include "lib/base/read_file.h"

namespace triton::process {

namespace {

constexpr std::string_view own_leaf = "launcher";
constexpr std::array<std::string_view, 3> used_controllers{"memory", "cpu", "pids"};
constexpr std::size_t largest_file = 16 << 20;
constexpr std::uint64_t cpu_period = 100'000;  // microseconds: the kernel's default

/// Cuts the text before `separator`, and the separator, off the front of `text`.
std::string_view take_word(std::string_view& text, char separator) {
    std::size_t const end = std::min(text.find(separator), text.size());
    std::string_view const part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return part;
}

/// Calls `use` with each line or word, until it returns true.
template <class Use>
bool for_each_part(std::string_view text, char separator, Use use) {
    while (!text.empty()) {
        std::string_view const part = take_word(text, separator);
        if (!part.empty() && use(part)) return true;
    }
    return false;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
    std::uint64_t number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{}) return std::nullopt;
    return number;
}

/// The part of `path` below `root`, with its leading slash; nullopt when it is not below.
std::optional<std::string_view> below(std::string_view path, std::string_view root) {
    if (root == "/") root = "";
    if (!path.starts_with(root)) return std::nullopt;
    path.remove_prefix(root.size());
    if (!path.empty() && path[0] != '/') return std::nullopt;
    return path == "/" ? "" : path;
}

Result<> write_value(std::string const& path, std::string_view text) {
    UniqueFd const fd{::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC)};
    if (!fd || ::write(fd.get(), text.data(), text.size()) < 0) return fail(errno, "write " + path);
    return {};
}

Result<std::string> read(std::string const& path) { return read_file(path, largest_file); }

/// The number behind a key of a file such as memory.events.
std::optional<std::uint64_t> find_key(std::string_view text, std::string_view key) {
    std::optional<std::uint64_t> number;
    for_each_part(text, '\n', [&](std::string_view line) {
        if (take_word(line, ' ') == key) number = parse_number(line);
        return number.has_value();
    });
    return number;
}

/// The cgroup v2 line of a text of /proc/pid/cgroup: its path below the root of our cgroup namespace.
std::string_view unified_path(std::string_view text) {
    constexpr std::string_view unified = "0::";
    std::string_view path;
    for_each_part(text, '\n', [&](std::string_view line) {
        if (line.starts_with(unified)) path = line.substr(unified.size());
        return !path.empty();
    });
    return path;
}

/// nullopt: there is no such process, or no cgroup v2.
std::optional<std::string> group_of(std::string const& pid) {
    auto const text = read("/proc/" + pid + "/cgroup");
    if (!text || unified_path(*text).empty()) return std::nullopt;
    return std::string(unified_path(*text));
}

bool has_word(std::string_view text, std::string_view word) {
    while (text.ends_with('\n'))
        text.remove_suffix(1);
    return for_each_part(text, ' ', [word](std::string_view other) { return other == word; });
}

struct CloseDirectory {
    void operator()(DIR* directory) const { ::closedir(directory); }
};

// Trees of groups. A program makes groups below its own, as deep and as many as it likes.

/// The names of the groups directly below an open one (borrowed).
std::vector<std::string> groups_below(int group) {
    std::vector<std::string> names;
    int const own = ::openat(group, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) return names;
    std::unique_ptr<DIR, CloseDirectory> const directory{::fdopendir(own)};
    if (!directory) {
        ::close(own);
        return names;
    }
    while (dirent const* const entry = ::readdir(directory.get())) {
        std::string_view const name = entry->d_name;
        if (entry->d_type == DT_DIR && name != "." && name != "..") names.emplace_back(name);
    }
    return names;
}

Result<UniqueFd> enter_group(int from, char const* name, std::string const& path) {
    UniqueFd fd{::openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    int const err = errno;
    if (!fd) return fail(err, "open a group below " + path);
    return fd;
}

enum class Below : bool { all, not_apart };

/// Calls `enter` with each group, from the top, and `leave` with the group above and a name when everything below that
/// one has been visited. Each group is opened from its neighbour: a path longer than PATH_MAX hides nobody, and few
/// descriptors are needed.
template <class Enter, class Leave>
Result<> walk_groups(std::string const& path, Enter enter, Leave leave, Below which = Below::all) {
    struct Level {
        std::string name;
        std::vector<std::string> rest;  // the groups below it that have not been visited
    };
    UniqueFd here = TRY(enter_group(AT_FDCWD, path.c_str(), path));
    TRY(enter(here.get()));
    std::vector<Level> levels;
    levels.push_back({{}, groups_below(here.get())});
    if (which == Below::not_apart)
        std::erase_if(levels.front().rest, [](std::string const& name) { return name.starts_with(Cgroup::apart); });
    while (!levels.empty()) {
        if (levels.back().rest.empty()) {
            std::string const name = std::move(levels.back().name);
            levels.pop_back();
            if (levels.empty()) break;
            here = TRY(enter_group(here.get(), "..", path));
            TRY(leave(here.get(), name));
            continue;
        }
        std::string name = std::move(levels.back().rest.back());
        levels.back().rest.pop_back();
        auto next = enter_group(here.get(), name.c_str(), path);
        if (!next && next.error().kind == ErrorKind::not_found) continue;  // removed meanwhile
        here = TRY(std::move(next));
        auto const entered = enter(here.get());
        if (!entered && entered.error().kind != ErrorKind::not_found) return entered;
        levels.push_back({std::move(name), groups_below(here.get())});
    }
    return {};
}

/// Collects the processes of a group and of all groups below it. A process outside our PID namespace reads as 0.
Result<> collect_processes(std::string const& path, std::vector<pid_t>& pids, Below which = Below::not_apart) {
    auto const collect = [&](int group) -> Result<> {
        UniqueFd const file{::openat(group, "cgroup.procs", O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
        int const err = errno;
        if (!file) return fail(err, "open cgroup.procs in or below " + path);
        auto const text = read_open_file(file.get(), path, largest_file);
        if (!text && text.error().kind == ErrorKind::unsupported) return {};  // threaded: the group above lists them
        if (!text) return std::unexpected(text.error());
        for_each_part(*text, '\n', [&](std::string_view line) {
            if (auto const pid = parse_number(line)) pids.push_back(static_cast<pid_t>(*pid));
            return false;
        });
        return {};
    };
    return walk_groups(path, collect, [](int, std::string const&) -> Result<> { return {}; }, which);
}

/// Signals processes, except for 0 and our own pid: with these kill(2) would reach us.
RefusedSignals signal_all(std::vector<pid_t> const& pids, int signo) {
    RefusedSignals refused;
    for (pid_t const pid : pids) {
        if (pid > 1 && pid != ::getpid()) refused.add(pid, ::kill(pid, signo) == 0 ? 0 : errno);
    }
    return refused;
}

Result<> remove_tree(std::string const& path) {
    auto const remove = [&](int above, std::string const& name) -> Result<> {
        if (::unlinkat(above, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
            return fail(errno, "remove a cgroup below " + path);
        return {};
    };
    auto const walked = walk_groups(path, [](int) -> Result<> { return {}; }, remove);
    if (!walked && walked.error().kind != ErrorKind::not_found) return walked;
    if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return fail(errno, "remove cgroup " + path);
    return {};
}

/// One limit: its file, the wanted value, and the kernel's value by default.
struct LimitFile {
    std::string_view name;
    std::optional<std::uint64_t> CgroupLimits::* value;
    std::string_view initial;

    [[nodiscard]] std::string_view controller() const { return name.substr(0, name.find('.')); }
};

constexpr std::array<LimitFile, 6> limit_files{{{"memory.max", &CgroupLimits::memory_max, "max"},
                                                {"memory.high", &CgroupLimits::memory_high, "max"},
                                                {"memory.min", &CgroupLimits::memory_min, "0"},
                                                {"memory.swap.max", &CgroupLimits::swap_max, "max"},
                                                {"pids.max", &CgroupLimits::pids_max, "max"},
                                                {"cpu.max", &CgroupLimits::cpu_max, "max"}}};
constexpr std::string_view initial_weight = "100";
constexpr int most_rounds_of_a_kill = 64;  // without a freeze

std::string limit_text(LimitFile const& file, std::uint64_t value) {
    if (value == unlimited) return "max";
    if (file.name != "cpu.max") return std::to_string(value);
    return std::to_string(value * (cpu_period / 1000)) + " " + std::to_string(cpu_period);
}

std::string not_delegated(std::string_view controller, std::string const& path) {
    return "the " + std::string(controller) + " controller is not delegated to " + path;
}

std::string not_in_kernel(std::string_view file, std::string const& path) {
    return "this kernel has no " + std::string(file) + " in " + path;
}

/// Writes one file of a group; if the file does not exist, the error says why.
Result<> write_limit(std::string const& path, std::string_view file, std::string_view text) {
    auto written = write_value(path + "/" + std::string(file), text);
    if (written || written.error().kind != ErrorKind::not_found) return written;
    std::string_view const controller = file.substr(0, file.find('.'));
    auto const controllers = read(path + "/cgroup.controllers");
    if (controllers && has_word(*controllers, controller)) return fail(not_in_kernel(file, path));
    return fail(not_delegated(controller, path.substr(0, path.rfind('/'))));
}

}  // namespace

std::optional<std::string> find_own_cgroup(std::string_view mountinfo, std::string_view cgroup) {
    std::string_view const own = unified_path(cgroup);
    // "/../x": outside of our cgroup namespace
    if (!own.starts_with('/') || own.starts_with("/..")) return std::nullopt;

    std::optional<std::string> found;
    for_each_part(mountinfo, '\n', [&](std::string_view line) {
        auto const mount = parse_mount_line(line);
        if (!mount || mount->type != "cgroup2") return false;
        auto const path = below(own, unescape_mount_path(mount->root));
        if (path) found = unescape_mount_path(mount->point).append(*path);
        return false;  // a later mount hides an earlier one
    });
    return found;
}

Cgroup::~Cgroup() {
    if (!path_.empty()) (void)remove();  // processes that are still in it keep the group
}

Result<UniqueFd> Cgroup::directory() const {
    UniqueFd fd{::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    int const err = errno;
    if (!fd) return fail(err, "open " + path_);
    return fd;
}

Result<> Cgroup::set_limits(CgroupLimits const& limits) {
    if (std::exchange(was_there_, false)) {
        for (LimitFile const& file : limit_files)  // one that is not there limits nothing
            if (!(limits.*file.value)) (void)write_limit(path_, file.name, file.initial);
        if (!limits.cpu_weight) (void)write_limit(path_, "cpu.weight", initial_weight);
    }
    for (LimitFile const& file : limit_files) {
        auto const& value = limits.*file.value;
        auto& known = set_.*file.value;
        if (value == known) continue;
        TRY(write_limit(path_, file.name, value ? limit_text(file, *value) : std::string(file.initial)));
        known = value;
    }
    if (limits.cpu_weight != set_.cpu_weight) {
        TRY(write_limit(path_, "cpu.weight",
                        limits.cpu_weight ? std::to_string(*limits.cpu_weight) : std::string(initial_weight)));
        set_.cpu_weight = limits.cpu_weight;
    }
    return {};
}

/// Kills without cgroup.kill: since Linux 6.14 a group counts these, and a child of CLONE_INTO_CGROUP is killed at once
/// when that count is not the one of its parent's group (cgroup_css_set_fork() looks there, cgroup_post_fork() in its
/// own). So nothing could be started in the group any more.
Result<> Cgroup::kill() const {
    auto const populated = is_populated();
    if (populated && !*populated) return {};
    // A frozen process still dies of SIGKILL, but starts nothing more. Linux before 5.2 cannot freeze a group, and who
    // may not is refused; then the processes decide how many are new each time.
    bool const is_frozen = freeze(true).has_value();
    std::vector<pid_t> known;
    Result<> result;
    for (int rounds = 0; is_frozen || rounds < most_rounds_of_a_kill; ++rounds) {
        std::vector<pid_t> pids;
        result = collect_processes(path_, pids);
        std::ranges::sort(pids);
        if (!result || std::ranges::includes(known, pids)) break;
        (void)signal_all(pids, SIGKILL);
        known = std::move(pids);
    }
    if (is_frozen) TRY(freeze(false));
    return result;
}

Result<UniqueFd> Cgroup::directory_below(std::string_view name) const {
    std::string const path = path_ + "/" + std::string(name);
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return fail(errno, "make cgroup " + path);
    return enter_group(AT_FDCWD, path.c_str(), path_);
}

Result<> Cgroup::kill_below(std::string_view name) const {
    Cgroup const group(path_ + "/" + std::string(name), true);
    if (::access(group.path_.c_str(), F_OK) != 0) return {};
    return group.kill();
}

Result<SignalledGroup> Cgroup::signal(int signo, int leader) const {
    std::vector<pid_t> pids;
    TRY(collect_processes(path_, pids));
    return SignalledGroup{std::ranges::find(pids, leader) != pids.end(), signal_all(pids, signo)};
}

Result<> Cgroup::freeze(bool frozen) const { return write_value(path_ + "/cgroup.freeze", frozen ? "1" : "0"); }

Result<bool> Cgroup::is_populated() const {
    return find_key(TRY(read(path_ + "/cgroup.events")), "populated").value_or(0) != 0;
}

std::optional<std::uint64_t> Cgroup::oom_kills() const {
    auto const text = read(path_ + "/memory.events");
    return text ? find_key(*text, "oom_kill") : std::nullopt;
}

std::optional<std::uint64_t> Cgroup::memory_current() const {
    auto const text = read(path_ + "/memory.current");
    return text ? parse_number(*text) : std::nullopt;
}

/// Asks the kernel for the group of that process. Only where it does not say, or we are not where we belong, is the
/// process looked for among all that are in the group: these may be many.
bool Cgroup::contains(int pid) const {
    auto const own = group_of("self");
    auto const group = group_of(std::to_string(pid));
    if (own && group && own->ends_with("/" + std::string(own_leaf))) {
        std::string const tree = own->substr(0, own->size() - own_leaf.size());
        auto const rest = below(*group, tree + path_.substr(path_.rfind('/') + 1));
        return rest && !rest->substr(std::min<std::size_t>(1, rest->size())).starts_with(apart);
    }
    std::vector<pid_t> pids;
    return collect_processes(path_, pids) && std::ranges::find(pids, pid) != pids.end();
}

bool Cgroup::has_processes() const {
    std::vector<pid_t> pids;
    return collect_processes(path_, pids) && !pids.empty();
}

Result<> Cgroup::remove() const { return remove_tree(path_); }

namespace {

/// Checks that nobody but us is in the group or below it: others would be limited, and killed, with our processes.
Result<> check_is_ours(std::string const& path) {
    // Only the root group of the whole machine does not have this file.
    struct stat status;
    if (::stat((path + "/cgroup.events").c_str(), &status) != 0)
        return fail("cgroup " + path + " is the root of the machine's cgroups");
    if (check_access(AT_FDCWD, (path + "/cgroup.procs").c_str(), W_OK) != 0 ||
        check_access(AT_FDCWD, path.c_str(), W_OK) != 0)
        return fail(errno, "write cgroup " + path);
    std::vector<pid_t> pids;
    TRY(collect_processes(path, pids, Below::all));
    auto const stranger = std::ranges::find_if(pids, [](pid_t pid) { return pid != ::getpid(); });
    if (stranger == pids.end()) return {};
    return fail("cgroup " + path + " is shared with " +
                (*stranger == 0 ? "processes of another PID namespace" : "process " + std::to_string(*stranger)));
}

}  // namespace

Result<CgroupTree> CgroupTree::create() {
    std::string const mountinfo = TRY(read("/proc/self/mountinfo"));
    std::string const cgroup = TRY(read("/proc/self/cgroup"));
    auto path = find_own_cgroup(mountinfo, cgroup);
    if (!path) return fail("there is no cgroup v2 here");
    TRY(check_is_ours(*path));

    // Only a group without processes may have controllers below it.
    std::string const leaf = *path + "/" + std::string(own_leaf);
    if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST) return fail(errno, "make cgroup " + leaf);
    TRY(write_value(leaf + "/cgroup.procs", "0"));
    auto const available = read(*path + "/cgroup.controllers");
    for (std::string_view const controller : used_controllers) {
        // A controller that cannot be turned on is reported when a limit needs it.
        if (available && has_word(*available, controller))
            (void)write_value(*path + "/cgroup.subtree_control", "+" + std::string(controller));
    }
    return open(std::move(*path));
}

Result<CgroupTree> CgroupTree::open(std::string path) {
    CgroupTree tree(std::move(path));
    std::string const enabled = TRY(read(tree.path_ + "/cgroup.subtree_control"));
    for (std::string_view const controller : used_controllers) {
        if (has_word(enabled, controller)) tree.controllers_.emplace_back(controller);
    }
    return tree;
}

bool CgroupTree::has(std::string_view controller) const {
    return std::ranges::find(controllers_, controller) != controllers_.end();
}

Result<Cgroup> CgroupTree::make_group(std::string_view program, std::uint32_t number) const {
    std::string path = path_ + "/";
    path.append(program.empty() ? "process" : program).append("-").append(std::to_string(number));
    bool const is_new = ::mkdir(path.c_str(), 0755) == 0;
    if (!is_new && errno != EEXIST) return fail(errno, "make cgroup " + path);
    return Cgroup(std::move(path), !is_new);
}

Result<> CgroupTree::check(CgroupLimits const& limits) const {
    std::string const leaf = path_ + "/" + std::string(own_leaf);  // has the files that the other groups will have
    bool const has_leaf = ::access(leaf.c_str(), F_OK) == 0;
    for (LimitFile const& file : limit_files) {
        if (!(limits.*file.value)) continue;
        if (!has(file.controller())) return fail(not_delegated(file.controller(), path_));
        if (has_leaf && ::access((leaf + "/" + std::string(file.name)).c_str(), F_OK) != 0)
            return fail(not_in_kernel(file.name, leaf));
    }
    if (limits.cpu_weight && !has("cpu")) return fail(not_delegated("cpu", path_));
    return {};
}

}  // namespace triton::process
