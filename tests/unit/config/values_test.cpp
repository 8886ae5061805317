// Values of a document that have a notation of their own: sizes, addresses of sockets, lists of CPUs.

#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/cpu_list.h"
#include "config/probe_target.h"
#include "config/socket_address.h"
#include "lib/base/size.h"

namespace triton::config {
namespace {

TEST(Size, Reads) {
    struct Row {
        std::string_view text;
        std::optional<std::uint64_t> value;
    };
    constexpr std::uint64_t ki = 1024;
    Row const rows[] = {
        {"0", 0},
        {"4096", 4096},
        {"64Ki", 64 * ki},
        {"64Mi", 64 * ki * ki},
        {"1.5Gi", 3 * ki * ki * ki / 2},
        {"2Ti", 2 * ki * ki * ki * ki},
        {"1k", 1000},
        {"10M", 10'000'000},
        {"0.5G", 500'000'000},
        {"3T", 3'000'000'000'000},
        {"0.0009765625Ki", 1},
        {"0.3333", 0},
        {"1.99999999999999999999999k", 1999},
        {"18446744073709551615", UINT64_MAX},
        {"18446744073709551616", std::nullopt},
        {"16777216Ti", std::nullopt},
        {"16777215.9999999999999999999Ti", UINT64_MAX},
        {"18446744.073709551615T", UINT64_MAX},
        {"18446744.073709551616T", std::nullopt},  // only the fraction is too much
        {"", std::nullopt},
        {"Mi", std::nullopt},
        {"-1", std::nullopt},
        {"+1", std::nullopt},
        {"1.", std::nullopt},
        {".5Mi", std::nullopt},
        {"64 Mi", std::nullopt},
        {"64mi", std::nullopt},
        {"64K", std::nullopt},
        {"64MB", std::nullopt},
        {"1e3", std::nullopt},
        {"0x10", std::nullopt},
    };
    for (Row const& row : rows)
        EXPECT_EQ(parse_size(row.text), row.value) << row.text;
}

TEST(Size, ReadsAnyNumberOfBytes) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 10'000; ++i) {
        std::uint64_t const bytes = random() >> (random() % 64) << (random() % 40);
        EXPECT_EQ(parse_size(std::to_string(bytes)), bytes);
    }
}

TEST(SocketAddress, Reads) {
    struct Row {
        std::string_view text;
        SocketAddress address;
        std::string_view again = {};
    };
    using enum SocketKind;
    Row const rows[] = {
        {"tcp:127.0.0.1:80", {tcp, "127.0.0.1", 80, ""}},
        {"tcp:[::]:80", {tcp, "::", 80, ""}},
        {"tcp::80", {tcp, "", 80, ""}},
        {"udp:[fd00::1]:53", {udp, "fd00::1", 53, ""}},
        {"udp:0.0.0.0:0", {udp, "0.0.0.0", 0, ""}},
        {"tcp::00080", {tcp, "", 80, ""}, "tcp::80"},
        {"unix:/run/a b:c", {unix_stream, "", 0, "/run/a b:c"}},
        {"unixgram:/dev/log", {unix_datagram, "", 0, "/dev/log"}},
        {"fifo:/run/f", {fifo, "", 0, "/run/f"}},
    };
    for (Row const& row : rows) {
        auto const address = parse_socket_address(row.text);
        ASSERT_TRUE(address) << row.text << ": " << address.error();
        EXPECT_TRUE(*address == row.address) << row.text;
        EXPECT_EQ(format_socket_address(*address), row.again.empty() ? row.text : row.again);
    }
}

