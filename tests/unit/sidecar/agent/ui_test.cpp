#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "sidecar/agent/ui_access.h"
#include "sidecar/agent/ui_feed.h"
#include "sidecar/agent/ui_request.h"

namespace triton::agent {
namespace {

constexpr std::string_view token = "0123456789abcdef";
constexpr std::string_view bearer = "Bearer 0123456789abcdef";

std::string refusal(UiAccess const& access, UiAccess::Claim const& claim) {
    auto const found = access.refusal_of(claim);
    return found ? std::to_string(found->status) + " " + std::string(found->text) : "";
}

UiAccess with_token() { return UiAccess({.token = std::string(token)}); }

TEST(UiAccess, TheTokenLetsIn) {
    UiAccess const access = with_token();
    EXPECT_TRUE(access.is_possible());
    EXPECT_EQ(refusal(access, {bearer}), "");
    EXPECT_EQ(refusal(access, {"bearer 0123456789abcdef"}), "");
    EXPECT_EQ(refusal(access, {""}), "401 this needs the token");
    EXPECT_EQ(refusal(access, {"", true}), "401 this needs the token") << "a certificate is not one";
    for (std::string_view const wrong :
         {"Bearer 0123456789abcdeg", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Bearer \x80"})
        EXPECT_EQ(refusal(access, {wrong}), "401 this is not the token") << wrong;
    for (std::string_view const wrong : {"Basic 0123456789abcdef", "0123456789abcdef", "Bearer", "Bearer "})
        EXPECT_EQ(refusal(access, {wrong}), "401 Authorization is not Bearer and the token") << wrong;
}

TEST(UiAccess, AnotherTokenTakesThePlaceOfTheFirst) {
    UiAccess access = with_token();
    EXPECT_FALSE(access.replace_token(std::string(token)));
    EXPECT_EQ(refusal(access, {bearer}), "");
    EXPECT_TRUE(access.replace_token("another-one-of-more-than-16"));
    EXPECT_EQ(refusal(access, {bearer}), "401 this is not the token");
    EXPECT_EQ(refusal(access, {"Bearer another-one-of-more-than-16"}), "");
}

TEST(UiAccess, CertificatesLetInWhereThereIsNoToken) {
    UiAccess const access({.token = {}, .asks_for_certificates = true});
    EXPECT_EQ(refusal(access, {"", true}), "");
    EXPECT_EQ(refusal(access, {"", false}), "401 this needs a client certificate");
}

TEST(UiAccess, WithoutEitherNobodyGetsIn) {
    UiAccess const access(UiAccess::Settings{});
    EXPECT_FALSE(access.is_possible());
    EXPECT_EQ(refusal(access, {"Bearer ", true}),
              "403 only the status is shown here: there is neither --ui-token-file nor --tls-ca-file");
}

TEST(UiAccess, TokensAreReadFromOneLine) {
    std::string path = ::testing::TempDir() + "token.XXXXXX";
    int const fd = ::mkstemp(path.data());
    ASSERT_GE(fd, 0);
    ::close(fd);
    auto const read = [&path](std::string const& text) {
        std::ofstream(path) << text;
        auto const found = read_token(path);
        return found ? *found : found.error().text().substr(path.size());
    };
    EXPECT_EQ(read("0123456789abcdef\n"), token);
    EXPECT_EQ(read("0123456789abcde\n"), ": the token has fewer than 16 characters");
    EXPECT_EQ(read(std::string(1025, 'x')), ": the token has more than 1024 characters");
    EXPECT_EQ(read(std::string(1024, 'x') + "\n"), std::string(1024, 'x'));
    for (char const* const odd : {"0123456789abcdef 1", "0123456789abcdef\n\n", "0123456789abcdef\r\n"})
        EXPECT_EQ(read(odd), ": the token has characters other than printable ASCII without blanks");
    ::unlink(path.c_str());
    EXPECT_EQ(read_token(path).error().text(), "cannot open " + path + ": No such file or directory");
    EXPECT_FALSE(read_token("/dev/zero")) << "a file without an end is not read to it";
}

TEST(UiRequest, CommandsAreOneOfFive) {
    auto const call = [](std::string_view body) {
        auto const found = parse_ui_command(body);
        return found ? found->method.substr(found->method.rfind('.') + 1) + found->parameters + found->text
                     : found.error();
    };
    EXPECT_EQ(call(R"({"command":"restart","program":"web","process":2})"),
              R"(Restart{"program":"web","process":2,"alone":true}restart web 2)");
    EXPECT_EQ(call(R"({"command":"start","program":"web"})"), R"(Start{"program":"web","alone":true}start web)");
    EXPECT_EQ(call(R"({"command":"stop","program":""})"), R"(Stop{"program":"","alone":true}stop "")");
    EXPECT_EQ(call(R"({"command":"signal","program":"a\"}\n","signal":"HUP"})"),
              R"(Signal{"program":"a\"}\n","signal":"HUP"}signal "a\"}\n" HUP)");
    EXPECT_EQ(call(R"({"command":"reload"})"), "Reload{}reload");
    EXPECT_EQ(call(R"({"command":"upgrade","program":"web"})"),
              R"("command" is not one of start, stop, restart, signal, reload)");
    EXPECT_EQ(call(R"({"command":"stop","program":"web","wait":true})"), "unknown member wait");
    EXPECT_EQ(call(R"({"command":"stop"})"), R"("program" is not a text of at most 512 bytes)");
    EXPECT_EQ(call(R"({"command":"stop","program":7})"), R"("program" is not a text of at most 512 bytes)");
    EXPECT_EQ(call(R"({"command":"stop","program":"a","process":0})"),
              R"("process" is not a number from 1 to 4294967295)");
    EXPECT_EQ(call(R"({"command":"stop","program":"a","signal":"HUP"})"), R"("stop" has no signal)");
    EXPECT_EQ(call(R"({"command":"signal","program":"a"})"), R"("signal" is not a text of at most 512 bytes)");
    EXPECT_EQ(call(R"({"command":"reload","program":"a"})"), R"("reload" has no program)");
    for (std::string_view const body : {"", "[]", "{", "null", R"({"command":"stop","program":"a","program":"b"})"})
        EXPECT_EQ(call(body), "the body is not a JSON object") << body;
}

TEST(UiRequest, LogsAndEventsGoOnBehindANumber) {
    EXPECT_EQ(parse_ui_logs(R"({"program":"web","after":5})")->parameters,
              R"({"program":"web","after":5,"lines":300})");
    EXPECT_EQ(parse_ui_logs(R"({"program":"web","after":-1})").error(),
              R"("after" is not a number from 0 to 9223372036854775807)");
    EXPECT_EQ(parse_ui_logs(R"({"program":"web","follow":true})").error(), "unknown member follow");
    EXPECT_EQ(*parse_ui_after("{}"), 0U);
    EXPECT_EQ(*parse_ui_after(R"({"after":7})"), 7U);
    EXPECT_EQ(parse_ui_after(R"({"after":"7"})").error(), R"("after" is not a number from 0 to 9223372036854775807)");
}

json::Node read(std::string const& text) {
    json::ProblemList problems{1};
    return *json::read_json(text, json::Limits{}, problems);
}

TEST(UiFeed, EventsAreNumberedAndBounded) {
    UiEvents events;
    events.add(read("{}"));
    EXPECT_EQ(events.text_after(0), R"({"events":[],"next":0,"missed":false})");
    events.add(read(R"({"event":{"event":"a"}})"));
    events.add(read(R"({"lost":3})"));
    EXPECT_EQ(events.text_after(0), R"({"events":[{"event":"a"},{"lost":3}],"next":2,"missed":false})");
    EXPECT_EQ(events.text_after(1), R"({"events":[{"lost":3}],"next":2,"missed":false})");
    EXPECT_EQ(events.text_after(9), R"({"events":[{"event":"a"},{"lost":3}],"next":2,"missed":true})");
    events.add(read(R"({"event":{"time":"t","event":"b","message":")" + std::string(5000, 'x') + R"("}})"));
    EXPECT_EQ(events.text_after(2), R"({"events":[{"time":"t","event":"b","message":")" + std::string(500, 'x') +
                                        R"(..."}],"next":3,"missed":false})");
    for (std::size_t i = 0; i < 2 * UiEvents::most; ++i)
        events.add(read(R"({"event":{"message":")" + std::string(3000, 'y') + R"("}})"));
    EXPECT_LE(events.text_after(0).size(), UiEvents::most_bytes + UiEvents::most + 100);
    EXPECT_NE(events.text_after(1).find(R"("missed":true)"), std::string::npos);
}

