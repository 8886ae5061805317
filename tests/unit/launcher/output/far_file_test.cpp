#include "launcher/output/far_file.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/output/far_log.h"
#include "launcher/output/rotating_file.h"

namespace triton::launcher {

namespace {

/// A far file, and the test as its writer.
class FarFileTest : public testing::Test {
protected:
    FarFileTest() : loop(*EventLoop::create()) {}

    FarFile::Start start = [this](LogFile::Settings const&) -> Result<UniqueFd> {
        ++starts;
        if (refusal != 0) return fail(refusal, "start a writer");
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
        theirs = UniqueFd{ends[1]};
        return UniqueFd{ends[0]};
    };
    std::string receive() const {
        std::array<char, 65536> text{};
        ssize_t const size = ::recv(theirs.get(), text.data(), text.size(), MSG_DONTWAIT);
        if (size < 0) return "(nothing)";
        return size == 0 ? "(end)" : std::string(text.data(), static_cast<std::size_t>(size));
    }
    void answer(std::string_view text) const { EXPECT_GT(::send(theirs.get(), text.data(), text.size(), 0), 0); }
    void run_round() {
        EventLoop::Timer timer(*loop, [this] { loop->stop(); });
        timer.arm(std::chrono::steady_clock::now());
        EXPECT_TRUE(loop->run());
    }

