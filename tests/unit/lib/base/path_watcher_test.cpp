#include "lib/base/path_watcher.h"

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

namespace triton {
namespace {

class PathWatcherTest : public ::testing::Test {
protected:
    PathWatcherTest() {
        std::string name = ::testing::TempDir() + "watch.XXXXXX";
        directory = ::mkdtemp(name.data());
    }
    void SetUp() override { ASSERT_TRUE(watcher) << watcher.error().text(); }
    ~PathWatcherTest() override { std::filesystem::remove_all(directory); }

    /// Whether something that concerns a path has been seen, or is seen soon.
    bool sees() {
        for (pollfd ready{watcher->fd(), POLLIN, 0}; ::poll(&ready, 1, 1000) == 1;) {
            if (watcher->take_events()) return true;
        }
        return false;
    }

    /// Which paths have changed, as is seen soon.
    std::vector<std::size_t> sees_changes() {
        for (pollfd ready{watcher->fd(), POLLIN, 0}; ::poll(&ready, 1, 300) == 1;) {
            if (auto which = watcher->take_changes(); !which.empty()) return which;
        }
        return {};
    }

    std::filesystem::path directory;
    Result<PathWatcher> watcher = PathWatcher::create();
};

TEST_F(PathWatcherTest, SeesAWriteToAFileThatStaysOpen) {
    std::ofstream file(directory / "file");
    ASSERT_TRUE(watcher->watch({directory / "file"}, PathWatcher::Writes::each));
    file << "1" << std::flush;
    EXPECT_TRUE(sees());
    ASSERT_TRUE(watcher->watch({directory / "file"}));
    file << "2" << std::flush;
    EXPECT_FALSE(watcher->has_events()) << "each write costs an event";
    file.close();
    EXPECT_TRUE(sees());
}

TEST_F(PathWatcherTest, SeesAWriteThroughAnotherHardLink) {
    std::ofstream(directory / "file") << "1";
    std::filesystem::create_directory(directory / "elsewhere");
    std::filesystem::create_hard_link(directory / "file", directory / "elsewhere/link");
    ASSERT_TRUE(watcher->watch({directory / "file"}));
    std::ofstream(directory / "elsewhere/link") << "2";
    EXPECT_TRUE(sees());
    std::filesystem::create_hard_link(directory / "file", directory / "elsewhere/another");
    EXPECT_FALSE(watcher->take_events()) << "another name is no change";
    ASSERT_TRUE(watcher->watch({directory / "fi*"}));
    std::ofstream(directory / "elsewhere/link") << "3";
    EXPECT_TRUE(sees());
}

TEST_F(PathWatcherTest, SeesEveryChangeOfAnEntryOfADirectory) {
    std::filesystem::create_directories(directory / "secret/..1");
    std::filesystem::create_directories(directory / "secret/..2");
    std::filesystem::create_directory_symlink("..1", directory / "secret/..data");
    std::ofstream(directory / "secret/..1/key") << "1";
    std::ofstream(directory / "secret/..2/key") << "2";
    std::filesystem::create_symlink("..data/key", directory / "secret/key");
    std::vector<std::string> const paths{directory / "secret/", directory / "later"};
    auto const changed = [&] {
        std::vector<std::size_t> const which = sees_changes();
        EXPECT_TRUE(watcher->watch(paths));
        return which;
    };
    ASSERT_TRUE(watcher->watch(paths));
    std::filesystem::create_directory_symlink("..2", directory / "secret/..new");
    EXPECT_EQ(changed(), (std::vector<std::size_t>{0}));
    std::filesystem::rename(directory / "secret/..new", directory / "secret/..data");
    EXPECT_EQ(changed(), (std::vector<std::size_t>{0}));
    std::ofstream(directory / "secret/..2/key") << "3";
    EXPECT_EQ(changed(), (std::vector<std::size_t>{0})) << "the target of a link in it";
    std::filesystem::create_directory(directory / "later");
    EXPECT_EQ(changed(), (std::vector<std::size_t>{1}));
    std::ofstream(directory / "later/file") << "1";
    EXPECT_EQ(changed(), (std::vector<std::size_t>{1}));
    std::ofstream(directory / "beside") << "1";
    EXPECT_TRUE(sees_changes().empty());
}

TEST_F(PathWatcherTest, SaysWhichPathsHaveChanged) {
    std::filesystem::create_directories(directory / "a/b");
    std::ofstream(directory / "a/b/one") << "1";
    std::ofstream(directory / "a/two") << "1";
    ASSERT_TRUE(watcher->watch({directory / "a/b/one", directory / "a/two", directory / "a/*.pem"}));
    watcher->take_events();
    using Places = std::vector<std::size_t>;
    std::ofstream(directory / "a/two") << "2";
    EXPECT_EQ(watcher->take_changes(), Places{1});
    std::ofstream(directory / "a/new.pem") << "2";
    EXPECT_EQ(watcher->take_changes(), Places{2});
    std::ofstream(directory / "a/b/one") << "2";
    EXPECT_EQ(watcher->take_changes(), Places{0});
    std::filesystem::rename(directory / "a", directory / "c");
    EXPECT_EQ(watcher->take_changes(), (Places{0, 1, 2}));
    EXPECT_EQ(watcher->take_changes(), Places{});
}

/// As after an execve(2): the descriptor, its queue and its watches stay, what was known of them is gone.
TEST_F(PathWatcherTest, GoesOnWithWhatAnotherVersionHasMade) {
    std::filesystem::create_directories(directory / "a");
    std::filesystem::create_directories(directory / "b");
    ASSERT_TRUE(watcher->watch(std::vector<std::string>{directory / "a/one", directory / "b/one"}));
    PathWatcher::Handed handed = watcher->handed();
    EXPECT_GE(handed.watches.size(), 3U) << "both directories and the one that has them";
    std::ofstream(directory / "a/one") << "1";

    handed.inotify = ::fcntl(handed.inotify, F_DUPFD_CLOEXEC, 0);  // ours is closed when the old watcher is
    PathWatcher next = PathWatcher::adopt(handed);
    EXPECT_EQ(next.handed(), handed) << "the next version may be replaced before it looks";
    EXPECT_FALSE(next.fd() < 0);
    ASSERT_TRUE(next.watch(std::vector<std::string>{directory / "a/one", directory / "a/*.pem"}));
    EXPECT_EQ(next.take_changes(), std::vector<std::size_t>{0}) << "what has happened in between is in the queue";
    std::ofstream(directory / "b/one") << "1";
    EXPECT_FALSE(next.has_events()) << "the watch that nobody wants any more is gone";
    std::ofstream(directory / "a/new.pem") << "1";
    EXPECT_EQ(next.take_changes(), std::vector<std::size_t>{1});
}

TEST_F(PathWatcherTest, SeesWhatDecidesWhereAPathLeads) {
    auto const file = directory / "a/b/file";
    for (auto const& change : std::initializer_list<std::function<void()>>{
             [&] { std::filesystem::create_directory(directory / "a"); },
             [&] { std::filesystem::create_directory(directory / "a/b"); },
             [&] { std::ofstream(file) << "1"; },
             [&] { std::ofstream(file) << "2"; },
             [&] { std::filesystem::rename(directory / "a", directory / "c"); },
             [&] { std::filesystem::create_symlink("c", directory / "a"); },
             [&] { std::ofstream(directory / "c/b/file") << "3"; },
             [&] { std::filesystem::remove(directory / "a"); },
         }) {
        ASSERT_TRUE(watcher->watch({file}));
        watcher->take_events();
        change();
        EXPECT_TRUE(sees());
    }
    ASSERT_TRUE(watcher->watch({file}));
    watcher->take_events();
    std::ofstream(directory / "c/other") << "1";
    EXPECT_FALSE(watcher->take_events());
}

TEST_F(PathWatcherTest, FollowsTheLinksThatAPatternMatches) {
    for (char const* const version : {"..1", "..2"}) {
        std::filesystem::create_directories(directory / "secret" / version);
        std::ofstream(directory / "secret" / version / "cert.pem") << version;
    }
    std::filesystem::create_symlink("..1", directory / "secret/..data");
    std::filesystem::create_symlink("..data/cert.pem", directory / "secret/cert.pem");
    std::filesystem::create_symlink("..data/other", directory / "secret/other");
    std::vector<std::string> const paths{directory / "secret/*.pem", directory / "secret/*.key"};
    ASSERT_TRUE(watcher->watch(paths));
    watcher->take_events();
    using Places = std::vector<std::size_t>;
    std::ofstream(directory / "secret/..1/cert.pem") << "written where it leads";
    EXPECT_EQ(watcher->take_changes(), Places{0});
    std::ofstream(directory / "secret/..1/other.pem") << "matched by name, but not there";
    EXPECT_EQ(watcher->take_changes(), Places{});
    std::filesystem::create_symlink("..2", directory / "secret/..new");
    std::filesystem::rename(directory / "secret/..new", directory / "secret/..data");
    EXPECT_EQ(watcher->take_changes(), Places{0});
    ASSERT_TRUE(watcher->watch(paths));
    std::ofstream(directory / "secret/..1/cert.pem") << "left behind";
    EXPECT_EQ(watcher->take_changes(), Places{});
    std::ofstream(directory / "secret/..2/cert.pem") << "three";
    EXPECT_EQ(watcher->take_changes(), Places{0});
}

TEST_F(PathWatcherTest, SaysWhenAPatternMatchesMoreLinksThanAreFollowed) {
    for (int number = 0; number < 257; ++number)
        std::filesystem::create_symlink("nowhere", directory / (std::to_string(number) + ".pem"));
    Result<> const watched = watcher->watch({directory / "*.pem"});
    ASSERT_FALSE(watched);
    EXPECT_EQ(watched.error().text(),
              "cannot follow all links in " + directory.string() + " that patterns match: there are more than 256");
    watcher->take_events();
    std::ofstream(directory / "1000.pem") << "seen all the same";
    EXPECT_EQ(watcher->take_changes(), std::vector<std::size_t>{0});
}

TEST_F(PathWatcherTest, TakesEventsInPieces) {
    std::vector<std::string> paths;
    for (int i = 0; i < 300; ++i)
        paths.push_back(directory / ("*" + std::to_string(i) + "*x"));
    ASSERT_TRUE(watcher->watch(paths));
    for (int i = 0; i < 300; ++i)
        std::filesystem::create_directory(directory / std::to_string(i));
    int pieces = 0;
    for (; watcher->has_events(); ++pieces)
        EXPECT_FALSE(watcher->take_events());
    EXPECT_GT(pieces, 3) << "90,000 comparisons at once";
}

/// More events than the queue holds (/proc/sys/fs/inotify/max_queued_events): different ones, since the same again is
/// one.
void flood(std::filesystem::path const& directory) {
    std::size_t most = 0;
    std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> most;
    for (std::size_t i = 0; i <= most; ++i)
        ASSERT_EQ(::utimensat(AT_FDCWD, (directory / (i % 2 == 0 ? "a" : "b")).c_str(), nullptr, 0), 0);
}

TEST_F(PathWatcherTest, AFloodInOneDirectoryIsNoChangeOfOthers) {
    using Places = std::vector<std::size_t>;
    for (char const* const name : {"noisy", "quiet"}) {
        std::filesystem::create_directory(directory / name);
        std::ofstream(directory / name / "a") << "1";
        std::ofstream(directory / name / "b") << "1";
    }
    ASSERT_TRUE(watcher->watch({directory / "noisy/a", directory / "quiet/a", directory / "quiet/missing"}));
    auto const take_all = [&] {
        Places all;
        while (watcher->has_events()) {
            Places const some = watcher->take_changes();
            all.insert(all.end(), some.begin(), some.end());
        }
        std::ranges::sort(all);
        auto const [first, last] = std::ranges::unique(all);
        all.erase(first, last);
        return all;
    };
    flood(directory / "noisy");
    EXPECT_EQ(take_all(), Places{0});
    flood(directory / "noisy");
    std::ofstream(directory / "quiet/a") << "2";
    EXPECT_EQ(take_all(), (Places{0, 1})) << "its event is lost, it is not";
    flood(directory / "noisy");
    std::ofstream(directory / "quiet/missing") << "2";
    EXPECT_EQ(take_all(), (Places{0, 2}));
    flood(directory / "noisy");
    EXPECT_EQ(take_all(), Places{0}) << "told already";
    flood(directory / "noisy");
    std::ofstream(directory / "quiet/a") << "3";
    ASSERT_TRUE(watcher->watch({directory / "quiet/a", directory / "quiet/b", directory / "noisy/a"}));
    EXPECT_EQ(take_all(), (Places{0, 2})) << "lost before other paths were watched for as well";
}

/// What comes while the way to it is walked, before the watch that would have told of it is there, must not be lost.
TEST_F(PathWatcherTest, SeesWhatFollowsAPartOfTheWayThatCameWhileItWasWalked) {
    for (int round = 0; round < 50; ++round) {
        auto const top = directory / std::to_string(round);
        std::vector<std::string> paths{top / "b/file"};
        paths.resize(1000, directory / "what/takes/time");
        std::barrier begin(2);
        std::thread other([&] {
            begin.arrive_and_wait();
            std::filesystem::create_directory(top);
        });
        begin.arrive_and_wait();
        ASSERT_TRUE(watcher->watch(paths));
        other.join();
        std::filesystem::create_directory(top / "b");
        ASSERT_TRUE(sees()) << "round " << round;
    }
}

/// As a deployment does that swaps whole directories: the way is gone for a moment, and is the same in the next.
TEST_F(PathWatcherTest, SeesADirectoryThatWasReplacedWhileItWasLookedFor) {
    auto const place = directory / "place";
    auto const file = place / "file";
    for (int round = 0; round < 2000; ++round) {
        auto const replacement = directory / "replacement";
        auto const old = directory / "old";
        std::filesystem::create_directory(place);
        std::filesystem::create_directory(replacement);
        std::barrier begin(2);
        std::thread other([&] {
            begin.arrive_and_wait();
            std::filesystem::rename(place, old);
            std::filesystem::rename(replacement, place);
        });
        begin.arrive_and_wait();
        ASSERT_TRUE(watcher->watch({file}));
        other.join();
        // What has changed since is told now, or what changes from now on is told then.
        if (!watcher->take_events()) {
            std::ofstream(file) << "1";
            ASSERT_TRUE(sees()) << "round " << round;
        }
        std::filesystem::remove_all(place);
        std::filesystem::remove_all(old);
        ASSERT_TRUE(watcher->watch({file}));
        watcher->take_events();
    }
}

}  // namespace
}  // namespace triton
