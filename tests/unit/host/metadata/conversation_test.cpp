#include "host/metadata/conversation.h"

#include <map>

#include <gtest/gtest.h>

#include "host/metadata/frame.h"
#include "lib/text/base64.h"

namespace triton::metadata {

namespace {

class FakeAnswers final : public Answers {
public:
    std::map<std::string, std::string, std::less<>> values;
    bool is_broken = false;

    Result<std::optional<std::string>> get(std::string_view key) override {
        if (is_broken) return fail("the disk fails");
        auto const found = values.find(key);
        return found == values.end() ? std::nullopt : std::optional(found->second);
    }
    Result<std::vector<std::string>> keys() override {
        std::vector<std::string> keys;
        for (auto const& [key, value] : values)
            keys.push_back(key);
        return keys;
    }
    Result<> put(std::string_view key, std::string_view value) override {
        values[std::string(key)] = value;
        return {};
    }
    Result<> remove(std::string_view key) override {
        values.erase(std::string(key));
        return {};
    }
};

class ConversationTest : public testing::Test {
protected:
    /// The frame with which a request is answered.
    Frame ask(std::string const& word, std::string const& payload = "") {
        std::string const line = conversation.take(frame_line({"12ab", word, payload}));
        EXPECT_TRUE(line.starts_with("V2 ") && line.ends_with('\n')) << line;
        auto frame = parse_frame(std::string_view(line).substr(3, line.size() - 4));
        EXPECT_TRUE(frame) << line;
        return frame.value_or(Frame{});
    }
    FakeAnswers answers;
    Conversation conversation{answers};
};

TEST_F(ConversationTest, BeginsInVersionOne) {
    answers.values = {{"motd", "one\n.two\n..three"}, {"name", "web0"}};
    EXPECT_EQ(conversation.take("GET name\n"), "SUCCESS\nweb0\n.\n");
    EXPECT_EQ(conversation.take("GET motd\r\n"), "SUCCESS\none\n..two\n...three\n.\n");
    EXPECT_EQ(conversation.take("GET nothing\n"), "NOTFOUND\n");
    EXPECT_EQ(conversation.take("KEYS\n"), "SUCCESS\nmotd\nname\n.\n");
    for (std::string const line : {"", "GET", "PUT a b", "DELETE name", "get name", "NEGOTIATE", "HELLO"})
        EXPECT_EQ(conversation.take(line + "\n"), "invalid command\n") << line;
    EXPECT_EQ(conversation.take("NEGOTIATE V3\n"), "FAILURE\n");
    EXPECT_EQ(conversation.take("NEGOTIATE V2\n"), "V2_OK\n");
    EXPECT_EQ(answers.values.size(), 2U);
}

TEST_F(ConversationTest, HasFramesInVersionTwo) {
    EXPECT_EQ(ask("PUT", text::encode_base64("key") + " " + text::encode_base64("a\nb")),
              (Frame{"12ab", "SUCCESS", "OK"}));
    EXPECT_EQ(ask("GET", "key"), (Frame{"12ab", "SUCCESS", "a\nb"}));
    EXPECT_EQ(ask("KEYS"), (Frame{"12ab", "SUCCESS", "key"}));
    EXPECT_EQ(ask("PUT", text::encode_base64("empty") + " "), (Frame{"12ab", "SUCCESS", "OK"}));
    EXPECT_EQ(ask("GET", "empty"), (Frame{"12ab", "SUCCESS", ""}));
    for (std::string const payload : {"a2V5", "a2V5 ?", "? a2V5", "a2V5 a2V5 a2V5", "key value"})
        EXPECT_EQ(ask("PUT", payload), (Frame{"12ab", "FAILURE", "PUT has a key and a value, both in base64"}));
    EXPECT_EQ(ask("DELETE", "key"), (Frame{"12ab", "SUCCESS", "OK"}));
    EXPECT_EQ(ask("GET", "key"), (Frame{"12ab", "NOTFOUND", ""}));
    EXPECT_EQ(ask("GET"), (Frame{"12ab", "FAILURE", "GET needs a key"}));
    EXPECT_EQ(ask("REBOOT", "now"), (Frame{"12ab", "FAILURE", "there is no request REBOOT"}));
    answers.is_broken = true;
    EXPECT_EQ(ask("GET", "key"), (Frame{"12ab", "FAILURE", "the disk fails"}));
}

TEST_F(ConversationTest, LinesComeInAnyPieces) {
    answers.values = {{"name", "web0"}};
    std::string out;
    for (char const c : std::string("GET name\nKEYS\nGET na"))
        out += conversation.take(std::string(1, c));
    EXPECT_EQ(out, "SUCCESS\nweb0\n.\nSUCCESS\nname\n.\n");
    EXPECT_EQ(conversation.take("me\nGET x\n"), "SUCCESS\nweb0\n.\nNOTFOUND\n");
}

TEST_F(ConversationTest, ADamagedFrameHasNoAnswer) {
    EXPECT_EQ(conversation.take("V2 3 00000000 abc\nV2\nV2 x\nKEYS\n"), "SUCCESS\n\n.\n");
}

TEST_F(ConversationTest, EndsWithALineThatDoesNotEnd) {
    std::string const piece(1 << 20, 'x');
    EXPECT_EQ(conversation.take(piece), "");
    EXPECT_EQ(conversation.take(piece), "");
    EXPECT_FALSE(conversation.is_over());
    EXPECT_EQ(conversation.take(piece + "\nKEYS\n"), "");
    EXPECT_TRUE(conversation.is_over());
    EXPECT_EQ(conversation.take("KEYS\n"), "");
}

}  // namespace

}  // namespace triton::metadata
