// Lines of output for who has been cut off and comes again.

#include <gmock/gmock.h>

#include "launcher/control/control_calls.h"
#include "tests/unit/launcher/control/control_subject.h"

namespace triton::launcher {

namespace {

class ControlLogsTest : public ControlSubject {
protected:
    /// What is kept are the lines a, b and c, with the sequences 10 to 12.
    std::string ask_after(std::string const& after) {
        if (!server) {
            start();
            backend.add("web", 1).lines = {"a", "b", "c"};
            backend.first_line = 10;
        }
        auto const client = connect();
        client->call(method("Logs"), R"({"program":"web","lines":2,"after":)" + after + "}", true);
        return reply(*client);
    }
};

TEST_F(ControlLogsTest, OnlyWhatIsNewForWhoComesAgain) {
    EXPECT_EQ(ask_after("10"), R"({"parameters":{"lines":[{"process":1,"stream":"stdout","sequence":11,"text":"b"},)"
                               R"({"process":1,"stream":"stdout","sequence":12,"text":"c"}]}})");
    EXPECT_EQ(ask_after("12"), R"({"parameters":{"lines":[]}})");
}

TEST_F(ControlLogsTest, WhatIsMissingIsSaid) {
    std::string const two = R"("lines":[{"process":1,"stream":"stdout","sequence":11,"text":"b"},)"
                            R"({"process":1,"stream":"stdout","sequence":12,"text":"c"}])";
    EXPECT_EQ(ask_after("9"), R"({"parameters":{)" + two + R"(,"missing":true}})") << "more than were asked for";
    EXPECT_EQ(ask_after("3"), R"({"parameters":{)" + two + R"(,"missing":true}})") << "some have given way";
    EXPECT_EQ(ask_after("13"), R"({"parameters":{)" + two + R"(,"missing":true}})") << "of another launcher";
}

TEST_F(ControlLogsTest, NothingIsMissingBeforeTheFirstThatIsKept) {
    EXPECT_THAT(ask_after("12"), testing::HasSubstr("[]"));
    backend.programs.front().lines = {"x", "y"};
    backend.first_line = 13;
    EXPECT_EQ(ask_after("12"), R"({"parameters":{"lines":[{"process":1,"stream":"stdout","sequence":13,"text":"x"},)"
                               R"({"process":1,"stream":"stdout","sequence":14,"text":"y"}]}})");
    EXPECT_THAT(ask_after("11"), testing::HasSubstr(R"("missing":true)"));
}

/// Who has seen no line yet, of a quiet program, knows from where to go on all the same.
TEST_F(ControlLogsTest, AFollowerIsToldWhereItStands) {
    EXPECT_THAT(ask_after("12"), testing::HasSubstr("[]"));
    auto const client = connect();
    client->call(method("Logs"), R"({"program":"web","lines":0,"follow":true})", true);
    EXPECT_EQ(reply(*client), R"({"parameters":{"lines":[],"end":12},"continues":true})");
    backend.programs.front().lines.push_back("d");
    EXPECT_THAT(ask_after("12"), testing::HasSubstr(R"("sequence":13,"text":"d")"));
}

}  // namespace

}  // namespace triton::launcher
