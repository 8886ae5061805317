#include "host/storage/encryption.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "lib/base/unique_fd.h"

namespace triton::storage {
namespace {

using State = Encryption::State;

/// A directory on a block device, and a sysfs that says what is below that.
class EncryptionTest : public testing::Test {
protected:
    EncryptionTest() {
        EXPECT_NE(::mkdtemp(area_.data()), nullptr);
        directory_ = UniqueFd(::open(area_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        struct stat status{};
        EXPECT_EQ(::fstat(directory_.get(), &status), 0);
        major_ = ::major(status.st_dev);
        device_ = area_ + "/dev/block/" + std::to_string(major_) + ":" + std::to_string(::minor(status.st_dev));
        std::filesystem::create_directories(device_ + "/slaves");
    }
    ~EncryptionTest() override { std::filesystem::remove_all(area_); }
    EncryptionTest(EncryptionTest const&) = delete;
    EncryptionTest& operator=(EncryptionTest const&) = delete;

    void add_layer(std::string const& device, std::string const& uuid) {
        std::filesystem::create_directories(device + "/dm");
        std::filesystem::create_directories(device + "/slaves");
        std::ofstream(device + "/dm/uuid") << uuid << '\n';
    }
    State look() {
        auto const seen = look_at_encryption(directory_.get(), area_);
        EXPECT_TRUE(seen) << seen.error().text();
        return seen ? seen->state : State::none;
    }

    std::string area_ = "/tmp/encryption_test-XXXXXX";
    std::string device_;
    UniqueFd directory_;
    unsigned major_ = 0;
};

TEST_F(EncryptionTest, DeviceMapperIsLookedThrough) {
    if (major_ == 0) GTEST_SKIP() << "/tmp is on no block device";
    EXPECT_EQ(look(), State::none);
    add_layer(device_, "LVM-abc");
    EXPECT_EQ(look(), State::none) << "a logical volume on nothing that can be seen";
    add_layer(device_ + "/slaves/dm-1", "CRYPT-LUKS2-0123-vault");
    EXPECT_EQ(look(), State::unlocked);
    add_layer(device_ + "/slaves/dm-2", "LVM-def");
    EXPECT_EQ(look(), State::none) << "half of it is in the clear";
    add_layer(device_, "CRYPT-LUKS2-4567-all");
    EXPECT_EQ(look(), State::unlocked) << "what is below the encryption does not matter";
}

TEST_F(EncryptionTest, ADirectoryWithoutAPolicySaysWhatIsMissing) {
    if (major_ == 0) GTEST_SKIP() << "/tmp is on no block device";
    auto const seen = look_at_encryption(directory_.get(), area_);
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->reason, "it is in the clear: it has no fscrypt policy, and no dm-crypt is below it");
}

}  // namespace
}  // namespace triton::storage
