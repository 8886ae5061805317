#include "host/volume/keep/rows.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "host/content/store.h"

namespace triton::volume {

namespace {

/// The rows of a host, with what the content store has promised.
class RowsTest : public testing::Test {
protected:
    RowsTest() {
        std::string place = (std::filesystem::exists("/dev/shm") ? "/dev/shm/" : testing::TempDir()) + "rows.XXXXXX";
        directory_ = ::mkdtemp(place.data());
        store_.emplace(*content::Store::open(directory_));
        rows_ = *Rows::open(store_->database());
    }
    ~RowsTest() override {
        store_.reset();
        std::filesystem::remove_all(directory_);
    }

    void apply(std::vector<Change> const& changes) { EXPECT_TRUE(rows_->apply(changes)); }

    /// "device bytes written" of the volume; empty: nothing is promised to it.
    std::string promise() {
        auto row = *store_->database().query("SELECT device, bytes, written FROM promises WHERE key = ?",
                                             "volume " + row_.key.text());
        return *row.step() ? row.text(0) + " " + row.text(1) + " " + row.text(2) : "";
    }

    VolumeRow const row_{.key = {*Uuid::parse("00000000-0000-4000-8000-000000000001"), 0},
                         .stage = VolumeRow::Stage::made,
                         .bytes = 1000};
    std::string directory_;
    std::optional<content::Store> store_;
    std::optional<Rows> rows_;
};

}  // namespace

TEST_F(RowsTest, APromiseEndsWithItsVolume) {
    apply({row_, SetPromise{row_.key, 7, 1000}});
    EXPECT_EQ(promise(), "7 1000 0");
    apply({SetWritten{row_.key, 7, 400}});
    EXPECT_EQ(promise(), "7 1000 400");
    apply({Save::EraseVolume{row_.key}});
    EXPECT_EQ(promise(), "");
    // What was seen of it before comes late.
    apply({SetWritten{row_.key, 7, 500}});
    EXPECT_EQ(promise(), "");
}

TEST_F(RowsTest, ALateLookDoesNotTakeBackWhatHasGrown) {
    apply({row_, SetPromise{row_.key, 7, 1000}});
    apply({SetWritten{row_.key, 7, 400}});
    apply({row_, SetPromise{row_.key, 7, 2000}});
    EXPECT_EQ(promise(), "7 2000 400");
    apply({SetWritten{row_.key, 8, 500}});
    EXPECT_EQ(promise(), "8 2000 500");
    apply({SetPromise{row_.key, 7, 0}});
    EXPECT_EQ(promise(), "");
}

TEST_F(RowsTest, ASnapshotIsReadAsItWasWritten) {
    SnapshotRow row{.key = {"before"},
                    .stage = SnapshotRow::Stage::intent,
                    .volumes = {row_.key, {row_.key.id, 12}},
                    .rollbacks = 2,
                    .taken = 1000};
    apply({row});
    EXPECT_EQ(rows_->load()->snapshots, std::vector{row});
    row.stage = SnapshotRow::Stage::made;
    apply({row});
    EXPECT_EQ(rows_->load()->snapshots, std::vector{row});
    apply({Save::EraseSnapshot{row.key}});
    EXPECT_EQ(rows_->load()->snapshots, std::vector<SnapshotRow>());
}

TEST_F(RowsTest, NobodyBeginsToUseAVolumeThatIsRolledBack) {
    VolumeKey const similar{row_.key.id, 1};
    SnapshotRow row{.key = {"before"}, .stage = SnapshotRow::Stage::rolling_back, .volumes = {{row_.key.id, 12}}};
    ReferenceConfig const user{.key = {row.volumes.front(), "web"}, .publisher = "admin"};
    auto const problem = [this](Change const& change) {
        auto const applied = rows_->apply(std::vector{change});
        return applied ? "" : applied.error().text();
    };
    EXPECT_EQ(problem(Config{user}), "");
    EXPECT_EQ(problem(row),
              "volume " + row.volumes.front().text() + " is used by web; it is rolled back when nobody uses it");
    EXPECT_EQ(problem(EraseConfig{"VolumeRefConfig", user.key.text()}), "");
    EXPECT_EQ(problem(row), "");
    EXPECT_EQ(problem(Config{user}),
              "volume " + row.volumes.front().text() + " is being rolled back to snapshot before");
    EXPECT_EQ(problem(Config{ReferenceConfig{.key = {similar, "web"}, .publisher = "admin"}}), "");
    row.stage = SnapshotRow::Stage::made;
    EXPECT_EQ(problem(row), "");
    EXPECT_EQ(problem(Config{user}), "");
}

}  // namespace triton::volume
