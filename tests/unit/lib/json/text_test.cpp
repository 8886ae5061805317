// The small text tools: durations, nearest words, JSON strings.

#include "lib/json/text.h"

#include <array>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/duration.h"
#include "lib/base/nearest.h"

namespace triton::config {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

TEST(Duration, Reads) {
    struct Row {
        std::string_view text;
        std::optional<nanoseconds> value;
    };
    Row const rows[] = {
        {"500ms", 500ms},
        {"10s", 10s},
        {"1m30s", 90s},
        {"2h", 2h},
        {"1.5s", 1500ms},
        {"250us", 250us},
        {"7ns", 7ns},
        {"1h2m3s4ms5us6ns", 1h + 2min + 3s + 4ms + 5us + 6ns},
        {"0", 0s},
        {"60", 60s},
        {"0.25", 250ms},
        {"0.5h", 30min},
        {"1.0000000019s", 1s + 1ns},
        {"9223372036.854775807s", nanoseconds::max()},
        {"9223372036.854775808s", std::nullopt},
        {"9223372036854775808ns", std::nullopt},
        {"99999999999999999999999ns", std::nullopt},
        {"5124096h", std::nullopt},
        {"2562047h48m", std::nullopt},
        {"", std::nullopt},
        {"s", std::nullopt},
        {".5s", std::nullopt},
        {"1.s", std::nullopt},
        {"1.2.3s", std::nullopt},
        {"-1s", std::nullopt},
        {"+1s", std::nullopt},
        {" 1s", std::nullopt},
        {"1s ", std::nullopt},
        {"1 s", std::nullopt},
        {"1S", std::nullopt},
        {"1d", std::nullopt},
        {"1m30", std::nullopt},
        {"30s1m", std::nullopt},
        {"1s1s", std::nullopt},
        {"1e3s", std::nullopt},
        {"infinity", std::nullopt},
    };
    for (Row const& row : rows)
        EXPECT_EQ(parse_duration(row.text), row.value) << row.text;
}

TEST(Duration, Writes) {
    struct Row {
        nanoseconds value;
        std::string_view text;
    };
    Row const rows[] = {{0s, "0s"},
                        {1s, "1s"},
                        {90s, "1m30s"},
                        {3600s, "1h"},
                        {3601500ms, "1h1.5s"},
                        {1500us, "1.5ms"},
                        {250us, "250us"},
                        {1ns, "1ns"},
                        {1s + 1ns, "1.000000001s"},
                        {61s + 50ms, "1m1.05s"},
                        {60s + 5ms, "1m5ms"},
                        {-90s, "-1m30s"},
                        {nanoseconds::max(), "2562047h47m16.854775807s"},
                        {nanoseconds::min(), "-2562047h47m16.854775808s"}};
    for (Row const& row : rows)
        EXPECT_EQ(format_duration(row.value), row.text);
}

TEST(Duration, ReadsWhatItWrites) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 10'000; ++i) {
        nanoseconds const value{static_cast<std::int64_t>(random() >> (1 + random() % 63))};
        EXPECT_EQ(parse_duration(format_duration(value)), value) << format_duration(value);
    }
}

TEST(Nearest, Table) {
    std::vector<std::string_view> const known{"version",     "runServers", "count",          "arguments",
                                              "--log-level", "--log-path", "--stop-timeout", "--fdbserver-path",
                                              "Concatenate", "4"};
    struct Row {
        std::string_view word;
        std::optional<std::string_view> meant;
    };
    Row const rows[] = {
        {"VERSION", "version"},
        {"vresion", "version"},
        {"argument", "arguments"},
        {"Concatenante", "Concatenate"},
        {"runProcesses", "runServers"},
        {"serverCount", "count"},
        {"run", "runServers"},
        {"--log-levle", "--log-level"},
        {"--log-file", std::nullopt},
        {"--log", std::nullopt},  // two share it, and both are far
        {"--fdbserver", "--fdbserver-path"},
        {"--stop", "--stop-timeout"},
        {"Foo", std::nullopt},
        {"5", std::nullopt},
        {"", std::nullopt},
        {"---", std::nullopt},
        {"--", std::nullopt},
    };
    for (Row const& row : rows)
        EXPECT_EQ(nearest(row.word, known), row.meant) << row.word;
    EXPECT_EQ(nearest(std::string(65, 'a'), known), std::nullopt);
    EXPECT_EQ(nearest("a", {}), std::nullopt);
    std::string const long_word(64, 'x');
    std::array<std::string_view, 2> const long_words{long_word, std::string_view(long_word).substr(1)};
    EXPECT_EQ(nearest(long_word, long_words), long_word);
}

TEST(JsonText, Strings) {
    struct Row {
        std::string text;
        std::string json;
    };
    using namespace std::string_literals;
    Row const rows[] = {
        {"", R"("")"},
        {"a/b", R"("a/b")"},
        {"\"\\\n\r\t\b", R"("\"\\\n\r\t\u0008")"},
        {"\0\x1f\x7f"s, R"("\u0000\u001f\u007f")"},
        {"\u0080\u009b2J\u009f\u00a0", "\"\\u0080\\u009b2J\\u009f\u00a0\""},
        {"a\u202eb\u200b\U000e0041", R"("a\u202eb\u200b\udb40\udc41")"},
        {"\u00e9\u20ac\U0001f600", "\"\u00e9\u20ac\U0001f600\""},
        {"a\xffz", "\"a\ufffdz\""},
        {"\x80", "\"\ufffd\""},
        {"\xc3", "\"\ufffd\""},
        {"\xc3(", "\"\ufffd(\""},
        {"\xc0\xaf", "\"\ufffd\ufffd\""},                      // overlong
        {"\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""},            // a surrogate
        {"\xf4\x90\x80\x80", "\"\ufffd\ufffd\ufffd\ufffd\""},  // above U+10FFFF
        {"\xf0\x9f\x98", "\"\ufffd\ufffd\ufffd\""},
        // The last and the first of what is next to those, as long as the one that is not.
        {"\xed\x9f\xbf\xee\x80\x80", "\"\xed\x9f\xbf\xee\x80\x80\""},
        {"\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\""},
        {"\xe0\x9f\xbf", "\"\ufffd\ufffd\ufffd\""},
        {"\xe0\xa0\x80", "\"\xe0\xa0\x80\""},
        {"\xf0\x8f\xbf\xbf", "\"\ufffd\ufffd\ufffd\ufffd\""},
        {"\xf0\x90\x80\x80", "\"\xf0\x90\x80\x80\""},
    };
    for (Row const& row : rows) {
        std::string out = "x";
        json::append_json_string(out, row.text);
        EXPECT_EQ(out, "x" + row.json) << testing::PrintToString(row.text);
    }
}

TEST(JsonText, Shortened) {
    EXPECT_EQ(json::quoted("abc", 3), R"("abc")");
    EXPECT_EQ(json::quoted("abcd", 3), R"("abc...")");
    EXPECT_EQ(json::quoted("ab\u00e9", 3), R"("ab...")");  // no half character
    EXPECT_EQ(json::quoted("\n\n", 1), R"("\n...")");
    EXPECT_EQ(json::shown("7.3.1"), "7.3.1");
    EXPECT_EQ(json::shown(""), R"("")");
    EXPECT_EQ(json::shown("a b"), R"("a b")");
    EXPECT_EQ(json::shown(std::string(65, 'a')), '"' + std::string(64, 'a') + "...\"");
}

}  // namespace
}  // namespace triton::config