TEST(UiFeed, APageLearnsThatTheAgentIsAnother) {
    UiEvents events(1000);
    EXPECT_EQ(events.text_after(0), R"({"events":[],"next":1000,"missed":false})");
    EXPECT_FALSE(events.has_news_after(0));
    EXPECT_FALSE(events.has_news_after(1000));
    EXPECT_TRUE(events.has_news_after(5));
    events.add(read(R"({"event":{"event":"a"}})"));
    EXPECT_TRUE(events.has_news_after(0));
    EXPECT_EQ(events.text_after(0), R"({"events":[{"event":"a"}],"next":1001,"missed":false})");
    EXPECT_EQ(events.text_after(5), R"({"events":[{"event":"a"}],"next":1001,"missed":true})");
}

TEST(UiFeed, ABreakIsAnEvent) {
    UiEvents events;
    events.add(read(R"({"event":{"event":"a"}})"));
    events.note_break();
    events.note_break();
    EXPECT_EQ(events.last(), 1U) << "as long as nothing comes, nothing is missing";
    events.add(read(R"({"event":{"event":"b"}})"));
    EXPECT_EQ(events.text_after(1),
              R"({"events":[{"event":"events-missed",)"
              R"("message":"the launcher was out of reach; events may be missing here"},{"event":"b"}],)"
              R"("next":3,"missed":false})");
}

TEST(UiFeed, ConfigurationsAreKeptWithoutTheEnvironment) {
    UiConfigurations kept;
    kept.add(read(R"({"configuration":null,"environment":{"A":"secret"},"rejection":[]})"));
    EXPECT_EQ(kept.text(), R"({"configurations":[],"rejections":[]})");
    kept.add(read(R"({"configuration":"one","environment":{"A":"secret"},"accepted_at":1.5,"rejection":[]})"));
    kept.add(read(R"({"configuration":"one","accepted_at":1.5,"rejection":["bad"],"rejected_at":2.5})"));
    kept.add(read(R"({"configuration":"one","accepted_at":1.5,"rejection":["bad"],"rejected_at":2.5})"));
    EXPECT_EQ(kept.text(), R"({"configurations":[{"accepted_at":1.5,"text":"one"}],)"
                           R"("rejections":[{"rejected_at":2.5,"reasons":["bad"]}]})");
    for (int i = 0; i < 40; ++i) {
        kept.add(read(R"({"configuration":")" + std::string(200'000, 'z') + R"(","accepted_at":)" + std::to_string(i) +
                      R"(,"rejection":["no"],"rejected_at":)" + std::to_string(i) + "}"));
    }
    EXPECT_LE(kept.text().size(), UiConfigurations::most_bytes + 10'000);
    EXPECT_NE(kept.text().find(R"("accepted_at":39)"), std::string::npos);
}

}  // namespace
}  // namespace triton::agent
