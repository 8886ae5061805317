#include "sidecar/agent/probe_order.h"

#include <optional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "sidecar/control/control_reply.h"

namespace triton::agent {
namespace {

std::optional<ProbeOrder> parse(std::string_view parameters) {
    auto const reply = sidecar::control::parse_control_reply(R"({"parameters":)" + std::string(parameters) + "}");
    EXPECT_TRUE(reply);
    return parse_probe_order(reply->parameters);
}

TEST(ProbeOrder, Replies) {
    EXPECT_FALSE(parse("{}"));
    EXPECT_FALSE(parse(R"({"id":null,"kind":null,"target":null,"timeout_seconds":null})"));
    EXPECT_FALSE(parse(R"({"id":"7","kind":"tcp"})"));
    EXPECT_EQ(parse(R"({"id":7,"kind":"tcp","target":"[::1]:80","timeout_seconds":1.5})"),
              (ProbeOrder{7, "tcp", "[::1]:80", std::chrono::milliseconds(1500)}));
    EXPECT_EQ(parse(R"({"id":7,"kind":"http","timeout_seconds":1,"headers":[{"name":"A","value":"b"}],)"
                    R"("status":[{"first":204,"last":206},{"first":1}],"service":"s"})"),
              (ProbeOrder{7, "http", "", std::chrono::seconds(1), {{"A", "b"}}, {{204, 206}}, "s"}));
    EXPECT_TRUE(parse(R"({"id":7,"kind":null})")->kind.empty()) << "cancelled";
    // What a launcher that has gone mad may say costs neither all time nor none.
    EXPECT_EQ(parse(R"({"id":7,"kind":"tcp","timeout_seconds":1e300})")->timeout, std::chrono::hours(24));
    EXPECT_EQ(parse(R"({"id":7,"kind":"tcp","timeout_seconds":-1})")->timeout, std::chrono::milliseconds(1));
    EXPECT_EQ(parse(R"({"id":7,"kind":"tcp"})")->timeout, std::chrono::milliseconds(1));
}

TEST(ProbeOrder, Targets) {
    ProbeOrder const address{1, "tcp", "localhost:5432", {}};
    auto const where = target_of(address);
    ASSERT_TRUE(where);
    EXPECT_EQ(where->host, "localhost");
    EXPECT_EQ(where->port, 5432);
    ProbeOrder const url{1, "http", "https://[::1]:8443/healthz?full", {}};
    auto const page = target_of(url);
    ASSERT_TRUE(page);
    EXPECT_EQ(page->host, "::1");
    EXPECT_EQ(page->path, "/healthz?full");
    EXPECT_TRUE(page->is_tls);
    EXPECT_FALSE(target_of(ProbeOrder{1, "tcp", "http://localhost/", {}}));
    EXPECT_EQ(target_of(ProbeOrder{1, "udp", "127.0.0.1:1", {}}).error().text(),
              "probes of kind \"udp\" are unknown here");
}

TEST(ProbeOrder, Statuses) {
    EXPECT_TRUE(is_good({}, 200));
    EXPECT_TRUE(is_good({}, 399));
    EXPECT_FALSE(is_good({}, 400));
    ProbeOrder order;
    order.status = {{204, 206}, {418, 418}};
    EXPECT_TRUE(is_good(order, 205));
    EXPECT_TRUE(is_good(order, 418));
    EXPECT_FALSE(is_good(order, 200));
}

TEST(ProbeOrder, Results) {
    EXPECT_EQ(probe_result_json(7, std::nullopt), R"({"id":7,"ok":true,"detail":""})");
    EXPECT_EQ(probe_result_json(-1, "status \"503\""), R"({"id":-1,"ok":false,"detail":"status \"503\""})");
}

}  // namespace
}  // namespace triton::agent
