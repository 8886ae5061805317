#include "host/volume/keep/uses.h"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/volume/keep/rows.h"

namespace triton::volume {

namespace {

constexpr char machine[] = "10000000-0000-4000-8000-000000000000";
constexpr char other[] = "20000000-0000-4000-8000-000000000000";

VolumeKey numbered(int number, std::uint64_t generation = 0) {
    std::string id = "00000000-0000-4000-8000-000000000000";
    id.back() = static_cast<char>('0' + number);
    return {*Uuid::parse(id), generation};
}

/// The rows of a host in a database of their own.
class UsesTest : public testing::Test {
protected:
    UsesTest() {
        std::string place = (std::filesystem::exists("/dev/shm") ? "/dev/shm/" : testing::TempDir()) + "uses.XXXXXX";
        directory_ = ::mkdtemp(place.data());
        database_.emplace(*content::Database::open(directory_ + "/content.db"));
        rows_ = *Rows::open(*database_);
        uses_ = *Uses::open(*database_);
    }
    ~UsesTest() override { std::filesystem::remove_all(directory_); }

    void configure(VolumeConfig config) { EXPECT_TRUE(apply(std::move(config))); }
    Result<> apply(Change const& change) { return rows_->apply({{change}}); }

    std::string hold(std::string const& user, std::vector<Use> const& wanted, Uses::Rules const& rules = {}) {
        auto const held = uses_->hold(user, [&wanted] { return Result<std::vector<Use>>(wanted); }, rules);
        return !held ? held.error().text() : *held ? "changed" : "as it was";
    }

