#include "host/machine/file_transfer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace triton::machine {
namespace {

namespace fs = std::filesystem;

class FileTransferTest : public testing::Test {
protected:
    FileTransferTest() {
        std::string pattern = (fs::temp_directory_path() / "transfer-XXXXXX").string();
        root_ = ::mkdtemp(pattern.data());
    }
    ~FileTransferTest() override { fs::remove_all(root_); }
    [[nodiscard]] FilePlace place(std::string path) const {
        return {.root = root_.string(),
                .path = std::move(path),
                .machine = "web",
                .owner = ::geteuid(),
                .group = ::getegid()};
    }
    [[nodiscard]] fs::path const& root() const { return root_; }
    [[nodiscard]] std::string copied(std::string from, std::string to) const {
        auto const done = transfer_files(place(std::move(from)), place(std::move(to)));
        return done ? "ok" : done.error().text();
    }

private:
    fs::path root_;
};

TEST_F(FileTransferTest, CopiesNoDirectoryIntoItself) {
    fs::create_directories(root() / "a/b/c");
    std::ofstream(root() / "a/file") << "x";
    std::string const end = ": a directory cannot be copied into itself";
    EXPECT_EQ(copied("/a", "/a"), "cannot copy web:/a/a" + end);
    EXPECT_EQ(copied("/a", "/a/new"), "cannot copy web:/a/new" + end);
    EXPECT_EQ(copied("/a", "/a/b/c"), "cannot copy web:/a/b/c/a" + end);
    EXPECT_EQ(copied("/a", "/"), "cannot copy web:/a" + end);
    EXPECT_FALSE(fs::exists(root() / "a/a/a"));
    EXPECT_FALSE(fs::exists(root() / "a/new/new"));
    EXPECT_EQ(copied("/a/b", "/other"), "ok");
    EXPECT_EQ(copied("/a/b", "/a/beside"), "ok");
    EXPECT_TRUE(fs::is_directory(root() / "other/c"));
    EXPECT_TRUE(fs::is_directory(root() / "a/beside/c"));
}

}  // namespace
}  // namespace triton::machine
