#include "sidecar/agent/routing.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "lib/net/http_router.h"

namespace triton::agent {
namespace {

using net::RouteError;

struct Row {
    std::string_view method;
    std::string_view path;
    Endpoint endpoint;
    RouteError error;
    std::string_view own_path;
};

TEST(Routing, EveryEndpointByMethodAndPath) {
    using enum Endpoint;
    Row const rows[] = {
        {"GET", "/ready", Endpoint::ready, RouteError::none, ""},
        {"HEAD", "/ready", Endpoint::ready, RouteError::none, ""},
        {"POST", "/ready", Endpoint::ready, RouteError::method, ""},
        {"GET", "/readyz", readyz, RouteError::none, ""},
        {"GET", "/healthz", healthz, RouteError::none, ""},
        {"GET", "/metrics", metrics, RouteError::none, ""},
        {"GET", "/v1/status", status, RouteError::none, ""},
        {"GET", "/substitutions", substitutions, RouteError::none, ""},
        {"POST", "/v1/hashes", hashes, RouteError::none, ""},
        {"GET", "/v1/hashes", hashes, RouteError::method, ""},
        {"POST", "/copy_files", copy_files, RouteError::none, ""},
        {"POST", "/copy_binaries", copy_binaries, RouteError::none, ""},
        {"POST", "/copy_libraries", copy_libraries, RouteError::none, ""},
        {"POST", "/copy_monitor_conf", copy_monitor_conf, RouteError::none, ""},
        {"POST", "/v1/stage", stage, RouteError::none, ""},
        {"GET", "/v1/stage", stage, RouteError::method, ""},
        {"POST", "/refresh_certs", refresh_certs, RouteError::none, ""},
        {"POST", "/restart", restart, RouteError::none, ""},
        {"get", "/ready", Endpoint::ready, RouteError::method, ""},
        {"GET", "/check_hash/a/b", check_hash, RouteError::none, "a/b"},
        {"GET", "/check_hash//a", check_hash, RouteError::none, "a"},
        {"GET", "/check_hash/%2Fa", check_hash, RouteError::none, "a"},
        {"GET", "/check_hash/a%20b+c%3f", check_hash, RouteError::none, "a b+c?"},
        {"GET", "/check_hash/../a", check_hash, RouteError::none, "../a"},  // confining is somebody else's
        {"GET", "/is_present/%e2%82%ac", is_present, RouteError::none, "\xe2\x82\xac"},
        {"GET", "/check_hash/", check_hash, RouteError::bad_path, ""},
        {"GET", "/check_hash", Endpoint::none, RouteError::not_found, ""},
        {"GET", "/check_hash/%00", check_hash, RouteError::bad_path, ""},
        {"GET", "/check_hash/a%", check_hash, RouteError::bad_path, ""},
        {"GET", "/check_hash/a%2", check_hash, RouteError::bad_path, ""},
        {"GET", "/check_hash/a%2g", check_hash, RouteError::bad_path, ""},
        {"GET", "/check_hash//", check_hash, RouteError::bad_path, ""},
        {"PUT", "/check_hash/a", check_hash, RouteError::method, ""},
        {"GET", "", Endpoint::none, RouteError::not_found, ""},
        {"GET", "/", Endpoint::none, RouteError::not_found, ""},
    };
    net::HttpRouter const router(endpoint_routes({}));
    for (Row const& row : rows) {
        net::RouteMatch const found = router.match(row.method, row.path);
        EXPECT_EQ(endpoint_of(found.route), row.endpoint) << row.path;
        EXPECT_EQ(found.error, row.error) << row.path;
        EXPECT_EQ(found.path, row.own_path) << row.path;
    }
    EXPECT_EQ(router.match("PUT", "/metrics").allowed, "GET, HEAD");
    EXPECT_EQ(router.match("GET", "/restart").allowed, "POST");
}

TEST(Routing, OpenAndUrgentIsWhatAKubeletAsks) {
    for (bool const has_open_metrics : {false, true}) {
        auto const routes = endpoint_routes({.has_open_metrics = has_open_metrics});
        ASSERT_EQ(routes.size(), endpoint_count - 1);
        for (std::size_t i = 0; i < routes.size(); ++i) {
            Endpoint const endpoint = endpoint_of(i);
            bool const is_probe =
                endpoint == Endpoint::ready || endpoint == Endpoint::healthz || endpoint == Endpoint::readyz;
            EXPECT_EQ(routes[i].is_urgent, is_probe) << name_of(endpoint);
            EXPECT_EQ(routes[i].is_open, is_probe || (has_open_metrics && endpoint == Endpoint::metrics))
                << name_of(endpoint);
        }
    }
    EXPECT_EQ(endpoint_of(endpoint_count), Endpoint::none);
    EXPECT_EQ(name_of(endpoint_of(12345)), "unknown");
}

TEST(Routing, AnswersAreThoseOfTheTable) {
    EXPECT_TRUE(may_answer(Endpoint::ready, 200));
    EXPECT_TRUE(may_answer(Endpoint::ready, 403)) << "of a page of another server";
    EXPECT_TRUE(may_answer(Endpoint::ready, 405));
    EXPECT_FALSE(may_answer(Endpoint::ready, 503));
    EXPECT_TRUE(may_answer(Endpoint::none, 414));
}

}  // namespace
}  // namespace triton::agent
