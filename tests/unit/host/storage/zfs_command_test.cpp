#include "host/storage/zfs_command.h"

#include <gtest/gtest.h>

namespace triton::storage {
namespace {

TEST(ZfsCommand, TellsKindsOfFailuresApart) {
    struct Case {
        char const* message;
        ErrorKind kind;
    };
    // As OpenZFS 2.1 and zfs-fuse 0.7 print them.
    for (Case const& c : {
             Case{"cannot open 'tank/a': dataset does not exist\n", ErrorKind::not_found},
             Case{"cannot create 'tank/a': dataset already exists\n", ErrorKind::exists},
             Case{"cannot create 'tank/no/a': parent does not exist\n", ErrorKind::not_found},
             Case{"cannot destroy 'tank/a': dataset is busy\n", ErrorKind::busy},
             Case{"umount: /tank/a: target is busy.\ncannot unmount '/tank/a': umount failed\n", ErrorKind::busy},
             Case{"cannot destroy 'tank/a': filesystem has dependent clones\nuse '-R' to destroy the following "
                  "datasets:\ntank/b\n",
                  ErrorKind::busy},
             Case{"cannot rollback to 'tank/a@s': more recent snapshots exist\n", ErrorKind::refused},
             Case{"cannot receive incremental stream: destination tank/a has been modified\nsince most recent "
                  "snapshot\n",
                  ErrorKind::refused},
             Case{"cannot receive incremental stream: most recent snapshot of tank/a does not\nmatch incremental "
                  "source\n",
                  ErrorKind::refused},
             Case{"cannot receive incremental stream: destination 'tank/a' does not exist\n", ErrorKind::not_found},
             Case{"cannot receive new filesystem stream: destination 'tank/a' exists\nmust specify -F to overwrite "
                  "it\n",
                  ErrorKind::exists},
             Case{"could not find any snapshots to destroy; check snapshot names.\n", ErrorKind::not_found},
             Case{"cannot unmount 'tank/a': not currently mounted\n", ErrorKind::not_found},
             Case{"cannot unmount '/tank/a': pool or dataset is busy\n", ErrorKind::busy},
             Case{"cannot create 'tank/a': pool I/O is currently suspended\n", ErrorKind::unavailable},
             Case{"cannot receive: invalid stream (checksum mismatch)\n", ErrorKind::corrupt},
             Case{"cannot create 'tank/a': out of space\n", ErrorKind::exhausted},
             Case{"unrecognized command 'bookmark'\n", ErrorKind::unsupported},
             Case{"something new\n", ErrorKind::internal},
         })
        EXPECT_EQ(zfs_error("do it", c.message).kind, c.kind) << c.message;
}

TEST(ZfsCommand, ShowsTheMessageInOneLine) {
    EXPECT_EQ(zfs_error("make tree a", "first\nsecond\n").text(), "cannot make tree a: first second");
    EXPECT_EQ(zfs_error("make tree a", "").text(), "cannot make tree a: zfs failed and did not say why");
}

TEST(ZfsCommand, ReadsFields) {
    using Lines = std::vector<std::vector<std::string>>;
    EXPECT_EQ(zfs_fields("tank\t1\ntank/a\t-\n"), (Lines{{"tank", "1"}, {"tank/a", "-"}}));
    EXPECT_EQ(zfs_fields("a\t\t\n"), (Lines{{"a", "", ""}}));
    EXPECT_EQ(zfs_fields(""), Lines{});
}

}  // namespace
}  // namespace triton::storage
