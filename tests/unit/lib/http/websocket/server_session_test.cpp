#include "lib/http/websocket/server_session.h"

#include <vector>

#include <gtest/gtest.h>

#include "lib/http/websocket/accept_key.h"

namespace triton::http::websocket {

namespace {

class WebSocketSessionTest : public testing::Test, protected MessageEvents {
protected:
    void received(std::string_view message) override { messages_.emplace_back(message); }

    /// A frame of a client: `first` is its first byte.
    static std::string frame(unsigned first, std::string const& payload, bool is_masked = true) {
        std::string out{static_cast<char>(first)};
        unsigned const bit = is_masked ? 0x80U : 0U;
        if (payload.size() < 126) {
            out += static_cast<char>(bit | payload.size());
        } else {
            out += static_cast<char>(bit | 126U);
            out += static_cast<char>(payload.size() >> 8U);
            out += static_cast<char>(payload.size() & 0xffU);
        }
        if (!is_masked) return out + payload;
        std::string const mask = "MASK";
        out += mask;
        for (std::size_t i = 0; i < payload.size(); ++i)
            out += static_cast<char>(payload[i] ^ mask[i % 4]);
        return out;
    }

    std::vector<std::string> messages_;
    ServerSession session_{*this};
};

TEST(WebSocketHandshake, IsThatOfTheRfc) {
    EXPECT_EQ(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST_F(WebSocketSessionTest, MessagesComeInAnyPieces) {
    std::string const bytes = frame(0x82, "one") + frame(0x01, "tw") + frame(0x89, "ping") + frame(0x80, "o") +
                              frame(0x82, std::string(300, 'x'));
    for (char const byte : bytes)
        ASSERT_TRUE(session_.receive({&byte, 1}));
    EXPECT_EQ(messages_, (std::vector<std::string>{"one", "two", std::string(300, 'x')}));
    EXPECT_EQ(session_.output(), "\x8a\x04ping");
}

TEST_F(WebSocketSessionTest, AnswersHaveNoMask) {
    session_.send("\1", "abc");
    session_.send("\2", std::string(200, 'x'));
    session_.send("", std::string(70'000, 'y'));
    std::string const expected = std::string("\x82\x04\1abc", 6) + std::string("\x82\x7e\x00\xc9\2", 5) +
                                 std::string(200, 'x') + std::string("\x82\x7f\0\0\0\0\0\1\x11\x70", 10);
    EXPECT_EQ(session_.output().substr(0, expected.size()), expected);
    EXPECT_EQ(session_.output().size(), expected.size() + 70'000);
}

TEST_F(WebSocketSessionTest, CloseIsAnswered) {
    EXPECT_FALSE(session_.receive(frame(0x88, "\x03\xe8")));
    EXPECT_EQ(session_.output(), "\x88\x02\x03\xe8");
    session_.send("", "late");
    EXPECT_EQ(session_.output(), "\x88\x02\x03\xe8");
}

TEST_F(WebSocketSessionTest, BadFramesEndTheConnection) {
    std::string const too_large = std::string("\x82\xff\0\0\0\0\x7f\0\0\0MASK", 14);
    struct Case {
        std::string bytes;
        char code;
    };
    for (Case const& one :
         {Case{frame(0x82, "x", false), '\xea'}, Case{frame(0xc2, "x"), '\xea'}, Case{frame(0x83, "x"), '\xea'},
          Case{frame(0x80, "x"), '\xea'}, Case{frame(0x01, "x") + frame(0x81, "y"), '\xea'},
          Case{frame(0x09, "x"), '\xea'}, Case{frame(0x89, std::string(126, 'x')), '\xea'}, Case{too_large, '\xf1'}}) {
        ServerSession session(*this);
        EXPECT_FALSE(session.receive(one.bytes));
        EXPECT_EQ(session.output(), std::string("\x88\x02\x03") + one.code);
    }
    EXPECT_TRUE(messages_.empty());
}

TEST_F(WebSocketSessionTest, FragmentsAreBounded) {
    std::string const piece(60'000, 'x');
    EXPECT_TRUE(session_.receive(frame(0x02, piece)));
    for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(session_.receive(frame(0x00, piece)));
    EXPECT_FALSE(session_.receive(frame(0x00, piece)));
    EXPECT_EQ(session_.output(), "\x88\x02\x03\xf1");
}

}  // namespace

}  // namespace triton::http::websocket
