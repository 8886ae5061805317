#include "host/role/sandbox.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <initializer_list>
#include <optional>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/role/detached_mount.h"
#include "host/role/seccomp_lists.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"

namespace triton::role {

namespace {

int attach_mount(int mount, int directory, char const* path) {
    return static_cast<int>(::syscall(SYS_move_mount, mount, "", directory, path, MOVE_MOUNT_F_EMPTY_PATH));
}
/// Makes a mount read-only, without those below it, which already are.
int make_read_only(int mount) {
    mount_attr attribute{};
    attribute.attr_set = MOUNT_ATTR_RDONLY;
    return static_cast<int>(::syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH, &attribute, sizeof attribute));
}

// 1. The root directory.

/// Makes an empty file system, to which nobody can write once it is read-only.
Result<UniqueFd> make_empty_root() {
    UniqueFd const context(static_cast<int>(::syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC)));
    if (!context) return fail(errno, "open tmpfs");
    auto const set = [&](char const* key, char const* value) {
        return ::syscall(SYS_fsconfig, context.get(), FSCONFIG_SET_STRING, key, value, 0) == 0;
    };
    if (!set("size", "16m") || !set("nr_inodes", "200") || !set("mode", "0555") ||
        ::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
        return fail(errno, "make an empty root");
    UniqueFd mount(static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC,
                                              MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)));
    if (!mount) return fail(errno, "mount an empty root");
    return mount;
}

/// Makes the directories above a path below `root`.
Result<> make_directories_above(int root, std::string const& path) {
    for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
        if (::mkdirat(root, path.substr(1, slash - 1).c_str(), 0555) != 0 && errno != EEXIST)
            return fail(errno, "make a place for " + path);
    }
    return {};
}

/// Makes the directories above a path, and a target for a mount: a directory or an empty file.
Result<> make_mount_point(int root, std::string const& path, bool is_directory) {
    TRY(make_directories_above(root, path));
    char const* const relative = path.c_str() + 1;
    if (is_directory) {
        if (::mkdirat(root, relative, 0555) != 0 && errno != EEXIST) return fail(errno, "make a place for " + path);
        return {};
    }
    UniqueFd const file(::openat(root, relative, O_WRONLY | O_CREAT | O_CLOEXEC, 0444));
    if (!file) return fail(errno, "make a place for " + path);
    return {};
}

