#include "sidecar/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::sidecar {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Result<std::string> const no_version = fail(ENOENT, "open /var/fdb/version");

StageOptions options(StageMode mode = StageMode::init) {
    StageOptions made;
    made.mode = mode;
    made.input_directory = "/in";
    return made;
}

std::vector<PlannedCopy> copies(StageOptions const& given, Result<std::string> const& version = "7.3.63") {
    StagePlan planned = plan(given, version);
    for (std::string& error : planned.errors)
        planned.copies.push_back({CopyKind::verbatim, "error", std::move(error)});
    return planned.copies;
}

std::vector<std::string> errors(StageOptions const& given, Result<std::string> const& version = "7.3.63") {
    return plan(given, version).errors;
}

PlannedCopy verbatim(std::string source, std::string target) {
    return {CopyKind::verbatim, std::move(source), std::move(target)};
}

TEST(Plan, FilesLandUnderTheirBaseName) {
    StageOptions given = options();
    given.files = {"fdb.cluster", "sub/dir/name", "./a"};
    given.require_not_empty = {"fdb.cluster"};
    given.templates = {"nginx.conf"};
    EXPECT_THAT(copies(given, no_version),
                ElementsAre(PlannedCopy{CopyKind::verbatim, "/in/fdb.cluster", "fdb.cluster", true},
                            verbatim("/in/sub/dir/name", "name"), verbatim("/in/a", "a"),
                            PlannedCopy{CopyKind::substituted, "/in/nginx.conf", "nginx.conf"}));
}

TEST(Plan, RepeatedSlashesDoNoHarm) {
    StageOptions given = options();
    given.files = {".//a", "sub//b"};
    given.require_not_empty = {"sub/b"};
    EXPECT_THAT(copies(given),
                ElementsAre(verbatim("/in/a", "a"), PlannedCopy{CopyKind::verbatim, "/in/sub/b", "b", true}));
    given.files = {"//a", "sub//", "sub//.."};
    given.require_not_empty = {};
    EXPECT_THAT(errors(given), ElementsAre("--copy-file: //a is not a path inside the directory",
                                           "--copy-file: sub// is not a path inside the directory",
                                           "--copy-file: sub//.. is not a path inside the directory"));
}

TEST(Plan, BinariesGoWhereModeAndVersionSay) {
    struct Row {
        StageMode mode;
        std::string version;
        std::string directory;  // given
        std::string target;
    };
    Row const rows[] = {
        {StageMode::sidecar, "7.3.63", "", "bin/7.3.63/fdbserver"},
        {StageMode::sidecar, "7.4.0-rc1", "", "bin/7.4.0-rc1/fdbserver"},
        {StageMode::sidecar, "next", "", "bin/next/fdbserver"},
        {StageMode::init, "7.3.63", "", "7.3/fdbserver"},
        {StageMode::init, "prerelease-7.3.63", "", "7.3/fdbserver"},
        {StageMode::init, "7.3.63", "deep/er", "deep/er/fdbserver"},
        {StageMode::sidecar, "7.3.63", ".", "fdbserver"},
        {StageMode::sidecar, "7.3.63", "./a", "a/fdbserver"},
    };
    for (Row const& row : rows) {
        StageOptions given = options(row.mode);
        given.binaries = {"fdbserver"};
        given.binary_output_directory = row.directory;
        EXPECT_THAT(copies(given, row.version), ElementsAre(verbatim("/usr/bin/fdbserver", row.target))) << row.target;
    }
}

TEST(Plan, BinaryDirectoryGivenNeedsNoVersion) {
    StageOptions given = options();
    given.binaries = {"cli"};
    given.binary_directory = "/opt/";
    given.binary_output_directory = "b";
    EXPECT_THAT(copies(given, no_version), ElementsAre(verbatim("/opt/cli", "b/cli")));
}

TEST(Plan, BinaryDirectoryOfTheMonitorConf) {
    auto const directory = [](StageOptions const& given, Result<std::string> const& version) {
        return plan(given, version).binary_directory;
    };
    StageOptions given = options(StageMode::init);
    EXPECT_EQ(directory(given, "7.3.63"), "bin/7.3.63");  // by the sidecar
    EXPECT_EQ(directory(given, no_version), "");
    EXPECT_EQ(directory(given, "../7"), "");
    given.binaries = {"fdbserver"};
    EXPECT_EQ(directory(given, "7.3.63"), "7.3");
    given.binary_output_directory = "b";
    EXPECT_EQ(directory(given, no_version), "b");
    given.binaries = {};
    EXPECT_EQ(directory(given, "7.3.63"), "b");
}

TEST(Plan, PrimaryLibraryIsCopiedOnceUnderThePrimaryName) {
    StageOptions given = options();
    given.library_directory = "/lib";
    given.libraries = {"7.1.61", "7.3.63", "7.1.61"};
    given.primary_library = "7.3.63";
    EXPECT_THAT(copies(given, no_version), ElementsAre(verbatim("/lib/libfdb_c_7.3.63.so", "libfdb_c.so"),
                                                       verbatim("/lib/libfdb_c_7.1.61.so", "libfdb_c_7.1.61.so")));
}

