#include "host/machine/etc_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace triton::machine {
namespace {

namespace fs = std::filesystem;

class EtcFileTest : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "/etc-file.XXXXXX";
        directory_ = ::mkdtemp(pattern.data());
        root_ = (directory_ / "root").string();
        fs::create_directories(root_);
    }
    void TearDown() override { fs::remove_all(directory_); }

    static std::string content(fs::path const& path) {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    [[nodiscard]] fs::path etc() const { return fs::path(root_) / "etc"; }

    fs::path directory_;
    std::string root_;
};

TEST_F(EtcFileTest, MakesTheDirectoryAndTheFile) {
    ASSERT_TRUE(write_etc_file(root_, "hostname", "web\n"));
    EXPECT_EQ(content(etc() / "hostname"), "web\n");
    EXPECT_EQ(fs::status(etc() / "hostname").permissions(), static_cast<fs::perms>(0644));
}

TEST_F(EtcFileTest, LeavesAloneWhatSaysTheSame) {
    ASSERT_TRUE(write_etc_file(root_, "hostname", "web\n"));
    struct stat before{};
    ASSERT_EQ(::stat((etc() / "hostname").c_str(), &before), 0);
    ASSERT_TRUE(write_etc_file(root_, "hostname", "web\n"));
    struct stat after{};
    ASSERT_EQ(::stat((etc() / "hostname").c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino);
    ASSERT_TRUE(write_etc_file(root_, "hostname", "web2\n"));
    EXPECT_EQ(content(etc() / "hostname"), "web2\n");
}

TEST_F(EtcFileTest, ReplacesALinkAndDoesNotFollowIt) {
    fs::path const outside = directory_ / "outside";
    std::ofstream(outside) << "mine\n";
    fs::create_directory(etc());
    fs::create_symlink(outside, etc() / "hostname");
    ASSERT_TRUE(write_etc_file(root_, "hostname", "mine\n"));
    EXPECT_FALSE(fs::is_symlink(etc() / "hostname"));
    EXPECT_EQ(content(outside), "mine\n");
}

TEST_F(EtcFileTest, StaysInsideOfTheRoot) {
    fs::path const outside = directory_ / "outside";
    fs::create_directory(outside);
    fs::create_symlink("../outside", etc());
    EXPECT_FALSE(write_etc_file(root_, "hostname", "web\n"));
    EXPECT_TRUE(fs::is_empty(outside));
}

TEST_F(EtcFileTest, ReplacesAFifoThatNobodyWritesTo) {
    fs::create_directory(etc());
    ASSERT_EQ(::mkfifo((etc() / "hostname").c_str(), 0600), 0);
    ASSERT_TRUE(write_etc_file(root_, "hostname", "web\n"));
    EXPECT_EQ(content(etc() / "hostname"), "web\n");
}

}  // namespace
}  // namespace triton::machine
