#include "host/storage/owner_mapping.h"

#include <cerrno>
#include <csignal>
#include <string>

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/pipe.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"

namespace triton::storage {

namespace {

/// A child that only lends its user namespace; it ends with this.
class Lender {
public:
    explicit Lender(pid_t pid) : pid_(pid) {}
    Lender(Lender const&) = delete;
    ~Lender() {
        (void)::kill(pid_, SIGKILL);
        (void)::waitpid(pid_, nullptr, 0);
    }

private:
    pid_t pid_;
};

Result<> write_map(std::string const& path) {
    UniqueFd const file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (!file || !write_all(file.get(), "0 1 1")) return fail(errno, "write " + path);
    return {};
}

/// A namespace in which 0 is 1: any mapping that is not the identity does.
Result<UniqueFd> some_namespace() {
    Pipe ready = TRY(make_pipe());
    pid_t const child = ::fork();
    if (child < 0) return fail(errno, "fork");
    if (child == 0) {  // only async-signal-safe calls: the parent may have threads
        (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
        char const is_made = ::unshare(CLONE_NEWUSER) == 0 ? 1 : 0;
        (void)!::write(ready.writer.get(), &is_made, 1);
        for (;;)
            ::pause();
    }
    Lender const lender(child);
    ready.writer = UniqueFd();
    char is_made = 0;
    if (::read(ready.reader.get(), &is_made, 1) != 1 || is_made == 0) return UniqueFd();
    std::string const process = "/proc/" + std::to_string(child);
    TRY(write_map(process + "/uid_map"));
    TRY(write_map(process + "/gid_map"));
    UniqueFd name_space{::open((process + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC)};
    if (!name_space) return fail(errno, "open the user namespace of a child");
    return name_space;
}

}  // namespace

Result<bool> maps_owners(int directory) {
    UniqueFd const name_space = TRY(some_namespace());
    if (!name_space) return false;
    unsigned const flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
    UniqueFd const mount{static_cast<int>(::syscall(SYS_open_tree, directory, "", flags))};
    if (!mount) return false;
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_IDMAP;
    attributes.userns_fd = static_cast<std::uint64_t>(name_space.get());
    return ::syscall(SYS_mount_setattr, mount.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) == 0;
}

}  // namespace triton::storage