    std::unique_ptr<EventLoop> loop;
    UniqueFd theirs;
    int starts = 0;
    int refusal = 0;
    FarFile file{*loop, {"/far/log"}, [this](LogFile::Settings const& settings) { return start(settings); }};
};

TEST_F(FarFileTest, KeepsWhatIsNotConfirmed) {
    ASSERT_TRUE(file.begin());
    int moved = 0;
    file.when_moved([&] { ++moved; });
    file.write("one\n");
    file.write("tw");
    EXPECT_EQ(receive(), "wone\n");
    EXPECT_EQ(receive(), "wtw");
    EXPECT_EQ(file.pending(), 6U);
    EXPECT_TRUE(file.is_mid_line());
    answer("a 4");
    run_round();
    EXPECT_EQ(moved, 1);
    EXPECT_EQ(file.waiting(), "tw");
    answer("a 100");  // more than was sent
    run_round();
    EXPECT_EQ(file.pending(), 0U);
    file.write("o\n");
    EXPECT_EQ(receive(), "wo\n");
    EXPECT_EQ(file.waiting(), "o\n");
}

TEST_F(FarFileTest, SendsToTheNextWriterWhatTheLastHasNotConfirmed) {
    ASSERT_TRUE(file.begin());
    file.write("one\ntwo\n");
    answer("a 4");
    theirs = {};
    run_round();
    EXPECT_EQ(file.waiting(), "two\n");
    EXPECT_EQ(starts, 1);  // not more often than once a second ..
    file.drain(milliseconds(0));
    EXPECT_EQ(starts, 2);  // .. but at the end
    EXPECT_EQ(receive(), "wtwo\n");
}

TEST_F(FarFileTest, TellsWhatTheWriterTells) {
    ASSERT_TRUE(file.begin());
    answer("e 28\nwrite to /far/log\nNo space left on device");
    run_round();
    EXPECT_EQ(file.error().code, ENOSPC);
    EXPECT_EQ(file.error().text(), "cannot write to /far/log: No space left on device");
    answer("e 0\n\n");
    run_round();
    EXPECT_EQ(file.error().code, 0);
    for (char const* nonsense : {"x", "a", "a ", "a x", "e ", "e x\ny\nz", "e 5", "e 5\nno reason"})
        answer(nonsense);
    run_round();
    EXPECT_EQ(file.error().code, 0);
}

TEST_F(FarFileTest, ReopensAndEndsInTheOrderOfTheText) {
    ASSERT_TRUE(file.begin());
    file.write("before\n");
    ASSERT_TRUE(file.open());
    file.write("after\n");
    file.let_writer_end();
    EXPECT_EQ(receive(), "wbefore\n");
    EXPECT_EQ(receive(), "o");
    EXPECT_EQ(receive(), "wafter\n");
    EXPECT_EQ(receive(), "(end)");
    file.write("late\n");  // for another writer, once this one has ended
    EXPECT_EQ(receive(), "(end)");
    answer("a 13");
    theirs = {};
    run_round();
    file.drain(milliseconds(0));
    EXPECT_EQ(starts, 2);
    EXPECT_EQ(receive(), "wlate\n");
    EXPECT_EQ(receive(), "(end)");
}

TEST_F(FarFileTest, NeverWaitsForARoomyChannel) {
    ASSERT_TRUE(file.begin());
    std::string const line(1000, 'x');
    std::size_t taken = 0;
    for (; file.has_room(line.size()); taken += line.size())
        file.write(line);
    EXPECT_GT(taken, LogFile::capacity - 2 * line.size());
    EXPECT_EQ(file.pending(), taken);
    std::size_t received = 0;
    for (std::string text = receive(); text != "(nothing)"; text = receive())
        received += text.size() - 1;
    EXPECT_LE(received, taken);
    answer("a " + std::to_string(received));
    run_round();
    file.flush();
    for (std::string text = receive(); text != "(nothing)"; text = receive())
        received += text.size() - 1;
    EXPECT_EQ(received, taken);
}

TEST_F(FarFileTest, IsTakenOverInTheMiddle) {
    ASSERT_TRUE(file.begin());
    file.write("sent\n");
    EXPECT_EQ(receive(), "wsent\n");
    auto const [channel, sent] = file.handover();
    EXPECT_EQ(sent, 5U);
    FarFile next(*loop, {"/far/log"}, start);
    next.adopt(UniqueFd{::fcntl(channel, F_DUPFD_CLOEXEC, 3)}, sent);
    next.restore("sent\nnot yet\n", false);
    EXPECT_EQ(receive(), "wnot yet\n");
    answer("a 13");
    run_round();
    EXPECT_TRUE(next.pending() == 0 || file.pending() == 0);  // the test has two readers, an upgrade has one
    EXPECT_EQ(starts, 1);
}

TEST_F(FarFileTest, SaysWhyThereIsNoWriter) {
    refusal = EAGAIN;
    EXPECT_EQ(file.begin().error().text(), "cannot start a writer: Resource temporarily unavailable");
    file.write("a\n");
    file.drain(milliseconds(1));
    EXPECT_EQ(file.error().code, EAGAIN);
    refusal = 0;
    file.drain(milliseconds(1));
    EXPECT_EQ(receive(), "wa\n");
}

/// The other end, on a real file.
class WriterTest : public testing::Test {
protected:
    WriterTest() {
        char name[] = "/tmp/triton-far.XXXXXX";
        directory = ::mkdtemp(name);
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
        ours = UniqueFd{ends[0]};
        theirs = UniqueFd{ends[1]};
    }
    ~WriterTest() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
    }
    void send(std::string_view text) const { EXPECT_GT(::send(ours.get(), text.data(), text.size(), 0), 0); }
    std::string receive() const {
        std::array<char, 8192> text{};
        ssize_t const size = ::recv(ours.get(), text.data(), text.size(), 0);
        return std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
    [[nodiscard]] std::string content(std::string const& name) const {
        std::ostringstream text;
        text << std::ifstream(directory + name, std::ios::binary).rdbuf();
        return std::move(text).str();
    }
    void start(LogFile::Settings settings) {
        writer = std::jthread([this, settings = std::move(settings)] {
            RotatingFile file(settings);
            write_for_other(theirs.get(), file);
            theirs = {};
        });
    }

    std::string directory;
    UniqueFd theirs;
    std::jthread writer;
    UniqueFd ours;  // is closed first, so that the writer ends
};

TEST_F(WriterTest, WritesRotatesAndConfirms) {
    start({directory + "/log", 8, 1});
    send("wone\n");
    EXPECT_EQ(receive(), "a 4");
    send("wtwo\nthree\n");
    EXPECT_EQ(receive(), "a 10");
    EXPECT_EQ(content("/log.1"), "one\ntwo\n");
    EXPECT_EQ(content("/log"), "three\n");
    std::filesystem::rename(directory + "/log", directory + "/moved");
    send("o");
    send("wfour\n");
    EXPECT_EQ(receive(), "a 5");
    EXPECT_EQ(content("/moved"), "three\n");
    EXPECT_EQ(content("/log"), "four\n");
    send("wlast\n");
    EXPECT_EQ(::shutdown(ours.get(), SHUT_WR), 0);
    EXPECT_EQ(receive(), "a 5");
    EXPECT_EQ(receive(), "");
    writer.join();
}

TEST_F(WriterTest, SaysWhyItCannotOpenAndGoesOnWhenItCan) {
    start({directory + "/no/log", 100, 1});
    EXPECT_EQ(receive(), "e 2\nopen " + directory + "/no/log\nNo such file or directory");
    send("wtext\n");
    std::filesystem::create_directory(directory + "/no");
    EXPECT_EQ(receive(), "e 0\n\n");
    EXPECT_EQ(receive(), "a 5");
    EXPECT_EQ(content("/no/log"), "text\n");
    ours = {};
    writer.join();
}

TEST_F(WriterTest, EndsWithUsWhenItCannotOpen) {
    start({directory + "/no/log", 100, 1});
    EXPECT_NE(receive(), "");
    ours = {};
    writer.join();
}

TEST_F(WriterTest, TheLaunchersOwnLogIsOpenedAgainAndRotatedAsByTheLogItself) {
    writer = std::jthread([this] {
        write_log_for_other(theirs.get(), directory + "/log", 8);
        theirs = {};
    });
    send("wone\n");
    EXPECT_EQ(receive(), "a 4");
    std::filesystem::rename(directory + "/log", directory + "/moved");
    send("wtwo\n");
    EXPECT_EQ(receive(), "a 4");
    EXPECT_EQ(content("/moved"), "one\n");
    send("wthree\n");
    EXPECT_EQ(receive(), "a 6");
    EXPECT_EQ(content("/log.1"), "two\n");
    EXPECT_EQ(content("/log"), "three\n");
    ours = {};
    writer.join();
}

TEST_F(WriterTest, SaysWhyTheLaunchersOwnLogCannotBeOpened) {
    writer = std::jthread([this] {
        write_log_for_other(theirs.get(), directory + "/no/log", 0);
        theirs = {};
    });
    EXPECT_EQ(receive(), "e 2\nopen the log file " + directory + "/no/log\nNo such file or directory");
    ours = {};
    writer.join();
}

TEST_F(FarFileTest, SendsWholeLines) {
    ASSERT_TRUE(file.begin());
    std::string const line = std::string(20'000, 'x') + "\n";
    file.write(line + line + std::string(40'000, 'y'));
    EXPECT_EQ(receive(), "w" + line);
    EXPECT_EQ(receive(), "w" + line);
    EXPECT_EQ(receive().size(), 1 + FarFile::longest_text);
    EXPECT_EQ(receive().size(), 1 + 40'000 - FarFile::longest_text);
}

}  // namespace

}  // namespace triton::launcher
