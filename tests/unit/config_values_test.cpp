// Values of a document that have a notation of their own: sizes, addresses of sockets, lists of CPUs.

#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "config/cpu_list.h"
#include "config/size.h"
#include "config/socket_address.h"

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

TEST(Size, Writes) {
    struct Row {
        std::uint64_t bytes;
        std::string_view text;
    };
    Row const rows[] = {
        {0, "0"},
        {1, "1"},
        {1000, "1k"},
        {1024, "1Ki"},
        {1025, "1025"},
        {64 << 20, "64Mi"},
        {10'000'000, "10M"},
        {1'500, "1500"},
        {UINT64_C(3) << 40, "3Ti"},
        {UINT64_MAX, "18446744073709551615"},
    };
    for (Row const& row : rows)
        EXPECT_EQ(format_size(row.bytes), row.text);
}

TEST(Size, ReadsBackWhatItWrites) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 10'000; ++i) {
        std::uint64_t const bytes = random() >> (random() % 64) << (random() % 40);
        EXPECT_EQ(parse_size(format_size(bytes)), bytes) << format_size(bytes);
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
        {"tpc:0.0.0.0:80", R"(tpc is none of tcp, udp, unix, unixgram, fifo; did you mean "tcp"?)"},
        {"http:0.0.0.0:80", "http is none of tcp, udp, unix, unixgram, fifo"},
        {"TCP::80", R"(TCP is none of tcp, udp, unix, unixgram, fifo; did you mean "tcp"?)"},
        {"tcp:80", "has no port"},
        {"tcp:0.0.0.0:", R"("" is no port)"},
        {"tcp:0.0.0.0:http", "http is no port"},
        {"tcp:0.0.0.0:65536", "65536 is no port"},
        {"tcp:0.0.0.0:-1", "-1 is no port"},
        {"tcp:localhost:80", "localhost is no IP address"},
        {"tcp:::1:80", "an IPv6 address stands in brackets: [::1]"},
        {"tcp:[]:80", R"("" is no IPv6 address)"},
        {"tcp:[127.0.0.1]:80", "127.0.0.1 is no IPv6 address"},
        {"tcp:[fe80::1%eth0]:80", "fe80::1%eth0 is no IPv6 address"},
        {"tcp:127.1:80", "127.1 is no IP address"},
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
