#include "host/observe/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::observe {
namespace {

using testing::HasSubstr;

std::string const name = "371f18c0-9f73-4e86-94f6-c1cf71188d23";

Findings stored(Result<machine::Machine> machine) { return {.stored = std::move(machine)}; }

machine::Machine machine_of(std::string alias) {
    machine::Machine machine;
    machine.uuid = *Uuid::parse(name);
    machine.alias = std::move(alias);
    return machine;
}

TEST(Records, AnErrorThatIsNotAboutTheFileKeepsWhatIsKnown) {
    Records records;
    EXPECT_FALSE(records.take(name, stored(machine_of("web")), 1, "start").has_failed);
    for (ErrorKind const kind :
         {ErrorKind::unavailable, ErrorKind::exhausted, ErrorKind::busy, ErrorKind::timeout, ErrorKind::internal}) {
        auto const seen = records.take(name, stored(fail(kind, "too many open files")), 2, "file");
        EXPECT_TRUE(seen.has_failed);
        EXPECT_THAT(*seen.document->text(info::View::full), HasSubstr(R"("alias":"web")"));
        EXPECT_THAT(records.raw(name), HasSubstr("too many open files"));
    }
    auto const broken = records.take(name, stored(fail(ErrorKind::corrupt, "it is not JSON")), 3, "file");
    EXPECT_FALSE(broken.has_failed);
    EXPECT_THAT(*broken.document->text(info::View::full), HasSubstr(R"("state":"unreadable")"));
}

TEST(Records, WhatCouldNotBeReadYetIsShownAndReadAgain) {
    Records records;
    auto const seen = records.take(name, stored(fail(ErrorKind::unavailable, "too many open files")), 1, "start");
    EXPECT_TRUE(seen.has_failed);
    EXPECT_THAT(*seen.document->text(info::View::full), HasSubstr(R"("state":"unreadable")"));
}

TEST(Records, TheQuotaOfATreeIsKeptFromOneLookToTheNext) {
    Records records;
    machine::Machine machine = machine_of("web");
    machine.quota = 10;
    (void)records.take(
        name, {.stored = machine, .snapshots = std::vector<machine::Snapshot>(), .tree_limit = std::uint64_t{8} << 30},
        1, "start");
    auto seen = records.take(name, stored(machine), 2, "file");
    EXPECT_THAT(*seen.document->text(info::View::full), HasSubstr(R"("quota":8)"));
    seen = records.take(name, {.tree_limit = fail(ErrorKind::timeout, "ask zfs")}, 3, "zfs");
    EXPECT_TRUE(seen.has_failed);
    EXPECT_THAT(*seen.document->text(info::View::full), HasSubstr(R"("quota":8)"));
    seen = records.take(name, {.tree_limit = std::optional<std::uint64_t>()}, 4, "zfs");
    EXPECT_THAT(*seen.document->text(info::View::full), HasSubstr(R"("quota":10)"));
}

TEST(Records, WhatIsUnreadIsKnown) {
    Records records;
    EXPECT_EQ(records.unread(name), info::host_parts);
    (void)records.take(name, stored(machine_of("web")), 1, "file");
    EXPECT_EQ(records.unread(name), info::Part::unit | info::Part::snapshots);
    (void)records.take(name, {.unit = fail(ErrorKind::timeout, "ask systemd")}, 2, "unit");
    EXPECT_EQ(records.unread(name), info::Part::unit | info::Part::snapshots);
    (void)records.take(name, {.unit = machine::UnitStatus{}, .snapshots = std::vector<machine::Snapshot>()}, 3, "unit");
    EXPECT_EQ(records.unread(name), info::Parts());
    (void)records.take(name, stored(fail(ErrorKind::not_found, "it is deleted")), 4, "file");
    EXPECT_EQ(records.unread(name), info::host_parts);
}

}  // namespace
}  // namespace triton::observe
