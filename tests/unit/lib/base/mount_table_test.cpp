#include "lib/base/mount_table.h"

#include <gtest/gtest.h>

namespace triton {
namespace {

TEST(MountTable, ALineHasItsFields) {
    auto const mount = parse_mount_line("36 35 98:0 /from /a\\040b rw,noatime shared:7 master:1 - ext3 /dev/root rw");
    ASSERT_TRUE(mount);
    EXPECT_EQ(mount->root, "/from");
    EXPECT_EQ(unescape_mount_path(mount->point), "/a b");
    EXPECT_EQ(mount->optional, "shared:7 master:1");
    EXPECT_EQ(mount->type, "ext3");
    EXPECT_EQ(mount->source, "/dev/root");
    EXPECT_EQ(parse_mount_line("36 35 98:0 / /x rw - tmpfs none rw")->optional, "");
}

TEST(MountTable, WhatIsCutIsNoLine) {
    for (char const* const line : {"", "36 35", "36 35 98:0 / /x rw", "36 35 98:0 - tmpfs none rw",
                                   "1 2 3 / x rw - t s", " - ", "1 2 3 / /x rw - "})
        EXPECT_FALSE(parse_mount_line(line)) << line;
}

TEST(MountTable, EscapesAreDecodedOnce) {
    EXPECT_EQ(unescape_mount_path("\\134040"), "\\040");
    EXPECT_EQ(unescape_mount_path("a\\011b\\012c"), "a\tb\nc");
    EXPECT_EQ(unescape_mount_path("\\04"), "\\04") << "cut";
    EXPECT_EQ(unescape_mount_path("\\999"), "\\999");
}

TEST(MountTable, TheMountAboveAPathIsTheDeepestAndTopmost) {
    std::string_view const table =
        "1 0 8:1 / / rw shared:1 - ext4 /dev/a rw\n"
        "2 1 8:2 / /var/my\\040pods rw - xfs /dev/b rw\n"
        "3 1 8:3 / /var/my rw - xfs /dev/c rw\n"
        "4 1 8:4 / /srv rw - xfs /dev/d rw\n"
        "5 1 8:5 / /srv rw - xfs /dev/e rw";
    EXPECT_EQ(mount_above(table, "/var/my pods/1")->source, "/dev/b");
    EXPECT_EQ(mount_above(table, "/var/my pods")->source, "/dev/b");
    EXPECT_EQ(mount_above(table, "/var/my podsX")->source, "/dev/a");
    EXPECT_EQ(mount_above(table, "/srv/x")->source, "/dev/e") << "a later mount hides an earlier one";
    EXPECT_EQ(mount_above(table, "/srvx")->source, "/dev/a");
    EXPECT_FALSE(mount_above("", "/"));
}

}  // namespace
}  // namespace triton
