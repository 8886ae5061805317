#include "host/volume/ledger.h"

#include <gtest/gtest.h>

namespace triton::volume {
namespace {

TEST(Ledger, PromisesNothingBeforeTheSpaceIsKnown) {
    Ledger ledger({.floor = 10});
    EXPECT_EQ(ledger.available(FileSystem::clear), std::nullopt);
    EXPECT_FALSE(ledger.admits(FileSystem::clear, 0));
    ledger.set_free(FileSystem::clear, 5);
    EXPECT_EQ(ledger.available(FileSystem::clear), 0U) << "less is free than must stay free";
}

TEST(Ledger, CountsWhatIsNotWrittenYet) {
    Ledger ledger({.floor = 10});
    ledger.set_free(FileSystem::clear, 110);
    ledger.promise("a", FileSystem::clear, 60, 0);
    EXPECT_EQ(ledger.available(FileSystem::clear), 40U);
    ledger.promise("a", FileSystem::clear, 60, 50);  // what is written is not free any more
    EXPECT_EQ(ledger.available(FileSystem::clear), 90U);
    ledger.promise("a", FileSystem::clear, 60, 70);  // its file system takes more than it holds
    EXPECT_EQ(ledger.outstanding(FileSystem::clear), 0U);
    ledger.release("a");
    EXPECT_TRUE(ledger.admits(FileSystem::clear, 100));
    EXPECT_FALSE(ledger.admits(FileSystem::clear, 101));
}

TEST(Ledger, TheVaultIsTheSameFileSystemOrAnotherOne) {
    Ledger shared({.floor = 0, .is_one_file_system = true});
    shared.set_free(FileSystem::clear, 100);
    shared.promise("a", FileSystem::vault, 30, 0);
    EXPECT_EQ(shared.available(FileSystem::clear), 70U);
    Ledger apart({.floor = 0, .is_one_file_system = false});
    apart.set_free(FileSystem::clear, 100);
    apart.promise("a", FileSystem::vault, 30, 0);
    EXPECT_EQ(apart.available(FileSystem::clear), 100U);
    EXPECT_EQ(apart.available(FileSystem::vault), std::nullopt);
    // It is known when the vault is seen, and what was promised before counts.
    apart.set_one_file_system(true);
    EXPECT_EQ(apart.available(FileSystem::vault), 70U);
}

}  // namespace
}  // namespace triton::volume
