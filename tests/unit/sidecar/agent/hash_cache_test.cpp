#include "sidecar/agent/hash_cache.h"

#include <future>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sidecar/agent/hash_pool.h"

namespace triton::agent {
namespace {

FileKey key(std::uint64_t inode) { return {1, inode, 10, 1000, 2000}; }

TEST(HashCache, FindsExactlyTheSameFile) {
    HashCache cache(10);
    cache.insert(key(1), "one");
    EXPECT_EQ(cache.find(key(1)), "one");
    for (auto const member : {&FileKey::device, &FileKey::inode, &FileKey::size}) {
        FileKey other = key(1);
        other.*member += 1;
        EXPECT_EQ(cache.find(other), std::nullopt);
    }
    for (auto const member : {&FileKey::modified, &FileKey::changed}) {
        FileKey other = key(1);
        other.*member += 1;
        EXPECT_EQ(cache.find(other), std::nullopt);
    }
}

TEST(HashCache, TheOneNotAskedForTheLongestGivesWay) {
    HashCache cache(3);
    for (std::uint64_t inode = 1; inode <= 3; ++inode)
        cache.insert(key(inode), std::to_string(inode));
    EXPECT_EQ(cache.find(key(1)), "1");
    cache.insert(key(4), "4");
    EXPECT_EQ(cache.find(key(2)), std::nullopt);
    EXPECT_EQ(cache.find(key(1)), "1");
    EXPECT_EQ(cache.size(), 3U);
    cache.insert(key(1), "again");
    EXPECT_EQ(cache.find(key(1)), "1") << "one content has one hash";
    HashCache none(0);
    none.insert(key(1), "1");
    EXPECT_EQ(none.size(), 0U);
}

TEST(HashCache, AFileThatHasJustChangedIsNotKept) {
    constexpr std::int64_t second = 1'000'000'000;
    FileKey const changed{1, 1, 1, 0, 100 * second};
    EXPECT_FALSE(HashCache::is_settled(changed, 100 * second));
    EXPECT_FALSE(HashCache::is_settled(changed, 101 * second));
    EXPECT_TRUE(HashCache::is_settled(changed, 101 * second + 1));
    EXPECT_FALSE(HashCache::is_settled(changed, 50 * second)) << "a clock that was set back proves nothing";
}

UniqueFd file_with(std::string const& content) {
    UniqueFd file{::memfd_create("content", MFD_CLOEXEC)};
    EXPECT_EQ(::write(file.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
    return file;
}

/// What a pool is given for a file that is open already.
HashPool::Open opened(UniqueFd file) {
    return [held = std::make_shared<UniqueFd>(std::move(file))]() -> Result<UniqueFd> { return std::move(*held); };
}

TEST(HashPool, HashesFilesOfEverySizeAroundAPiece) {
    HashPool pool(2);
    struct Row {
        std::size_t size;
        std::string_view digest;
    };
    // Digests by GNU coreutils' sha256sum of that many letters a.
    Row const rows[] = {
        {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (Row const& row : rows) {
        std::promise<Result<FileHash>> promise;
        pool.add(opened(file_with(std::string(row.size, 'a'))),
                 [&promise](Result<FileHash> result) { promise.set_value(std::move(result)); });
        auto const result = promise.get_future().get();
        ASSERT_TRUE(result) << result.error().text();
        EXPECT_EQ(result->sha256, row.digest);
        EXPECT_EQ(result->key.size, row.size);
        EXPECT_FALSE(result->is_settled) << "made a moment ago";
    }
}

/// Keeps the only thread of a pool busy while a test adds its files.
class Gate {
public:
    explicit Gate(HashPool& pool) {
        pool.add(opened(file_with("")),
                 [is_open = std::shared_future<void>(open_.get_future())](Result<FileHash> const&) { is_open.wait(); });
    }
    void open() { open_.set_value(); }

private:
    std::promise<void> open_;
};

TEST(HashPool, ASmallFileIsNotBehindTheWholeOfLargeOnes) {
    std::vector<std::promise<Result<FileHash>>> large(3);
    std::promise<Result<FileHash>> small;
    HashPool pool(1);
    Gate gate(pool);
    for (auto& promise : large) {
        UniqueFd file = file_with("");
        ASSERT_EQ(::ftruncate(file.get(), 256 << 20), 0);
        pool.add(opened(std::move(file)),
                 [&promise](Result<FileHash> result) { promise.set_value(std::move(result)); });
    }
    pool.add(opened(file_with("a")), [&small](Result<FileHash> result) { small.set_value(std::move(result)); });
    gate.open();
    ASSERT_TRUE(small.get_future().get());
    for (auto& promise : large)
        EXPECT_EQ(promise.get_future().wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    // The pool ends with work left, which is dropped.
}

TEST(HashPool, WhatCannotBeReadIsAnError) {
    HashPool pool(1);
    std::promise<Result<FileHash>> promise;
    pool.add(opened(UniqueFd{::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)}),
             [&promise](Result<FileHash> result) { promise.set_value(std::move(result)); });
    auto const result = promise.get_future().get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().text(), ("cannot read the file: Is a directory"));
}

TEST(HashPool, WhatCannotBeOpenedHasThatError) {
    HashPool pool(1);
    std::promise<Result<FileHash>> promise;
    pool.add([]() -> Result<UniqueFd> { return fail(ENOENT, "open the file"); },
             [&promise](Result<FileHash> result) { promise.set_value(std::move(result)); });
    auto const result = promise.get_future().get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().text(), "cannot open the file: No such file or directory");
}

TEST(HashPool, AFileThatGrowsMeanwhileIsAnError) {
    UniqueFd file = file_with("");
    ASSERT_EQ(::ftruncate(file.get(), 64 << 20), 0);
    UniqueFd const writer{::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)};
    std::promise<Result<FileHash>> promise;
    HashPool pool(1);
    Gate gate(pool);
    pool.add(opened(std::move(file)), [&promise](Result<FileHash> result) { promise.set_value(std::move(result)); });
    // Its turn is after the first slice of the other one, in the same thread.
    pool.add(opened(file_with("a")),
             [&writer](Result<FileHash> const&) { EXPECT_EQ(::pwrite(writer.get(), "x", 1, 64 << 20), 1); });
    gate.open();
    auto const result = promise.get_future().get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::busy);
}

}  // namespace
}  // namespace triton::agent
