#include "lib/http/grpc/status.h"

#include <gtest/gtest.h>

namespace {

using namespace triton;
using namespace triton::http::grpc;

TEST(GrpcStatus, ComesFromTheKindOfAnError) {
    EXPECT_EQ(
        status_of({.kind = ErrorKind::not_found, .attempted = "pull a", .reason = "there is none", .details = {"d"}}),
        (Status{Code::not_found, "cannot pull a: there is none; d"}));
    EXPECT_EQ(status_of({.kind = ErrorKind::busy, .attempted = {}, .reason = "x", .details = {}}).code,
              Code::failed_precondition);
    EXPECT_EQ(status_of({.kind = ErrorKind::internal, .attempted = {}, .reason = "x", .details = {}}).code,
              Code::internal);
}

TEST(GrpcStatus, CodesHaveTheirNumbers) {
    EXPECT_EQ(parse_code("0"), Code::ok);
    EXPECT_EQ(parse_code("16"), Code::unauthenticated);
    EXPECT_EQ(name_of(Code::resource_exhausted), "RESOURCE_EXHAUSTED");
    for (char const* const bad : {"", "17", "-1", "1 ", " 1", "x", "99999999999"})
        EXPECT_EQ(parse_code(bad), std::nullopt) << bad;
}

TEST(GrpcStatus, MessagesArePercentEncoded) {
    EXPECT_EQ(encode_message("50% of \"x\"\n\u00e9"), "50%25 of \"x\"%0A%C3%A9");
    EXPECT_EQ(decode_message("50%25 of \"x\"%0A%c3%A9"), "50% of \"x\"\n\u00e9");
    EXPECT_EQ(decode_message("%"), "%");
    EXPECT_EQ(decode_message("%4"), "%4");
    EXPECT_EQ(decode_message("%41"), "A");
    EXPECT_EQ(decode_message("%zz%4"), "%zz%4");
}

TEST(GrpcStatus, MessagesAreValidUtf8) {
    EXPECT_EQ(valid_utf8("a\xff\xc3\xa9\xc3"), "a?\u00e9?");
    EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "???") << "half of a surrogate pair";
    EXPECT_EQ(valid_utf8("\xc0\x80"), "??") << "longer than it needs to be";
    EXPECT_EQ(valid_utf8("\xf0\x9f\x98\x80"), "\U0001f600");
    EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), "????") << "beyond the last character";
}

TEST(GrpcStatus, MessagesAreCutWhereClientsWouldRefuseThem) {
    EXPECT_LE(encode_message(std::string(100'000, '\n')).size(), 8192U);
}

}  // namespace
