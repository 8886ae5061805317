#include "host/cri/stream/negotiation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/cri/stream/command_status.h"

namespace triton::cri::stream {

namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string const token(64, 'a');
std::string const spdy = "Connection: keep-alive, upgrade\r\nUpgrade: SPDY/3.1\r\n";
std::string const websocket =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    "dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// The upgrade's first line and protocol, or the status of the refusal.
std::string outcome(std::string const& line, std::string const& fields) {
    auto const head = parse_request_head(line + " HTTP/1.1\r\n" + fields + "\r\n");
    if (!head) return "bad";
    auto const result = negotiate(*head);
    if (auto const* const refusal = std::get_if<Refusal>(&result)) return refusal->answer.substr(9, 3);
    auto const& upgrade = std::get<Upgrade>(result);
    return "v" + std::to_string(upgrade.version) + (upgrade.is_websocket ? " websocket" : " spdy") +
           (upgrade.is_base64 ? " base64" : "") + (upgrade.is_tunnel ? " tunnel" : "");
}

TEST(Negotiation, TakesTheFirstProtocolOfTheClientThatThereIs) {
    std::string const each = "X-Stream-Protocol-Version: ";
    struct Case {
        std::string line;
        std::string fields;
        std::string expected;
    };
    for (Case const& one : {
             Case{"POST /exec/" + token, spdy + each + "v5.channel.k8s.io\r\n" + each + "v4.channel.k8s.io\r\n",
                  "v4 spdy"},
             Case{"GET /attach/" + token + "?x=1", spdy + each + "v9.x, v2.channel.k8s.io,v4.channel.k8s.io\r\n",
                  "v2 spdy"},
             Case{"POST /portforward/" + token, spdy + each + "portforward.k8s.io\r\n", "v1 spdy"},
             Case{"POST /exec/" + token, spdy + each + "portforward.k8s.io\r\n", "403"},
             Case{"POST /exec/" + token, spdy, "400"},
             Case{"POST /exec/" + token, spdy + each + "\r\n", "400"},
             Case{"POST /exec/" + token, "Upgrade: SPDY/3.1\r\n" + each + "v4.channel.k8s.io\r\n", "400"},
             Case{"POST /exec/" + token, "Content-Length: 1\r\n" + spdy + each + "v4.channel.k8s.io\r\n", "400"},
             Case{"PUT /exec/" + token, spdy + each + "v4.channel.k8s.io\r\n", "405"},
             Case{"GET /exec/" + token, "", "400"},
             Case{"GET /exec/" + token.substr(1), spdy, "404"},
             Case{"GET /exec/" + std::string(64, 'G'), spdy, "404"},
             Case{"GET /", spdy, "404"},
             Case{"GET /exec/" + token, websocket + "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n", "v5 websocket"},
             Case{"GET /exec/" + token, websocket + "Sec-WebSocket-Protocol: x, base64.channel.k8s.io\r\n",
                  "v1 websocket base64"},
             Case{"GET /exec/" + token, websocket, "v1 websocket"},
             Case{"GET /exec/" + token, websocket + "Sec-WebSocket-Protocol: x\r\n", "403"},
             Case{"POST /exec/" + token, websocket, "400"},
             Case{"GET /portforward/" + token, websocket, "v4 websocket"},
             Case{"GET /portforward/" + token, websocket + "Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n",
                  "v1 websocket tunnel"},
             Case{"GET /exec/" + token, "Connection: Upgrade\r\nUpgrade: websocket\r\n", "426"},
             Case{"GET  /exec/x", "", "bad"},
             Case{"GET /exec", "no colon\r\n", "bad"},
             Case{"GET /exec", "Bad Name: x\r\n", "bad"},
             Case{"GET /exec", std::string("A: x\0y\r\n", 8), "bad"},
         })
        EXPECT_EQ(outcome(one.line, one.fields), one.expected) << one.line << "\n" << one.fields;
}

TEST(Negotiation, AnswersNameTheProtocol) {
    auto const head = parse_request_head("GET /exec/" + token + " HTTP/1.1\r\n" + websocket +
                                         "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n");
    auto const upgrade = std::get<Upgrade>(negotiate(head.value()));
    EXPECT_EQ(upgrade.token, token);
    EXPECT_THAT(upgrade.answer, StartsWith("HTTP/1.1 101 "));
    EXPECT_THAT(upgrade.answer, HasSubstr("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    EXPECT_THAT(upgrade.answer, HasSubstr("Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n"));
}

TEST(CommandStatus, IsWhatClientsRead) {
    EXPECT_EQ(command_status(0, true), R"({"metadata":{},"status":"Success"})");
    EXPECT_EQ(command_status(7, true), R"({"metadata":{},"status":"Failure","reason":"NonZeroExitCode",)"
                                       R"("message":"command terminated with non-zero exit code: 7",)"
                                       R"("details":{"causes":[{"reason":"ExitCode","message":"7"}]}})");
    EXPECT_EQ(command_status(fail(ErrorKind::internal, "no \"way\""), true),
              R"({"metadata":{},"status":"Failure","reason":"InternalError",)"
              R"("message":"Internal error occurred: no \"way\"","code":500})");
    EXPECT_EQ(command_status(0, false), "");
    EXPECT_EQ(command_status(7, false), "command terminated with non-zero exit code: 7");
}

TEST(TerminalSizes, LastOneCounts) {
    TerminalSizes sizes;
    EXPECT_EQ(sizes.receive(R"({"Width":80,"Height":24}{"Width":81,"Height":25}{"Wid)"), (TerminalSize{81, 25}));
    EXPECT_EQ(sizes.receive(R"(th":1,"Height":2})"), (TerminalSize{1, 2}));
    EXPECT_EQ(sizes.receive(R"(}}{"Width":"x"}{}[1])"), std::nullopt);
    EXPECT_EQ(sizes.receive("{" + std::string(100'000, 'x')), std::nullopt);
    EXPECT_EQ(sizes.receive(R"({"Width":3,"Height":4})"), (TerminalSize{3, 4}));
}

}  // namespace

}  // namespace triton::cri::stream
