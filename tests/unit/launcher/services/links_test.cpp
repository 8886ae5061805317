// The pipes between programs: who still finds an end to write into.

#include "launcher/services/links.h"

#include <array>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

namespace triton::launcher {
namespace {

/// Whether a reader would find the end of its input.
bool is_at_end(int read_end) {
    std::array<char, 1> byte{};
    EXPECT_EQ(::fcntl(read_end, F_SETFL, O_NONBLOCK), 0);
    return ::read(read_end, byte.data(), byte.size()) == 0;
}

TEST(Links, OneReaderHasOnePipe) {
    Links links;
    EXPECT_FALSE(links.is_writing_open());
    Links::Ends const first = *links.ends("logger");
    Links::Ends const again = *links.ends("logger");
    EXPECT_EQ(first.read, again.read);
    EXPECT_EQ(first.write, again.write);
    EXPECT_NE(links.ends("other")->read, first.read);
    EXPECT_TRUE(links.is_writing_open());
}

TEST(Links, WhomNobodyWritesToFindsTheEnd) {
    Links links;
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

TEST(Links, ASuccessorHasTheSamePipesAndKnowsWhichAreClosed) {
    Links links;
    Links::Ends const a = *links.ends("a");
    (void)links.ends("b");
    links.close_unwritten(std::array<std::string_view, 1>{"a"});
    auto state = links.export_state();
    ASSERT_EQ(state.size(), 2U);
    EXPECT_EQ(state[0], (LinkState{"a", a.read, a.write}));
    EXPECT_EQ(state[1].write_end, -1);
    for (LinkState& link : state) {  // as if it were another process
        link.read_end = ::dup(link.read_end);
        if (link.write_end >= 0) link.write_end = ::dup(link.write_end);
    }
    Links successor;
    successor.import_state(state);
    EXPECT_EQ(successor.ends("a")->read, state[0].read_end);
    EXPECT_EQ(::fcntl(state[0].write_end, F_GETFD), FD_CLOEXEC);
    EXPECT_TRUE(is_at_end(successor.ends("b")->read));
    EXPECT_TRUE(successor.is_writing_open());
}

}  // namespace
}  // namespace triton::launcher
