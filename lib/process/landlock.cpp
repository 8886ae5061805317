#include "lib/process/landlock.h"

#include <cerrno>
#include <cstdint>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/files/confined_path.h"

namespace triton::process {

namespace {

using json::Problems;
using json::Where;

// The kernel's interface as of ABI 6, written out because the headers of a build machine may be older than its kernel.
// Source: Linux Documentation/userspace-api/landlock.rst, include/uapi/linux/landlock.h.
constexpr long create_ruleset_call = 444;
constexpr long add_rule_call = 445;
constexpr unsigned ask_version = 1;
constexpr unsigned path_beneath = 1;

struct RulesetAttributes {
    std::uint64_t handled_access_fs;
    std::uint64_t handled_access_net;  // ABI 4
    std::uint64_t scoped;              // ABI 6
};

enum Scope : std::uint64_t {
    scope_abstract_sockets = 1 << 0,
    scope_signals = 1 << 1,
};

struct [[gnu::packed]] PathBeneath {
    std::uint64_t allowed_access;
    std::int32_t parent_fd;
};

enum Right : std::uint64_t {
    execute = 1 << 0,
    write_into_file = 1 << 1,
    read_file = 1 << 2,
    read_dir = 1 << 3,
    refer = 1 << 13,      // ABI 2
    truncate = 1 << 14,   // ABI 3
    ioctl_dev = 1 << 15,  // ABI 5
};

// The lowest version that can keep its promise: without `truncate`, a file that its mode lets a process write could be
// emptied.
constexpr int lowest_abi = 3;
constexpr int lowest_abi_with_scopes = 6;

constexpr std::uint64_t rights_of(int abi) {
    std::uint64_t const of_abi_3 = 2 * truncate - 1;  // they are numbered without a gap
    return abi >= 5 ? of_abi_3 | ioctl_dev : of_abi_3;
}

// Rights that have a meaning for files other than directories.
constexpr std::uint64_t file_rights = execute | write_into_file | read_file | truncate | ioctl_dev;

constexpr std::uint64_t read_only = read_file | read_dir;

/// The scopes to restrict. Adds a problem for each that this kernel cannot.
std::uint64_t scopes_of(LandlockSettings const& landlock, int abi, Where const& at, Problems& problems) {
    std::uint64_t scopes = 0;
    auto const keep = [&](LandlockReach reach, Scope scope, std::string_view key) {
        if (reach == LandlockReach::any) return;
        scopes |= scope;
        if (abi >= lowest_abi_with_scopes) return;
        problems.push_back({Where{&at, key}.text(), "this kernel's Landlock (ABI " + std::to_string(abi) +
                                                        ") has no scopes; ABI 6 (Linux 6.12) has"});
    };
    keep(landlock.signals, scope_signals, "signals");
    keep(landlock.abstract_sockets, scope_abstract_sockets, "abstractSockets");
    return scopes;
}

std::string kernel_lacks(int abi) {
    if (abi == 0) return "this kernel has no Landlock, or it is not enabled (" + errno_text(errno) + ")";
    return "this kernel's Landlock (ABI " + std::to_string(abi) +
           ") cannot keep files from being truncated; ABI 3 (Linux 6.2) can";
}

/// Adds the rules of one list.
class RuleAdder {
public:
    RuleAdder(int ruleset, std::uint64_t handled, std::string const& root, Problems& problems)
        : ruleset_(ruleset), handled_(handled), root_(root), problems_(problems) {}

    void add(std::vector<std::string> const& paths, std::uint64_t rights, Where const& at) {
        for (std::size_t i = 0; i < paths.size(); ++i) {
            auto const added = add(paths[i], rights & handled_);
            if (!added) problems_.push_back({Where{&at, i}.text(), added.error().text()});
        }
    }

private:
    Result<> add(std::string const& path, std::uint64_t rights) {
        UniqueFd const fd = TRY(files::open_confined(root_, path, O_PATH | O_CLOEXEC));
        struct stat status;
        if (::fstat(fd.get(), &status) != 0) return fail(errno, "look at " + path);
        PathBeneath const rule{S_ISDIR(status.st_mode) ? rights : rights & file_rights, fd.get()};
        if (::syscall(add_rule_call, ruleset_, path_beneath, &rule, 0) != 0)
            return fail(errno, "make a Landlock rule for " + path);
        return {};
    }

    int ruleset_;
    std::uint64_t handled_;
    std::string const& root_;
    Problems& problems_;
};

}  // namespace

int landlock_abi() {
    long const abi = ::syscall(create_ruleset_call, nullptr, 0, ask_version);
    return abi > 0 ? static_cast<int>(abi) : 0;
}

std::expected<LandlockRuleset, Problems> LandlockRuleset::create(LandlockSettings const& landlock, Where const& at,
                                                                 std::string const& root_directory) {
    int const abi = landlock_abi();
    if (abi < lowest_abi) return std::unexpected(Problems{{at.text(), kernel_lacks(abi)}});
    LandlockRuleset ruleset;
    ruleset.source_ = landlock;
    ruleset.root_directory_ = root_directory;
    Problems problems;
    RulesetAttributes const attributes{rights_of(abi), 0, scopes_of(landlock, abi, at, problems)};
    if (!problems.empty()) return std::unexpected(std::move(problems));
    // An older kernel gets only the part of the structure that it knows.
    std::size_t const size = attributes.scoped == 0 ? sizeof attributes.handled_access_fs : sizeof attributes;
    UniqueFd fd{static_cast<int>(::syscall(create_ruleset_call, &attributes, size, 0))};
    int const err = errno;
    if (!fd) return std::unexpected(Problems{{at.text(), fail(err, "make a Landlock ruleset").error().text()}});

    RuleAdder adder(fd.get(), attributes.handled_access_fs, root_directory, problems);
    adder.add(landlock.read_only, read_only, Where{&at, std::string_view("readOnly")});
    adder.add(landlock.read_write, ~std::uint64_t{execute}, Where{&at, std::string_view("readWrite")});
    adder.add(landlock.execute, read_only | execute, Where{&at, std::string_view("execute")});
    if (!problems.empty()) return std::unexpected(std::move(problems));
    ruleset.fd_ = std::make_shared<UniqueFd const>(std::move(fd));
    return ruleset;
}

}  // namespace triton::process
