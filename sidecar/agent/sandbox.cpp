#include "sidecar/agent/sandbox.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <span>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/new_calls.h"
#include "lib/base/unique_fd.h"

namespace triton::agent {

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

Result<> drop_capabilities() {
    // EINVAL ends the loop after the last capability. EPERM: we never had the right to drop any, so there is nothing to
    // drop.
    for (int capability = 0; capability < 64; ++capability) {
        if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) break;
    }
    (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);  // kernels before 4.3 have no such set
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
    if (::syscall(SYS_capset, &header, none.data()) != 0) {
        int const err = errno;
        return fail(err, "drop capabilities");
    }
    return {};
}

/// The rights of Landlock's first version, and those of later versions that this kernel has.
std::uint64_t handled_rights(long abi) {
    std::uint64_t rights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
#ifdef LANDLOCK_ACCESS_FS_REFER
    if (abi >= 2) rights |= LANDLOCK_ACCESS_FS_REFER;
#endif
    if (abi >= 3) rights |= 1ULL << 14;  // LANDLOCK_ACCESS_FS_TRUNCATE, in headers from 6.2 on
    if (abi >= 5) rights |= 1ULL << 15;  // LANDLOCK_ACCESS_FS_IOCTL_DEV, from 6.10 on
    return rights;
}

/// struct landlock_ruleset_attr of ABI 6, which Debian 12's headers do not have.
struct RulesetAttributes {
    std::uint64_t files = 0;
    std::uint64_t net = 0;     // from ABI 4 on
    std::uint64_t scoped = 0;  // from ABI 6 on
};
constexpr std::uint64_t bind_tcp = 1;
constexpr std::uint64_t connect_tcp = 2;
constexpr std::uint64_t abstract_sockets = 1;
constexpr std::uint64_t signals = 2;

/// Every right that is handled is refused unless a rule allows it.
UniqueFd create_ruleset(SandboxRules const& rules, long abi) {
    RulesetAttributes attributes;
    std::size_t size = sizeof attributes.files;
    attributes.files = handled_rights(abi);
    if (abi >= 4) {
        attributes.net = bind_tcp | (rules.may_connect ? 0 : connect_tcp);
        size += sizeof attributes.net;
    }
    if (abi >= 6) {
        attributes.scoped = abstract_sockets | signals;
        size += sizeof attributes.scoped;
    }
    return UniqueFd{static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0))};
}

/// Allows reading a file, or a directory with everything below it: the one that is there now, not another that takes
/// its name.
Result<> allow_reading(int ruleset, int path) {
    struct stat status{};
    if (::fstat(path, &status) != 0) {
        int const err = errno;
        return fail(err, "look at what may be read");
    }
    landlock_path_beneath_attr rule{};
    rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
    if (S_ISDIR(status.st_mode)) rule.allowed_access |= LANDLOCK_ACCESS_FS_READ_DIR;  // of a file that is EINVAL
    rule.parent_fd = path;
    if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
        int const err = errno;
        return fail(err, "add a rule to Landlock");
    }
    return {};
}

Result<> restrict_files(SandboxRules const& rules, SandboxReport& report) {
    long const abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 1) {
        report.missing += "this kernel has no Landlock";
        return {};
    }
    UniqueFd const ruleset = create_ruleset(rules, abi);
    int const err = errno;
    if (!ruleset) return fail(err, "make a Landlock ruleset");
    if (rules.output_directory >= 0) TRY(allow_reading(ruleset.get(), rules.output_directory));
    for (std::string const& path : rules.read_only) {
        UniqueFd const opened{::open(path.c_str(), O_PATH | O_CLOEXEC)};
        if (opened) TRY(allow_reading(ruleset.get(), opened.get()));
    }
    if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) {
        int const restrict_err = errno;
        return fail(restrict_err, "restrict the agent with Landlock");
    }
    report.has_landlock = true;
    return {};
}

