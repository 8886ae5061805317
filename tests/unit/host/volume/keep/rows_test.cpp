#include "host/volume/keep/rows.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "host/content/store.h"

namespace triton::volume {

namespace {

/// The rows of a host, with what the content store has promised.
class PromisesTest : public testing::Test {
protected:
    PromisesTest() {
        std::string place = (std::filesystem::exists("/dev/shm") ? "/dev/shm/" : testing::TempDir()) + "rows.XXXXXX";
        directory_ = ::mkdtemp(place.data());
        store_.emplace(*content::Store::open(directory_));
        rows_ = *Rows::open(store_->database());
    }
    ~PromisesTest() override {
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

TEST_F(PromisesTest, APromiseEndsWithItsVolume) {
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

TEST_F(PromisesTest, ALateLookDoesNotTakeBackWhatHasGrown) {
    apply({row_, SetPromise{row_.key, 7, 1000}});
    apply({SetWritten{row_.key, 7, 400}});
    apply({row_, SetPromise{row_.key, 7, 2000}});
    EXPECT_EQ(promise(), "7 2000 400");
    apply({SetWritten{row_.key, 8, 500}});
    EXPECT_EQ(promise(), "8 2000 500");
    apply({SetPromise{row_.key, 7, 0}});
    EXPECT_EQ(promise(), "");
}

}  // namespace triton::volume
