#include "lib/process/seccomp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/nearest.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/json/limits.h"
#include "lib/json/text.h"
#include "lib/process/syscall_groups.h"

namespace triton::process {

namespace {

using json::ProblemList;
using json::Problems;
using json::Where;

using Calls = std::set<int>;  // numbers of this architecture

constexpr int highest_number = 1023;  // of the calls that libseccomp knows, on architectures that count from 0
// The flags of clone(2) that make namespaces. CLONE_NEWTIME is only for clone3 and unshare.
constexpr std::array<unsigned, 7> namespace_flags{CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                                  CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
// On s390 the stack is the first argument.
#if defined(__s390__) || defined(__s390x__)
constexpr unsigned clone_flags_argument = 1;
#else
constexpr unsigned clone_flags_argument = 0;
#endif

/// Returns -1 when no architecture has the call; other negative numbers: only other architectures have it.
int number_of(std::string const& name) { return ::seccomp_syscall_resolve_name(name.c_str()); }

std::string call_name(int number) {
    char* const name = ::seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
    std::string text = name ? name : "";
    std::free(name);
    return text;
}

SyscallGroup const* find_group(std::string_view name) {
    auto const* const group = std::ranges::find(syscall_groups, name, &SyscallGroup::name);
    return group == std::end(syscall_groups) ? nullptr : group;
}

/// Returns whether the name is known, and adds its calls to `calls`.
bool add_calls(Calls& calls, std::string_view name) {
    if (!name.starts_with('@')) {
        int const number = number_of(std::string(name));
        if (number >= 0) calls.insert(number);
        return number != __NR_SCMP_ERROR;
    }
    SyscallGroup const* const group = find_group(name);
    if (!group) return false;
    for (std::string_view rest = group->members; !rest.empty();) {
        std::size_t const blank = std::min(rest.find(' '), rest.size());
        (void)add_calls(calls, rest.substr(0, blank));  // an older libseccomp may not know a newer call
        rest.remove_prefix(std::min(blank + 1, rest.size()));
    }
    return true;
}

std::string unknown_call_text(std::string const& name) {
    bool const is_group = name.starts_with('@');
    std::vector<std::string> names;
    if (is_group) {
        for (SyscallGroup const& group : syscall_groups)
            names.emplace_back(group.name);
    } else {
        for (int number = 0; number <= highest_number; ++number) {
            if (std::string known = call_name(number); !known.empty()) names.push_back(std::move(known));
        }
    }
    std::vector<std::string_view> const known(names.begin(), names.end());
    std::string text = (is_group ? "unknown group of system calls " : "unknown system call ") + json::quoted(name);
    if (auto const meant = nearest(name, known)) text.append("; did you mean ").append(*meant).append("?");
    return text;
}

/// Reads a list of names. The author of the document controls how many there are, so only problems that are shown get a
/// suggestion.
Calls parse_list(std::vector<std::string> const& names, Where const& at, ProblemList& problems, Calls const& needed) {
    Calls calls;
    std::set<std::string_view> good;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (good.contains(names[i])) continue;  // a group is long, and could be named 40,000 times
        std::size_t const before = problems.count();
        Calls named;
        Where const name_at{&at, i};
        if (!add_calls(named, names[i])) problems.add(name_at, problems.has_room() ? unknown_call_text(names[i]) : "");
        auto const missed = std::ranges::find_if(named, [&](int number) { return needed.contains(number); });
        if (missed != named.end()) problems.add(name_at, "no program can be started without " + call_name(*missed));
        calls.merge(named);
        if (problems.count() == before) good.insert(names[i]);
    }
    return calls;
}

std::uint32_t libseccomp_action(SeccompAction action) {
    switch (action) {
        case SeccompAction::error: return SCMP_ACT_ERRNO(EPERM);
        case SeccompAction::kill: return SCMP_ACT_KILL_PROCESS;
        case SeccompAction::log: return SCMP_ACT_LOG;
    }
    std::unreachable();
}

struct Release {
    void operator()(void* context) const { ::seccomp_release(context); }
};

/// Builds one filter; the first error is kept.
class Builder {
public:
    Builder(std::uint32_t default_action, std::uint32_t foreign_action) : default_action_(default_action) {
        context_.reset(::seccomp_init(default_action));
        if (!context_) {
            error_ = ENOMEM;
            return;
        }
        check(::seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH, foreign_action));
        // Uses a binary search: a call late in the list costs as little as the first.
        check(::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2));
    }

