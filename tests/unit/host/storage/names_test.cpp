#include "host/storage/names.h"

#include <string>

#include <gtest/gtest.h>

#include "host/storage/pool.h"

namespace triton::storage {
namespace {

std::string problem(std::string_view text) {
    auto const parsed = TreeName::parse(text);
    return parsed ? "none" : parsed.error().text();
}

TEST(StorageNames, TakesWhatEveryBackendCanHave) {
    for (char const* text : {"a", "layers/5f70bf18", "machines/0d3b-1", "a/b/c/d", "x_1.2:3-4"})
        EXPECT_EQ(problem(text), "none") << text;
    EXPECT_EQ(TreeName::parse("layers/a")->text(), "layers/a");
}

TEST(StorageNames, RefusesWithTheReason) {
    EXPECT_EQ(problem(""), "\"\" is not a name of a tree: it has an empty component");
    EXPECT_EQ(problem("/a"), "\"/a\" is not a name of a tree: it has an empty component");
    EXPECT_EQ(problem("a/"), "\"a/\" is not a name of a tree: it has an empty component");
    EXPECT_EQ(problem("a//b"), "\"a//b\" is not a name of a tree: it has an empty component");
    EXPECT_EQ(problem("a/../b"), "\"a/../b\" is not a name of a tree: a component must begin with a letter or a digit");
    EXPECT_EQ(problem("-r"), "\"-r\" is not a name of a tree: a component must begin with a letter or a digit");
    EXPECT_EQ(problem("a@b"), "\"a@b\" is not a name of a tree: only letters, digits and _ . : - may be in it");
    EXPECT_EQ(problem("a\x1b[2J"),
              "\"a\\u001b[2J\" is not a name of a tree: only letters, digits and _ . : - may be in it");
    EXPECT_EQ(problem("a/b/c/d/e"), "\"a/b/c/d/e\" is not a name of a tree: it has more than 4 components");
    EXPECT_EQ(problem(std::string(121, 'a')),
              "\"" + std::string(120, 'a') + "...\" is not a name of a tree: it has more than 120 characters");
}

TEST(StorageNames, SnapshotsHaveOneComponent) {
    EXPECT_EQ(SnapshotName::parse("final")->text(), "final");
    EXPECT_EQ(SnapshotName::parse("a/b").error().text(),
              "\"a/b\" is not a name of a snapshot: only letters, digits and _ . : - % may be in it");
    EXPECT_EQ(SnapshotName::parse("50%")->text(), "50%");
    EXPECT_EQ(SnapshotName::parse("%").error().text(),
              "\"%\" is not a name of a snapshot: it must begin with a letter or a digit");
    EXPECT_EQ(SnapshotName::parse("").error().kind, ErrorKind::invalid);
}

TEST(StorageNames, BackendsHaveNames) {
    for (auto const backend : {Backend::zfs, Backend::btrfs, Backend::reflink, Backend::directory})
        EXPECT_EQ(parse_backend(name_of(backend)), backend);
    EXPECT_EQ(parse_backend("lvm").error().text(),
              "unknown storage backend \"lvm\" (known: zfs, btrfs, reflink, directory)");
}

}  // namespace
}  // namespace triton::storage