/// A condition for the masked bits of an argument; arguments count from 0.
scmp_arg_cmp masked(unsigned int argument, std::uint64_t mask, std::uint64_t value) {
    return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

scmp_arg_cmp equal(unsigned int argument, std::uint64_t value) { return {argument, SCMP_CMP_EQ, value, 0}; }

class Filter {
public:
    Filter() : context_(::seccomp_init(SCMP_ACT_ERRNO(EPERM))) {}
    ~Filter() {
        if (context_) ::seccomp_release(context_);
    }
    Filter(Filter const&) = delete;
    Filter& operator=(Filter const&) = delete;

    void allow(std::span<int const> calls) {
        for (int const call : calls)
            note(::seccomp_rule_add(context_, SCMP_ACT_ALLOW, call, 0));
    }
    /// Allows a call when all conditions hold.
    void allow_if(int call, std::initializer_list<scmp_arg_cmp> conditions) {
        note(::seccomp_rule_add_array(context_, SCMP_ACT_ALLOW, call, static_cast<unsigned int>(conditions.size()),
                                      std::data(conditions)));
    }
    int load() {
        if (!context_) return ENOMEM;
        note(::seccomp_attr_set(context_, SCMP_FLTATR_API_SYSRAWRC, 1));  // otherwise each error is ECANCELED
        note(::seccomp_attr_set(context_, SCMP_FLTATR_CTL_TSYNC, 1));
        note(::seccomp_attr_set(context_, SCMP_FLTATR_CTL_OPTIMIZE, 2));
        if (error_ == 0) note(::seccomp_load(context_));
        return error_;
    }

private:
    void note(int result) {
        if (result < 0 && error_ == 0) error_ = -result;
    }

    scmp_filter_ctx context_;
    int error_ = 0;
};

// All threads exist by now, so clone is not among them. These are the calls of OpenSSL, Asio and the C library in
// normal operation and at the end.
constexpr std::array always_allowed{SCMP_SYS(read),
                                    SCMP_SYS(write),
                                    SCMP_SYS(readv),
                                    SCMP_SYS(writev),
                                    SCMP_SYS(pread64),
                                    SCMP_SYS(close),
                                    SCMP_SYS(recvmsg),
                                    SCMP_SYS(sendmsg),
                                    SCMP_SYS(recvfrom),
                                    SCMP_SYS(sendto),
                                    SCMP_SYS(accept),
                                    SCMP_SYS(accept4),
                                    SCMP_SYS(shutdown),
                                    SCMP_SYS(getsockopt),
                                    SCMP_SYS(setsockopt),
                                    SCMP_SYS(getsockname),
                                    SCMP_SYS(getpeername),
                                    SCMP_SYS(poll),
                                    SCMP_SYS(ppoll),
                                    SCMP_SYS(epoll_wait),
                                    SCMP_SYS(epoll_pwait),
                                    SCMP_SYS(epoll_ctl),
                                    SCMP_SYS(timerfd_settime),
                                    SCMP_SYS(futex),
                                    SCMP_SYS(munmap),
                                    SCMP_SYS(mremap),
                                    SCMP_SYS(brk),
                                    SCMP_SYS(madvise),
                                    SCMP_SYS(clock_gettime),
                                    SCMP_SYS(clock_nanosleep),
                                    SCMP_SYS(gettimeofday),
                                    SCMP_SYS(time),
                                    SCMP_SYS(getpid),
                                    SCMP_SYS(gettid),
                                    SCMP_SYS(getrandom),
                                    SCMP_SYS(rt_sigprocmask),
                                    SCMP_SYS(rt_sigreturn),
                                    SCMP_SYS(rt_sigaction),
                                    SCMP_SYS(restart_syscall),
                                    SCMP_SYS(sched_yield),
                                    SCMP_SYS(openat2),
                                    SCMP_SYS(fstat),
                                    SCMP_SYS(newfstatat),
                                    SCMP_SYS(stat),
                                    SCMP_SYS(lstat),
                                    SCMP_SYS(statx),
                                    SCMP_SYS(lseek),
                                    SCMP_SYS(fadvise64),
                                    SCMP_SYS(readlink),
                                    SCMP_SYS(readlinkat),
                                    SCMP_SYS(faccessat),
                                    SCMP_SYS(faccessat2),
                                    SCMP_SYS(getcwd),
                                    SCMP_SYS(inotify_add_watch),
                                    SCMP_SYS(inotify_rm_watch),
                                    SCMP_SYS(exit),
                                    SCMP_SYS(exit_group),
                                    SCMP_SYS(set_robust_list),
                                    SCMP_SYS(rseq)};

/// Whether the error of a load says that there are no filters here: the kernel does not have them, or the sandbox of a
/// container runtime refuses them with an error of its choice. Two are libseccomp's own: EOPNOTSUPP when TSYNC is not
/// there, and EFAULT for any error of the kernel that it does not expect, such as EPERM and ENOSYS.
bool is_without_filters(int err) { return err == EOPNOTSUPP || err == EFAULT || err == EINVAL || err == EACCES; }

}  // namespace

