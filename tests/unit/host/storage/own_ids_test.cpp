#include "host/storage/own_ids.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace triton::storage {

namespace {

constexpr uid_t range = 1879048192;
constexpr uid_t other_range = range + ids_of_machine;
constexpr char capability_name[] = "security.capability";

class OwnIds : public testing::Test {
protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
        std::string place = testing::TempDir() + "own_ids.XXXXXX";
        root_ = ::mkdtemp(place.data());
        std::filesystem::create_directory(root_ + "/inner");
        for (char const* const name : {"/setuid", "/inner/of-user", "/capable"})
            std::ofstream(root_ + name) << "x";
        std::filesystem::create_symlink("setuid", root_ + "/link");
        std::filesystem::create_hard_link(root_ + "/setuid", root_ + "/inner/again");
        EXPECT_EQ(::lchown((root_ + "/inner/of-user").c_str(), 1000, 65534), 0);
        EXPECT_EQ(::chmod((root_ + "/setuid").c_str(), 04755), 0);
        vfs_cap_data data{};
        data.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE;
        data.data[0].permitted = 1 << CAP_NET_RAW;
        EXPECT_EQ(::setxattr((root_ + "/capable").c_str(), capability_name, &data, sizeof data, 0), 0);
    }
    void TearDown() override {
        if (!root_.empty()) std::filesystem::remove_all(root_);
    }

    UniqueFd open(std::string const& name = "") {
        return UniqueFd{::open((root_ + name).c_str(), O_RDONLY | O_CLOEXEC)};
    }
    std::string owner(std::string const& name) {
        struct stat status{};
        EXPECT_EQ(::lstat((root_ + name).c_str(), &status), 0);
        return std::to_string(status.st_uid) + " " + std::to_string(status.st_gid) + " " +
               std::to_string(status.st_mode & 07777);
    }
    /// The uid of the root that the capability is for.
    uid_t capability_root() {
        vfs_ns_cap_data data{};
        auto const size = ::getxattr((root_ + "/capable").c_str(), capability_name, &data, sizeof data);
        EXPECT_EQ(data.data[0].permitted, 1U << CAP_NET_RAW);
        return size == sizeof data ? data.rootid : 0;
    }
    void expect_all(uid_t first) {
        std::string const root = std::to_string(first);
        EXPECT_EQ(owner(""), root + " " + root + " 448");
        EXPECT_EQ(owner("/setuid"), root + " " + root + " " + std::to_string(04755));
        EXPECT_EQ(owner("/inner/again"), owner("/setuid"));
        EXPECT_EQ(owner("/inner/of-user"),
                  std::to_string(first + 1000) + " " + std::to_string(first + 65534) + " " + std::to_string(0644));
        EXPECT_EQ(owner("/link"), root + " " + root + " " + std::to_string(0777));
        EXPECT_EQ(capability_root(), first);
    }

    std::string root_;
};

}  // namespace

TEST_F(OwnIds, AreGivenToOneMachineAfterTheOther) {
    ::umask(022);
    for (uid_t const first : {range, range, other_range}) {
        EXPECT_TRUE(give_ids(open(), first));
        expect_all(first);
    }
    EXPECT_TRUE(restore_own_ids(open()));
    expect_all(0);
}

TEST_F(OwnIds, OfAHalfDoneGiftAreFinished) {
    ::umask(022);
    EXPECT_EQ(::lchown((root_ + "/setuid").c_str(), range, range), 0);
    EXPECT_EQ(::chmod((root_ + "/setuid").c_str(), 04755), 0);
    EXPECT_TRUE(give_ids(open(), range));
    expect_all(range);
}

TEST_F(OwnIds, OfOneFileAreGivenAlone) {
    EXPECT_TRUE(give_ids(open("/inner/of-user"), range));
    EXPECT_EQ(owner("/inner/of-user").substr(0, 10), std::to_string(range + 1000));
    EXPECT_EQ(owner("/inner").substr(0, 2), "0 ");
}

}  // namespace triton::storage
