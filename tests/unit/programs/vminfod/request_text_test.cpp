#include "programs/vminfod/request_text.h"

#include <gtest/gtest.h>

#include "lib/net/page_policy.h"
#include "programs/vminfod/page.h"
#include "programs/vminfod/routes.h"

namespace triton::program {
namespace {

TEST(OwnHost, IsThisHostByAnyPort) {
    for (char const* const host : {"localhost", "LocalHost:9090", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:9090"})
        EXPECT_TRUE(is_own_host(host, "")) << host;
    for (char const* const host :
         {"", ":9090", "evil", "localhost.evil", "evil:9090", "127.0.0.1.evil", "127.0.0.1:", "127.0.0.1:x",
          "127.0.0.2", "[::2]", "::1", "localhost:9090.evil", " localhost", "0.0.0.0", "localhost@evil", "2130706433"})
        EXPECT_FALSE(is_own_host(host, "")) << host;
}

TEST(OwnOrigin, IsThisHostByHttp) {
    for (char const* const origin : {"", "http://localhost:9090", "http://127.0.0.1", "http://[::1]:9090"})
        EXPECT_TRUE(is_own_origin(origin, "")) << origin;
    for (char const* const origin : {"null", "http://", "http://evil", "https://localhost", "localhost", "file://",
                                     "http://localhost/", "http://localhost.evil:9090"})
        EXPECT_FALSE(is_own_origin(origin, "")) << origin;
}

TEST(OwnHost, MayBeTheAddressThatIsServed) {
    for (char const* const host : {"127.0.0.2", "127.0.0.2:9090", "localhost", "127.0.0.1:9090", "[::1]"}) {
        EXPECT_TRUE(is_own_host(host, "127.0.0.2")) << host;
        EXPECT_TRUE(is_own_origin("http://" + std::string(host), "127.0.0.2")) << host;
    }
    for (char const* const host :
         {"127.0.0.3", "127.0.0.22", "127.0.0.2.evil", "127.0.0.2:", "127.0.0.2x", "127.0.0", "evil"}) {
        EXPECT_FALSE(is_own_host(host, "127.0.0.2")) << host;
        EXPECT_FALSE(is_own_origin("http://" + std::string(host), "127.0.0.2")) << host;
    }
}

TEST(Parameters, AreReadWithoutEscapes) {
    using List = std::vector<Parameter>;
    EXPECT_EQ(parse_parameters(""), List());
    EXPECT_EQ(parse_parameters("full"), List({{"full", ""}}));
    EXPECT_EQ(parse_parameters("&a=1&&b%20c=%3D=&"), List({{"a", "1"}, {"b c", "=="}}));
    EXPECT_EQ(parse_parameters("=1").error().text(), "the query has a parameter without a readable name");
    EXPECT_EQ(parse_parameters("%zz=1").error().text(), "the query has a parameter without a readable name");
    EXPECT_EQ(parse_parameters("a=%f").error().text(), "parameter \"a\" has a bad escape");
    std::string many;
    for (int i = 0; i < 65; ++i)
        many += "a=1&";
    EXPECT_EQ(parse_parameters(many).error().text(), "the query has more than 64 parameters");
}

TEST(Parameters, HaveKnownKeysAndFlags) {
    std::vector<Parameter> const parameters{{"a", ""}, {"b", "true"}, {"c", "0"}, {"d", "maybe"}, {"b", "false"}};
    EXPECT_TRUE(check_keys(parameters, {"a", "b", "c", "d"}));
    EXPECT_EQ(check_keys(parameters, {"a", "b", "c"}).error().text(), "unknown parameter \"d\"");
    EXPECT_EQ(flag_of(parameters, "a"), true);
    EXPECT_EQ(flag_of(parameters, "b"), false);  // the last one counts
    EXPECT_EQ(flag_of(parameters, "c"), false);
    EXPECT_EQ(flag_of(parameters, "d").error().text(), "parameter \"d\" is true or false");
    EXPECT_EQ(flag_of(parameters, "e"), false);
    EXPECT_EQ(value_of(parameters, "e"), nullptr);
}

TEST(Routes, HaveNamesAndUrgentOnes) {
    net::HttpRouter const router(endpoint_routes());
    EXPECT_EQ(endpoint_of(router.match("GET", "/").route), Endpoint::page);
    EXPECT_EQ(endpoint_of(router.match("HEAD", "/vms").route), Endpoint::machines);
    auto const one = router.match("GET", "/vms/5c2f");
    EXPECT_EQ(endpoint_of(one.route), Endpoint::machine);
    EXPECT_EQ(one.path, "5c2f");
    EXPECT_TRUE(router.row(one.route).is_urgent);
    EXPECT_EQ(router.match("POST", "/vms").error, net::RouteError::method);
    EXPECT_EQ(router.match("GET", "/vm").error, net::RouteError::not_found);
    EXPECT_EQ(endpoint_of(router.match("GET", "/vm").route), Endpoint::none);
    EXPECT_EQ(name_of(Endpoint::none), "unknown");
}

TEST(Page, AllowsItsOwnScriptOnly) {
    std::string const policy = net::page_policy("<style>a</style><script>b</script><script src=x></script>");
    EXPECT_EQ(policy,
              "default-src 'none'; script-src 'sha256-PiPoFgA5WUoziU9lZOGxNIu9egCI1CxKy3PurtWcAJ0='; style-src "
              "'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='; img-src data:; connect-src 'self'; base-uri "
              "'none'; form-action 'none'; frame-ancestors 'none'");
    EXPECT_NE(net::page_policy("x").find("script-src 'none'; style-src 'none';"), std::string::npos);
    EXPECT_NE(net::page_policy(page()).find("script-src 'sha256-"), std::string::npos);
    EXPECT_TRUE(page().ends_with("</html>\n"));
}

}  // namespace
}  // namespace triton::program
