#include "lib/files/copy_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/read_file.h"
#include "lib/files/pending_file.h"

namespace triton::sidecar {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr off_t mebibyte = 1 << 20;

/// A directory of its own for each test, and every way to copy as the parameter.
class CopyFile : public testing::TestWithParam<files::CopyMethods> {
protected:
    void SetUp() override {
        char name[] = "/tmp/triton-copy.XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        root_ = name;
        ASSERT_EQ(::mkdir(path("out").c_str(), 0755), 0);
        out_ = UniqueFd{::open(path("out").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
        settings_.methods = GetParam();
    }

    void TearDown() override {
        for (std::string const& name : names("out"))
            ASSERT_EQ(::unlink(path("out/" + name).c_str()), 0) << name;
        for (std::string const& name : names(""))
            ASSERT_EQ(::remove(path(name).c_str()), 0) << name;
        ASSERT_EQ(::rmdir(root_.c_str()), 0);
    }

    std::string path(std::string const& name) const { return root_ + "/" + name; }

    std::vector<std::string> names(std::string const& directory) const {
        std::vector<std::string> found;
        DIR* const stream = ::opendir(path(directory).c_str());
        while (dirent const* const entry = ::readdir(stream)) {
            std::string name = entry->d_name;
            if (name != "." && name != "..") found.push_back(std::move(name));
        }
        ::closedir(stream);
        std::ranges::sort(found);
        return found;
    }

    void write(std::string const& name, std::string_view content, mode_t mode = 0644) const {
        UniqueFd const file{::open(path(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
        ASSERT_EQ(::write(file.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
        ASSERT_EQ(::fchmod(file.get(), mode), 0);
    }

    void set_time(std::string const& name, timespec time) const {
        timespec const times[2] = {time, time};
        ASSERT_EQ(::utimensat(AT_FDCWD, path(name).c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
    }

    std::string read(std::string const& name) const {
        auto const source = files::open_source(path(name));
        return source ? read_open_file(source->file.get(), source->path, 1 << 28).value() : source.error().text();
    }

    struct stat status(std::string const& name) const {
        struct stat found{};
        EXPECT_EQ(::lstat(path(name).c_str(), &found), 0) << name;
        return found;
    }

    files::Target target(std::string name = "copy") const { return {out_.get(), name, path("out/" + name)}; }

    Result<files::Staged> copy(std::string const& name) const {
        auto const source = files::open_source(path(name));
        if (!source) return std::unexpected(source.error());
        return copy(*source, target());
    }

    Result<files::Staged> copy(files::Source const& source, files::Target const& to) const {
        return files::publish(TRY(files::prepare_copy(source, to, settings_)));
    }

    Result<files::Staged> put(std::string_view content, mode_t mode, files::Target const& to) const {
        return files::publish(TRY(files::prepare_file(content, mode, to, settings_)));
    }

    files::Outcome outcome(std::string const& name) const {
        auto const staged = copy(name);
        EXPECT_TRUE(staged) << staged.error().text();
        return staged ? staged->outcome : files::Outcome::stopped;
    }

    std::string root_;
    UniqueFd out_;
    files::CopySettings settings_;
};

INSTANTIATE_TEST_SUITE_P(EveryWay, CopyFile,
                         testing::Values(files::CopyMethods{}, files::CopyMethods{.reflink = false},
                                         files::CopyMethods{.reflink = false, .copy_range = false},
                                         files::CopyMethods{.unnamed_file = false},
                                         files::CopyMethods{false, false, false}));

TEST_P(CopyFile, KeepsContentModeAndTimes) {
    std::string content;
    for (int i = 0; i < 200000; ++i)
        content += std::to_string(i);
    write("a", content, 0751);
    set_time("a", {1234567890, 123456789});
    auto const staged = copy("a");
    ASSERT_TRUE(staged) << staged.error().text();
    EXPECT_EQ(staged->outcome, files::Outcome::copied);
    EXPECT_EQ(staged->bytes, content.size());
    EXPECT_EQ(staged->sha256, "");
    EXPECT_EQ(read("out/copy"), content);
    EXPECT_EQ(status("out/copy").st_mode, S_IFREG | 0751U);
    EXPECT_EQ(status("out/copy").st_mtim.tv_sec, 1234567890);
    EXPECT_EQ(status("out/copy").st_mtim.tv_nsec, 123456789);
    EXPECT_THAT(names("out"), ElementsAre("copy"));
}

TEST_P(CopyFile, DropsSetuidSetgidAndSticky) {
    write("a", "x", 07755);
    EXPECT_EQ(outcome("a"), files::Outcome::copied);
    EXPECT_EQ(status("out/copy").st_mode, S_IFREG | 0755U);
    EXPECT_EQ(outcome("a"), files::Outcome::reused);
}

TEST_P(CopyFile, AnEmptyFile) {
    write("a", "");
    EXPECT_EQ(outcome("a"), files::Outcome::copied);
    EXPECT_EQ(read("out/copy"), "");
    EXPECT_EQ(outcome("a"), files::Outcome::reused);
}

TEST_P(CopyFile, AFileThatLiesAboutItsSize) {
    auto const source = files::open_source("/proc/self/status");
    ASSERT_TRUE(source);
    ASSERT_EQ(source->status.st_size, 0);
    auto const staged = copy(*source, target());
    ASSERT_TRUE(staged) << staged.error().text();
    EXPECT_THAT(read("out/copy"), testing::HasSubstr("\nPid:\t"));
    EXPECT_GT(staged->bytes, 100U);
}

TEST_P(CopyFile, HolesStayHoles) {
    UniqueFd const file{::open(path("a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
    ASSERT_EQ(::pwrite(file.get(), "begin", 5, 0), 5);
    ASSERT_EQ(::pwrite(file.get(), "middle", 6, 40 * mebibyte), 6);
    ASSERT_EQ(::ftruncate(file.get(), 64 * mebibyte), 0);
    ASSERT_LT(status("a").st_blocks, 1000) << "the file system of /tmp knows no holes";
    EXPECT_EQ(outcome("a"), files::Outcome::copied);
    EXPECT_EQ(status("out/copy").st_size, 64 * mebibyte);
    EXPECT_LT(status("out/copy").st_blocks, 1000);
    EXPECT_TRUE(read("out/copy") == read("a"));
    EXPECT_EQ(outcome("a"), files::Outcome::reused);
}

TEST_P(CopyFile, AnIdenticalTargetIsLeftAlone) {
    write("a", "content", 0640);
    EXPECT_EQ(outcome("a"), files::Outcome::copied);
    ino_t const first = status("out/copy").st_ino;
    set_time("out/copy", {1, 1});  // the content decides
    EXPECT_EQ(outcome("a"), files::Outcome::reused);
    EXPECT_EQ(status("out/copy").st_ino, first);
    EXPECT_EQ(status("out/copy").st_mtim.tv_sec, 1);
}

TEST_P(CopyFile, AnyDifferenceIsCopied) {
    write("a", "content", 0640);
    auto const changes = std::vector<std::function<void()>>{
        [this] { write("out/copy", "contenT", 0640); },
        [this] { write("out/copy", "content!", 0640); },
        [this] { write("out/copy", "content", 0644); },
        [this] { ASSERT_EQ(::unlink(path("out/copy").c_str()), 0); },
    };
    EXPECT_EQ(outcome("a"), files::Outcome::copied);
    for (auto const& change : changes) {
        change();
        EXPECT_EQ(outcome("a"), files::Outcome::copied);
        EXPECT_EQ(read("out/copy"), "content");
        EXPECT_EQ(status("out/copy").st_mode, S_IFREG | 0640U);
    }
}

TEST_P(CopyFile, EqualTimesProveNothing) {
    timespec now{};
    ASSERT_EQ(::clock_gettime(CLOCK_REALTIME, &now), 0);
    // of an image whose files all have one time; of two sources of one tick, long ago and now
    for (timespec const time : {timespec{1000, 0}, timespec{1000, 1}, timespec{now.tv_sec, now.tv_nsec | 1}}) {
        write("blue", "color: blue \n");
        write("green", "color: green\n");
        set_time("blue", time);
        set_time("green", time);
        EXPECT_EQ(outcome("blue"), files::Outcome::copied);
        EXPECT_EQ(outcome("blue"), files::Outcome::reused);
        EXPECT_EQ(outcome("green"), files::Outcome::copied);
        EXPECT_EQ(read("out/copy"), "color: green\n");
    }
}

TEST_P(CopyFile, ASymbolicLinkIsFollowedAtTheSourceAndReplacedAtTheTarget) {
    write("a", "content");
    write("precious", "old");
    ASSERT_EQ(::symlink("a", path("link").c_str()), 0);
    ASSERT_EQ(::symlink("../precious", path("out/copy").c_str()), 0);
    EXPECT_EQ(outcome("link"), files::Outcome::copied);
    EXPECT_TRUE(S_ISREG(status("out/copy").st_mode));
    EXPECT_EQ(read("out/copy"), "content");
    EXPECT_EQ(read("precious"), "old");
}

TEST_P(CopyFile, WhoHasTheOldFileOpenKeepsIt) {
    write("a", "new");
    write("out/copy", "old");
    auto const old = files::open_source(path("out/copy"));
    EXPECT_EQ(outcome("a"), files::Outcome::copied);
    EXPECT_EQ(read_open_file(old->file.get(), old->path, 100), "old");
}

TEST_P(CopyFile, HashIsOfTheTarget) {
    write("a", "abc");
    settings_.with_hash = true;
    std::string const digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    EXPECT_EQ(copy("a")->sha256, digest);
    EXPECT_EQ(copy("a")->sha256, digest);
    EXPECT_EQ(put("abc", 0600, target("other"))->sha256, digest);
}

TEST_P(CopyFile, ALongNameHasRoomForATemporaryOne) {
    write("a", "x");
    auto const source = files::open_source(path("a"));
    std::string const name(255, 'n');
    write("out/" + name, "old");
    auto const staged = copy(*source, target(name));
    ASSERT_TRUE(staged) << staged.error().text();
    EXPECT_EQ(read("out/" + name), "x");
}

TEST_P(CopyFile, StoppedInTheMiddleItLeavesNothing) {
    write("a", std::string(40 * mebibyte, 'x'));
    write("out/copy", "old");
    settings_.methods.reflink = false;  // done at once
    std::uint64_t last = 0;
    settings_.keep_going = [&last](std::uint64_t done, std::uint64_t all) {
        EXPECT_EQ(all, 40U * mebibyte);
        last = done;
        return done == 0;
    };
    EXPECT_EQ(outcome("a"), files::Outcome::stopped);
    EXPECT_GT(last, 0U);
    EXPECT_LT(last, 40U * mebibyte);
    EXPECT_THAT(names("out"), ElementsAre("copy"));
    EXPECT_EQ(read("out/copy"), "old");
}

TEST_P(CopyFile, ASourceThatChangesOnceIsCopiedAgain) {
    write("a", "before");
    bool is_first = true;
    settings_.methods.reflink = false;
    settings_.keep_going = [&, this](std::uint64_t, std::uint64_t) {
        if (std::exchange(is_first, false)) write("a", "after!!");
        return true;
    };
    EXPECT_EQ(outcome("a"), files::Outcome::copied);
    EXPECT_EQ(read("out/copy"), "after!!");
}

TEST_P(CopyFile, ASourceThatKeepsChangingIsAnError) {
    write("a", "before");
    std::string content;
    settings_.methods.reflink = false;
    settings_.keep_going = [&, this](std::uint64_t, std::uint64_t) {
        write("a", content += "x");
        return true;
    };
    auto const staged = copy("a");
    ASSERT_FALSE(staged);
    EXPECT_EQ(staged.error().text(), (path("a") + " keeps changing while it is copied"));
    EXPECT_THAT(names("out"), IsEmpty());
}

/// A file of a machine is shown by a name that would mean another file here.
TEST_P(CopyFile, AFileThatChangesIsOpenedAgainByItsPathAndNotByWhatIsShown) {
    write("a", std::string(3 * mebibyte, 'a'));
    write("shown", "another file");
    UniqueFd const handle{::open(path("a").c_str(), O_PATH | O_CLOEXEC)};
    bool is_changed = false;
    settings_.methods.reflink = false;
    settings_.keep_going = [&, this](std::uint64_t, std::uint64_t) {
        if (!std::exchange(is_changed, true)) write("a", std::string(mebibyte, 'b'));
        return true;
    };
    auto const source = files::open_source("/proc/self/fd/" + std::to_string(handle.get()), path("shown"));
    ASSERT_TRUE(source) << source.error().text();
    auto const staged = copy(*source, target());
    ASSERT_TRUE(staged) << staged.error().text();
    EXPECT_TRUE(is_changed);
    EXPECT_EQ(read("out/copy"), std::string(mebibyte, 'b'));
}

TEST_P(CopyFile, WhatIsNoFileIsNamed) {
    ASSERT_EQ(::mkdir(path("directory").c_str(), 0755), 0);
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0644), 0);
    EXPECT_EQ(copy("directory").error().text(), (path("directory") + " is a directory, not a file"));
    EXPECT_EQ(copy("fifo").error().text(), (path("fifo") + " is a FIFO, not a file"));
    EXPECT_EQ(files::open_source("/dev/null").error().text(), ("/dev/null is a device, not a file"));
    EXPECT_EQ(copy("nothing").error().text(), ("cannot open " + path("nothing") + ": No such file or directory"));
}

TEST_P(CopyFile, ADirectoryAtTheTargetStays) {
    write("a", "x");
    ASSERT_EQ(::mkdir(path("out/copy").c_str(), 0755), 0);
    EXPECT_EQ(copy("a").error().text(), ("cannot replace " + path("out/copy") + ": Is a directory"));
    EXPECT_THAT(names("out"), ElementsAre("copy"));
    ASSERT_EQ(::rmdir(path("out/copy").c_str()), 0);
}

TEST_P(CopyFile, ADirectoryThatIsGone) {
    write("a", "x");
    ASSERT_EQ(::rmdir(path("out").c_str()), 0);
    EXPECT_EQ(copy("a").error().text(), ("cannot create " + path("out/copy") + ": No such file or directory"));
    ASSERT_EQ(::mkdir(path("out").c_str(), 0755), 0);
}

TEST_P(CopyFile, WriteFileReplacesOnlyADifference) {
    EXPECT_EQ(put("text", 04755, target())->outcome, files::Outcome::copied);
    EXPECT_EQ(status("out/copy").st_mode, S_IFREG | 0755U);
    EXPECT_EQ(put("text", 0755, target())->outcome, files::Outcome::reused);
    EXPECT_EQ(put("texT", 0755, target())->outcome, files::Outcome::copied);
    EXPECT_EQ(read("out/copy"), "texT");
    EXPECT_EQ(put("texT", 0700, target())->outcome, files::Outcome::copied);
    EXPECT_EQ(put("", 0700, target())->bytes, 0U);
    EXPECT_THAT(names("out"), ElementsAre("copy"));
}

TEST_P(CopyFile, ManyAreSeenOnlyWhenTheyArePutInPlace) {
    write("a", "content", 0640);
    auto const source = files::open_source(path("a"));
    std::vector<files::Prepared> prepared;
    std::vector<files::PendingFile*> pending;
    for (char const* const name : {"1", "2", "3"})
        prepared.push_back(files::prepare_copy(*source, target(name), settings_).value());
    for (files::Prepared& one : prepared)
        pending.push_back(&*one.pending);
    std::vector<std::string> const before = names("out");
    EXPECT_TRUE(std::ranges::all_of(before, [](std::string const& name) { return name.ends_with(".tmp"); }));
    (void)files::make_durable_together(pending);  // by the file system that /tmp is on
    EXPECT_EQ(names("out"), before);
    for (files::Prepared& one : prepared)
        EXPECT_TRUE(files::publish(std::move(one)));
    EXPECT_THAT(names("out"), ElementsAre("1", "2", "3"));
    EXPECT_EQ(read("out/2"), "content");
    EXPECT_EQ(status("out/3").st_mode, S_IFREG | 0640U);
}

TEST_P(CopyFile, WhatIsNotPutInPlaceLeavesNothing) {
    write("a", "new");
    write("out/copy", "old");
    auto const source = files::open_source(path("a"));
    ASSERT_TRUE(files::prepare_copy(*source, target(), settings_));
    EXPECT_THAT(names("out"), ElementsAre("copy"));
    EXPECT_EQ(read("out/copy"), "old");
}

TEST_P(CopyFile, ATargetThatWasNotThereIsReplacedIfItIs) {
    write("a", "content");
    write("out/copy", "content");
    auto const source = files::open_source(path("a"));
    files::Target to = target();
    to.is_new = true;
    EXPECT_EQ(copy(*source, to)->outcome, files::Outcome::copied);
    EXPECT_THAT(names("out"), ElementsAre("copy"));
    EXPECT_EQ(read("out/copy"), "content");
}

TEST_P(CopyFile, ALookTellsWhatOpeningWould) {
    write("a", "content", 0640);
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0644), 0);
    EXPECT_EQ(files::look_at_source(path("a"))->st_size, 7);
    EXPECT_EQ(files::look_at_source(path("fifo")).error().text(), (path("fifo") + " is a FIFO, not a file"));
    EXPECT_EQ(files::look_at_source("/dev/null").error().text(), ("/dev/null is a device, not a file"));
    EXPECT_EQ(files::look_at_source(path("nothing")).error().text(),
              ("cannot open " + path("nothing") + ": No such file or directory"));
}

TEST_P(CopyFile, WhatAKilledCopyLeftIsRemovedAndNothingElse) {
    std::vector<std::string> const abandoned{".copy.0123456789abcdef.tmp", ".a.b.ffffffffffffffff.tmp"};
    std::vector<std::string> const others{"copy.0123456789abcdef.tmp",  "..0123456789abcdef.tmp",
                                          ".copy.0123456789abcdeF.tmp", ".copy.0123456789abcde.tmp",
                                          ".copy.0123456789abcdef.tmq", ".held.0123456789abcdef.tmp"};
    for (auto const& list : {abandoned, others}) {
        for (std::string const& name : list)
            write("out/" + name, "x", 0600);
    }
    ASSERT_EQ(::mkfifo(path("out/.fifo.0123456789abcdef.tmp").c_str(), 0600), 0);
    UniqueFd const held{::open(path("out/.held.0123456789abcdef.tmp").c_str(), O_RDWR | O_CLOEXEC)};
    ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
    auto const pending =
        files::PendingFile::create(out_.get(), "p", path("out/p"), 0644, settings_.methods.unnamed_file);
    ASSERT_TRUE(pending);

    UniqueFd const directory{::open(path("out").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    files::remove_abandoned(directory.get());
    std::vector<std::string> expected = others;
    expected.emplace_back(".fifo.0123456789abcdef.tmp");
    auto left = names("out");
    EXPECT_EQ(std::erase_if(left, [](std::string const& name) { return name.starts_with(".p."); }),
              pending->has_name() ? 1U : 0U);
    EXPECT_THAT(left, testing::UnorderedElementsAreArray(expected));
}

TEST(MakeDirectories, MakesWhatIsMissingAndSaysWhatIsInTheWay) {
    char name[] = "/tmp/triton-copy.XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    std::string const root = name;
    EXPECT_TRUE(files::make_directories(root + "/a//./b/"));
    EXPECT_TRUE(files::make_directories(root + "/a/b"));
    UniqueFd const inside{::open((root + "/a").c_str(), O_PATH | O_CLOEXEC)};
    EXPECT_TRUE(files::make_directories_beneath(inside.get(), "b"));
    EXPECT_TRUE(files::make_directories_beneath(inside.get(), "."));
    UniqueFd const file{::open((root + "/f").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
    EXPECT_EQ(files::make_directories(root + "/f/x").error().text(),
              ("cannot create directory " + root + "/f/x: Not a directory"));
    // where nothing can be made, the cause is why not, not that it is missing
    EXPECT_EQ(files::make_directories("/proc/triton").error().text(),
              ("cannot create directory /proc/triton: No such file or directory"));
    for (char const* const made : {"/a/b", "/a", "/f"})
        EXPECT_EQ(::remove((root + made).c_str()), 0);
    EXPECT_EQ(::rmdir(root.c_str()), 0);
}

TEST(MakeDirectories, StaysInsideTheDirectoryOfOthers) {
    char name[] = "/tmp/triton-copy.XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    std::string const root = name;
    ASSERT_TRUE(files::make_directories(root + "/out/real"));
    ASSERT_TRUE(files::make_directories(root + "/secret"));
    for (auto const& [target, link] :
         {std::pair{root + "/secret", "/out/absolute"}, std::pair{std::string("../secret"), "/out/up"},
          std::pair{std::string("real"), "/out/inside"}, std::pair{std::string("nowhere"), "/out/dangling"}})
        ASSERT_EQ(::symlink(target.c_str(), (root + link).c_str()), 0);
    UniqueFd const out{::open((root + "/out").c_str(), O_PATH | O_CLOEXEC)};
    for (std::string const path : {"absolute/x", "up/x", "up", "../secret", "real/../../secret"})
        EXPECT_EQ(files::make_directories_beneath(out.get(), path).error().text(),
                  "cannot create directory " + path + ": a symbolic link on the way leads outside");
    EXPECT_EQ(files::make_directories_beneath(out.get(), "dangling/x").error().text(),
              "cannot create directory dangling/x: File exists");
    EXPECT_TRUE(std::filesystem::is_empty(root + "/secret"));
    EXPECT_TRUE(files::make_directories_beneath(out.get(), "inside/x"));
    EXPECT_TRUE(std::filesystem::is_directory(root + "/out/real/x"));
    std::filesystem::remove_all(root);
}

TEST(ReadOpenFile, UpToALimit) {
    auto const source = files::open_source("/proc/self/status");
    ASSERT_TRUE(source);
    EXPECT_EQ(read_open_file(source->file.get(), source->path, 10).error().text(),
              ("cannot read /proc/self/status: it has more than 10 bytes"));
}

}  // namespace
}  // namespace triton::sidecar