TEST(SocketAddress, Refuses) {
    struct Row {
        std::string text;
        std::string error;
    };
    std::string const long_path = "/" + std::string(107, 'a');
    Row const rows[] = {
        {"", "needs a kind before a colon: tcp, udp, unix, unixgram or fifo"},
        {"/run/s", "needs a kind before a colon: tcp, udp, unix, unixgram or fifo"},
        {"tpc:0.0.0.0:80", R"(tpc is not one of tcp, udp, unix, unixgram, fifo; did you mean "tcp"?)"},
        {"http:0.0.0.0:80", "http is not one of tcp, udp, unix, unixgram, fifo"},
        {"TCP::80", R"(TCP is not one of tcp, udp, unix, unixgram, fifo; did you mean "tcp"?)"},
        {"tcp:80", "has no port"},
        {"tcp:0.0.0.0:", R"("" is not a port)"},
        {"tcp:0.0.0.0:http", "http is not a port"},
        {"tcp:0.0.0.0:65536", "65536 is not a port"},
        {"tcp:127.0.0.1:80x", "80x is not a port"},
        {"tcp:127.0.0.1:80 ", R"("80 " is not a port)"},
        {"tcp:0.0.0.0:-1", "-1 is not a port"},
        {"tcp:localhost:80", "localhost is not an IP address"},
        {"tcp:::1:80", "an IPv6 address must be in brackets: [::1]"},
        {"tcp:[]:80", R"("" is not an IPv6 address)"},
        {"tcp:[127.0.0.1]:80", "127.0.0.1 is not an IPv6 address"},
        {"tcp:[fe80::1%eth0]:80", "fe80::1%eth0 is not an IPv6 address"},
        {"tcp:127.1:80", "127.1 is not an IP address"},
        {"unix:run/s", "run/s is not an absolute path"},
        {"unix:@name", "@name is not an absolute path"},
        {"unix:", R"("" is not an absolute path)"},
        {"unix:" + long_path, "the path of a socket has at most 107 bytes (unix(7))"},
        {"unixgram:" + long_path, "the path of a socket has at most 107 bytes (unix(7))"},
    };
    for (Row const& row : rows) {
        auto const address = parse_socket_address(row.text);
        ASSERT_FALSE(address) << row.text;
        EXPECT_EQ(address.error(), row.error) << row.text;
    }
    EXPECT_TRUE(parse_socket_address("unix:" + long_path.substr(0, 107)));
    EXPECT_TRUE(parse_socket_address("fifo:" + long_path));
}

TEST(ProbeTarget, ReadsAddresses) {
    struct Row {
        std::string_view text;
        ProbeTarget target;
    };
    Row const rows[] = {
        {"127.0.0.1:80", {.host = "127.0.0.1", .port = 80}},
        {"0.0.0.0:65535", {.host = "0.0.0.0", .port = 65535}},
        {"localhost:1", {.host = "localhost", .port = 1}},
        {"[::1]:4500", {.host = "::1", .port = 4500}},
        {"[::ffff:10.0.0.1]:080", {.host = "::ffff:10.0.0.1", .port = 80}},
    };
    for (Row const& row : rows) {
        auto const target = parse_probe_address(row.text);
        ASSERT_TRUE(target) << row.text << ": " << target.error();
        EXPECT_EQ(*target, row.target) << row.text;
    }
}

TEST(ProbeTarget, ReadsUrls) {
    struct Row {
        std::string_view text;
        ProbeTarget target;
    };
    Row const rows[] = {
        {"http://127.0.0.1", {.host = "127.0.0.1", .port = 80, .path = "/"}},
        {"https://localhost", {.host = "localhost", .port = 443, .is_tls = true, .path = "/"}},
        {"http://[::1]", {.host = "::1", .port = 80, .path = "/"}},
        {"https://[::1]:8443/", {.host = "::1", .port = 8443, .is_tls = true, .path = "/"}},
        {"http://10.0.0.1:8080/live?full=1&x=%20/:@",
         {.host = "10.0.0.1", .port = 8080, .path = "/live?full=1&x=%20/:@"}},
        {"http://localhost/a:1", {.host = "localhost", .port = 80, .path = "/a:1"}},
        {"http://localhost//", {.host = "localhost", .port = 80, .path = "//"}},
    };
    for (Row const& row : rows) {
        auto const target = parse_probe_url(row.text);
        ASSERT_TRUE(target) << row.text << ": " << target.error();
        EXPECT_EQ(*target, row.target) << row.text;
    }
}

