#include "lib/log/log_output.h"

#include <cstdlib>
#include <string>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

/// An output that stands still after 4096 bytes: a pipe that nobody reads.
class FullPipe {
public:
    FullPipe() {
        int ends[2] = {-1, -1};
        EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        read_end_ = UniqueFd{ends[0]};
        write_end_ = UniqueFd{ends[1]};
        EXPECT_EQ(::fcntl(read_end_.get(), F_SETPIPE_SZ, 4096), 4096);
    }
    [[nodiscard]] int fd() const { return write_end_.get(); }
    [[nodiscard]] std::string read() const {
        std::string text(8192, '\0');
        ssize_t const size = ::read(read_end_.get(), text.data(), text.size());
        text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
        return text;
    }

private:
    UniqueFd read_end_;
    UniqueFd write_end_;
};

/// A file without a name.
class File {
public:
    File() {
        char path[] = "/tmp/triton-log-output.XXXXXX";
        fd_ = UniqueFd{::mkostemp(path, O_CLOEXEC)};
        EXPECT_TRUE(fd_);
        (void)::unlink(path);  // only the name
    }
    [[nodiscard]] UniqueFd other_fd() const { return UniqueFd{::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)}; }
    [[nodiscard]] std::string read() const {
        std::string text(2 * log::LogOutput::capacity, '\0');
        ssize_t const size = ::pread(fd_.get(), text.data(), text.size(), 0);
        text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
        return text;
    }

private:
    UniqueFd fd_;
};

std::string line_of(char letter, std::size_t size) { return std::string(size - 1, letter) + "\n"; }

TEST(LogOutput, LineThatWasCutOffComesWholeInTheNextFile) {
    // Its rest alone began the new file: a broken line at the end of one file, and one at the beginning of the other.
    FullPipe const pipe;
    File const file;
    log::LogOutput output{pipe.fd()};
    output.append(line_of('a', 1000));
    output.append(line_of('b', 6000));
    output.append(line_of('c', 10));
    output.flush();
    EXPECT_TRUE(output.is_blocked());
    EXPECT_EQ(pipe.read(), line_of('a', 1000) + std::string(3096, 'b'));
    output.replace(file.other_fd());
    output.flush();
    EXPECT_FALSE(output.has_pending());
    EXPECT_EQ(file.read(), line_of('b', 6000) + line_of('c', 10));
}

TEST(LogOutput, LineThatWasCutOffIsKeptWholeWhenTheBufferIsFull) {
    // What has been written makes room for new lines; the beginning of a line that is not written yet does not.
    FullPipe const pipe;
    File const file;
    log::LogOutput output{pipe.fd()};
    output.append(line_of('a', 1000));
    output.append(line_of('b', 6000));
    output.flush();
    std::string expected = line_of('b', 6000);
    for (std::string const line = line_of('c', 1000); output.has_room(line.size()); expected += line)
        output.append(line);
    output.replace(file.other_fd());
    output.flush();
    EXPECT_EQ(file.read(), expected);
    EXPECT_EQ(output.dropped(), 0);
}

TEST(LogOutput, WholeLinesThatWereWrittenAreNotRepeated) {
    FullPipe const pipe;
    File const file;
    log::LogOutput output{pipe.fd()};
    output.append(line_of('a', 4096));
    output.append(line_of('b', 10));
    output.flush();
    output.replace(file.other_fd());
    output.flush();
    EXPECT_EQ(pipe.read(), line_of('a', 4096));
    EXPECT_EQ(file.read(), line_of('b', 10));
}

TEST(LogOutput, LineThatDoesNotFitIsCounted) {
    FullPipe const pipe;
    log::LogOutput output{pipe.fd()};
    output.append(line_of('a', log::LogOutput::capacity));
    output.append(line_of('b', 10));
    EXPECT_EQ(output.dropped(), 1);
    output.flush();  // makes room
    output.append(line_of('c', 10));
    EXPECT_EQ(output.dropped(), 1);
    output.forget_dropped();
    EXPECT_EQ(output.dropped(), 0);
}

}  // namespace

}  // namespace triton::launcher