    /// Adds a rule. libseccomp refuses one that only repeats the default.
    void add(int number, std::uint32_t action) {
        if (context_ && action != default_action_)
            check(::seccomp_rule_add_array(context_.get(), action, number, 0, nullptr));
    }

    void add(int number, std::uint32_t action, scmp_arg_cmp const& condition) {
        if (context_ && action != default_action_)
            check(::seccomp_rule_add_array(context_.get(), action, number, 1, &condition));
    }

    /// Allows clone(2) without new namespaces.
    void add_plain_clone(std::uint32_t refusal) {
        int const number = number_of("clone");
        std::uint64_t all = 0;
        for (unsigned const flag : namespace_flags) {
            all |= flag;
            add(number, refusal, {clone_flags_argument, SCMP_CMP_MASKED_EQ, flag, flag});
        }
        add(number, SCMP_ACT_ALLOW, {clone_flags_argument, SCMP_CMP_MASKED_EQ, all, 0});
    }

    Result<std::vector<sock_filter>> compile() {
        if (error_ != 0) return fail(error_, "make a seccomp filter");
        UniqueFd const file{::memfd_create("seccomp", MFD_CLOEXEC)};
        int const err = errno;
        if (!file) return fail(err, "make a memory file");
        int const exported = ::seccomp_export_bpf(context_.get(), file.get());
        if (exported < 0) take_signal_of(EFBIG);  // a limit of the size of files also applies to this one
        check(exported);
        if (error_ != 0) return fail(error_, "compile a seccomp filter");
        off_t const bytes = ::lseek(file.get(), 0, SEEK_END);
        std::vector<sock_filter> code(static_cast<std::size_t>(bytes) / sizeof(sock_filter));
        if (::pread(file.get(), code.data(), code.size() * sizeof(sock_filter), 0) != bytes)
            return fail(ErrorKind::internal, "read a seccomp filter", "it is shorter than it was written");
        if (code.size() > BPF_MAXINSNS)
            return fail(ErrorKind::invalid, "compile a seccomp filter",
                        "it has more than " + std::to_string(BPF_MAXINSNS) + " instructions");
        return code;
    }

private:
    void check(int result) {
        if (result < 0 && error_ == 0) error_ = -result;
    }

    std::unique_ptr<void, Release> context_;
    std::uint32_t default_action_;
    int error_ = 0;
};

Result<std::vector<sock_filter>> compile_deny_list(Calls const& denied, std::uint32_t refusal) {
    Builder builder(SCMP_ACT_ALLOW, refusal);
    for (int const number : denied)
        builder.add(number, refusal);
    return builder.compile();
}

Result<std::vector<sock_filter>> compile_allow_list(Calls const& allowed, SeccompAction action) {
    std::uint32_t const refusal = libseccomp_action(action);
    // A call that is newer than libseccomp is refused as on an older kernel (ENOSYS): libc then uses its older way,
    // which it does not after EPERM.
    bool const only_logs = action == SeccompAction::log;
    std::uint32_t const missing = only_logs ? refusal : SCMP_ACT_ERRNO(ENOSYS);
    Builder builder(missing, refusal);
    int const clone = number_of("clone");
    int const clone3 = number_of("clone3");
    // A process that may leave its namespaces may also make new ones.
    bool const has_namespaces = allowed.contains(number_of("unshare"));
    for (int number = 0; number <= highest_number; ++number) {
        if (allowed.contains(number)) {
            number == clone && !has_namespaces ? builder.add_plain_clone(refusal) : builder.add(number, SCMP_ACT_ALLOW);
        } else if (!call_name(number).empty()) {
            // clone3's flags are in memory, where no filter sees them: libc is to fall back to clone.
            builder.add(number, number == clone3 ? missing : refusal);
        }
    }
    for (int const number : allowed) {
        if (number > highest_number) builder.add(number, SCMP_ACT_ALLOW);  // private calls of ARM
    }
    return builder.compile();
}

