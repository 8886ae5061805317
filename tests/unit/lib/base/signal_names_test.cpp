#include "lib/base/signal_names.h"

#include <cstring>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace triton::launcher {

namespace {

int parse(std::string_view text) { return parse_signal(text.data(), text.data() + text.size()); }

TEST(ParseSignal, ReadsNamesAndNumbers) {
    static constexpr struct {
        std::string_view text;
        int number;
    } cases[] = {{"TERM", SIGTERM}, {"SIGTERM", SIGTERM}, {"term", SIGTERM},  {"SigTerm", SIGTERM}, {"15", 15},
                 {"1", 1},          {"64", 64},           {"00015", 15},      {"HUP", SIGHUP},      {"IOT", SIGABRT},
                 {"POLL", SIGIO},   {"RTMIN", 34},        {"RTMIN+0", 34},    {"RTMIN+3", 37},      {"SIGRTMIN+3", 37},
                 {"rtmin+30", 64},  {"RTMAX", 64},        {"SIGRTMAX-1", 63}, {"RTMAX-30", 34},     {"KILL", SIGKILL},
                 {"33", 33},        {"VTALRM", SIGVTALRM}};
    for (auto const& row : cases)
        EXPECT_EQ(parse(row.text), row.number) << row.text;
}

TEST(ParseSignal, RefusesTheRest) {
    for (std::string_view text :
         {"",       "0",          "65",       "-1",       "+1",    "000015", "99999",   "4294967311", "SIG",
          "SIG15",  "SIGSIGTERM", "TER",      "TERMS",    " TERM", "TERM ",  "RTMIN-1", "RTMIN+31",   "RTMIN+",
          "RTMIN3", "RTMAX+1",    "RTMAX-31", "RTMAX--1", "RT",    "1.5",    "15x"})
        EXPECT_EQ(parse(text), -1) << '"' << text << '"';
}

TEST(ParseSignal, StopsAtTheEndThatItIsGiven) {
    std::string_view const text = "TERM:QUIT";
    EXPECT_EQ(parse_signal(text.data(), text.data() + 4), SIGTERM);
    EXPECT_EQ(parse_signal(text.data(), text.data() + 3), -1);
}

TEST(ParseSignal, KnowsEveryRow) {
    for (SignalName const& row : signal_names) {
        EXPECT_EQ(parse(row.name), row.number) << row.name;
        EXPECT_EQ(parse("SIG" + std::string(row.name)), row.number) << row.name;
        EXPECT_EQ(parse(std::to_string(row.number)), row.number) << row.name;
    }
}

TEST(ParseSignal, KnowsEverySignalOfTheSystem) {
    for (int signo = 1; signo < 32; ++signo) {
        char const* const name = ::sigabbrev_np(signo);
        ASSERT_NE(name, nullptr) << signo;
        EXPECT_EQ(parse(name), signo) << name;
    }
    EXPECT_EQ(rtmin, SIGRTMIN);
    EXPECT_EQ(rtmax, SIGRTMAX);
}

TEST(ParseRewrite, ReadsPairs) {
    static constexpr struct {
        std::string_view text;
        int from;
        int to;
    } cases[] = {{"15:3", 15, 3},          {"TERM:QUIT", 15, 3}, {"SIGHUP:0", 1, 0},
                 {"RTMIN+3:TERM", 37, 15}, {"1:64", 1, 64},      {"term:term", 15, 15}};
    for (auto const& row : cases) {
        int from = -2;
        int to = -2;
        EXPECT_TRUE(parse_rewrite(row.text.data(), row.text.data() + row.text.size(), from, to)) << row.text;
        EXPECT_EQ(from, row.from) << row.text;
        EXPECT_EQ(to, row.to) << row.text;
    }
}

TEST(ParseRewrite, RefusesTheRest) {
    for (std::string_view text : {"", ":", "15", "15:", ":15", "0:15", "15:3:4", "15:65", "65:15", "15:00", "15:-1",
                                  "15,3", "TERM :QUIT", "X:TERM", "TERM:X"}) {
        int from = 0;
        int to = 0;
        EXPECT_FALSE(parse_rewrite(text.data(), text.data() + text.size(), from, to)) << '"' << text << '"';
    }
}

}  // namespace

}  // namespace triton::launcher
