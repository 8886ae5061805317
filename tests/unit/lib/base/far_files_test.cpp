#include "lib/base/far_files.h"

#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "lib/base/unique_fd.h"

namespace triton {

namespace {

TEST(FarFiles, ProcIsNear) {
    UniqueFd const file{::open("/proc/self/stat", O_RDONLY | O_CLOEXEC)};
    EXPECT_FALSE(may_hang(file.get()));
    EXPECT_TRUE(may_hang(-1));
}

std::string mount_of(std::string const& type) {
    return "36 35 98:0 / /data rw,noatime shared:1 master:2 - " + type +
           " server:/path with\\040blank rw,errors=continue\n";
}

TEST(FarFiles, AMountIsFarByItsType) {
    for (char const* const far : {"nfs", "nfs4", "fuse", "fuse.sshfs", "fuseblk", "virtiofs", "9p", "ceph", "cifs"})
        EXPECT_TRUE(has_far_mount(mount_of("ext4") + mount_of(far) + mount_of("tmpfs"))) << far;
    for (char const* const near :
         {"ext4", "overlay", "tmpfs", "proc", "cgroup2", "fusectl", "nfsd", "zfs", "btrfs", "ext4.fuse"})
        EXPECT_FALSE(has_far_mount(mount_of(near))) << near;
}

TEST(FarFiles, ATextThatIsSomethingElseIsNoPromise) {
    EXPECT_FALSE(has_far_mount(""));
    EXPECT_TRUE(has_far_mount("something else"));
    EXPECT_TRUE(has_far_mount(mount_of("ext4") + "\n"));
    std::string cut = mount_of("nfs");
    cut.pop_back();
    EXPECT_TRUE(has_far_mount(cut));
    EXPECT_FALSE(has_far_mount("1 1 0:1 / / rw - ext4"));
}

}  // namespace

}  // namespace triton