Result<> put(int root, std::string const& name, std::string const& content) {
    TRY(make_directories_above(root, "/" + name));
    UniqueFd const file(::openat(root, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
    if (!file || !write_all(file.get(), content)) return fail(errno, "make file " + name);
    return {};
}

constexpr std::size_t largest_copy = 1 << 20;

/// Copies a file below the new root. Returns false when it is none, or a large one.
Result<bool> copy(int root, std::string const& path) {
    UniqueFd const file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
    auto const content = read_open_file(file.get(), path, largest_copy);
    if (!content) return false;
    TRY(put(root, path.substr(1), *content));
    return true;
}

/// Mounts a file or directory of the host below the new root, read-only. One that does not exist is left out.
Result<> lend(int root, std::string const& path) {
    if (TRY(copy(root, path))) return {};
    UniqueFd const tree(open_tree_call(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
    if (!tree && (errno == ENOENT || errno == ENOTDIR)) return {};
    if (!tree) return fail(errno, "clone " + path);
    if (restrict_mount(tree.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) != 0)
        return fail(errno, "make " + path + " read-only");
    struct stat status{};
    if (::fstat(tree.get(), &status) != 0) return fail(errno, "look at " + path);
    TRY(make_mount_point(root, path, S_ISDIR(status.st_mode)));
    if (attach_mount(tree.get(), root, path.c_str() + 1) != 0) return fail(errno, "mount " + path);
    return {};
}

/// What programs of the system need to start.
constexpr std::array system_directories{"/usr", "/lib", "/lib64", "/etc/ld.so.cache"};

/// Fills an empty root.
Result<> furnish(int root, Confinement const& confinement) {
    for (std::string const& path : confinement.readable)
        TRY(lend(root, path));
    if (confinement.executes)
        for (char const* const path : system_directories)
            TRY(lend(root, path));
    for (auto const& [name, content] : confinement.files)
        TRY(put(root, name, content));
    for (Confinement::LentFile const& file : confinement.lent) {
        TRY(make_mount_point(root, "/" + file.name, false));
        if (attach_mount(file.mount.get(), root, file.name.c_str()) != 0) return fail(errno, "mount " + file.name);
    }
    return {};
}

/// Makes it the root of this process; everything else is then out of its sight.
Result<> enter_root(Confinement& confinement) {
    UniqueFd root = std::move(confinement.root);
    bool const is_empty = !root;
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return fail(errno, "make mounts private");
    if (is_empty) root = TRY(make_empty_root());
    if (attach_mount(root.get(), AT_FDCWD, "/proc") != 0) return fail(errno, "mount its root");
    // A mount that was cloned from a shared one, as all are under systemd, is shared, too; pivot_root(2) refuses those.
    if (::mount(nullptr, "/proc", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
        return fail(errno, "make mounts private");
    if (is_empty) {
        // while the root of the host is still there
        TRY(furnish(root.get(), confinement));
        if (make_read_only(root.get()) != 0) return fail(errno, "make its root read-only");
    }
    // Source: pivot_root(2), "pivot_root(\".\", \".\")"
    if (::fchdir(root.get()) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0) return fail(errno, "change its root");
    if (::umount2(".", MNT_DETACH) != 0) return fail(errno, "unmount the host's root");
    if (::chdir("/") != 0) return fail(errno, "enter its root");
    return {};
}

// 2. Limits.

Result<> limit(int resource, std::uint64_t most) {
    rlimit const value{most, most};
    if (::setrlimit(static_cast<__rlimit_resource>(resource), &value) != 0) return fail(errno, "set its limits");
    return {};
}

Result<> set_limits(Confinement const& confinement) {
    TRY(limit(RLIMIT_CORE, 0));
    TRY(limit(RLIMIT_FSIZE, confinement.most_file_bytes));
    TRY(limit(RLIMIT_NOFILE, confinement.most_open_files));
    TRY(limit(RLIMIT_MEMLOCK, 0));
    TRY(limit(RLIMIT_NPROC, confinement.most_threads));
#if !defined(__SANITIZE_ADDRESS__)  // which reserves terabytes of addresses
    TRY(limit(RLIMIT_AS, confinement.most_memory));
#endif
    return {};
}

// 3. Landlock.

// Not in Debian 12's headers. Source: Linux include/uapi/linux/landlock.h
constexpr std::uint64_t access_truncate = 1ULL << 14;      // ABI 3
constexpr std::uint64_t access_ioctl_device = 1ULL << 15;  // ABI 5
constexpr std::uint64_t access_refer = 1ULL << 13;         // ABI 2
struct RulesetAttributes {
    std::uint64_t files;
    std::uint64_t network;  // ABI 4
    std::uint64_t scoped;   // ABI 6
};
constexpr std::uint64_t connect_and_bind = 3;
constexpr std::uint64_t abstract_sockets_and_signals = 3;

std::uint64_t file_accesses(long abi) {
    std::uint64_t accesses = (1ULL << 13) - 1;
    if (abi >= 2) accesses |= access_refer;
    if (abi >= 3) accesses |= access_truncate;
    if (abi >= 5) accesses |= access_ioctl_device;
    return accesses;
}

constexpr std::uint64_t reading = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t extracting =
    reading | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
    LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | access_refer | access_truncate;

constexpr std::uint64_t rewriting = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | access_truncate;

/// Adds a rule for one path. Errors: those of open(2) and landlock_add_rule(2).
Result<> allow_below(int ruleset, std::string const& path, std::uint64_t accesses) {
    UniqueFd const place(::open(path.c_str(), O_PATH | O_CLOEXEC));
    landlock_path_beneath_attr rule{.allowed_access = accesses, .parent_fd = place.get()};
    if (!place || ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
        return fail(errno, "make its Landlock rules");
    return {};
}

Result<> restrict_files(Confinement const& confinement) {
    Role const role = confinement.role;
    long const abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 1) return fail(ErrorKind::unsupported, "this kernel has no Landlock");
    RulesetAttributes const attributes{.files = file_accesses(abi),
                                       .network = abi >= 4 && role != Role::download ? connect_and_bind : 0,
                                       .scoped = abi >= 6 ? abstract_sockets_and_signals : 0};
    std::size_t const size = abi >= 6   ? sizeof attributes
                             : abi >= 4 ? offsetof(RulesetAttributes, scoped)
                                        : offsetof(RulesetAttributes, network);
    UniqueFd const ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
    if (!ruleset) return fail(errno, "make its Landlock rules");
    std::uint64_t const allowed = confinement.executes     ? reading | LANDLOCK_ACCESS_FS_EXECUTE
                                  : role == Role::unpack   ? extracting
                                  : role == Role::download ? reading
                                                           : 0;
    if (allowed != 0) TRY(allow_below(ruleset.get(), "/", allowed & file_accesses(abi)));
    for (Confinement::LentFile const& file : confinement.lent)
        if (file.is_writable) TRY(allow_below(ruleset.get(), "/" + file.name, rewriting & file_accesses(abi)));
    if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return fail(errno, "enforce its Landlock rules");
    return {};
}

// 4. User and capabilities.

/// Rights over the owners and permissions of files, in its own user namespace. CAP_MKNOD is not among them, since it
/// would be worth nothing there.
constexpr std::uint32_t over_files =
    1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER | 1U << CAP_FSETID | 1U << CAP_SETFCAP;

Result<> set_capabilities(std::uint32_t low, std::uint32_t inheritable = 0) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, 2> data{};
    data[0] = {.effective = low, .permitted = low, .inheritable = inheritable};
    if (::syscall(SYS_capset, &header, data.data()) != 0) return fail(errno, "set its capabilities");
    return {};
}

std::optional<std::uint32_t> parse_id(std::string_view text) {
    std::uint32_t id = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(id) : std::nullopt;
}

/// Files that it makes belong to id 0 of its namespace, as most files of an archive do. The process itself belongs to
/// its own user, so it shares an id with nobody.
Result<> become_unpacker(Started const& own, bool executes) {
    if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return fail(errno, "keep its capabilities");
    if (::syscall(SYS_setresgid, own.group, own.group, own.group) != 0 ||
        ::syscall(SYS_setresuid, own.user, own.user, own.user) != 0)
        return fail(errno, "become its own user");
    TRY(set_capabilities(over_files | 1U << CAP_SETUID | 1U << CAP_SETGID | 1U << CAP_SETPCAP));
    // A program that is executed makes no files, and with another fsuid execve(2) would take its capabilities.
    if (executes) return {};
    ::setfsgid(0);
    ::setfsuid(0);
    return {};
}

Result<> drop_bounding_set() {
    for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability)
        if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return fail(errno, "drop its capabilities");
    return {};
}

/// A program that is executed keeps ambient capabilities alone: the files that it is lent belong to root.
constexpr std::uint32_t of_program = 1U << CAP_DAC_OVERRIDE;

/// While the bounding set still has them.
Result<> make_inheritable() {
    return set_capabilities(over_files | 1U << CAP_SETUID | 1U << CAP_SETGID | 1U << CAP_SETPCAP, of_program);
}

Result<> keep_for_program() {
    TRY(set_capabilities(of_program, of_program));
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0) != 0)
        return fail(errno, "keep its capabilities");
    return {};
}

Result<> drop_privileges(Confinement const& confinement, Started const& own) {
    Role const role = confinement.role;
    if (role == Role::unpack) TRY(become_unpacker(own, confinement.executes));
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return fail(errno, "drop its capabilities");
    if (role == Role::unpack && confinement.executes) TRY(make_inheritable());
    TRY(drop_bounding_set());
    if (role == Role::unpack && confinement.executes)
        TRY(keep_for_program());
    else
        TRY(set_capabilities(role == Role::unpack ? over_files : 0));
    // Changing the user has reset the first two of these.
    if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_PDEATHSIG, role == Role::stream ? 0 : SIGKILL) != 0 ||
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return fail(errno, "give up its privileges");
    return {};
}

// 5. seccomp.

class Filter {
public:
    Filter() : context_(::seccomp_init(SCMP_ACT_KILL_PROCESS)) {}
    ~Filter() { ::seccomp_release(context_); }
    Filter(Filter const&) = delete;
    Filter& operator=(Filter const&) = delete;

    void allow(std::string_view names) {
        while (!names.empty()) {
            std::size_t const blank = std::min(names.find(' '), names.size());
            allow_if(std::string(names.substr(0, blank)).c_str(), {});
            names.remove_prefix(std::min(blank + 1, names.size()));
        }
    }
    /// Allows a call when all conditions hold. A call that this architecture does not have is skipped.
    void allow_if(char const* name, std::initializer_list<scmp_arg_cmp> conditions) {
        rule(SCMP_ACT_ALLOW, name, conditions);
    }
    void answer_if(char const* name, int error, std::initializer_list<scmp_arg_cmp> conditions) {
        rule(SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error)), name, conditions);
    }

    Result<> load() {
        // no_new_privs is set already, and errors of loading are reported
        if (error_ == 0) error_ = ::seccomp_attr_set(context_, SCMP_FLTATR_CTL_OPTIMIZE, 2);
        if (error_ == 0) error_ = ::seccomp_load(context_);
        if (error_ != 0) return fail(-error_, "load its seccomp filter");
        return {};
    }

