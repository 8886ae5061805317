#include "host/storage/copy_tree.h"

#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "host/storage/tree_size.h"

namespace triton::storage {
namespace {

namespace fs = std::filesystem;

class CopyTreeTest : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "/copy.XXXXXX";
        directory_ = ::mkdtemp(pattern.data());
        fs::create_directories(directory_ / "from");
    }
    void TearDown() override { fs::remove_all(directory_); }
    static UniqueFd opened(fs::path const& path) {
        return UniqueFd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    }

    fs::path directory_;
};

/// What a machine does to its own files must not keep the host from copying, measuring or limiting them.
TEST_F(CopyTreeTest, ANameThatComesAndGoesIsNotAnError) {
    fs::path const from = directory_ / "from";
    for (int number = 0; number < 50; ++number)
        std::ofstream(from / ("stays" + std::to_string(number))) << "x";
    std::jthread const tenant([&](std::stop_token const& stop) {
        std::error_code ignored;
        for (int turn = 0; !stop.stop_requested(); ++turn) {
            fs::path const name = from / ("turns" + std::to_string(turn % 7));
            fs::remove_all(name, ignored);
            switch (turn % 4) {
                case 0: std::ofstream(name) << "x"; break;
                case 1: fs::create_symlink("nowhere", name, ignored); break;
                case 2: fs::create_directories(name / "below", ignored); break;
                default: break;
            }
        }
    });
    for (int turn = 0; turn < 300; ++turn) {
        fs::path const to = directory_ / "to";
        fs::create_directories(to);
        auto const copied = copy_tree(opened(from), opened(to), CopyWay::copy);
        ASSERT_TRUE(copied) << copied.error().text();
        EXPECT_TRUE(fs::exists(to / "stays49"));
        auto const measured = measure_tree(opened(from), false);
        ASSERT_TRUE(measured) << measured.error().text();
        fs::remove_all(to);
    }
}

}  // namespace
}  // namespace triton::storage