    std::string directory_;
    std::optional<content::Database> database_;
    std::optional<Rows> rows_;
    std::optional<Uses> uses_;
};

}  // namespace

TEST_F(UsesTest, AVolumeIsFoundByWhatPeopleCallIt) {
    configure({.key = numbered(1), .publisher = "admin", .display_name = "data"});
    configure({.key = numbered(1, 3), .publisher = "admin", .display_name = "data"});
    configure({.key = numbered(2), .publisher = "admin", .display_name = "twice"});
    configure({.key = numbered(3), .publisher = "files", .display_name = "twice"});
    EXPECT_EQ(*uses_->find("data"), numbered(1, 3));
    EXPECT_EQ(*uses_->find(numbered(1).id.text()), numbered(1, 3));
    EXPECT_EQ(*uses_->find(numbered(1).text()), numbered(1));
    EXPECT_EQ(uses_->find("twice").error().kind, ErrorKind::refused);
    for (std::string const& nothing : {std::string(), std::string("dat"), numbered(4).text(), numbered(1, 2).text()})
        EXPECT_EQ(uses_->find(nothing).error().kind, ErrorKind::not_found) << nothing;
}

TEST_F(UsesTest, HoldsAreWhatIsWanted) {
    for (int number : {1, 2, 3})
        configure({.key = numbered(number), .publisher = "admin"});
    EXPECT_EQ(hold(machine, {{numbered(1)}, {numbered(2), true}}), "changed");
    EXPECT_EQ(hold(machine, {{numbered(1)}, {numbered(2), true}}), "as it was");
    EXPECT_EQ(hold(machine, {{numbered(3)}}, {.keeps_others = true}), "changed");
    EXPECT_EQ(uses_->uses_of(machine)->size(), 3);
    EXPECT_EQ(hold(machine, {{numbered(2)}}), "changed");
    EXPECT_THAT(*uses_->uses_of(machine), testing::ElementsAre(Use{numbered(2), false}));
    EXPECT_THAT(*uses_->users(), testing::ElementsAre(machine));
    EXPECT_EQ(hold(machine, {}), "changed");
    EXPECT_TRUE(uses_->users()->empty());
}

TEST_F(UsesTest, NothingChangesWhenOneVolumeIsRefused) {
    configure({.key = numbered(1), .publisher = "admin"});
    configure({.key = numbered(2), .publisher = "admin", .is_read_only = true});
    EXPECT_THAT(hold(machine, {{numbered(1)}, {numbered(2)}}), testing::HasSubstr("is read-only"));
    EXPECT_THAT(hold(machine, {{numbered(1)}, {numbered(3)}}), testing::HasSubstr("does not exist"));
    EXPECT_TRUE(uses_->uses_of(machine)->empty());
    auto const held = uses_->hold(machine, [] { return Result<std::vector<Use>>(fail("not now")); }, {});
    EXPECT_EQ(held.error().text(), "not now");
}

TEST_F(UsesTest, AFileHasOneWriter) {
    configure({.key = numbered(1), .publisher = "admin", .layout = Layout::file, .most_bytes = 1});
    configure(
        {.key = numbered(2), .publisher = "admin", .origin = Origin::download, .content = "image", .most_bytes = 1});
    configure(
        {.key = numbered(3), .publisher = "admin", .layout = Layout::file, .most_bytes = 1, .is_read_only = true});
    EXPECT_TRUE(apply(TreeConfig{.id = "image",
                                 .publisher = "admin",
                                 .name = "x",
                                 .digest = "sha256:" + std::string(64, 'a'),
                                 .format = Format::raw,
                                 .datastores = {numbered(9).id},
                                 .most_bytes = 1}));
    for (int number : {1, 2}) {
        EXPECT_EQ(hold(machine, {{numbered(number)}}), "changed");
        EXPECT_THAT(hold(other, {{numbered(number), true}}), testing::HasSubstr(std::string("machine ") + machine));
        EXPECT_EQ(hold(machine, {{numbered(number), true}}), "changed");
        EXPECT_EQ(hold(other, {{numbered(number), true}}), "changed");
    }
    EXPECT_EQ(hold(machine, {{numbered(3), true}}), "changed");
    EXPECT_EQ(hold(other, {{numbered(3), true}}), "changed");
}

TEST_F(UsesTest, WithoutMappedOwnersAVolumeHasOneUser) {
    configure({.key = numbered(1), .publisher = "admin"});
    configure({.key = numbered(2), .publisher = "admin", .is_encrypted = true});
    configure({.key = numbered(3), .publisher = "admin"});
    EXPECT_TRUE(apply(VolumeRow{.key = numbered(3), .stage = VolumeRow::Stage::made, .is_in_vault = true}));
    // Those in the vault are on another file system.
    Uses::Rules const rules{.maps_owners = [](KnownVolume const& volume) { return Result<bool>(volume.is_in_vault); }};
    EXPECT_EQ(hold(machine, {{numbered(1)}}, rules), "changed");
    EXPECT_THAT(hold(other, {{numbered(1), true}}, rules), testing::HasSubstr("belongs to the uids of machine"));
    EXPECT_EQ(hold(machine, {{numbered(2)}, {numbered(3)}}, rules), "changed");
    EXPECT_EQ(hold(other, {{numbered(1)}, {numbered(2)}, {numbered(3)}}, rules), "changed");
}

TEST_F(UsesTest, WhatIsHeldIsNotDeleted) {
    VolumeRow row{.key = numbered(1), .stage = VolumeRow::Stage::made};
    configure({.key = row.key, .publisher = "admin"});
    EXPECT_TRUE(apply(row));
    EXPECT_EQ(hold(machine, {{row.key}}), "changed");
    row.stage = VolumeRow::Stage::deleting;
    EXPECT_THAT(apply(row).error().text(), testing::HasSubstr(std::string("is used by machine ") + machine));
    EXPECT_EQ(apply(EraseConfig{"VolumeConfig", row.key.text()}).error().kind, ErrorKind::refused);
    EXPECT_EQ(hold(machine, {}), "changed");
    EXPECT_TRUE(rows_->apply({{Change(EraseConfig{"VolumeConfig", row.key.text()}), Change(row)}}));
    EXPECT_THAT(hold(machine, {{row.key}}), testing::HasSubstr("is being deleted"));
}

}  // namespace triton::volume
