#include "programs/criadm/log_reader.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

namespace triton::program {
namespace {

std::string line(std::string const& text, char tag = 'F', char const* stream = "stdout") {
    return std::string("2026-11-28T15:50:00.123456789Z ") + stream + " " + tag + " " + text + "\n";
}

std::string line_at(int second, std::string const& text) {
    return "2026-11-28T15:50:0" + std::to_string(second) + ".123456789Z stdout F " + text + "\n";
}

void compress(std::string const& path, std::string const& text) {
    gzFile const file = ::gzopen(path.c_str(), "wb");
    ASSERT_EQ(::gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    ASSERT_EQ(::gzclose(file), Z_OK);
}

class LogReaderTest : public testing::Test {
protected:
    LogReaderTest() {
        char name[] = "/tmp/triton-log-XXXXXX";
        directory_ = ::mkdtemp(name);
        path = directory_ + "/0.log";
    }
    ~LogReaderTest() override {
        for (char const* const name :
             {"/0.log", "/0.log.1", "/0.log.2", "/0.log.3", "/0.log.3.gz", "/0.log.4.tmp", "/0.logs"})
            ::unlink((directory_ + name).c_str());
        ::rmdir(directory_.c_str());
    }
    void append(std::string const& text) { std::ofstream(path, std::ios::app) << text; }
    void rotate(std::string const& to = ".1") { ASSERT_EQ(::rename(path.c_str(), (path + to).c_str()), 0); }
    std::string tail(std::int64_t count) {
        std::string out;
        auto reader = LogReader::open(path, count);
        while (reader && *reader->read(out)) {
        }
        return out;
    }
    std::string path;

private:
    std::string directory_;
};

TEST(LogLineTest, HasTimeStreamTagAndText) {
    auto const one = parse_log_line("2026-11-28T15:50:00.1Z stderr P two words ");
    ASSERT_TRUE(one);
    EXPECT_EQ(one->time, "2026-11-28T15:50:00.1Z");
    EXPECT_TRUE(one->is_error);
    EXPECT_TRUE(one->is_piece);
    EXPECT_EQ(one->text, "two words ");
    EXPECT_EQ(parse_log_line("t stdout F ")->text, "");
    EXPECT_EQ(parse_log_line("t stdout F")->text, "");
    EXPECT_EQ(parse_log_line("t stdout F:more tags")->text, "tags");
    for (char const* const bad : {"", "text", "t stdout", "t other F x", "t stdout X x", "t stdout"})
        EXPECT_FALSE(parse_log_line(bad)) << bad;
}

TEST_F(LogReaderTest, TailCountsLinesAndNotTheirPieces) {
    append(line("1") + line("2a", 'P') + line("2b") + line("3") + line("4a", 'P') + line("4b", 'P') + line("4c"));
    EXPECT_EQ(tail(0), "");
    EXPECT_EQ(tail(1), line("4a", 'P') + line("4b", 'P') + line("4c"));
    EXPECT_EQ(tail(2), line("3") + tail(1));
    EXPECT_EQ(tail(3), line("2a", 'P') + line("2b") + tail(2));
    EXPECT_EQ(tail(4), line("1") + tail(3));
    EXPECT_EQ(tail(5), tail(4));
    EXPECT_EQ(tail(-1), tail(4));
}

TEST_F(LogReaderTest, TailOfAFileOfManyBlocks) {
    std::string all;
    std::vector<std::size_t> begins;
    for (int i = 0; i < 5000; ++i) {
        begins.push_back(all.size());
        all += line(std::string(static_cast<std::size_t>(i % 200), 'x'));
    }
    append(all);
    for (std::size_t const count : {1U, 7U, 700U, 4999U, 5000U})
        EXPECT_EQ(tail(static_cast<std::int64_t>(count)), all.substr(begins[begins.size() - count])) << count;
}

TEST_F(LogReaderTest, TailOfNothing) {
    append("");
    EXPECT_EQ(tail(3), "");
}

TEST_F(LogReaderTest, LineThatIsNotWholeWaits) {
    append(line("1") + "2026 stdout F ha");
    auto reader = LogReader::open(path, -1);
    std::string out;
    EXPECT_TRUE(*reader->read(out));
    EXPECT_EQ(out, line("1"));
    append("lf\n");
    out.clear();
    EXPECT_TRUE(*reader->read(out));
    EXPECT_EQ(out, "2026 stdout F half\n");
    EXPECT_FALSE(*reader->read(out));
}

TEST_F(LogReaderTest, NothingIsMissedOfAFileThatIsReplaced) {
    append(line("1"));
    auto reader = LogReader::open(path, -1);
    std::string out;
    EXPECT_TRUE(*reader->read(out));
    EXPECT_FALSE(*reader->read(out));
    EXPECT_FALSE(reader->follow_rotation());
    UniqueFd const old{::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
    rotate();
    EXPECT_FALSE(reader->follow_rotation());  // the new file is not there yet
    std::string const late = line("2");       // the writer still has the old one
    ASSERT_EQ(::write(old.get(), late.data(), late.size()), static_cast<ssize_t>(late.size()));
    append(line("3"));
    EXPECT_TRUE(reader->follow_rotation());
    EXPECT_TRUE(*reader->read(out));
    EXPECT_EQ(out, line("1") + line("2") + line("3"));
    EXPECT_FALSE(*reader->read(out));
    EXPECT_FALSE(reader->follow_rotation());
}

TEST_F(LogReaderTest, NothingIsMissedOfFilesThatHadTheNameInBetween) {
    append(line_at(1, "before"));
    rotate(".1");
    append(line_at(2, "a"));
    auto reader = LogReader::open(path, -1);
    std::string out;
    EXPECT_TRUE(*reader->read(out));
    append(line_at(3, "b"));
    // kubelet compresses all but the newest, and removes them then.
    ASSERT_EQ(::unlink(path.c_str()), 0);
    compress(path + ".3.gz", line_at(4, "c") + line_at(5, "d"));
    append(line_at(4, "c") + line_at(5, "d"));
    rotate(".3");  // a moment before it is removed
    append(line_at(6, "e"));
    rotate(".2");
    append(line_at(6, "cut"));
    rotate(".4.tmp");
    std::ofstream(path + "s") << line_at(7, "of another container");
    append(line_at(8, "f"));
    EXPECT_TRUE(reader->follow_rotation());
    while (*reader->read(out)) {
    }
    EXPECT_EQ(
        out, line_at(2, "a") + line_at(3, "b") + line_at(4, "c") + line_at(5, "d") + line_at(6, "e") + line_at(8, "f"));
    EXPECT_FALSE(reader->follow_rotation());
    append(line_at(9, "g"));
    EXPECT_TRUE(*reader->read(out));
    EXPECT_TRUE(out.ends_with("f\n" + line_at(9, "g")));
}

TEST_F(LogReaderTest, FileThatCannotBeUncompressedIsNamed) {
    append(line_at(1, "a"));
    auto reader = LogReader::open(path, -1);
    std::string out;
    EXPECT_TRUE(*reader->read(out));
    std::string text;
    for (int i = 0; i < 100'000; ++i)
        text += line_at(2, std::to_string(i * 7919 % 65'536));
    compress(path + ".3.gz", text);
    ASSERT_EQ(::truncate((path + ".3.gz").c_str(), 100'000), 0);
    rotate();
    append(line_at(3, "b"));
    EXPECT_TRUE(reader->follow_rotation());
    Result<bool> has_some = true;
    while (has_some && *has_some) {
        out.clear();
        has_some = reader->read(out);
    }
    ASSERT_FALSE(has_some);
    EXPECT_EQ(has_some.error().kind, ErrorKind::corrupt);
    EXPECT_NE(has_some.error().text().find("cannot read " + path + ".3.gz: "), std::string::npos);
}

TEST_F(LogReaderTest, FileThatIsMissingIsNamed) {
    auto const reader = LogReader::open(path, -1);
    ASSERT_FALSE(reader);
    EXPECT_EQ(reader.error().kind, ErrorKind::not_found);
    EXPECT_EQ(reader.error().text(), "cannot open " + path + ": No such file or directory");
}

}  // namespace
}  // namespace triton::program
