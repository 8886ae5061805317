#include "sidecar/agent/hash_pool.h"

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace triton::agent {
namespace {

constexpr std::string_view hash_of_a = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
constexpr std::string_view hash_of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr auto patience = std::chrono::seconds(60);

/// What came back, by the file's name.
class Results {
public:
    HashPool::Done note(std::string name) {
        return [this, name = std::move(name)](Result<FileHash> result) {
            std::lock_guard const lock(mutex_);
            order_.push_back(name);
            results_.emplace(name, std::move(result));
            changed_.notify_all();
        };
    }
    Result<FileHash> of(std::string const& name) {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, patience, [&] { return results_.contains(name); })) return fail("nothing came");
        return results_.at(name);
    }
    std::vector<std::string> order() {
        std::lock_guard const lock(mutex_);
        return order_;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, Result<FileHash>> results_;
    std::vector<std::string> order_;
};

HashPool::Open given(UniqueFd file) {
    return [shared = std::make_shared<UniqueFd>(std::move(file))]() -> Result<UniqueFd> { return std::move(*shared); };
}

class HashPoolOfFiles : public testing::Test {
protected:
    void SetUp() override {
        std::string name = testing::TempDir() + "hash-pool.XXXXXX";
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        area_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(area_); }

    HashPool::Open file(std::string const& name, std::string_view content) {
        std::ofstream(area_ / name) << content;
        return given(open(name));
    }
    /// A hole of so many bytes: it costs time to hash and none to make.
    HashPool::Open hole(std::string const& name, std::uintmax_t size) {
        std::ofstream(area_ / name).flush();
        std::filesystem::resize_file(area_ / name, size);
        return given(open(name));
    }
    UniqueFd open(std::string const& name) { return UniqueFd{::open((area_ / name).c_str(), O_RDONLY | O_CLOEXEC)}; }

    std::filesystem::path area_;
    Results results_;
};

TEST_F(HashPoolOfFiles, FilesAreHashedWholeWhateverTheirPosition) {
    HashPool pool(2);
    (void)file("a", "a");
    UniqueFd moved = open("a");
    ASSERT_EQ(::lseek(moved.get(), 1, SEEK_SET), 1);
    pool.add(given(std::move(moved)), results_.note("a"));
    pool.add(file("nothing", ""), results_.note("nothing"));
    auto const a = results_.of("a");
    ASSERT_TRUE(a) << a.error().text();
    EXPECT_EQ(a->sha256, hash_of_a);
    EXPECT_EQ(a->key.size, 1U);
    EXPECT_FALSE(a->is_settled) << "it has changed just now";
    EXPECT_EQ(results_.of("nothing")->sha256, hash_of_nothing);
}

TEST_F(HashPoolOfFiles, WhatCannotBeReadIsSaid) {
    HashPool pool(1);
    pool.add(given(UniqueFd{::open(area_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)}), results_.note("directory"));
    EXPECT_EQ(results_.of("directory").error().text(), "cannot read the file: Is a directory");
    pool.add([] { return fail(EACCES, "open it"); }, results_.note("denied"));
    EXPECT_EQ(results_.of("denied").error().text(), "cannot open it: Permission denied");
    pool.add(given(UniqueFd{}), results_.note("closed"));
    EXPECT_EQ(results_.of("closed").error().text(), "cannot read the file: Bad file descriptor");
}

/// One thread: the small one gets its turn after a slice of the large one.
TEST_F(HashPoolOfFiles, ASmallFileIsNotBehindALargeOne) {
    HashPool pool(1);
    auto const large = std::make_shared<std::atomic<bool>>(true);
    pool.add(hole("large", 64ULL << 30), results_.note("large"), large);
    pool.add(file("a", "a"), results_.note("a"));
    EXPECT_TRUE(results_.of("a"));
    EXPECT_EQ(results_.order(), std::vector<std::string>{"a"});
    *large = false;
    EXPECT_EQ(results_.of("large").error().text(), "cannot hash the file: nobody waits for it any longer");
    EXPECT_EQ(results_.of("large").error().kind, ErrorKind::refused);
}

TEST_F(HashPoolOfFiles, AQuestionIsAnsweredBetweenTwoPieces) {
    HashPool pool(1);
    auto const large = std::make_shared<std::atomic<bool>>(true);
    pool.add(hole("large", 64ULL << 30), results_.note("large"), large);
    pool.call([note = results_.note("question")] { note(fail("answered")); });
    EXPECT_EQ(results_.of("question").error().text(), "answered");
    EXPECT_EQ(results_.order(), std::vector<std::string>{"question"});
    *large = false;
    EXPECT_FALSE(results_.of("large"));
}

/// The file changes in the middle: while the small one is hashed the large one has had a slice, and has more to come.
TEST_F(HashPoolOfFiles, AFileThatChangesMeanwhileHasNoHash) {
    struct Change {
        char const* name;
        void (*make)(std::filesystem::path const&);
    };
    Change const changes[] = {
        {"grows", [](auto const& path) { std::filesystem::resize_file(path, (256U << 20) + 1); }},
        {"shrinks", [](auto const& path) { std::filesystem::resize_file(path, 1U << 20); }},
        {"is-written", [](auto const& path) { std::fstream(path, std::ios::in | std::ios::out) << "x"; }},
    };
    for (Change const& change : changes) {
        HashPool pool(1);
        std::filesystem::path const path = area_ / change.name;
        pool.add(hole(change.name, 256U << 20), results_.note(change.name));
        // Called in the pool's only thread: the large one is between two slices.
        std::string const small = std::string(change.name) + "-small";
        auto const note = results_.note(small);
        pool.add(file(small, "a"), [&](Result<FileHash> result) {
            change.make(path);
            note(std::move(result));
        });
        EXPECT_TRUE(results_.of(small));
        auto const found = results_.of(change.name);
        ASSERT_FALSE(found) << change.name;
        EXPECT_EQ(found.error().text(), "cannot hash the file: it changed meanwhile") << change.name;
        EXPECT_EQ(found.error().kind, ErrorKind::busy);
    }
}

/// Files of /proc have content and no size: what was read is not what the size says.
TEST_F(HashPoolOfFiles, AFileOfAnotherSizeThanItsContentHasNoHash) {
    HashPool pool(1);
    pool.add(given(UniqueFd{::open("/proc/version", O_RDONLY | O_CLOEXEC)}), results_.note("version"));
    EXPECT_EQ(results_.of("version").error().text(), "cannot hash the file: it changed meanwhile");
}

TEST_F(HashPoolOfFiles, TheEndDropsWhatWaits) {
    auto const begun = std::chrono::steady_clock::now();
    {
        HashPool pool(2);
        for (int i = 0; i < 8; ++i)
            pool.add(hole("large" + std::to_string(i), 64ULL << 30), results_.note("large"));
    }
    EXPECT_TRUE(results_.order().empty());
    EXPECT_LT(std::chrono::steady_clock::now() - begun, patience);
}

}  // namespace
}  // namespace triton::agent