private:
    void rule(std::uint32_t action, char const* name, std::initializer_list<scmp_arg_cmp> conditions) {
        int const number = ::seccomp_syscall_resolve_name(name);
        if (number < 0) return;
        int const error = ::seccomp_rule_add_array(context_, action, number, static_cast<unsigned>(conditions.size()),
                                                   conditions.begin());
        if (error != 0 && error != -EEXIST && error_ == 0) error_ = error;
    }

    scmp_filter_ctx context_;
    int error_ = 0;
};

scmp_arg_cmp masked(unsigned argument, std::uint64_t mask, std::uint64_t value) {
    return {.arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};
}
scmp_arg_cmp equal(unsigned argument, std::uint64_t value) {
    return {.arg = argument, .op = SCMP_CMP_EQ, .datum_a = value, .datum_b = 0};
}
scmp_arg_cmp different(unsigned argument, std::uint64_t value) {
    return {.arg = argument, .op = SCMP_CMP_NE, .datum_a = value, .datum_b = 0};
}

Result<> filter_calls(Role role, bool executes) {
    Filter filter;
    filter.allow(common_calls);
    if (executes) {
        filter.allow(executed_calls);
        filter.allow_if("ioctl", {equal(1, TCGETS)});  // isatty(3)
        filter.allow_if("prlimit64", {equal(0, 0)});   // its own limits, not those of its parent
    }
    if (executes && role == Role::unpack) {
        filter.allow(produce_calls);
        // What qemu-img and xorriso can do without.
        for (char const* const name : {"io_uring_setup", "fallocate", "getxattr", "lgetxattr", "fgetxattr", "listxattr",
                                       "llistxattr", "flistxattr"})
            filter.answer_if(name, ENOSYS, {});
        filter.answer_if("ioctl", ENOTTY, {different(1, TCGETS)});
        filter.allow_if("prctl", {equal(0, PR_SET_NAME)});
        filter.answer_if("prctl", EINVAL, {different(0, PR_SET_NAME)});
    }
    filter.allow_if("mmap", {masked(2, PROT_EXEC, 0)});
    filter.allow_if("mprotect", {masked(2, PROT_EXEC, 0)});
    // Threads, but no processes. libc first tries clone3, whose flags no filter can see.
    filter.allow_if("clone", {masked(0, CLONE_THREAD | CLONE_VM | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS,
                                     CLONE_THREAD | CLONE_VM)});
    filter.answer_if("clone3", ENOSYS, {});
    for (int const command : {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_ADD_SEALS, F_GET_SEALS, F_SETPIPE_SZ, F_GETPIPE_SZ})
        filter.allow_if("fcntl", {equal(1, static_cast<std::uint64_t>(command))});
    switch (role) {
        case Role::download:
            filter.allow(download_calls);
            // libc's resolver asks the kernel for addresses by netlink, and nscd, which does not exist here.
            for (int const family : {AF_INET, AF_INET6})
                filter.allow_if("socket", {equal(0, static_cast<std::uint64_t>(family))});
            filter.allow_if("socket", {equal(0, AF_NETLINK), equal(2, NETLINK_ROUTE)});
            filter.answer_if("socket", EAFNOSUPPORT, {equal(0, AF_UNIX)});
            filter.allow_if("ioctl", {equal(1, 0x5421)});  // FIONBIO
            filter.allow_if("ioctl", {equal(1, 0x541B)});  // FIONREAD
            break;
        case Role::verify:
            filter.allow(verify_calls);
            filter.allow_if("ioctl", {equal(1, FICLONE)});
            break;
        case Role::unpack:
            if (executes) break;
            filter.allow(unpack_calls);
            filter.allow_if("mknodat", {masked(2, S_IFMT, S_IFIFO)});
            filter.allow_if("mknodat", {masked(2, S_IFMT, S_IFSOCK)});
            break;
        case Role::stream:
            filter.allow(stream_calls);
            filter.allow_if("fcntl", {equal(1, static_cast<std::uint64_t>(F_DUPFD_CLOEXEC))});
            break;
    }
#if defined(__SANITIZE_ADDRESS__)
    filter.allow(sanitizer_calls);
#endif
    return filter.load();
}

