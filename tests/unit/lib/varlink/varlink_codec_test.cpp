#include <string>

#include <gtest/gtest.h>

#include "lib/varlink/codec.h"

namespace triton::varlink {

namespace {

TEST(VarlinkCall, MembersAreRead) {
    auto const call =
        parse_call(R"({"method":"a.b.C","parameters":{"x":1},"more":true,"oneway":null,"upgrade":false,"other":[1]})");
    ASSERT_TRUE(call);
    EXPECT_EQ(call->method, "a.b.C");
    EXPECT_EQ(call->interface(), "a.b");
    EXPECT_EQ(call->name(), "C");
    EXPECT_TRUE(call->wants_more);
    EXPECT_FALSE(call->is_oneway);
    EXPECT_FALSE(call->wants_upgrade);
    ASSERT_NE(find_member(call->parameters, "x"), nullptr);
    EXPECT_EQ(find_member(call->parameters, "y"), nullptr);
}

TEST(VarlinkCall, OneWithoutDotHasNoInterface) {
    auto const call = parse_call(R"({"method":"C"})");
    ASSERT_TRUE(call);
    EXPECT_EQ(call->interface(), "");
    EXPECT_EQ(call->name(), "C");
}

TEST(VarlinkCall, WhatIsNotACallIsToldInOneLine) {
    struct Row {
        std::string message;
        std::string reason;
    };
    std::string const deep = std::string(9, '[') + std::string(9, ']');
    std::string many = R"({"method":"a.b","parameters":{"x":[0)";
    for (int i = 0; i < 300; ++i)
        many += ",0";
    for (Row const& row : {
             Row{"", "is empty"},
             Row{"[]", "expected an object, found array"},
             Row{"{}", "no \"method\""},
             Row{R"({"method":""})", "no \"method\""},
             Row{R"({"method":1})", "\"method\" cannot be of type number"},
             Row{R"({"method":"a.b","more":"yes"})", "\"more\" cannot be of type string"},
             Row{R"({"method":"a.b","parameters":[]})", "\"parameters\" cannot be of type array"},
             Row{R"({"method":"a.b","method":"a.c"})", "method: duplicate key"},
             Row{R"({"method":"a.b\u0000"})", "method: contains a NUL byte, which no argument can carry"},
             Row{R"({"method":"a.b","parameters":{"x":)" + deep + "}}",
                 "parameters.x[0][0][0][0][0][0]: nested deeper than 8 levels"},
             Row{many + "]}}", "has more than 256 values"},
             Row{"GET / HTTP/1.1\r\n\r\n", "line 1, column 1: syntax error while parsing value: invalid literal"},
         }) {
        auto const call = parse_call(row.message);
        ASSERT_FALSE(call) << row.message;
        EXPECT_EQ(call.error().text(), row.reason);
    }
}

TEST(VarlinkReply, IsReadBack) {
    std::string text;
    append_reply(text, R"({"a":1})", true);
    append_error(text, "x.y.Z", "{}");
    std::size_t const end = text.find('\0');
    auto const reply = parse_reply(text.substr(0, end), 1000);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(reply->continues);
    EXPECT_TRUE(reply->error.empty());
    auto const error = parse_reply(text.substr(end + 1, text.size() - end - 2), 1000);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->error, "x.y.Z");
    EXPECT_FALSE(parse_reply(text.substr(0, end), 10));
}

}  // namespace

}  // namespace triton::varlink
