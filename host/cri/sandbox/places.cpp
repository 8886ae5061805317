#include "host/cri/sandbox/places.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/storage/random_name.h"
#include "host/storage/remove_tree.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/files/pending_file.h"

namespace triton::cri {

namespace {

constexpr std::size_t id_digits = 64;

}  // namespace

std::string random_id() {
    std::string id;
    while (id.size() < id_digits)
        id += storage::random_name();
    return id;
}

bool is_id(std::string const& text) {
    return text.size() == id_digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Result<> make_directories(std::string const& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);  // the umask is 0077
    if (error) return fail(error.value(), "make directory " + path);
    return {};
}

Result<> write_file(std::string const& path, std::string const& content, bool is_durable, unsigned mode) {
    std::size_t const slash = path.rfind('/');
    std::string const directory = path.substr(0, slash);
    UniqueFd const above{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!above) return fail(errno, "open " + directory);
    auto file = TRY(files::PendingFile::create(above.get(), path.substr(slash + 1), path, mode, true));
    if (!write_all(file.fd(), content)) return fail(errno, "write " + path);
    constexpr timespec now{.tv_sec = 0, .tv_nsec = UTIME_NOW};
    TRY(file.finish(mode, {now, now}));
    if (is_durable) TRY(file.make_durable());
    TRY(file.put_in_place());
    if (is_durable && ::fsync(above.get()) != 0) return fail(errno, "make " + directory + " durable");
    return {};
}

Result<> remove_all(std::string const& path) {
    std::string const directory = path.substr(0, path.rfind('/'));
    UniqueFd const above{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!above) return errno == ENOENT ? Result<>() : fail(errno, "open " + directory);
    return storage::remove_tree(above.get(), path.substr(path.rfind('/') + 1));
}

}  // namespace triton::cri
