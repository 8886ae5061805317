#include "host/cri/monitor/container_log.h"

#include <string>

#include <gtest/gtest.h>

namespace triton::cri::monitor {
namespace {

constexpr std::int64_t time_of_test = 1'764'345'000'123'456'789;
constexpr char stamp[] = "2025-11-28T15:50:00.123456789Z";

std::string lines_of(std::initializer_list<std::string> writes, bool ends = true) {
    LogStream stream("stdout");
    std::string out;
    for (std::string const& bytes : writes)
        stream.add(bytes, time_of_test, out);
    if (ends) stream.end(time_of_test, out);
    return out;
}

std::string line(char tag, std::string const& text) {
    return std::string(stamp) + " stdout " + tag + " " + text + "\n";
}

TEST(ContainerLog, TimeHasNanoseconds) {
    EXPECT_EQ(log_time(time_of_test), stamp);
    EXPECT_EQ(log_time(7), "1970-01-01T00:00:00.000000007Z");
}

TEST(ContainerLog, LinesAreWrittenWhole) {
    EXPECT_EQ(lines_of({"a\nb", "c\n", "\n"}), line('F', "a") + line('F', "bc") + line('F', ""));
    EXPECT_EQ(lines_of({"a\nb"}, false), line('F', "a")) << "the rest may go on";
    EXPECT_EQ(lines_of({"a\nb"}), line('F', "a") + line('F', "b")) << "the end of the program is the end of its line";
    EXPECT_EQ(lines_of({""}), "");
}

TEST(ContainerLog, LongLinesComeInPieces) {
    std::string const piece(log_piece_bytes, 'x');
    EXPECT_EQ(lines_of({piece + "\n"}), line('F', piece)) << "a newline right behind still belongs to it";
    EXPECT_EQ(lines_of({piece, "\n"}), line('F', piece));
    EXPECT_EQ(lines_of({piece + "y\n"}), line('P', piece) + line('F', "y"));
    EXPECT_EQ(lines_of({piece, piece, "z"}), line('P', piece) + line('P', piece) + line('F', "z"));
    EXPECT_EQ(lines_of({piece + piece}), line('P', piece) + line('F', piece));
}

}  // namespace
}  // namespace triton::cri::monitor