/// The filters in use, so that a load compiles only new ones.
class Compiled {
public:
    using Code = std::shared_ptr<std::vector<sock_filter> const>;

    [[nodiscard]] Code find(SeccompSettings const& settings) const {
        auto const entry = std::ranges::find(entries_, settings, &Entry::settings);
        return entry == entries_.end() ? nullptr : entry->code.lock();
    }
    /// Adds an entry and drops those whose filters no longer live, so there are never more entries than living filters.
    void add(SeccompSettings const& settings, Code const& code) {
        std::erase_if(entries_, [](Entry const& entry) { return entry.code.expired(); });
        entries_.push_back({settings, code});
    }
    void count_one() { ++count_; }
    [[nodiscard]] std::uint64_t count() const { return count_; }

private:
    struct Entry {
        SeccompSettings settings;
        std::weak_ptr<std::vector<sock_filter> const> code;
    };
    std::vector<Entry> entries_;
    std::uint64_t count_ = 0;
};

/// The filters of this process: what is compiled depends only on the settings.
Compiled& compiled() {
    static Compiled all;
    return all;
}

}  // namespace

std::uint64_t SeccompFilter::compilations() { return compiled().count(); }

std::string SeccompFilter::compiler() {
    scmp_version const* const version = ::seccomp_version();
    return "libseccomp " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->micro);
}

std::expected<SeccompFilter, Problems> SeccompFilter::create(SeccompSettings const& seccomp, Where const& at) {
    SeccompFilter filter;
    filter.source_ = seccomp;
    filter.code_ = compiled().find(seccomp);
    if (filter.code_) return filter;
    ProblemList problems{json::Limits{}.problems};
    Calls needed;
    for (std::string_view const name : {"execve", "exit", "exit_group"})
        (void)add_calls(needed, name);
    Where const allow_at{&at, std::string_view("allow")};
    Calls allowed = parse_list(seccomp.allow, allow_at, problems, {});
    Calls const denied = parse_list(seccomp.deny, Where{&at, std::string_view("deny")}, problems, needed);
    bool const is_deny_list = seccomp.profile == SeccompProfile::none;
    if (is_deny_list && !seccomp.allow.empty())
        problems.add(allow_at, "has no effect with profile \"none\", which allows all but `deny`");
    if (!problems.empty()) return std::unexpected(std::move(problems).take());
    if (!is_deny_list) {
        (void)add_calls(allowed, seccomp.profile == SeccompProfile::strict ? "@strict" : "@system-service");
        std::erase_if(allowed, [&](int number) { return denied.contains(number); });
    }
    auto code = is_deny_list ? compile_deny_list(denied, libseccomp_action(seccomp.action))
                             : compile_allow_list(allowed, seccomp.action);
    if (!code) return std::unexpected(Problems{{at.text(), code.error().text()}});
    filter.code_ = std::make_shared<std::vector<sock_filter> const>(std::move(*code));
    compiled().add(seccomp, filter.code_);
    compiled().count_one();
    return filter;
}

SeccompFilter SeccompFilter::compiled_elsewhere(SeccompSettings const& seccomp, Code code) {
    SeccompFilter filter;
    filter.source_ = seccomp;
    filter.code_ = std::make_shared<Code const>(std::move(code));
    compiled().add(seccomp, filter.code_);
    return filter;
}

}  // namespace triton::process
