// Whatever comes as a layer: no crash, nothing beside the target is touched, and what was made can be removed again.
// It extracts for real, onto a tmpfs: run it as a user with no rights, or in a user namespace.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/unpack/job.h"
#include "host/unpack/tree.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"

namespace {

using namespace triton;

void require(bool holds) {
    if (!holds) std::abort();
}

/// A directory with a target and something beside it that must stay as it is.
class Place {
public:
    Place() : path_("/dev/shm/tar_fuzz-XXXXXX") {
        require(::mkdtemp(path_.data()) != nullptr);
        directory_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        UniqueFd const beside(::openat(directory_.get(), "beside", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        require(write_all(beside.get(), "as it is"));
        require(::fstat(beside.get(), &before_) == 0);
    }
    ~Place() {
        (void)unpack::remove_all(directory_.get(), "root", 100);
        ::unlinkat(directory_.get(), "beside", 0);
        ::rmdir(path_.c_str());
    }
    Place(Place const&) = delete;
    Place& operator=(Place const&) = delete;

    UniqueFd make_target() {
        require(::mkdirat(directory_.get(), "root", 0755) == 0);
        return UniqueFd(::openat(directory_.get(), "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    void check() {
        require(unpack::remove_all(directory_.get(), "root", 100).has_value());
        struct stat now{};
        struct stat all{};
        require(::fstatat(directory_.get(), "beside", &now, AT_SYMLINK_NOFOLLOW) == 0);
        require(now.st_ino == before_.st_ino && now.st_mode == before_.st_mode && now.st_nlink == 1 &&
                now.st_size == before_.st_size && now.st_mtim.tv_nsec == before_.st_mtim.tv_nsec);
        require(::fstat(directory_.get(), &all) == 0 && all.st_nlink == 2);
    }

private:
    std::string path_;
    UniqueFd directory_;
    struct stat before_{};
};

int run(std::uint8_t const* data, std::size_t size) {
    static Place place;
    UniqueFd const blob(::memfd_create("blob", MFD_CLOEXEC));
    require(write_all(blob.get(), {reinterpret_cast<char const*>(data), size}));
    UniqueFd const target = place.make_target();
    role::Unpack job;
    job.limits = {
        .entries = 1000, .bytes = 1 << 20, .depth = 50, .seconds = 10, .least_free_bytes = 0, .least_free_inodes = 0};
    // Twice: what is there already is a layer below.
    for (int layer = 0; layer < 2; ++layer) {
        ::lseek(blob.get(), 0, SEEK_SET);
        auto const unpacked = unpack::unpack(blob.get(), target.get(), job, nullptr, nullptr);
        require(unpacked || !unpacked.error().text().empty());
    }
    place.check();
    return 0;
}

}  // namespace

extern "C" int tar_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return tar_fuzz(data, size); }
#endif
