#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/storage/pool.h"

namespace triton::storage {
namespace {

namespace fs = std::filesystem;

/// A program zfs of a few lines, whose datasets are directories.
class ZfsPoolTest : public testing::Test {
protected:
    ZfsPoolTest() {
        std::string pattern = testing::TempDir() + "zfs.XXXXXX";
        area_ = ::mkdtemp(pattern.data());
        fs::create_directories(area_ / "bin");
        before_ = std::getenv("PATH");
        ::setenv("PATH", ((area_ / "bin").string() + ":" + before_).c_str(), 1);
    }
    ~ZfsPoolTest() override {
        ::setenv("PATH", before_.c_str(), 1);
        fs::remove_all(area_);
    }

    /// `destroy`: what the program does when it is to destroy a dataset; its directory is $place.
    std::unique_ptr<Pool> pool_that_destroys(std::string const& destroy) {
        std::ofstream(area_ / "bin/zfs") << "#!/bin/sh\n"
                                         << "for last; do :; done\n"
                                         << "place=" << (area_ / "datasets").string() << "/$last\n"
                                         << "case $1 in\n"
                                         << "list) if test \"$4\" = mountpoint,mounted; then printf '%s\\tyes\\n' "
                                         << (area_ / "pool").string() << "; else\n"
                                         << "  echo \"$last\"; for one in \"$place\"/*; do test ! -e \"$one\" || echo "
                                         << "\"$last/${one##*/}\"; done; fi;;\n"
                                         << "create) mkdir -p \"$place\";;\n"
                                         << "destroy) " << destroy << ";;\n"
                                         << "esac\n";
        fs::permissions(area_ / "bin/zfs", fs::perms::owner_all);
        auto opened = open_pool({.path = (area_ / "pool").string(), .dataset = "tank/x"});
        EXPECT_TRUE(opened) << opened.error().text();
        fs::create_directories(area_ / "datasets/tank/x/.building/a-0123456789abcdef");
        return *std::move(opened);
    }

    /// `origins`, `holds`: what the program says of the origins of datasets, and of the holds of snapshots.
    std::unique_ptr<Pool> pool_that_says(std::string const& origins, std::string const& holds) {
        std::ofstream(area_ / "bin/zfs") << "#!/bin/sh\n"
                                         << "case $1,$4 in\n"
                                         << "list,mountpoint,mounted) printf '%s\\tyes\\n' "
                                         << (area_ / "pool").string() << ";;\n"
                                         << "list,name,origin) printf '" << origins << "';;\n"
                                         << "list,*) echo on;;\n"
                                         << "get,*) printf '" << holds << "';;\n"
                                         << "esac\n";
        fs::permissions(area_ / "bin/zfs", fs::perms::owner_all);
        auto opened = open_pool({.path = (area_ / "pool").string(), .dataset = "tank/x"});
        EXPECT_TRUE(opened) << opened.error().text();
        return *std::move(opened);
    }

    fs::path area_;
    std::string before_;
};

/// Who deletes several wants all or none of them.
TEST_F(ZfsPoolTest, TellsWhatKeepsSnapshotsFromBeingDeleted) {
    TreeName const tree = *TreeName::parse("machines/a");
    std::vector<SnapshotName> const names{*SnapshotName::parse("s2"), *SnapshotName::parse("s3")};
    auto const said = [&](std::string const& origins, std::string const& holds) {
        auto const unused = pool_that_says(origins, holds)->check_unused(tree, names);
        return unused ? "ok" : unused.error().text();
    };
    std::string const nobody = "tank/x/machines/a@s2\\t0\\ntank/x/machines/a@s3\\t-\\n";
    std::string const others = "tank/x\\t-\\ntank/x/b\\ttank/x/machines/a@s1\\ntank/x/c\\ttank/x/machines/a@s22\\n";
    EXPECT_EQ(said(others, nobody), "ok");
    EXPECT_EQ(said(others + "tank/x/building/7\\ttank/x/machines/a@s3\\n", nobody),
              "cannot delete snapshots of tree machines/a: a@s3 was cloned to building/7");
    EXPECT_EQ(said(others, "tank/x/machines/a@s2\\t1\\ntank/x/machines/a@s3\\t0\\n"),
              "cannot delete snapshots of tree machines/a: a@s2 is held: zfs holds tank/x/machines/a@s2");
}

/// zfs destroy would take "a%b" as all snapshots from a to b.
TEST_F(ZfsPoolTest, HasNoSnapshotsWithAPercentSign) {
    auto const pool = pool_that_destroys("echo \"$last\" >> " + (area_ / "destroyed").string());
    TreeName const tree = *TreeName::parse("machines/a");
    SnapshotName const name = *SnapshotName::parse("a%b");
    EXPECT_EQ(pool->snapshot(tree, name).error().text(), "snapshot name \"a%b\": ZFS allows no % in it");
    EXPECT_EQ(pool->delete_snapshot(tree, name).error().kind, ErrorKind::not_found);
    EXPECT_FALSE(fs::exists(area_ / "destroyed"));
}

TEST_F(ZfsPoolTest, RemovesWhatWasLeft) {
    auto const pool = pool_that_destroys("rmdir \"$place\"");
    auto const removed = pool->recover();
    ASSERT_TRUE(removed) << removed.error().text();
    EXPECT_THAT(*removed, testing::ElementsAre("removed what was left of building a-0123456789abcdef"));
}

/// Between the list and the lock, whoever was building it may have given it its name.
TEST_F(ZfsPoolTest, WhatWasCompletedSinceItWasListedIsNobodysError) {
    auto const pool =
        pool_that_destroys("rmdir \"$place\"; echo \"cannot open '$last': dataset does not exist\" >&2; exit 1");
    auto const removed = pool->recover();
    ASSERT_TRUE(removed) << removed.error().text();
    EXPECT_THAT(*removed, testing::IsEmpty());
}

TEST_F(ZfsPoolTest, WhatCannotBeRemovedDoesNotKeepTheRest) {
    auto const pool = pool_that_destroys(
        "if [ \"${last%/a-*}\" = \"$last\" ]; then rmdir \"$place\"; else echo 'pool I/O is currently suspended' >&2; "
        "exit 1; fi");
    fs::create_directories(area_ / "datasets/tank/x/.building/b-0123456789abcdef");
    EXPECT_FALSE(pool->recover());
    EXPECT_TRUE(fs::exists(area_ / "datasets/tank/x/.building/a-0123456789abcdef"));
    EXPECT_FALSE(fs::exists(area_ / "datasets/tank/x/.building/b-0123456789abcdef"));
}

TEST_F(ZfsPoolTest, WhatCannotBeRemovedIsAnError) {
    auto const pool =
        pool_that_destroys("echo \"cannot destroy '$last': pool I/O is currently suspended\" >&2; exit 1");
    auto const removed = pool->recover();
    ASSERT_FALSE(removed);
    EXPECT_THAT(removed.error().text(), testing::HasSubstr("pool I/O is currently suspended"));
}

}  // namespace
}  // namespace triton::storage
