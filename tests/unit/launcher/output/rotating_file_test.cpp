#include "launcher/output/rotating_file.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/launcher/output/file_size_limit.h"

namespace triton::launcher {

namespace {

class RotatingFileTest : public testing::Test {
protected:
    RotatingFileTest() {
        char name[] = "/tmp/triton-file.XXXXXX";
        directory = ::mkdtemp(name);
        path = directory + "/log";
    }
    ~RotatingFileTest() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
    }
    /// The content of path + suffix; "(none)" without such a file.
    [[nodiscard]] std::string content(std::string const& suffix = "") const {
        std::ifstream file(path + suffix, std::ios::binary);
        if (!file) return "(none)";
        std::ostringstream text;
        text << file.rdbuf();
        return std::move(text).str();
    }
    [[nodiscard]] RotatingFile open(std::uint64_t max_size, std::uint32_t max_files) const {
        RotatingFile file{{path, max_size, max_files}};
        auto const opened = file.open();
        EXPECT_TRUE(opened) << opened.error().text();
        return file;
    }

    std::string directory;
    std::string path;
};

TEST_F(RotatingFileTest, RotatesAtEndsOfLines) {
    RotatingFile file = open(10, 2);
    file.write("12345\n");
    EXPECT_EQ(content(), "12345\n");
    file.write("abc\nde\nfgh\n");
    EXPECT_EQ(content(".1"), "12345\nabc\n");
    EXPECT_EQ(content(), "de\nfgh\n");
    file.write("0123456789\n");  // alone in its file, and too large for it
    EXPECT_EQ(content(".2"), "12345\nabc\n");
    EXPECT_EQ(content(".1"), "de\nfgh\n");
    EXPECT_EQ(content(), "0123456789\n");
    file.write("x\n");
    EXPECT_EQ(content(".3"), "(none)");
    EXPECT_EQ(content(".2"), "de\nfgh\n");
    EXPECT_EQ(content(".1"), "0123456789\n");
    EXPECT_EQ(content(), "x\n");
    EXPECT_EQ(file.error().code, 0);
}

/// A size that somebody meant in megabytes: what is written at once may not cost thousands of renames.
TEST_F(RotatingFileTest, SoManyFilesAtOnceAndNoMore) {
    RotatingFile file = open(2, 3);
    std::string lines;
    for (int i = 0; i < 10'000; ++i)
        lines += "x\n";
    file.write(lines);
    EXPECT_EQ(file.pending(), 0U);
    EXPECT_GT(content().size(), lines.size() - 2 * RotatingFile::most_renames);
    EXPECT_EQ(content(".1"), "x\n");
    file.write("y\n");
    EXPECT_EQ(content(), "y\n");
}

TEST_F(RotatingFileTest, AManyOfOldFilesIsStillRotated) {
    RotatingFile file = open(2, 1000);
    for (char const* const line : {"a\n", "b\n", "c\n"})
        file.write(line);
    EXPECT_EQ(content() + content(".1") + content(".2"), "c\nb\na\n");
}

TEST_F(RotatingFileTest, TheFileIsRotatedWhereItsLinkLeads) {
    std::string const link = directory + "/link";
    ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
    RotatingFile file{{link, 4, 1}};
    ASSERT_TRUE(file.open());
    file.write("abc\n");
    file.write("def\n");
    EXPECT_EQ(content(".1"), "abc\n");
    EXPECT_EQ(content(), "def\n");
    struct stat status;
    ASSERT_EQ(::lstat(link.c_str(), &status), 0);
    EXPECT_TRUE(S_ISLNK(status.st_mode));
    EXPECT_NE(::lstat((link + ".1").c_str(), &status), 0);
}

/// As /dev/stdout of who was started with its output in a file.
TEST_F(RotatingFileTest, ADescriptorIsNotRotated) {
    UniqueFd const fd{::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
    std::string const link = directory + "/stdout";
    ASSERT_EQ(::symlink(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), link.c_str()), 0);
    RotatingFile file{{link, 4, 1}};
    ASSERT_TRUE(file.open());
    file.write("abc\n");
    file.write("def\n");
    EXPECT_EQ(content(), "abc\ndef\n");
    EXPECT_EQ(content(".1"), "(none)");
    EXPECT_EQ(file.error().code, 0);
}

TEST_F(RotatingFileTest, WithoutOldFilesBeginsAnew) {
    RotatingFile file = open(4, 0);
    file.write("abc\nde\n");
    EXPECT_EQ(content(), "de\n");
    EXPECT_EQ(content(".1"), "(none)");
}

TEST_F(RotatingFileTest, LineThatWasBegunIsEndedInItsFile) {
    RotatingFile file = open(4, 1);
    file.write("ab");
    file.write("cdef\ngh\n");
    EXPECT_EQ(content(".1"), "abcdef\n");
    EXPECT_EQ(content(), "gh\n");
}

TEST_F(RotatingFileTest, EndlessLineIsCut) {
    RotatingFile file = open(1000, 3);
    std::string const endless(1000 + RotatingFile::overshoot + 10, 'x');
    for (std::size_t at = 0; at < endless.size(); at += 100)
        file.write(std::string_view(endless).substr(at, 100));
    EXPECT_EQ(content(".1").size(), 1000 + RotatingFile::overshoot);
    EXPECT_EQ(content(), std::string(10, 'x'));
}

TEST_F(RotatingFileTest, GoesOnInAFileThatIsThere) {
    {
        std::ofstream(path) << "before\n";
    }
    RotatingFile file = open(10, 1);
    file.write("ab\n");
    EXPECT_EQ(content(), "before\nab\n");
    file.write("c\n");
    EXPECT_EQ(content(".1"), "before\nab\n");
}

TEST_F(RotatingFileTest, IsOpenedAgainUnderItsName) {
    RotatingFile file = open(100, 1);
    file.write("a\n");
    std::filesystem::rename(path, path + ".moved");
    file.write("b\n");
    ASSERT_TRUE(file.open());
    file.write("c\n");
    EXPECT_EQ(content(".moved"), "a\nb\n");
    EXPECT_EQ(content(), "c\n");
}

TEST_F(RotatingFileTest, MissingDirectoryIsAnErrorAndTheOpenFileStays) {
    RotatingFile missing{{directory + "/no/log", 100, 1}};
    EXPECT_EQ(missing.open().error().text(), ("cannot open " + directory + "/no/log: No such file or directory"));
    RotatingFile file = open(100, 1);
    std::filesystem::rename(directory, directory + "-moved");
    EXPECT_FALSE(file.open());
    file.write("a\n");
    std::filesystem::rename(directory + "-moved", directory);
    EXPECT_EQ(content(), "a\n");
}

TEST_F(RotatingFileTest, HasTheModeThatIsAskedFor) {
    mode_t const umask = ::umask(077);
    RotatingFile plain = open(100, 1);
    struct stat status{};
    EXPECT_TRUE(::stat(path.c_str(), &status) == 0 && (status.st_mode & 07777) == 0600);
    RotatingFile file{{path, 4, 1, 0664}};
    EXPECT_TRUE(file.open());
    EXPECT_TRUE(::stat(path.c_str(), &status) == 0 && (status.st_mode & 07777) == 0664);
    file.write("a\nb\n");
    file.write("c\n");
    ::umask(umask);
    EXPECT_EQ(content(), "c\n");
    EXPECT_TRUE(::stat(path.c_str(), &status) == 0 && (status.st_mode & 07777) == 0664);
}

TEST_F(RotatingFileTest, LeavesFilesOfOthersAlone) {
    {
        std::ofstream(directory + "/victim") << "theirs";
    }
    ASSERT_EQ(::link((directory + "/victim").c_str(), path.c_str()), 0);
    RotatingFile file{{path, 100, 1, 0666}};
    EXPECT_EQ(file.open().error().text(), "cannot log to " + path + ": the file has other names (hard links)");
    struct stat status{};
    EXPECT_TRUE(::stat(path.c_str(), &status) == 0 && (status.st_mode & 0777) != 0666);
    ASSERT_EQ(::unlink(path.c_str()), 0);
    ASSERT_EQ(::symlink("victim", path.c_str()), 0);
    EXPECT_TRUE(file.open());  // a link of our own
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, for a file of somebody else";
    ASSERT_EQ(::lchown(path.c_str(), 4711, 4711), 0);
    EXPECT_EQ(file.open().error().text(), "cannot open " + path + ": log on the way is a symbolic link of user 4711");
}

TEST_F(RotatingFileTest, TakesNoFifoAndNoDirectory) {
    ASSERT_EQ(::mkfifo((directory + "/fifo").c_str(), 0600), 0);
    RotatingFile fifo{{directory + "/fifo", 100, 1}};
    std::string const refusal = "cannot log to " + directory +
                                "/fifo: it is not a regular file; "
                                "without a file, lines go to the launcher's standard output";
    EXPECT_EQ(fifo.open().error().text(), refusal);  // without a reader, and with one
    UniqueFd const reader{::open((directory + "/fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    EXPECT_EQ(fifo.open().error().text(), refusal);
    RotatingFile folder{{directory, 100, 1}};
    EXPECT_EQ(folder.open().error().code, EISDIR);
}

TEST_F(RotatingFileTest, WaitsWhileTheDiskIsFull) {
    RotatingFile file{{"/dev/full", 100, 1}};
    ASSERT_TRUE(file.open());
    file.write("a\n");
    EXPECT_EQ(file.error().text(), ("cannot write to /dev/full: No space left on device"));
    EXPECT_EQ(file.waiting(), "a\n");
    file.write("b\n");
    file.flush();
    EXPECT_EQ(file.waiting(), "a\nb\n");
    EXPECT_TRUE(file.has_room(RotatingFile::capacity - 4));
    EXPECT_FALSE(file.has_room(RotatingFile::capacity - 3));
    // What waits can be written elsewhere.
    RotatingFile other = open(100, 1);
    other.restore(file.waiting(), file.is_mid_line());
    other.flush();
    EXPECT_EQ(content(), "a\nb\n");
    EXPECT_EQ(other.pending(), 0);
}

TEST_F(RotatingFileTest, GoesOnWhereItStoppedWhenThereIsRoomAgain) {
    RotatingFile file = open(100, 1);
    {
        FileSizeLimit const limit{5};
        file.write("abc\ndef\n");
        EXPECT_EQ(file.error().code, EFBIG);
        EXPECT_EQ(content(), "abc\nd");
        EXPECT_EQ(file.waiting(), "ef\n");
        sigset_t pending;
        ::sigpending(&pending);
        EXPECT_EQ(::sigismember(&pending, SIGXFSZ), 0);  // taken off: nobody else is to read it
    }
    file.write("g\n");
    EXPECT_EQ(file.waiting(), "ef\ng\n");  // in order
    file.flush();
    EXPECT_EQ(content(), "abc\ndef\ng\n");
    EXPECT_EQ(file.error().code, 0);
}

TEST_F(RotatingFileTest, GrowsOnWhenItCannotBeRotated) {
    RotatingFile file = open(4, 1);
    // A directory that is not empty cannot be replaced, not even by root.
    std::filesystem::create_directories(path + ".1/in/the/way");
    file.write("abc\n");
    file.write("def\n");
    EXPECT_EQ(content(), "abc\ndef\n");
    EXPECT_NE(file.error().code, 0);
    EXPECT_EQ(file.error().text().substr(0, 14), "cannot rotate ");
    EXPECT_EQ(file.pending(), 0);
    // Tried again when it has grown by what a rotation must be worth.
    std::filesystem::remove_all(path + ".1");
    std::string const large(RotatingFile::overshoot - 5, 'x');
    file.write(large + "\n");
    file.write("new\n");
    EXPECT_EQ(content(), "new\n");
    EXPECT_EQ(content(".1"), "abc\ndef\n" + large + "\n");
    EXPECT_EQ(file.error().code, 0);
}

}  // namespace

}  // namespace triton::launcher
