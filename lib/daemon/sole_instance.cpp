#include "lib/daemon/sole_instance.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>

#include "lib/files/copy_file.h"

namespace triton::daemon {

Result<UniqueFd> be_the_only_one(std::string const& directory, std::string_view program) {
    (void)TRY(files::make_directories(directory));
    std::string const path = directory + "/lock";
    UniqueFd file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!file) return fail(errno, "open " + path);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
        return fail(ErrorKind::exists, "start " + std::string(program), "another one runs and has locked " + path);
    return file;
}

}  // namespace triton::daemon
