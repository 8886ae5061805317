#include "host/cri/tickets/tickets.h"

#include <gtest/gtest.h>

#include "host/cri/tickets/stream_server.h"

namespace triton::cri {

namespace {

using monitor::Kind;

TEST(Tickets, AreGoodOnceForTheirKindWithinAMinute) {
    TimePoint const now{};
    Tickets tickets;
    Ticket const ticket{.kind = Kind::attach, .id = "c", .streams = 3};
    std::string const token = tickets.issue(ticket, now).value();
    EXPECT_EQ(token.size(), 64U);
    EXPECT_EQ(tickets.redeem(token, Kind::attach, now), ticket);
    EXPECT_EQ(tickets.redeem(token, Kind::attach, now), std::nullopt);
    std::string const late = tickets.issue(ticket, now).value();
    EXPECT_NE(late, token);
    EXPECT_EQ(tickets.redeem(late, Kind::attach, now + Tickets::lifetime), std::nullopt);
    std::string const other = tickets.issue(ticket, now).value();
    EXPECT_EQ(tickets.redeem(other, Kind::execute_streams, now), std::nullopt);
    EXPECT_EQ(tickets.size(), 0U);
}

TEST(Tickets, WrongTokensFindNothing) {
    Tickets tickets;
    std::string const token = tickets.issue({.id = "c"}, TimePoint{}).value();
    for (std::string const& wrong : {std::string(), token.substr(1), token + "0", std::string(64, '0')})
        EXPECT_EQ(tickets.redeem(wrong, Kind::attach, TimePoint{}), std::nullopt);
    // Half of it is no help: who has it has one try.
    std::string half = token;
    half.back() = half.back() == '0' ? '1' : '0';
    EXPECT_EQ(tickets.redeem(half, Kind::attach, TimePoint{}), std::nullopt);
    EXPECT_EQ(tickets.redeem(token, Kind::attach, TimePoint{}), std::nullopt);
}

TEST(Tickets, AreBounded) {
    TimePoint const now{};
    Tickets tickets;
    for (std::size_t i = 0; i < Tickets::most; ++i)
        ASSERT_TRUE(tickets.issue({.id = "c"}, now));
    auto const refused = tickets.issue({.id = "c"}, now);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::exhausted);
    EXPECT_EQ(refused.error().text(), "1000 requests wait for their clients already");
    EXPECT_TRUE(tickets.issue({.id = "c"}, now + Tickets::lifetime));
    EXPECT_EQ(tickets.size(), 1U);
}

TEST(StreamAddress, IsOfThisMachine) {
    EXPECT_EQ(parse_stream_address("127.0.0.1:0").value().port, 0);
    EXPECT_EQ(parse_stream_address("[::1]:10250").value().host, "::1");
    EXPECT_EQ(parse_stream_address("10.0.0.1:80").error().text(),
              "stream_address 10.0.0.1:80 is not of a loopback interface: streams have no TLS");
    EXPECT_FALSE(parse_stream_address(":80"));
    EXPECT_FALSE(parse_stream_address("x"));
}

}  // namespace

}  // namespace triton::cri