Result<> confine_now(Confinement& confinement, Started const& own) {
    TRY(enter_root(confinement));
    TRY(set_limits(confinement));
    TRY(drop_privileges(confinement, own));
    TRY(restrict_files(confinement));
    TRY(filter_calls(confinement.role, confinement.executes));
    return {};
}

}  // namespace

Result<> confine(Confinement confinement, Started const& started) {
    auto const done = confine_now(confinement, started);
    if (done) return {};
    return fail(done.error().kind, "confine " + std::string(program_of(confinement.role)), done.error().text());
}

Result<Started> take_over(Role role, std::span<char* const> arguments) {
    int type = 0;
    socklen_t size = sizeof type;
    auto const user = arguments.size() == 3 ? parse_id(arguments[1]) : std::nullopt;
    auto const group = arguments.size() == 3 ? parse_id(arguments[2]) : std::nullopt;
    if (!user || !group || ::getsockopt(channel_descriptor, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
        type != SOCK_SEQPACKET)
        return fail(ErrorKind::invalid, std::string(program_of(role)) + " is started by " +
                                            std::string(starter_of(role)) + ", not by hand");
    if (::fcntl(channel_descriptor, F_SETFD, FD_CLOEXEC) != 0) return fail(errno, "take the channel");
    return Started{Channel(UniqueFd(channel_descriptor)), *user, *group};
}

}  // namespace triton::role
