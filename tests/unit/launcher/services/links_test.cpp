// The pipes between programs: who still finds an end to write into.

#include "launcher/services/links.h"

#include <array>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/clock.h"

namespace triton::launcher {
namespace {

/// Whether a reader would find the end of its input.
bool is_at_end(int read_end) {
    std::array<char, 1> byte{};
    EXPECT_EQ(::fcntl(read_end, F_SETFL, O_NONBLOCK), 0);
    return ::read(read_end, byte.data(), byte.size()) == 0;
}

class LinksTest : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(loop); }
    /// Whether the pipe has a place for this many bytes.
    static bool takes(int write_end, std::size_t size) {
        EXPECT_EQ(::fcntl(write_end, F_SETFL, O_NONBLOCK), 0);
        std::string const bytes(size, 'x');
        return ::write(write_end, bytes.data(), size) == static_cast<ssize_t>(size);
    }
    /// Lets the loop do what there is to do.
    void turn() {
        EventLoop::Timer soon{**loop, [this] { (*loop)->stop(); }};
        soon.arm(TimePoint{});
        ASSERT_TRUE((*loop)->run());
    }

    Result<std::unique_ptr<EventLoop>> loop = EventLoop::create();
    Links links{**loop};
};

TEST_F(LinksTest, OneReaderHasOnePipe) {
    EXPECT_FALSE(links.is_writing_open());
    Links::Ends const first = *links.ends("logger");
    Links::Ends const again = *links.ends("logger");
    EXPECT_EQ(first.read, again.read);
    EXPECT_EQ(first.write, again.write);
    EXPECT_NE(links.ends("other")->read, first.read);
    EXPECT_TRUE(links.is_writing_open());
}

TEST_F(LinksTest, WhomNobodyWritesToFindsTheEnd) {
    int const a = links.ends("a")->read;
    int const b = links.ends("b")->read;
    int const c = links.ends("c")->read;
    std::array<std::string_view, 2> const written{"b", "x"};
    links.close_unwritten(written);
    EXPECT_TRUE(is_at_end(a));
    EXPECT_FALSE(is_at_end(b));
    EXPECT_TRUE(is_at_end(c));
    EXPECT_TRUE(links.is_writing_open());
    links.close_unwritten({});
    EXPECT_TRUE(is_at_end(b));
    EXPECT_FALSE(links.is_writing_open());
}

/// Whoever writes without a break does not keep us busy: the pipe is full for a while, and then read on.
TEST_F(LinksTest, AFloodForNobodyIsReadWithPauses) {
    Links::Ends const ends = *links.ends("logger");
    UniqueFd const writer{::fcntl(ends.write, F_DUPFD_CLOEXEC, 0)};
    UniqueFd const reader{::fcntl(ends.read, F_DUPFD_CLOEXEC, 0)};
    ASSERT_GT(::fcntl(writer.get(), F_SETPIPE_SZ, 1 << 19), 0);
    ASSERT_TRUE(takes(writer.get(), 1 << 19));
    EXPECT_TRUE(*links.abandon("logger"));
    auto const left = [&] {
        int size = -1;
        EXPECT_EQ(::ioctl(reader.get(), FIONREAD, &size), 0);
        return size;
    };
    EXPECT_EQ(left(), 1 << 18);
    turn();
    EXPECT_EQ(left(), 1 << 18) << "not in the next round";
    EXPECT_FALSE(*links.abandon("logger"));
    for (auto const end = steady_now() + std::chrono::seconds(10); left() > 0 && steady_now() < end;)
        turn();
    EXPECT_EQ(left(), 0);
}

TEST_F(LinksTest, WritersOfOneWithoutAReaderDoNotWait) {
    EXPECT_FALSE(*links.abandon("nobody"));
    Links::Ends const ends = *links.ends("logger");
    UniqueFd const writer{::fcntl(ends.write, F_DUPFD_CLOEXEC, 0)};
    ASSERT_TRUE(takes(writer.get(), 65536));
    EXPECT_TRUE(*links.abandon("logger"));
    EXPECT_FALSE(*links.abandon("logger"));
    EXPECT_FALSE(links.is_writing_open());
    for (int times = 0; times < 3; ++times) {
        EXPECT_TRUE(takes(writer.get(), 65536));
        turn();
    }
}

TEST_F(LinksTest, AnAbandonedPipeEndsWithItsLastWriter) {
    Links::Ends const ends = *links.ends("logger");
    UniqueFd writer{::fcntl(ends.write, F_DUPFD_CLOEXEC, 0)};
    (void)links.ends("other");
    EXPECT_TRUE(*links.abandon("logger"));
    writer = UniqueFd{};
    turn();
    ASSERT_EQ(links.export_state().size(), 1U);
    EXPECT_FALSE(*links.abandon("other")) << "it has no writers";
    EXPECT_TRUE(links.export_state().empty());
}

TEST_F(LinksTest, AReaderThatComesBackReadsOn) {
    Links::Ends const before = *links.ends("logger");
    UniqueFd const writer{::fcntl(before.write, F_DUPFD_CLOEXEC, 0)};
    EXPECT_TRUE(*links.abandon("logger"));
    Links::Ends const after = *links.ends("logger");
    EXPECT_EQ(after.read, before.read);
    EXPECT_TRUE(links.is_writing_open());
    ASSERT_EQ(::write(writer.get(), "again", 5), 5);
    turn();
    std::array<char, 8> text{};
    EXPECT_EQ(::read(after.read, text.data(), text.size()), 5);
    EXPECT_EQ(::fcntl(after.read, F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(LinksTest, ASuccessorHasTheSamePipesAndEmptiesTheAbandonedOnes) {
    Links::Ends const a = *links.ends("a");
    UniqueFd const writer{::fcntl(links.ends("b")->write, F_DUPFD_CLOEXEC, 0)};
    EXPECT_TRUE(*links.abandon("b"));
    auto state = links.export_state();
    ASSERT_EQ(state.size(), 2U);
    EXPECT_EQ(state[0], (LinkState{"a", a.read, a.write}));
    EXPECT_EQ(state[1].write_end, -1);
    for (LinkState& link : state) {  // as if it were another process
        link.read_end = ::dup(link.read_end);
        if (link.write_end >= 0) link.write_end = ::dup(link.write_end);
    }
    Links successor{**loop};
    ASSERT_TRUE(successor.import_state(state));
    EXPECT_EQ(successor.ends("a")->read, state[0].read_end);
    EXPECT_EQ(::fcntl(state[0].write_end, F_GETFD), FD_CLOEXEC);
    EXPECT_TRUE(successor.is_writing_open());
    for (int times = 0; times < 3; ++times) {
        EXPECT_TRUE(takes(writer.get(), 65536));
        turn();
    }
}

}  // namespace
}  // namespace triton::launcher