TEST(ProbeTarget, SaysWhatIsWrong) {
    struct Row {
        std::string text;
        std::string error;
    };
    Row const addresses[] = {
        {"", R"("" has no port)"},
        {"localhost", R"("localhost" has no port)"},
        {"[::1]", R"("[::1]" has no port)"},
        {"::1", R"("::1" needs brackets around its IPv6 address)"},
        {"fe80::1:1234:80", R"("fe80::1:1234:80" needs brackets around its IPv6 address)"},
        {"1:2:3:4:5:6:7:8:80", R"("1:2:3:4:5:6:7:8:80" needs brackets around its IPv6 address)"},
        {":80", R"(":80" has no host)"},
        {"localhost:", R"("" is not a port from 1 to 65535)"},
        {"localhost:0", R"("0" is not a port from 1 to 65535)"},
        {"localhost:65536", R"("65536" is not a port from 1 to 65535)"},
        {"localhost:-1", R"("-1" is not a port from 1 to 65535)"},
        {"localhost:+1", R"("+1" is not a port from 1 to 65535)"},
        {"localhost: 80", R"(" 80" is not a port from 1 to 65535)"},
        {"localhost:80/", R"("80/" is not a port from 1 to 65535)"},
        {"localhost:http", R"("http" is not a port from 1 to 65535)"},
        {"Localhost:80", R"("Localhost" is neither an IP address nor localhost)"},
        {"example.com:80", R"("example.com" is neither an IP address nor localhost)"},
        {"127.1:80", R"("127.1" is neither an IP address nor localhost)"},
        {"127.0.0.1.:80", R"("127.0.0.1." is neither an IP address nor localhost)"},
        {"[127.0.0.1]:80", R"("127.0.0.1" is not an IPv6 address)"},
        {"[localhost]:80", R"("localhost" is not an IPv6 address)"},
        {"[fe80::1%eth0]:80", R"("fe80::1%eth0" is not an IPv6 address)"},
        {"[]:80", R"("" is not an IPv6 address)"},
        {"127.0.0.1:80x", R"("80x" is not a port from 1 to 65535)"},
        {"[:80", R"("[" is neither an IP address nor localhost)"},
        {std::string("127.0.0.1\0:80", 13), R"("127.0.0.1\u0000" is neither an IP address nor localhost)"},
    };
    for (Row const& row : addresses) {
        auto const target = parse_probe_address(row.text);
        ASSERT_FALSE(target) << row.text;
        EXPECT_EQ(target.error(), row.error);
    }
    Row const urls[] = {
        {"", R"("" begins with neither http:// nor https://)"},
        {"127.0.0.1:80", R"("127.0.0.1:80" begins with neither http:// nor https://)"},
        {"HTTP://[::1]/", R"("HTTP://[::1]/" begins with neither http:// nor https://)"},
        {"http:/127.0.0.1", R"("http:/127.0.0.1" begins with neither http:// nor https://)"},
        {"http://", R"("http://" has no host)"},
        {"https:///x", R"("https:///x" has no host)"},
        {"http://::1/", R"("::1" needs brackets around its IPv6 address)"},
        {"http://:80/", R"(":80" has no host)"},
        {"http://localhost:/", R"("" is not a port from 1 to 65535)"},
        {"http://localhost:99999", R"("99999" is not a port from 1 to 65535)"},
        {"http://me@127.0.0.1/", R"("me@127.0.0.1" is neither an IP address nor localhost)"},
        {"http://127.0.0.1?x", R"("127.0.0.1?x" is neither an IP address nor localhost)"},
        {"http://localhost/a b", R"("/a b" has a character that must be percent-encoded in a URL)"},
        {"http://localhost/[a]", R"("/[a]" has a character that must be percent-encoded in a URL)"},
        {"http://localhost/a#b", R"("/a#b" has a character that must be percent-encoded in a URL)"},
        {"http://localhost/\r\nX: y", R"("/\r\nX: y" has a character that must be percent-encoded in a URL)"},
        {"http://localhost/\xc3\xa4", "\"/\xc3\xa4\" has a character that must be percent-encoded in a URL"},
    };
    for (Row const& row : urls) {
        auto const target = parse_probe_url(row.text);
        ASSERT_FALSE(target) << row.text;
        EXPECT_EQ(target.error(), row.error);
    }
    std::string const longest = "http://[::1]/" + std::string(4096 - 13, 'x');
    EXPECT_TRUE(parse_probe_url(longest));
    EXPECT_THAT(parse_probe_url(longest + "x").error(), testing::EndsWith(" is longer than 4096 bytes"));
}

TEST(CpuList, Reads) {
    using Cpus = std::vector<std::uint32_t>;
    EXPECT_EQ(parse_cpu_list("0"), Cpus({0}));
    EXPECT_EQ(parse_cpu_list("6,0-3,2"), Cpus({0, 1, 2, 3, 6}));
    EXPECT_EQ(parse_cpu_list("5-5,8191"), Cpus({5, 8191}));
    for (auto const* text : {"", ",", "0,", "3-1", "-1", "1-", "8192", "a", "0 1", "0-3-5", "99999999999", " 0"})
        EXPECT_EQ(parse_cpu_list(text), std::nullopt) << text;
}

}  // namespace
}  // namespace triton::config
