#include "host/image/proxies.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace triton::image {
namespace {

TEST(Proxies, AreReadAsCurlReadsThem) {
    struct Row {
        std::string_view text, url, user, password;
    };
    for (Row const& row : {Row{"http://proxy:3128", "http://proxy:3128", "", ""},
                           {"proxy.example:3128/", "http://proxy.example:3128", "", ""},
                           {"https://10.0.0.1", "https://10.0.0.1", "", ""},
                           {"socks5h://[::1]:1080", "socks5h://[::1]:1080", "", ""},
                           {"http://user:pass@proxy:1", "http://proxy:1", "user", "pass"},
                           {"http://us%40er:p%3Aa@x@proxy:1", "http://proxy:1", "us@er", "p:a@x"},
                           {"http://user@proxy:1", "http://proxy:1", "user", ""}}) {
        auto const proxy = parse_proxy(row.text, "x");
        ASSERT_TRUE(proxy) << row.text;
        EXPECT_EQ(*proxy, (role::Proxy{std::string(row.url), std::string(row.user), std::string(row.password)}));
    }
    for (std::string_view const text :
         {"", "http://", "ftp://proxy:1", "http://proxy:99999", "http://us%0aer:p@proxy:1", "http://secret%:p@proxy:1",
          "http://secret@", "http://pro xy", "file:///etc"})
        EXPECT_EQ(parse_proxy(text, "HTTPS_PROXY in the environment").error().text(),
                  "HTTPS_PROXY in the environment is not the URL of a proxy (for example http://proxy.example:3128)")
            << text;
}

role::Proxies of(std::map<std::string, std::string> variables) {
    auto const read = proxies_of_environment([&](std::string const& name) { return variables[name]; });
    EXPECT_TRUE(read) << (read ? "" : read.error().text());
    return read.value_or(role::Proxies{});
}

TEST(Proxies, AreThoseOfTheEnvironment) {
    EXPECT_EQ(of({}), role::Proxies{});
    EXPECT_EQ(of({{"NO_PROXY", "x"}}), role::Proxies{});
    auto const both = of({{"HTTP_PROXY", "a:1"}, {"https_proxy", "http://b:2"}, {"HTTPS_PROXY", "http://c:3"}});
    EXPECT_EQ(both.http.url, "http://a:1");
    EXPECT_EQ(both.https.url, "http://b:2");
    EXPECT_EQ(both.no_proxy, "localhost,127.0.0.0/8,::1");
    auto const all = of({{"all_proxy", "socks5://s:1"}, {"http_proxy", "http://a:1"}});
    EXPECT_EQ(all.http.url, "http://a:1");
    EXPECT_EQ(all.https.url, "socks5://s:1");
    auto const except = [](std::string const& list) { return of({{"ALL_PROXY", "p:1"}, {"NO_PROXY", list}}).no_proxy; };
    EXPECT_EQ(except("a.example, .b.example *.c.example,10.0.0.0/8,d.example:5000,fd00::1"),
              "localhost,127.0.0.0/8,::1,a.example,.b.example,.c.example,10.0.0.0/8,d.example,fd00::1");
    EXPECT_EQ(except("a,*"), "*");
    auto const bad = proxies_of_environment(
        [](std::string const& name) { return std::string(name == "ALL_PROXY" ? "http://u:secret@" : ""); });
    EXPECT_EQ(bad.error().text().find("secret"), std::string::npos);
    EXPECT_TRUE(bad.error().text().starts_with("ALL_PROXY in the environment is not"));
}

}  // namespace
}  // namespace triton::image
