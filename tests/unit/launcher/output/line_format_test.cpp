#include "launcher/output/line_format.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "launcher/output/log_ring.h"

namespace triton::launcher {

namespace {

using namespace std::string_literals;

struct FormatCase {
    char const* name;
    std::string text;
    std::string message;
};

class JsonMessage : public testing::TestWithParam<FormatCase> {};

TEST_P(JsonMessage, IsEscaped) {
    std::string out;
    EXPECT_EQ(LineFormat::json("web", 2).append(out, GetParam().text, {OutputStream::err, "T"}),
              GetParam().text.size());
    EXPECT_EQ(
        out, R"({"time":"T","program":"web","process":2,"stream":"stderr","message":")" + GetParam().message + "\"}\n");
}

INSTANTIATE_TEST_SUITE_P(
    Texts, JsonMessage,
    testing::Values(FormatCase{"empty", "", ""}, FormatCase{"plain", "GET /index.html 200", "GET /index.html 200"},
                    FormatCase{"quotes", R"(say "a\b")", R"(say \"a\\b\")"},
                    FormatCase{"quoteBehindEight", "12345678\"12345678\\", R"(12345678\"12345678\\)"},
                    FormatCase{"controls",
                               "a\tb\rc\x01"
                               "d\x1f\x7f",
                               "a\\tb\\rc\\u0001d\\u001f\\u007f"},
                    FormatCase{"moreControls", "12345678\u009b2J\u0080\u009f\u00a0\x7f",
                               "12345678\\u009b2J\\u0080\\u009f\u00a0\\u007f"},
                    FormatCase{"behindEight", "1234567\x7f", "1234567\\u007f"}, FormatCase{"nul", "a\0b"s, "a\\u0000b"},
                    FormatCase{"utf8", "\u00e4\u20ac\U0001f600", "\u00e4\u20ac\U0001f600"},
                    FormatCase{"invalid",
                               "a\xff\xfe"
                               "b",
                               "a\uFFFD\uFFFDb"},
                    FormatCase{"overlong", "\xc0\xaf", "\uFFFD\uFFFD"},
                    FormatCase{"surrogate", "\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
                    FormatCase{"aboveUnicode", "\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
                    FormatCase{"cutOff", "x\xe2\x82", "x\uFFFD\uFFFD"}),
    [](auto const& which) { return std::string(which.param.name); });

LineFormat to_syslog() {
    return LineFormat::syslog(
        {.facility = 3, .severity = 6, .error_severity = 3, .host = "box.example", .name = "web", .is_old = false}, 2);
}

constexpr char const* noon = "2026-01-31T12:00:00.000001Z";

class SyslogMessage : public testing::TestWithParam<FormatCase> {};

TEST_P(SyslogMessage, IsOfRfc5424) {
    std::string out;
    EXPECT_EQ(to_syslog().append(out, GetParam().text, {OutputStream::out, noon}), GetParam().text.size());
    EXPECT_EQ(out, "<30>1 2026-01-31T12:00:00.000001Z box.example web 2 - - " + GetParam().message + "\n");
}

INSTANTIATE_TEST_SUITE_P(Texts, SyslogMessage,
                         testing::Values(FormatCase{"empty", "", ""},
                                         FormatCase{"plain", "GET /index.html 200", "GET /index.html 200"},
                                         FormatCase{"tab", "a\tb", "a\tb"}, FormatCase{"nul", "a\0b"s, "a#000b"},
                                         FormatCase{"controls", "a\rb\x1b[2Jc\x7f", "a#015b#033[2Jc#177"},
                                         FormatCase{"moreControls", "\u009b2J", "#302#2332J"},
                                         FormatCase{"utf8", "\u00e4\u20ac", "\u00e4\u20ac"},
                                         FormatCase{"invalid", "a\xff\xfe", "a\xff\xfe"},
                                         FormatCase{"cutOff", "x\xe2\x82", "x\xe2\x82"}),
                         [](auto const& which) { return std::string(which.param.name); });

TEST(LineFormat, SyslogHasTheSeverityOfTheStream) {
    std::string out;
    to_syslog().append(out, "oh", {OutputStream::err, noon});
    EXPECT_EQ(out, "<27>1 2026-01-31T12:00:00.000001Z box.example web 2 - - oh\n");
    out.clear();
    LineFormat::syslog({.facility = 23, .severity = 7, .error_severity = 0, .host = "-", .name = "a", .is_old = false},
                       65535)
        .append(out, "x", {OutputStream::out, noon});
    EXPECT_EQ(out, "<191>1 2026-01-31T12:00:00.000001Z - a 65535 - - x\n");
}

TEST(LineFormat, SyslogHasTheOlderForm) {
    LineFormat const format = LineFormat::syslog(
        {.facility = 3, .severity = 6, .error_severity = 3, .host = "box", .name = "web", .is_old = true}, 2);
    std::string out;
    format.append(out, "a\0b"s, {OutputStream::out, "2026-01-03T23:59:59.123456Z"});
    format.append(out, "oh", {OutputStream::err, "2026-12-31T00:00:00.000000Z"});
    EXPECT_EQ(out, "<30>Jan  3 23:59:59 web[2]: a#000b\n<27>Dec 31 00:00:00 web[2]: oh\n");
}

TEST(LineFormat, SyslogCutsAMessageAtTheEndOfACharacter) {
    std::string const head = "<30>1 2026-01-31T12:00:00.000001Z box.example web 2 - - ";
    std::size_t const room = longest_syslog - head.size();
    struct Case {
        std::string text;
        std::size_t taken;
    };
    for (Case const& one :
         {Case{std::string(room, 'x'), room}, Case{std::string(room + 1, 'x'), room},
          Case{std::string(room - 1, 'x') + "\u00e4", room - 1}, Case{std::string(room - 2, 'x') + "\u00e4", room},
          Case{std::string(room - 3, 'x') + "\x01", room - 3}, Case{std::string(room - 4, 'x') + "\x01", room - 3},
          Case{std::string(room, '\0'), room / 4}}) {
        std::string out;
        EXPECT_EQ(to_syslog().append(out, one.text, {OutputStream::out, noon}), one.taken);
        EXPECT_TRUE(out.starts_with(head) && out.ends_with('\n'));
        EXPECT_LE(out.size(), longest_syslog + 1);
    }
}

TEST(LineFormat, JsonOfTheUnnamedProgramHasNoProgram) {
    std::string out;
    LineFormat::json("", 1).append(out, "x", {OutputStream::out, "T"});
    EXPECT_EQ(out, "{\"time\":\"T\",\"process\":1,\"stream\":\"stdout\",\"message\":\"x\"}\n");
}

TEST(LineFormat, JsonPieceIsMarked) {
    std::string out;
    LineFormat::json("", 1).append(out, "x", {OutputStream::out, "T", false, false});
    EXPECT_EQ(out, "{\"time\":\"T\",\"process\":1,\"stream\":\"stdout\",\"message\":\"x\",\"partial\":true}\n");
}

TEST(LineFormat, JsonIsCutWhereEscapesMakeItTooLong) {
    std::string const text(longest_line, '\x01');
    LineFormat const format = LineFormat::json("web", 1);
    std::string back;
    for (std::size_t taken = 0; taken < text.size();) {
        std::string out;
        std::size_t const now = format.append(out, std::string_view(text).substr(taken), {OutputStream::out, "T"});
        ASSERT_GT(now, 0);
        EXPECT_LE(out.size(), longest_piece);
        taken += now;
        EXPECT_EQ(out.ends_with("\"partial\":true}\n"), taken < text.size());
        back.append(now, '\x01');
    }
    EXPECT_EQ(back, text);
}

TEST(LineFormat, AnEscapeThatJustFitsIsNotCut) {
    std::string const text = std::string(longest_line - 6, 'x') + '\x01';
    std::string out;
    EXPECT_EQ(LineFormat::json("", 1).append(out, text, {}), text.size());
    EXPECT_TRUE(out.ends_with("x\\u0001\"}\n"));
    out.clear();
    EXPECT_EQ(LineFormat::json("", 1).append(out, "x" + text, {}), text.size()) << "without the last";
    EXPECT_TRUE(out.ends_with("x\",\"partial\":true}\n"));
}

TEST(LineFormat, LongestLineIsOnePiece) {
    std::string out;
    EXPECT_EQ(LineFormat::json("", 1).append(out, std::string(longest_line, 'x'), {}), longest_line);
    EXPECT_EQ(out.find("partial"), std::string::npos);
    EXPECT_LE(out.size(), longest_piece);
}

TEST(LineFormat, Prefix) {
    std::string out;
    LineFormat::prefix("web", 2).append(out, "a\0b"s, {});
    LineFormat::prefix("web", 2).append(out, "rest", {OutputStream::out, "", true});
    LineFormat::prefix("", 1).append(out, "", {});
    EXPECT_EQ(out, "web[2] | a\0b\nweb[2] + rest\nprocess[1] | \n"s);
}

TEST(LineFormat, TimestampStandsBeforeEachPieceOfTextAndChangesNoJson) {
    auto const rendered = [](LineFormat format, bool is_continued) {
        format.set_timestamp(true);
        std::string out;
        format.append(out, "x", {OutputStream::out, "T", is_continued});
        return out;
    };
    EXPECT_EQ(rendered(LineFormat::raw(), false), "T x\n");
    EXPECT_EQ(rendered(LineFormat::prefix("web", 2), false), "T web[2] | x\n");
    EXPECT_EQ(rendered(LineFormat::prefix("web", 2), true), "T web[2] + x\n");
    EXPECT_EQ(rendered(LineFormat::json("", 1), false),
              "{\"time\":\"T\",\"process\":1,\"stream\":\"stdout\",\"message\":\"x\"}\n");
}

TEST(LineFormat, Raw) {
    std::string out;
    LineFormat::raw().append(out, "as it is", {});
    EXPECT_EQ(out, "as it is\n");
}

std::vector<std::string> texts(LogRing const& ring, std::uint64_t from = 0) {
    std::vector<std::string> all;
    ring.read(from, [&all](LogChunk const& chunk) {
        all.emplace_back(chunk.text);
        return true;
    });
    return all;
}

void append(LogRing& ring, std::string_view text, std::uint32_t process = 1) {
    LogChunk chunk;
    chunk.process = process;
    chunk.text = text;
    ring.append(chunk);
}

TEST(LogRing, KeepsTheNewest) {
    LogRing ring{1024};
    for (int i = 0; i < 1000; ++i)
        append(ring, "line " + std::to_string(i) + "\n");
    std::vector<std::string> const kept = texts(ring);
    ASSERT_GT(kept.size(), 15);
    ASSERT_LT(kept.size(), 1024 / 8);
    for (std::size_t i = 0; i < kept.size(); ++i)
        EXPECT_EQ(kept[i], "line " + std::to_string(1000 - kept.size() + i) + "\n");
    EXPECT_EQ(ring.next_sequence(), 1001);
    ring.read(0, [&kept](LogChunk const& chunk) {
        EXPECT_EQ(chunk.sequence, 1001 - kept.size());
        return false;
    });
}

TEST(LogRing, StaysWholeWithTextsOfAllSizes) {
    LogRing ring{1024};
    std::vector<std::string> all;
    std::uint32_t seed = 1;
    for (int i = 0; i < 3000; ++i) {
        seed = seed * 1664525 + 1013904223;
        all.push_back(std::string(1 + (seed >> 16) % 90, static_cast<char>('a' + i % 26)) + "\n");
        append(ring, all.back());
        std::vector<std::string> const kept = texts(ring);
        ASSERT_GE(kept.size(), std::min<std::size_t>(all.size(), 5));
        ASSERT_TRUE(std::equal(kept.rbegin(), kept.rend(), all.rbegin()));
    }
}

TEST(LogRing, CutsALongTextIntoLinesAndALongLineIntoPieces) {
    LogRing ring{1024};
    std::string const lines = "first\n" + std::string(60, 'b') + "\n" + std::string(60, 'c') + "\n";
    append(ring, lines + std::string(200, 'd') + "\n");
    std::vector<LogChunk> chunks;
    std::string together;
    ring.read(0, [&](LogChunk const& chunk) {
        chunks.push_back(chunk);
        together += chunk.text;
        EXPECT_EQ(chunk.is_partial, chunk.text.back() != '\n');
        return true;
    });
    EXPECT_EQ(together, lines + std::string(200, 'd') + "\n");
    ASSERT_EQ(chunks.size(), 4);
    EXPECT_EQ(chunks[0].text, "first\n" + std::string(60, 'b') + "\n");
    EXPECT_EQ(chunks[1].text, std::string(60, 'c') + "\n");
    EXPECT_TRUE(chunks[2].is_partial);
    EXPECT_FALSE(chunks[3].is_partial);
}

TEST(LogRing, ReadsOnFromASequence) {
    LogRing ring;
    append(ring, "a\n");
    append(ring, "b\n");
    std::uint64_t const next = ring.read(0, [](LogChunk const& chunk) { return chunk.text != "a\n"; });
    EXPECT_EQ(next, 2);
    EXPECT_EQ(texts(ring, next), std::vector<std::string>{"b\n"});
    EXPECT_EQ(ring.read(3, [](LogChunk const&) { return true; }), 3);
    append(ring, "c\n");
    EXPECT_EQ(texts(ring, 3), std::vector<std::string>{"c\n"});
}

TEST(LogRing, WithoutCapacityTellsButKeepsNothing) {
    LogRing ring{0};
    LogChunk chunk;
    chunk.text = "a\n";
    std::string told;
    ring.append(chunk, [&told](LogChunk const& one) { told += one.text; });
    EXPECT_EQ(told, "a\n");
    EXPECT_EQ(texts(ring), std::vector<std::string>{});
}

TEST(LogRing, IsSavedAndLoaded) {
    LogRing ring{1024};
    for (int i = 0; i < 100; ++i) {
        LogChunk chunk{0, 1000 + i, static_cast<std::uint32_t>(i % 3), i % 2 ? OutputStream::err : OutputStream::out};
        chunk.is_partial = i % 5 == 0;
        std::string const text = std::to_string(i) + (chunk.is_partial ? "" : "\n");
        chunk.text = text;
        ring.append(chunk);
    }
    std::string const saved = ring.save();
    LogRing other{1024};
    other.load(saved);
    EXPECT_EQ(texts(other), texts(ring));
    EXPECT_EQ(other.save(), saved);
    EXPECT_GT(texts(ring).size(), 10);
    EXPECT_EQ(other.next_sequence(), 101) << "who follows goes on where it was";
    EXPECT_EQ(other.first_sequence(), ring.first_sequence());
    EXPECT_GT(ring.first_sequence(), 1);
}

TEST(LogRing, LoadsNothingFromWhatItDidNotSave) {
    LogRing ring;
    append(ring, "a\n");
    std::string const saved = ring.save();
    for (std::size_t size = 0; size < saved.size(); ++size) {
        LogRing other;
        other.load(std::string_view(saved).substr(0, size));
        EXPECT_EQ(texts(other).size(), 0) << size;
    }
    LogRing other;
    other.load("something else entirely, and long enough to hold a header");
    EXPECT_EQ(texts(other).size(), 0);
}

}  // namespace

}  // namespace triton::launcher
