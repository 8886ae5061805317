#include "lib/process/identity.h"

#include <cstdio>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <unistd.h>

#include "lib/json/where.h"
#include "lib/process/settings.h"

namespace triton::launcher {

namespace {

using Program = process::Settings;
using json::Problem;
using process::IdOrName;
using testing::ElementsAre;

constexpr char passwd_text[] =
    "root:x:0:0:root:/root:/bin/sh\n"
    "# www:x:1:1::/:\n"
    "broken\n"
    "half:x:12\n"
    "huge:x:4294967295:1::/:\n"
    "word:x:one:1::/:\n"
    ":x:7:7::/:\n"
    "www:x:3300:3301:the web:/srv:/bin/false\n"
    "www:x:9999:9999:second:/:/bin/false\n"
    "last:x:3400:3401::/:/bin/sh";
constexpr char group_text[] =
    "root:x:0:\n"
    "www:x:3301:\n"
    "broken:x\n"
    "log:x:3310:www,last\n"
    "adm:x:3305:root,www\n"
    "wwwx:x:3311:wwwx,xwww\n"
    "again:x:3310:www\n"
    "tail:x:3320:www";

process::Accounts const accounts{passwd_text, group_text};

TEST(Accounts, FindUsersByNameAndNumber) {
    EXPECT_EQ(accounts.find_user("www"), (process::User{"www", 3300, 3301}));
    EXPECT_EQ(accounts.find_user("last"), (process::User{"last", 3400, 3401}));
    EXPECT_EQ(accounts.find_user(std::uint32_t{3400}), (process::User{"last", 3400, 3401}));
    for (char const* const name : {"ww", "wwww", "", "broken", "half", "huge", "word", "# www"})
        EXPECT_EQ(accounts.find_user(name), std::nullopt) << name;
    EXPECT_EQ(accounts.find_user(std::uint32_t{12}), std::nullopt);
    EXPECT_EQ(accounts.find_user(UINT32_MAX), std::nullopt);
}

TEST(Accounts, FindGroups) {
    EXPECT_EQ(accounts.find_group("adm"), 3305U);
    EXPECT_EQ(accounts.find_group("tail"), 3320U);
    EXPECT_EQ(accounts.find_group("broken"), std::nullopt);
    EXPECT_EQ(accounts.find_group("nobody"), std::nullopt);
}

TEST(Accounts, GroupsOfAUserAreItsOwnAndThoseThatNameIt) {
    EXPECT_THAT(accounts.groups_of({"www", 3300, 3301}), ElementsAre(3301, 3305, 3310, 3320));
    EXPECT_THAT(accounts.groups_of({"last", 3400, 3401}), ElementsAre(3310, 3401));
}

TEST(Accounts, AFileThatIsNotThereIsEmpty) {
    auto const none = process::Accounts::read({"/nonexistent/passwd", "/nonexistent/group"});
    ASSERT_TRUE(none);
    EXPECT_EQ(none->find_user("root"), std::nullopt);
    auto const directory = process::Accounts::read({"/", "/nonexistent/group"});
    ASSERT_FALSE(directory);
    EXPECT_EQ(directory.error().code, EISDIR);
}

/// Resolves against the two texts above.
class ResolveIdentity : public testing::Test {
protected:
    ResolveIdentity() {
        std::ofstream(files_.passwd) << passwd_text;
        std::ofstream(files_.group) << group_text;
    }
    ~ResolveIdentity() override {
        (void)std::remove(files_.passwd.c_str());
        (void)std::remove(files_.group.c_str());
    }

    [[nodiscard]] std::expected<process::Identity, json::Problems> resolve(Program const& program) const {
        json::Where const document;
        json::Where const programs{&document, std::string_view("programs")};
        return process::resolve_identity(program, json::Where{&programs, std::string_view("web")}, files_);
    }

    process::AccountFiles files_{testing::TempDir() + "identity-passwd." + std::to_string(::getpid()),
                                 testing::TempDir() + "identity-group." + std::to_string(::getpid())};
};

TEST_F(ResolveIdentity, NothingAskedIsNothingChanged) { EXPECT_EQ(resolve({}), process::Identity{}); }

TEST_F(ResolveIdentity, ANameBringsItsGroups) {
    EXPECT_EQ(resolve({.user = IdOrName("www")}), (process::Identity{3300, 3301, {{3301, 3305, 3310, 3320}}}));
    EXPECT_EQ(resolve({.user = IdOrName("www"), .group = IdOrName("log")}),
              (process::Identity{3300, 3310, {{3301, 3305, 3310, 3320}}}));
}

TEST_F(ResolveIdentity, ANumberBringsItsGroupOnly) {
    EXPECT_EQ(resolve({.user = IdOrName(3400U), .supplementary_groups = {{IdOrName(5U)}}}),
              (process::Identity{3400, 3401, {{5}}}));
    EXPECT_EQ(resolve({.user = IdOrName(4711U), .group = IdOrName(4712U), .supplementary_groups = {{IdOrName(6U)}}}),
              (process::Identity{4711, 4712, {{6}}}));
}

TEST_F(ResolveIdentity, GroupsMayBeListed) {
    EXPECT_EQ(
        resolve({.user = IdOrName("www"), .supplementary_groups = {{IdOrName("adm"), IdOrName(4U), IdOrName(4U)}}}),
        (process::Identity{3300, 3301, {{4, 3305}}}));
    auto const group_only = resolve({.group = IdOrName("www"), .supplementary_groups = {{IdOrName(4U)}}});
    EXPECT_EQ(group_only, (process::Identity{std::nullopt, 3301, {{4}}}));
}

TEST_F(ResolveIdentity, WhatIsSoAlreadyIsLeftAlone) {
    auto const identity = resolve({.user = IdOrName(static_cast<std::uint32_t>(::geteuid())),
                                   .group = IdOrName(static_cast<std::uint32_t>(::getegid())),
                                   .supplementary_groups = {{IdOrName(1U), IdOrName(987654U)}}});
    EXPECT_EQ(identity, (process::Identity{std::nullopt, std::nullopt, {{1, 987654}}}));
}

TEST_F(ResolveIdentity, SaysAllThatIsMissing) {
    auto const problems = resolve({.user = IdOrName("nobodi"),
                                   .group = IdOrName("grup"),
                                   .supplementary_groups = {{IdOrName("adm"), IdOrName("x")}}});
    ASSERT_FALSE(problems);
    EXPECT_THAT(problems.error(),
                ElementsAre(json::Problem{"programs.web.user", "no user \"nobodi\" in " + files_.passwd},
                            json::Problem{"programs.web.group", "no group \"grup\" in " + files_.group},
                            json::Problem{"programs.web.supplementaryGroups[1]", "no group \"x\" in " + files_.group}));
}

TEST_F(ResolveIdentity, AnUnknownNumberNeedsAGroup) {
    auto const problems = resolve({.user = IdOrName(4711U)});
    ASSERT_FALSE(problems);
    EXPECT_THAT(
        problems.error(),
        ElementsAre(json::Problem{"programs.web.group", "is needed, because user 4711 is not in " + files_.passwd}));
}

}  // namespace

}  // namespace triton::launcher