TEST(Plan, OnlySidecarModeComparesVersions) {
    StageOptions given = options(StageMode::sidecar);
    given.files = {"a"};
    given.main_container_version = "7.3.63";
    EXPECT_TRUE(plan(given, "7.3.63").is_main_container_same);
    EXPECT_THAT(copies(given), IsEmpty());
    EXPECT_FALSE(plan(given, "7.3.64").is_main_container_same);
    EXPECT_THAT(copies(given, "7.3.64"), ElementsAre(verbatim("/in/a", "a")));
    given.mode = StageMode::init;
    EXPECT_THAT(copies(given), ElementsAre(verbatim("/in/a", "a")));
}

TEST(Plan, EqualVersionsMayLeaveOutBinariesAlone) {
    StageOptions given = options(StageMode::sidecar);
    given.files = {"a"};
    given.binaries = {"fdbserver"};
    given.libraries = {"7.3.63"};
    given.monitor_conf = "monitor.conf";
    given.main_container_version = "7.3.63";
    given.same_version = SameVersion::skips_binaries;
    EXPECT_THAT(
        copies(given),
        ElementsAre(verbatim("/in/a", "a"), PlannedCopy{CopyKind::monitor_conf, "/in/monitor.conf", "fdbmonitor.conf"},
                    verbatim("/usr/lib/fdb/multiversion/libfdb_c_7.3.63.so", "libfdb_c_7.3.63.so")));
    given.same_version = SameVersion::skips_all;
    EXPECT_THAT(copies(given), IsEmpty());
}

TEST(Plan, TheSameTwiceIsOneCopyAndTwoForOneTargetAnError) {
    StageOptions given = options();
    given.files = {"a", "a"};
    EXPECT_THAT(copies(given), ElementsAre(verbatim("/in/a", "a")));
    given.files = {"b/a", "./b/a", "b/././a"};
    given.require_not_empty = {"./b/./a"};
    EXPECT_THAT(copies(given), ElementsAre(PlannedCopy{CopyKind::verbatim, "/in/b/a", "a", true}));
    given.require_not_empty = {};
    given.files = {"x/a", "y/a"};
    given.templates = {"x/a"};
    EXPECT_THAT(errors(given),
                ElementsAre("/in/x/a and /in/y/a would both become a", "/in/x/a and /in/x/a would both become a"));
    given.templates = {};
    given.files = {"x/a"};
    given.binaries = {"a"};
    given.binary_output_directory = ".";
    EXPECT_THAT(errors(given), ElementsAre("/in/x/a and /usr/bin/a would both become a"));
}

TEST(Plan, WhatHasNoTargetIsNamedForMoreErrors) {
    StageOptions given = options();
    given.files = {"x/a", "y/a"};
    given.binaries = {"fdbserver", "../sh"};
    StagePlan const planned = plan(given, no_version);
    EXPECT_THAT(planned.copies, ElementsAre(verbatim("/in/x/a", "a")));
    EXPECT_THAT(planned.unplaced, ElementsAre("/in/y/a", "/usr/bin/fdbserver"));
}

TEST(Plan, MonitorConfGetsItsOldName) {
    StageOptions given = options();
    given.monitor_conf = "conf/template";
    EXPECT_THAT(copies(given, no_version),
                ElementsAre(PlannedCopy{CopyKind::monitor_conf, "/in/conf/template", "fdbmonitor.conf"}));
}

TEST(Plan, SaysAllThatIsWrongAtOnce) {
    StageOptions given = options(StageMode::init);
    given.files = {"../a", "/etc/passwd", "a/../../b", "dir/", std::string("n\0l", 3)};
    given.require_not_empty = {"missing"};
    given.monitor_conf = "..";
    given.binaries = {"fdbserver", "../sh"};
    given.libraries = {"../../x"};
    given.primary_library = "a/b";
    given.watch = true;
    EXPECT_THAT(
        errors(given, no_version),
        ElementsAre("--copy-file: ../a is not a path inside the directory",
                    "--copy-file: /etc/passwd is not a path inside the directory",
                    "--copy-file: a/../../b is not a path inside the directory",
                    "--copy-file: dir/ is not a path inside the directory",
                    "--copy-file: \"n\\u0000l\" is not a path inside the directory",
                    "--require-not-empty: missing is not in --copy-file",
                    "--input-monitor-conf: .. is not a path inside the directory",
                    "--binary-output-dir is missing, and so is this container's version: cannot open "
                    "/var/fdb/version: No such file or directory",
                    "--copy-binary: ../sh is not a plain name", "--copy-primary-library: a/b is not a plain name",
                    "--copy-library: ../../x is not a plain name", "--watch: only --mode sidecar stays to watch"));
}

TEST(Plan, VersionsThatAreNoDirectory) {
    StageOptions given = options(StageMode::sidecar);
    given.binaries = {"fdbserver"};
    EXPECT_THAT(errors(given, "../7"), ElementsAre("this container's version: ../7 is not a plain name"));
    given.main_container_version = "7.3.63";
    given.binary_output_directory = "bin/../..";
    EXPECT_THAT(errors(given, no_version),
                ElementsAre("--binary-output-dir: bin/../.. is not a path inside the directory",
                            "--main-container-version cannot be compared: cannot open /var/fdb/version: "
                            "No such file or directory"));
    given = options(StageMode::init);
    given.binaries = {"fdbserver"};
    EXPECT_THAT(errors(given, "6.2"), ElementsAre("this container's version: could not parse FDB version from 6.2"));
}

}  // namespace
}  // namespace triton::sidecar
