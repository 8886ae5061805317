#include "lib/http/spdy/server_session.h"

#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "lib/http/spdy/dictionary.h"

namespace triton::http::spdy {

namespace {

/// The client's end: what it sends, and what it finds in the answers.
class SpdySessionTest : public testing::Test, protected StreamEvents {
protected:
    bool opened(StreamId stream, Headers const& headers) override {
        log_.push_back("open " + std::to_string(stream) + " " + headers.at("streamtype"));
        return headers.at("streamtype") != "unwanted";
    }
    void received(StreamId stream, std::string_view bytes) override {
        log_.push_back("data " + std::to_string(stream) + " " + std::string(bytes));
    }
    void finished(StreamId stream) override { log_.push_back("end " + std::to_string(stream)); }
    void was_reset(StreamId stream) override { log_.push_back("reset " + std::to_string(stream)); }

    std::string open(StreamId stream, std::string const& type, std::uint8_t flags = 0) {
        std::string payload;
        append_number(payload, stream);
        append_number(payload, 0);
        payload.append(2, '\0');
        std::string out;
        append_control_frame(out, FrameType::syn_stream, flags, payload + client_.write({{"streamtype", type}}));
        return out;
    }
    static std::string data(StreamId stream, std::string_view bytes, std::uint8_t flags = 0) {
        std::string out;
        append_data_frame(out, stream, flags, bytes);
        return out;
    }
    static std::string reset(StreamId stream) {
        std::string payload;
        append_number(payload, stream);
        append_number(payload, 5);
        std::string out;
        append_control_frame(out, FrameType::rst_stream, 0, payload);
        return out;
    }

    /// In the order in which they are written, which the compression depends on.
    static std::string joined(std::initializer_list<std::string> frames) {
        std::string out;
        for (std::string const& frame : frames)
            out += frame;
        return out;
    }

    /// The frames of the output, one text each.
    std::vector<std::string> answers() {
        std::vector<std::string> found;
        std::string_view rest = session_.output();
        while (!rest.empty()) {
            FrameHead const head = parse_frame_head(rest);
            std::string const payload(rest.substr(frame_head_bytes, head.length));
            rest.remove_prefix(frame_head_bytes + head.length);
            if (!head.is_control) {
                found.push_back("data " + std::to_string(head.stream) + " " + payload +
                                (head.flags != 0 ? " end" : ""));
                continue;
            }
            std::string text = std::to_string(head.type);
            std::size_t const numbers = head.type == 2 ? 1 : payload.size() / 4;
            for (std::size_t i = 0; i < numbers; ++i)
                text += " " + std::to_string(number_at(payload, 4 * i));
            if (head.type == 2) {
                EXPECT_EQ(replies_.read(std::string_view(payload).substr(4)), Headers());
            }
            found.push_back(text);
        }
        session_.output().clear();
        return found;
    }

