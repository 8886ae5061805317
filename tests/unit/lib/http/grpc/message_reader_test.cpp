#include "lib/http/grpc/message_reader.h"

#include <gtest/gtest.h>

namespace {

using namespace triton::http::grpc;

TEST(GrpcMessageReader, ReadsAMessageHoweverItIsCut) {
    std::string const framed = frame_message("hello");
    EXPECT_EQ(framed, std::string("\0\0\0\0\5hello", 10));
    for (std::size_t cut = 0; cut <= framed.size(); ++cut) {
        MessageReader reader;
        ASSERT_TRUE(reader.feed(std::string_view(framed).substr(0, cut)));
        EXPECT_EQ(reader.is_within_message(), cut > 0 && cut < framed.size()) << cut;
        ASSERT_TRUE(reader.feed(std::string_view(framed).substr(cut)));
        EXPECT_EQ(reader.take(), "hello");
        EXPECT_EQ(reader.take(), std::nullopt);
        EXPECT_FALSE(reader.is_within_message());
    }
}

TEST(GrpcMessageReader, AMessageMayBeEmpty) {
    MessageReader reader;
    ASSERT_TRUE(reader.feed(frame_message("")));
    EXPECT_EQ(reader.take(), "");
}

TEST(GrpcMessageReader, ReadsOneAfterTheOther) {
    MessageReader reader;
    for (std::string const text : {"a", "", "bcd"}) {
        ASSERT_TRUE(reader.feed(frame_message(text)));
        EXPECT_EQ(reader.take(), text);
    }
}

TEST(GrpcMessageReader, RefusesWhatItDoesNotAccept) {
    MessageReader compressed;
    EXPECT_EQ(compressed.feed(std::string("\1\0\0\0\1x", 6)).error(),
              (Status{Code::unimplemented, "compressed messages are not accepted"}));
    MessageReader small(4);
    EXPECT_EQ(small.feed(frame_message("hello")).error(),
              (Status{Code::resource_exhausted, "the message has 5 bytes, and at most 4 are accepted"}));
    MessageReader huge;
    EXPECT_EQ(huge.feed(std::string_view("\0\xff\xff\xff\xff", 5)).error().code, Code::resource_exhausted);
    EXPECT_EQ(huge.buffered(), 0U) << "the peer's word for a length costs no memory";
    MessageReader second;
    EXPECT_EQ(second.feed(frame_message("a") + frame_message("b")).error().code, Code::internal);
}

}  // namespace
