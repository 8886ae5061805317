#include "host/cri/container/seccomp_profile.h"

#include <cerrno>
#include <string_view>

#include <linux/capability.h>
#include <sched.h>

#include "host/cri/wire/messages.h"
#include "lib/base/read_file.h"
#include "lib/json/lookup.h"
#include "lib/json/writer.h"
#include "lib/process/syscall_groups.h"

namespace triton::cri {

namespace {

constexpr std::size_t largest_profile = 1 << 20;

constexpr std::uint64_t capability_bit(int number) { return std::uint64_t{1} << static_cast<unsigned>(number); }

/// What containers may call by default beside "@system-service" of our own profiles, as at other runtimes: tracing of
/// their own processes, and odds and ends of libc and of desktops.
constexpr std::string_view more_calls =
    "@chown @pkey ptrace process_vm_readv process_vm_writev modify_ldt adjtimex clock_adjtime clock_adjtime64 "
    "getgroups "
    "pidfd_open pidfd_send_signal fanotify_mark sgetmask ssetmask lsm_get_self_attr lsm_list_modules lsm_set_self_attr "
    "setxattrat getxattrat listxattrat removexattrat statmount listmount futex_requeue futex_wait futex_wake "
    "arm_fadvise64_64 "
    "arm_sync_file_range breakpoint";

/// Not without a capability, although a group above has them.
constexpr std::string_view fewer_calls =
    " get_mempolicy mbind set_mempolicy set_mempolicy_home_node process_madvise "
    "personality clone socket ";

struct Opened {
    std::uint64_t capabilities;  ///< any of them
    std::string_view calls;
};
constexpr Opened opened_by_capabilities[] = {
    {capability_bit(CAP_DAC_READ_SEARCH), "open_by_handle_at"},
    {capability_bit(CAP_SYS_ADMIN),
     "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr move_mount "
     "open_tree "
     "perf_event_open quotactl quotactl_fd setdomainname sethostname setns syslog umount umount2 unshare"},
    {capability_bit(CAP_SYS_BOOT), "reboot"},
    {capability_bit(CAP_SYS_CHROOT), "chroot"},
    {capability_bit(CAP_SYS_MODULE), "delete_module finit_module init_module"},
    {capability_bit(CAP_SYS_PACCT), "acct"},
    {capability_bit(CAP_SYS_PTRACE), "kcmp pidfd_getfd process_madvise"},
    {capability_bit(CAP_SYS_RAWIO), "ioperm iopl"},
    {capability_bit(CAP_SYS_TIME), "clock_settime clock_settime64 settimeofday stime"},
    {capability_bit(CAP_SYS_TTY_CONFIG), "vhangup"},
    {capability_bit(CAP_SYS_NICE), "get_mempolicy mbind set_mempolicy set_mempolicy_home_node"},
    {capability_bit(CAP_SYSLOG), "syslog"},
    {capability_bit(CAP_BPF), "bpf"},
    {capability_bit(CAP_PERFMON), "perf_event_open"},
};

template <class Call>
void for_each_word(std::string_view words, Call const& call) {
    while (!words.empty()) {
        std::string_view const word = words.substr(0, words.find(' '));
        words.remove_prefix(std::min(words.size(), word.size() + 1));
        if (!word.empty()) call(word);
    }
}

/// Writes the calls of a list, with its groups.
void add_calls(json::Writer& out, std::string_view words) {
    for_each_word(words, [&](std::string_view word) {
        if (!word.starts_with('@')) {
            if (fewer_calls.find(" " + std::string(word) + " ") == std::string_view::npos) out.value(word);
            return;
        }
        for (process::SyscallGroup const& group : process::syscall_groups)
            if (group.name == word) add_calls(out, group.members);
    });
}

struct Argument {
    unsigned index;
    std::uint64_t value;
    std::string_view comparison;
    std::uint64_t second = 0;
};

void add_rule(json::Writer& out, std::string_view call, Argument const& argument) {
    out.open('{').key("names").open('[').value(call).close(']').member("action", "SCMP_ACT_ALLOW");
    out.key("args").open('[').open('{').member("index", argument.index).member("value", argument.value);
    if (argument.second != 0 || argument.comparison == "SCMP_CMP_MASKED_EQ") out.member("valueTwo", argument.second);
    out.member("op", argument.comparison).close('}').close(']').close('}');
}

/// The profile that RuntimeDefault means: what is not in it fails with EPERM.
std::string default_profile(process::CapabilitySet bounding) {
    constexpr std::uint64_t new_namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                             CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | 0x80;  // 0x80: CLONE_NEWTIME
    json::Writer out;
    out.open('{').member("defaultAction", "SCMP_ACT_ERRNO").member("defaultErrnoRet", EPERM);
    out.key("architectures").open('[');
#if defined(__x86_64__)
    out.value("SCMP_ARCH_X86_64").value("SCMP_ARCH_X86").value("SCMP_ARCH_X32");
#elif defined(__aarch64__)
    out.value("SCMP_ARCH_AARCH64").value("SCMP_ARCH_ARM");
#endif
    out.close(']').key("syscalls").open('[');
    out.open('{').key("names").open('[');
    add_calls(out, "@system-service");
    add_calls(out, more_calls);
    out.close(']').member("action", "SCMP_ACT_ALLOW").close('}');
    for (std::uint64_t const persona : {0x0UL, 0x8UL, 0x20000UL, 0x20008UL, 0xffffffffUL})
        add_rule(out, "personality", {0, persona, "SCMP_CMP_EQ"});
    constexpr std::uint64_t algorithms = 38;  // AF_ALG
    constexpr std::uint64_t machines = 40;    // AF_VSOCK
    add_rule(out, "socket", {0, algorithms, "SCMP_CMP_LT"});
    add_rule(out, "socket", {0, algorithms + 1, "SCMP_CMP_EQ"});
    add_rule(out, "socket", {0, machines, "SCMP_CMP_GT"});
    bool const is_administrator = (bounding & capability_bit(CAP_SYS_ADMIN)) != 0;
    if (!is_administrator) {
        add_rule(out, "clone", {0, new_namespaces, "SCMP_CMP_MASKED_EQ", 0});
        // libc falls back to clone() then, whose flags a filter can see.
        out.open('{').key("names").open('[').value("clone3").close(']');
        out.member("action", "SCMP_ACT_ERRNO").member("errnoRet", ENOSYS).close('}');
    }
    for (Opened const& opened : opened_by_capabilities) {
        if ((bounding & opened.capabilities) == 0) continue;
        out.open('{').key("names").open('[');
        for_each_word(opened.calls, [&](std::string_view call) { out.value(call); });
        out.close(']').member("action", "SCMP_ACT_ALLOW").close('}');
    }
    return std::move(out.close(']').close('}')).text();
}

Result<std::string> local_profile(std::string const& path) {
    if (!path.starts_with('/'))
        return fail(ErrorKind::invalid, "the path of a seccomp profile must be absolute: " + path);
    std::string const text = TRY(read_file(path, largest_profile));
    json::ProblemList problems(5);
    auto const node = json::read_json(text, json::Limits{}, problems);
    if (!node || json::text_of(*node, "defaultAction").empty())
        return fail(ErrorKind::invalid, path + " is not a seccomp profile: it has no defaultAction");
    json::Writer out;
    out.value(*node);
    return std::move(out).text();
}

}  // namespace

Result<std::string> seccomp_of(v1::LinuxContainerSecurityContext const& context, process::CapabilitySet bounding) {
    if (context.privileged()) return std::string();
    if (context.has_seccomp()) {
        switch (context.seccomp().profile_type()) {
            case v1::SecurityProfile::RuntimeDefault: return default_profile(bounding);
            case v1::SecurityProfile::Unconfined: return std::string();
            case v1::SecurityProfile::Localhost: return local_profile(context.seccomp().localhost_ref());
            default: return fail(ErrorKind::unsupported, "seccomp profiles from registries are not supported");
        }
    }
    std::string const& old = context.seccomp_profile_path();  // as clients before 1.19 said it
    if (old == "runtime/default" || old == "docker/default") return default_profile(bounding);
    if (old.starts_with("localhost/")) return local_profile(old.substr(sizeof "localhost/" - 1));
    if (!old.empty() && old != "unconfined") return fail(ErrorKind::invalid, "unknown seccomp profile " + old);
    return std::string();
}

}  // namespace triton::cri
