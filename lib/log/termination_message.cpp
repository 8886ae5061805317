#include "lib/log/termination_message.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"

namespace triton::log {

void leave_termination_message(std::string const& path, std::string_view text) {
    constexpr std::size_t longest = 4096;  // Kubernetes reads no more
    if (path.empty()) return;
    UniqueFd const file{::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)};
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) return;
    if (!S_ISREG(status.st_mode) || status.st_size != 0 || status.st_nlink != 1) return;
    if (text.size() > longest) text.remove_prefix(text.size() - longest);
    (void)write_all(file.get(), text);
}

}  // namespace triton::log