Result<> drop_rights(SandboxRules const& rules, SandboxReport& report) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        int const err = errno;
        return fail(err, "set no_new_privs");
    }
    TRY(restrict_files(rules, report));
    return drop_capabilities();
}

bool is_out_of_reach(std::string const& path) {
    UniqueFd const opened{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
    int const err = errno;
    // Landlock does not affect access(2).
    return !opened && err == EACCES && check_access(AT_FDCWD, path.c_str(), R_OK) == 0;
}

Result<> filter_system_calls(SandboxRules const& rules, SandboxReport& report) {
    if (is_sanitized) {
        report.missing += report.missing.empty() ? "" : "; ";
        report.missing += "no seccomp in this build: the sanitizers need more";
        return {};
    }
    Filter filter;
    filter.allow(always_allowed);
    constexpr std::uint64_t writing = O_ACCMODE | O_CREAT | O_TRUNC;
    filter.allow_if(SCMP_SYS(open), {masked(1, writing, O_RDONLY)});
    filter.allow_if(SCMP_SYS(openat), {masked(2, writing, O_RDONLY)});
    filter.allow_if(SCMP_SYS(mmap), {masked(2, PROT_EXEC, 0)});
    filter.allow_if(SCMP_SYS(mprotect), {masked(2, PROT_EXEC, 0)});
    auto const is_type = [](int type) { return masked(1, 0xffffffff & ~(SOCK_CLOEXEC | SOCK_NONBLOCK), type); };
    scmp_arg_cmp const is_stream = is_type(SOCK_STREAM);
    if (rules.may_connect || rules.may_connect_by_path) filter.allow(std::array{SCMP_SYS(connect)});
    if (rules.may_connect_by_path) filter.allow_if(SCMP_SYS(socket), {equal(0, AF_UNIX), is_stream});
    filter.allow_if(SCMP_SYS(socketpair), {equal(0, AF_UNIX), is_stream});
    for (std::uint64_t const family : {AF_INET, AF_INET6}) {
        if (rules.may_connect) filter.allow_if(SCMP_SYS(socket), {equal(0, family), is_stream, equal(2, IPPROTO_TCP)});
        if (!rules.may_resolve) continue;
        filter.allow_if(SCMP_SYS(socket), {equal(0, family), is_type(SOCK_DGRAM), equal(2, IPPROTO_UDP)});
        for (int const type : {SOCK_DGRAM, SOCK_STREAM})  // c-ares leaves UDP and TCP to the default
            filter.allow_if(SCMP_SYS(socket), {equal(0, family), is_type(type), equal(2, 0)});
    }
    for (std::uint64_t const command : {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC})
        filter.allow_if(SCMP_SYS(fcntl), {equal(1, command)});
    filter.allow_if(SCMP_SYS(fcntl), {equal(1, F_SETFL), masked(2, O_ASYNC, 0)});
    filter.allow_if(SCMP_SYS(ioctl), {equal(1, FIONBIO)});
    filter.allow_if(SCMP_SYS(ioctl), {equal(1, FIONREAD)});
    filter.allow_if(SCMP_SYS(tgkill), {equal(0, static_cast<std::uint64_t>(::getpid()))});  // abort(3)
    int const err = filter.load();
    if (is_without_filters(err)) {
        report.missing += report.missing.empty() ? "" : "; ";
        report.missing += "no seccomp filter: the kernel has none, or its use is forbidden here";
        return {};
    }
    if (err != 0) return fail(err, "load the seccomp filter");
    report.has_seccomp = true;
    return {};
}

}  // namespace triton::agent