    using Texts = std::vector<std::string>;
    std::vector<std::string> log_;
    HeaderWriter client_;
    HeaderReader replies_;
    ServerSession session_{*this};
};

TEST(SpdyDictionary, IsThatOfTheDraft) {
    std::string const& text = header_dictionary();
    EXPECT_EQ(text.size(), 1423U);
    auto const* const bytes = reinterpret_cast<Bytef const*>(text.data());
    EXPECT_EQ(::adler32(::adler32(0, nullptr, 0), bytes, static_cast<uInt>(text.size())), 0xe3c6a7c2U);
}

TEST_F(SpdySessionTest, StreamsAreRepliedToBeforeTheirData) {
    EXPECT_TRUE(session_.receive(joined({open(1, "error"), open(3, "stdin")})));
    EXPECT_TRUE(session_.receive(data(3, "typed") + data(3, "", flag_fin)));
    session_.send(1, "status");
    session_.finish(1);
    session_.finish(3);
    EXPECT_EQ(log_, (Texts{"open 1 error", "open 3 stdin", "data 3 typed", "end 3"}));
    EXPECT_EQ(answers(), (Texts{"2 1", "2 3", "data 1 status", "data 1  end", "data 3  end"}));
    EXPECT_EQ(session_.open_streams(), 1U);
}

TEST_F(SpdySessionTest, BytesComeInAnyPieces) {
    for (char const byte : joined({open(1, "error"), data(1, "abc"), open(3, "data", flag_fin)}))
        ASSERT_TRUE(session_.receive({&byte, 1}));
    EXPECT_EQ(log_, (Texts{"open 1 error", "data 1 a", "data 1 b", "data 1 c", "open 3 data", "end 3"}));
}

TEST_F(SpdySessionTest, ErrorsOfAStreamStayThere) {
    EXPECT_TRUE(session_.receive(joined({open(5, "stdin"), open(3, "late"), open(7, "unwanted"), data(9, "x")})));
    EXPECT_TRUE(session_.receive(data(5, "", flag_fin) + data(5, "more")));
    EXPECT_EQ(answers(), (Texts{"2 5", "3 3 1", "2 7", "3 7 3", "3 9 2", "3 5 9"}));
    EXPECT_EQ(log_, (Texts{"open 5 stdin", "open 7 unwanted", "end 5", "reset 5"}));
    EXPECT_TRUE(session_.receive(open(11, "stdout") + reset(11) + data(11, "on its way")));
    EXPECT_EQ(log_.back(), "reset 11");
    EXPECT_EQ(answers(), Texts{"2 11"});
    session_.send(11, "nobody");
    EXPECT_EQ(answers(), Texts{});
}

TEST_F(SpdySessionTest, PingIsSentBack) {
    std::string ping;
    append_control_frame(ping, FrameType::ping, 0, std::string("\0\0\0\7", 4));
    EXPECT_TRUE(session_.receive(ping));
    EXPECT_EQ(answers(), Texts{"6 7"});
}

TEST_F(SpdySessionTest, ManyStreamsAreRefused) {
    for (StreamId stream = 1; stream < 2 * ServerSession::most_streams; stream += 2)
        ASSERT_TRUE(session_.receive(open(stream, "data")));
    (void)answers();
    StreamId const next = 2 * ServerSession::most_streams + 1;
    EXPECT_TRUE(session_.receive(open(next, "data")));
    EXPECT_EQ(answers(), Texts{"3 " + std::to_string(next) + " 3"});
}

TEST_F(SpdySessionTest, ErrorsOfTheConnectionEndIt) {
    std::string version;
    append_number(version, 0x8002'0006);
    append_number(version, 4);
    std::string large;
    append_number(large, 0x8003'0001);
    append_number(large, 0xff'ffff);
    std::string twice = joined({open(1, "a"), open(1, "a")});
    std::string reply;
    append_control_frame(reply, FrameType::syn_reply, 0, std::string(8, '\0'));
    std::string garbage;
    append_control_frame(garbage, FrameType::syn_stream, 0, std::string(40, 'x'));
    for (std::string const& bytes : {version, large, twice, reply, garbage}) {
        ServerSession session(*this);
        EXPECT_FALSE(session.receive(bytes));
        EXPECT_FALSE(session.receive(data(1, "more")));
        EXPECT_EQ(number_at(session.output(), session.output().size() - 4), 1U);
    }
}

/// A block that unpacks to a thousand times its size is not unpacked further than it may be.
TEST_F(SpdySessionTest, PackedBombEndsTheConnection) {
    HeaderWriter writer;
    std::string const block = writer.write({{"streamtype", std::string(1U << 20U, 'x')}});
    ASSERT_LT(block.size(), ServerSession::most_control_bytes);
    HeaderReader reader;
    auto const headers = reader.read(block);
    ASSERT_FALSE(headers);
    EXPECT_EQ(headers.error().text(), "cannot read a header block: it unpacks to too much");
}

TEST(SpdyHeaders, BadOnesAreRefused) {
    for (Headers const& bad :
         {Headers{{"Upper", "x"}}, Headers{{"", "x"}}, Headers{{"host", "x"}}, Headers{{"a b", "x"}}}) {
        HeaderWriter writer;
        HeaderReader reader;
        EXPECT_FALSE(reader.read(writer.write(bad)));
    }
    HeaderWriter writer;
    HeaderReader reader;
    Headers const good{{"port", "80"}, {"requestid", "1"}};
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(reader.read(writer.write(good)), good);
    Headers many;
    for (std::size_t i = 0; i <= most_headers; ++i)
        many["name" + std::to_string(i)] = "x";
    EXPECT_FALSE(reader.read(writer.write(many)));
}

}  // namespace

}  // namespace triton::http::spdy
