#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "host/storage/pool.h"
#include "host/storage/remove_tree.h"

namespace triton::storage {
namespace {

class DirectoryPoolTest : public testing::Test {
protected:
    DirectoryPoolTest() {
        if (::mkdtemp(path_.data()) == nullptr) std::abort();
    }
    ~DirectoryPoolTest() override { (void)remove_tree(AT_FDCWD, path_); }

    [[nodiscard]] std::unique_ptr<Pool> open() const {
        return *open_pool({.backend = Backend::directory, .path = path_});
    }

    // where nothing waits for a disk
    std::string path_ = std::string(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + "/triton-pool.XXXXXX";
};

/// Whoever looks at a tree that comes and goes finds it, or does not find it. It is never damaged.
TEST_F(DirectoryPoolTest, ATreeThatIsBeingDestroyedIsThereOrNotThere) {
    TreeName const tree = *TreeName::parse("machines/a");
    auto const pool = open();
    std::atomic<bool> is_over = false;
    auto const look = [&] {
        auto const own = open();
        auto const check = [](auto const& result) {
            EXPECT_TRUE(result || result.error().kind == ErrorKind::not_found) << result.error().text();
        };
        while (!is_over) {
            check(own->snapshots(tree));
            check(own->snapshot_facts(tree));
            check(own->properties(tree));
            check(own->quota(tree));
            check(own->open(tree));
            check(own->list("machines"));
        }
    };
    std::thread first(look);
    std::thread second(look);
    for (int i = 0; i < 500; ++i) {
        EXPECT_TRUE(pool->make(tree));
        EXPECT_TRUE(pool->set_property(tree, "triton:a", "b"));
        EXPECT_TRUE(pool->snapshot(tree, *SnapshotName::parse("one")));
        EXPECT_TRUE(pool->destroy(tree));
    }
    is_over = true;
    first.join();
    second.join();
}

}  // namespace
}  // namespace triton::storage
