#include "sidecar/agent/routing.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace triton::agent {
namespace {

struct Row {
    std::string_view method;
    std::string_view target;
    Endpoint endpoint;
    RouteError error;
    std::string_view path;
};

TEST(Routing, EveryEndpointByMethodAndTarget) {
    using enum Endpoint;
    Row const rows[] = {
        {"GET", "/ready", Endpoint::ready, RouteError::none, ""},
        {"HEAD", "/ready", Endpoint::ready, RouteError::none, ""},
        {"GET", "/ready?verbose", Endpoint::ready, RouteError::none, ""},
        {"GET", "http://host:1/ready#x", Endpoint::ready, RouteError::none, ""},
        {"GET", "https://host", Endpoint::none, RouteError::not_found, ""},
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
        {"GET", "*", Endpoint::none, RouteError::not_found, ""},
        {"GET", "/", Endpoint::none, RouteError::not_found, ""},
    };
    for (Row const& row : rows) {
        Route const found = route(row.method, row.target);
        EXPECT_EQ(found.endpoint, row.endpoint) << row.target;
        EXPECT_EQ(found.error, row.error) << row.target;
        EXPECT_EQ(found.path, row.path) << row.target;
        EXPECT_EQ(found.is_head, row.method == "HEAD" && row.error == RouteError::none);
    }
    EXPECT_EQ(route("PUT", "/metrics").allowed, "GET, HEAD");
    EXPECT_EQ(route("GET", "/restart").allowed, "POST");
}

TEST(Routing, OpenIsWhatAKubeletAsks) {
    for (std::size_t i = 0; i < endpoint_count; ++i) {
        auto const endpoint = static_cast<Endpoint>(i);
        bool const is_probe =
            endpoint == Endpoint::ready || endpoint == Endpoint::healthz || endpoint == Endpoint::readyz;
        EXPECT_EQ(is_open(endpoint), is_probe) << name_of(endpoint);
    }
}

}  // namespace
}  // namespace triton::agent
