#include "config/version.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::config {
namespace {

using testing::ElementsAre;

TEST(Version, FoundAnywhereInTheText) {
    struct Row {
        std::string_view text;
        std::string_view printed;  // empty: not a version
    };
    Row const rows[] = {
        {"6.2.11", "6.2.11"},
        {"prerelease-6.2.11", "6.2.11"},
        {"test-6.2.11-test", "6.2.11"},
        {"7.1.0-rc12", "7.1.0-rc12"},
        {"7.1.0-rc", "7.1.0"},
        {"7.1.0-RC1", "7.1.0"},
        {"7.1.0-5-rc1", "7.1.0"},
        {"1.2.x.6.3.4", "6.3.4"},
        {"1.2.3.4", "1.2.3"},
        {"007.01.0", "7.1.0"},
        {"v4294967295.0.0", "4294967295.0.0"},
        {"6.2", ""},
        {"6.2.", ""},
        {"6..2.1", ""},
        {"4294967296.1.2", ""},
        {"", ""},
        {"latest", ""},
    };
    for (Row const& row : rows) {
        auto const version = Version::parse(row.text);
        EXPECT_EQ(version ? version->text() : "", row.printed) << row.text;
    }
}

TEST(Version, ProtocolCompatibleUnlessMoreThanThePatchDiffers) {
    struct Row {
        std::string_view other;
        bool compatible;
    };
    for (Row const& row :
         {Row{"7.1.9", true}, Row{"7.1.0", true}, Row{"7.2.0", false}, Row{"6.1.0", false}, Row{"7.1.0-rc1", false}}) {
        EXPECT_EQ(Version::parse("7.1.0")->protocol_compatible(*Version::parse(row.other)), row.compatible)
            << row.other;
    }
    EXPECT_TRUE(Version::parse("7.1.0-rc1")->protocol_compatible(*Version::parse("7.1.5-rc1")));
    EXPECT_FALSE(Version::parse("7.1.0-rc1")->protocol_compatible(*Version::parse("7.1.0-rc2")));
}

BinaryRule rule(VersionMatch match, std::string container = "7.1.0") {
    return {match, std::move(container), "/usr/bin/fdbserver", "/var/fdb/shared-binaries"};
}

TEST(ChooseBinary, ExactComparesTexts) {
    auto const choose = [](std::string_view version) {
        return choose_binary(rule(VersionMatch::exact), version).value().paths;
    };
    EXPECT_THAT(choose("7.1.0"), ElementsAre("/usr/bin/fdbserver"));
    EXPECT_THAT(choose("7.1.1"), ElementsAre("/var/fdb/shared-binaries/bin/7.1.1/fdbserver",
                                             "/var/fdb/shared-binaries/7.1.1/fdbserver"));
    EXPECT_THAT(choose("v7.1.0"), ElementsAre("/var/fdb/shared-binaries/bin/v7.1.0/fdbserver",
                                              "/var/fdb/shared-binaries/v7.1.0/fdbserver"));
    EXPECT_THAT(choose("next"),
                ElementsAre("/var/fdb/shared-binaries/bin/next/fdbserver", "/var/fdb/shared-binaries/next/fdbserver"));
}

TEST(ChooseBinary, ProtocolComparesVersions) {
    auto const choose = [](std::string_view version) {
        return choose_binary(rule(VersionMatch::protocol), version).value().paths;
    };
    EXPECT_THAT(choose("7.1.5"), ElementsAre("/usr/bin/fdbserver"));
    EXPECT_THAT(choose("test-7.2.1-x"), ElementsAre("/var/fdb/shared-binaries/bin/7.2.1/fdbserver",
                                                    "/var/fdb/shared-binaries/7.2.1/fdbserver"));
    EXPECT_THAT(choose("7.1.0-rc2"), ElementsAre("/var/fdb/shared-binaries/bin/7.1.0-rc2/fdbserver",
                                                 "/var/fdb/shared-binaries/7.1.0-rc2/fdbserver"));
}

TEST(ChooseBinary, AutomaticPrefersTheVersionThatIsMeant) {
    struct Row {
        std::string container;
        std::string configured;
        BinaryCandidates candidates;
    };
    std::string const shared = "/var/fdb/shared-binaries/";
    Row const rows[] = {
        {"7.1.43", "7.1.43", {{"/usr/bin/fdbserver"}}},
        {"7.1.43", "v7.1.43", {{"/usr/bin/fdbserver"}}},
        {"7.1.43",
         "7.1.57",
         {{shared + "bin/7.1.57/fdbserver", shared + "7.1.57/fdbserver", "/usr/bin/fdbserver"}, true}},
        {"7.1.43",
         "test-7.1.57",
         {{shared + "bin/test-7.1.57/fdbserver", shared + "test-7.1.57/fdbserver", shared + "bin/7.1.57/fdbserver",
           shared + "7.1.57/fdbserver", "/usr/bin/fdbserver"},
          true}},
        {"7.1.43", "7.3.0", {{shared + "bin/7.3.0/fdbserver", shared + "7.3.0/fdbserver"}}},
        {"7.3.0", "7.3.0-rc1", {{shared + "bin/7.3.0-rc1/fdbserver", shared + "7.3.0-rc1/fdbserver"}}},
        {"next", "next", {{"/usr/bin/fdbserver"}}},
        {"next", "7.1.43", {{shared + "bin/7.1.43/fdbserver", shared + "7.1.43/fdbserver"}}},
        {"7.1.43", "6.2", {{shared + "bin/6.2/fdbserver", shared + "6.2/fdbserver"}}},
    };
    for (Row const& row : rows) {
        EXPECT_EQ(choose_binary(rule(VersionMatch::automatic, row.container), row.configured).value(), row.candidates)
            << row.container << " " << row.configured;
    }
}

TEST(ChooseBinary, ProtocolNeedsVersions) {
    EXPECT_EQ(choose_binary(rule(VersionMatch::protocol), "6.2").error().text(),
              "version: could not parse FDB version from 6.2");
    EXPECT_EQ(choose_binary(rule(VersionMatch::protocol), "a\nb").error().text(),
              R"(version: could not parse FDB version from "a\nb")");
    EXPECT_EQ(choose_binary(rule(VersionMatch::protocol, "latest"), "6.2.1").error().text(),
              "main container version: could not parse FDB version from latest");
}

TEST(ChooseBinary, Paths) {
    BinaryRule const relative{VersionMatch::exact, "1", "etcd", "shared/"};
    EXPECT_THAT(choose_binary(relative, "1").value().paths, ElementsAre("etcd"));
    EXPECT_THAT(choose_binary(relative, "2").value().paths, ElementsAre("shared/bin/2/etcd", "shared/2/etcd"));
}

}  // namespace
}  // namespace triton::config
