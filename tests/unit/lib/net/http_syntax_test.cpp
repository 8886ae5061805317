#include "lib/net/http_syntax.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace triton::net {
namespace {

LineVerdict check(std::string text, std::size_t longest = 100) { return check_request_line(text, longest); }

TEST(HttpSyntax, FirstLines) {
    using enum LineVerdict;
    struct Row {
        std::string_view text;
        LineVerdict verdict;
    };
    Row const rows[] = {
        {"", incomplete},
        {"GET", incomplete},
        {"GET / HTTP/1.1", incomplete},
        {"GET / HTTP/1.1\r", incomplete},
        {"GET / HTTP/1.1\r\n", good},
        {"GET / HTTP/1.0\r\nHost: x", good},
        {"GET / HTTP/1.7\r\n", good},
        {"GET /\r\n", bad},
        {"GET / HTTP/1.1\n", bad},
        {"\n", bad},
        {"GET / HTTP/11\r\n", bad},
        {"GET / HTTP/1.1 \r\n", bad},
        {"GET / HTTP/a.b\r\n", bad},
        {"GET / HTTP/2.0\r\n", bad_version},
        {"GET / HTTP/0.9\r\n", bad_version},
        {"\x16\x03\x01", bad},
        {"G(T", bad},
        {"G\tT / HTTP/1.1\r\n", bad},
    };
    for (Row const& row : rows)
        EXPECT_EQ(check(std::string(row.text)), row.verdict) << row.text;
    EXPECT_EQ(check("GET /" + std::string(95, 'x')), incomplete);
    EXPECT_EQ(check("GET /" + std::string(96, 'x')), too_long);
    EXPECT_EQ(check("GET /" + std::string(96, 'x') + " HTTP/1.1\r\n"), too_long);
}

TEST(HttpSyntax, ALaterMinorVersionBecomesTheLatestThatIsKnown) {
    std::string text = "GET / HTTP/1.2\r\nHost: 1.2\r\n";
    EXPECT_EQ(check_request_line(text, 100), LineVerdict::good);
    EXPECT_EQ(text, "GET / HTTP/1.1\r\nHost: 1.2\r\n");
    text = "GET / HTTP/1.0\r\n";
    EXPECT_EQ(check_request_line(text, 100), LineVerdict::good);
    EXPECT_EQ(text, "GET / HTTP/1.0\r\n");
}

TEST(HttpSyntax, Targets) {
    EXPECT_EQ(parse_target("/a?b=c#d"), (Target{"", "/a", "b=c"}));
    EXPECT_EQ(parse_target("/a#d?e"), (Target{"", "/a", ""}));
    EXPECT_EQ(parse_target("http://host:1/a?b"), (Target{"host:1", "/a", "b"}));
    EXPECT_EQ(parse_target("HTTPS://[::1]?b"), (Target{"[::1]", "/", "b"}));
    EXPECT_EQ(parse_target("http://host"), (Target{"host", "/", ""}));
    EXPECT_EQ(parse_target("*"), (Target{"", "*", ""}));
    EXPECT_EQ(parse_target("ftp://host/a"), (Target{"", "ftp://host/a", ""}));
    EXPECT_EQ(parse_target("/a://b"), (Target{"", "/a://b", ""}));
    EXPECT_EQ(parse_target(""), (Target{"", "", ""}));
    for (std::string_view const bad : {"http://", "http:///a", "http://user@host/a", "http://a b/", "http://?x"})
        EXPECT_EQ(parse_target(bad), std::nullopt) << bad;
}

TEST(HttpSyntax, Hosts) {
    for (std::string_view const good :
         {"", "x", "x:", "x:80", "X-y_z.~1", "a%20b", "10.0.0.1:65535", "[::1]", "[::1]:80", "[fe80::1%25eth0]"})
        EXPECT_TRUE(is_host_field(good)) << good;
    for (std::string_view const bad : {"a b", "a@b", "a/b", "a?b", "[::1", "[]", "[::1]x", "x:8o", "x:123456", "a%zz",
                                       "a%2", "x\ty", "a:b:c", "\"a\""})
        EXPECT_FALSE(is_host_field(bad)) << bad;
}

TEST(HttpSyntax, Tokens) {
    EXPECT_TRUE(has_token("close", "close"));
    EXPECT_TRUE(has_token("keep-alive ,\tClose", "close"));
    EXPECT_FALSE(has_token("closed, x-close", "close"));
    EXPECT_FALSE(has_token("", "close"));
}

TEST(HttpSyntax, EscapesAndNumbers) {
    EXPECT_EQ(unescaped("a%20b+c%3f"), "a b+c?");
    EXPECT_EQ(unescaped("%e2%82%AC"), "\xe2\x82\xac");
    for (std::string_view const bad : {"%", "a%2", "%2g", "%-1"})
        EXPECT_EQ(unescaped(bad), std::nullopt) << bad;
    EXPECT_TRUE(is_number("012"));
    for (std::string_view const bad : {"", "+1", "-1", "1 ", "0x1", "1,1"})
        EXPECT_FALSE(is_number(bad)) << bad;
}

}  // namespace
}  // namespace triton::net
