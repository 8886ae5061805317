#include "lib/net/resolver.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::kubernetes {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;
using asio::ip::udp;
using boost::system::error_code;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Bytes = std::vector<std::uint8_t>;

TEST(HostName, IsThatOfRfc1123) {
    for (std::string const& name :
         {std::string("localhost"), std::string("kubernetes.default.svc"), std::string("api.example."),
          std::string("3com.example"), std::string("a-b.C-D.x1"), std::string("1.2.3.example"), std::string("x"),
          std::string(63, 'a') + ".example", std::string("1.2.3.4x")})
        EXPECT_TRUE(net::is_host_name(name)) << name;
    std::string const long_name =
        std::string(63, 'a') + "." + std::string(63, 'b') + "." + std::string(63, 'c') + "." + std::string(61, 'd');
    EXPECT_EQ(long_name.size(), 253);
    EXPECT_TRUE(net::is_host_name(long_name));
    EXPECT_TRUE(net::is_host_name(long_name + "."));
    for (std::string const& none : {std::string(""),
                                    std::string("."),
                                    std::string(".."),
                                    std::string(".a"),
                                    std::string("a..b"),
                                    std::string("a.."),
                                    std::string("-a"),
                                    std::string("a-"),
                                    std::string("a.-b.c"),
                                    std::string("under_score"),
                                    std::string("a b"),
                                    std::string("a:1"),
                                    std::string("[::1]"),
                                    std::string("10.0.0.256"),
                                    std::string("1"),
                                    std::string("example.1"),
                                    std::string("b\xc3\xbc"
                                                "cher.example"),
                                    std::string("a/b"),
                                    std::string("a\n"),
                                    std::string("a\0b", 3),
                                    std::string(64, 'a'),
                                    long_name + "d"})
        EXPECT_FALSE(net::is_host_name(none)) << none;
}

TEST(ResolverPatience, IsReadFromTheOptions) {
    struct Row {
        std::string_view text;
        Duration timeout;
        int attempts;
    };
    for (Row const& row : std::to_array<Row>({{"", seconds(5), 2},
                                              {"nameserver 10.0.0.10\noptions ndots:5\n", seconds(5), 2},
                                              {"options timeout:1 attempts:3", seconds(1), 3},
                                              {"options\ttimeout:2\r\noptions attempts:1 rotate\n", seconds(2), 1},
                                              {"options timeout:2\noptions timeout:3\n", seconds(3), 2},
                                              {"options timeout:0 attempts:0", seconds(1), 1},
                                              {"options timeout:31 attempts:6", seconds(30), 5},
                                              {"options timeout:99999999999 attempts:-1", seconds(30), 1},
                                              {"options timeout: attempts:x timeouts:9", seconds(5), 2},
                                              {"option timeout:1\noptionstimeout:1\n#options timeout:1", seconds(5), 2},
                                              {" options timeout:1", seconds(5), 2}}))
        EXPECT_EQ(net::parse_patience(row.text), (net::ResolverPatience{row.timeout, row.attempts})) << row.text;
}

enum Type : std::uint16_t { A = 1, AAAA = 28 };

struct Answer {
    std::vector<std::string> addresses = {};
    int code = 0;                 ///< 2: failure, 3: no such name, 5: refused
    bool is_truncated = false;    ///< over UDP
    bool is_silent = false;       ///< there is none
    bool is_for_another = false;  ///< its number is not that of the query
};

/// A DNS server on one port of a loopback address, by UDP and TCP.
class DnsServer {
public:
    using Script = std::function<Answer(std::string const& name, Type type)>;

    DnsServer(asio::io_context& io, std::string const& address, std::uint16_t port, Script script)
        : script_(std::move(script)),
          listener_(io, tcp::endpoint(asio::ip::make_address(address), port)),
          socket_(io, udp::endpoint(listener_.local_endpoint().address(), listener_.local_endpoint().port())) {
        asio::co_spawn(io, serve_udp(), asio::detached);
        asio::co_spawn(io, serve_tcp(), asio::detached);
    }

    [[nodiscard]] std::uint16_t port() const { return listener_.local_endpoint().port(); }

    std::vector<std::string> asked;  ///< names of questions of type A, in their order
    int tcp_questions = 0;

    void close() {
        listener_.close();
        socket_.close();
    }

private:
    static void put16(Bytes& out, unsigned value) {
        out.push_back(static_cast<std::uint8_t>(value >> 8));
        out.push_back(static_cast<std::uint8_t>(value));
    }

    std::optional<Bytes> answer(std::span<std::uint8_t const> query, bool by_tcp) {
        std::string name;
        std::size_t at = 12;
        while (query[at] != 0) {
            if (!name.empty()) name += '.';
            name.append(reinterpret_cast<char const*>(&query[at + 1]), query[at]);
            at += query[at] + 1U;
        }
        auto const type = static_cast<Type>(query[at + 1] << 8 | query[at + 2]);
        std::size_t const question_end = at + 5;
        if (type == A) asked.push_back(name);
        if (by_tcp) ++tcp_questions;
        Answer const found = script_(name, type);
        if (found.is_silent) return std::nullopt;
        bool const is_truncated = found.is_truncated && !by_tcp;
        Bytes records;
        unsigned count = 0;
        for (std::string const& text : found.addresses) {
            auto const address = asio::ip::make_address(text);
            if (is_truncated || address.is_v6() != (type == AAAA)) continue;
            ++count;
            for (unsigned const field : {0xc00cU, unsigned{type}, 1U, 0U, 1U})  // the name, its class, one second
                put16(records, field);
            auto const put = [&records](auto const& bytes) {
                put16(records, static_cast<unsigned>(bytes.size()));
                records.insert(records.end(), bytes.begin(), bytes.end());
            };
            address.is_v6() ? put(address.to_v6().to_bytes()) : put(address.to_v4().to_bytes());
        }
        Bytes out(query.begin(), query.begin() + 2);
        if (found.is_for_another) out[0] ^= 1;
        put16(out, 0x8180U | (is_truncated ? 0x200U : 0U) | static_cast<unsigned>(found.code));
        for (unsigned const number : {1U, count, 0U, 0U})
            put16(out, number);
        out.insert(out.end(), query.begin() + 12, query.begin() + static_cast<std::ptrdiff_t>(question_end));
        out.insert(out.end(), records.begin(), records.end());
        return out;
    }

    awaitable<void> serve_udp() {
        std::array<std::uint8_t, 512> buffer{};
        udp::endpoint peer;
        error_code failed;
        auto const done = [&failed] { return asio::redirect_error(asio::use_awaitable, failed); };
        while (!failed) {
            std::size_t const size = co_await socket_.async_receive_from(asio::buffer(buffer), peer, done());
            if (failed) break;
            auto const out = answer(std::span(buffer).first(size), false);
            if (out) co_await socket_.async_send_to(asio::buffer(*out), peer, done());
        }
    }

    awaitable<void> serve_tcp() {
        error_code failed;
        auto const done = [&failed] { return asio::redirect_error(asio::use_awaitable, failed); };
        while (!failed) {
            tcp::socket peer = co_await listener_.async_accept(done());
            while (!failed) {  // both questions come over one connection
                std::array<std::uint8_t, 2> length{};
                co_await asio::async_read(peer, asio::buffer(length), done());
                if (failed) break;
                Bytes query(static_cast<std::size_t>(length[0] << 8 | length[1]));
                co_await asio::async_read(peer, asio::buffer(query), done());
                if (failed) break;
                auto out = answer(query, true);
                if (!out) continue;
                Bytes framed;
                put16(framed, static_cast<unsigned>(out->size()));
                framed.insert(framed.end(), out->begin(), out->end());
                co_await asio::async_write(peer, asio::buffer(framed), done());
            }
            if (listener_.is_open()) failed = {};
        }
    }

    Script script_;
    tcp::acceptor listener_;
    udp::socket socket_;
};

class ResolverTest : public testing::Test {
protected:
    using Addresses = Result<std::vector<asio::ip::address>>;

    void SetUp() override {
        std::string name = testing::TempDir() + "resolver.XXXXXX";
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        area_ = name;
        settings_.configuration = area_ / "resolv.conf";
        configure("nameserver 127.0.0.1\n");
    }
    void TearDown() override { std::filesystem::remove_all(area_); }

    void configure(std::string_view text) const { std::ofstream(area_ / "resolv.conf") << text; }

    /// The first gives the port, which is a free one; the others are at other addresses.
    DnsServer& serve(DnsServer::Script script, std::string const& address = "127.0.0.1") {
        servers_.push_back(std::make_unique<DnsServer>(io_, address, settings_.port, std::move(script)));
        settings_.port = servers_.back()->port();
        return *servers_.back();
    }

    /// Runs the loop until the resolver has its answer.
    Addresses resolve(net::Resolver& resolver, std::string host) {
        std::optional<Addresses> answer;
        asio::co_spawn(
            io_,
            [](net::Resolver& asked, std::string name, std::optional<Addresses>& out) -> awaitable<void> {
                out = co_await asked.resolve(std::move(name));
            }(resolver, std::move(host), answer),
            asio::detached);
        io_.restart();
        while (!answer && io_.run_one_for(seconds(20)) > 0) {
        }
        return answer ? *std::move(answer) : fail("the loop has ended, or nothing happens");
    }
    Addresses resolve(std::string host) {
        net::Resolver resolver(io_, settings_);
        return resolve(resolver, std::move(host));
    }
    /// The addresses as one text, or the error.
    std::string texts(std::string host) {
        Addresses const found = resolve(std::move(host));
        if (!found) return found.error().text();
        std::string text;
        for (auto const& address : *found)
            text += (text.empty() ? "" : " ") + address.to_string();
        return text;
    }

    asio::io_context io_{1};
    std::filesystem::path area_;
    net::ResolverSettings settings_{.port = 0};
    std::vector<std::unique_ptr<DnsServer>> servers_;
};

DnsServer::Script always(Answer answer) {
    return [answer = std::move(answer)](std::string const&, Type) { return answer; };
}

TEST_F(ResolverTest, AnAddressIsItselfAndNobodyIsAsked) {
    DnsServer const& server = serve(always({{"10.9.9.9"}}));
    settings_.configuration = area_;  // a directory, which would be an error
    EXPECT_EQ(texts("10.0.0.1"), "10.0.0.1");
    EXPECT_EQ(texts("::1"), "::1");
    EXPECT_THAT(server.asked, IsEmpty());
}

TEST_F(ResolverTest, BothFamiliesAreFound) {
    DnsServer const& server = serve(always({{"127.0.0.7", "::1", "127.0.0.8"}}));
    Addresses const found = resolve("api.example.org");
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_THAT(*found, UnorderedElementsAre(asio::ip::make_address("127.0.0.7"), asio::ip::make_address("127.0.0.8"),
                                             asio::ip::make_address("::1")));
    EXPECT_THAT(server.asked, ElementsAre("api.example.org"));
}

TEST_F(ResolverTest, WhatCannotBeReachedComesLast) {
    serve(always({{"255.255.255.255", "127.0.0.1"}}));  // no socket is connected to the first
    EXPECT_EQ(texts("api.example.org"), "127.0.0.1 255.255.255.255");
}

TEST_F(ResolverTest, OneFamilyIsEnough) {
    serve([](std::string const& name, Type) {
        return name.starts_with("six") ? Answer{{"::1"}} : Answer{{"127.0.0.9"}};
    });
    EXPECT_EQ(texts("six.example.org"), "::1");
    EXPECT_EQ(texts("four.example.org"), "127.0.0.9");
}

TEST_F(ResolverTest, DomainsAreSearchedAsInAPod) {
    DnsServer& server = serve([](std::string const& name, Type) {
        bool const is_it = name == "kubernetes.default.svc.cluster.local" || name == "api.example.org";
        return is_it ? Answer{{"127.0.0.2"}} : Answer{.code = 3};
    });
    configure("search ns.svc.cluster.local svc.cluster.local cluster.local\nnameserver 127.0.0.1\noptions ndots:5\n");
    EXPECT_EQ(texts("kubernetes.default.svc"), "127.0.0.2");
    EXPECT_THAT(server.asked,
                ElementsAre("kubernetes.default.svc.ns.svc.cluster.local", "kubernetes.default.svc.svc.cluster.local",
                            "kubernetes.default.svc.cluster.local"));
    server.asked.clear();
    EXPECT_EQ(texts("api.example.org"), "127.0.0.2");  // after the domains
    EXPECT_EQ(server.asked.size(), 4);
    server.asked.clear();
    EXPECT_EQ(texts("api.example.org."), "127.0.0.2");  // without them
    EXPECT_THAT(server.asked, ElementsAre("api.example.org"));
    server.asked.clear();
    configure("search cluster.local\nnameserver 127.0.0.1\noptions ndots:2\n");
    EXPECT_EQ(texts("api.example.org"), "127.0.0.2");  // before them
    EXPECT_THAT(server.asked, ElementsAre("api.example.org"));
}

TEST_F(ResolverTest, ErrorsNameTheHostAndTheReason) {
    serve([](std::string const& name, Type) {
        if (name == "nobody.example.org") return Answer{.code = 3};
        if (name == "empty.example.org") return Answer{};
        return Answer{.code = name == "refused.example.org" ? 5 : 2};
    });
    EXPECT_EQ(texts("nobody.example.org"), "cannot resolve nobody.example.org: there is no such name");
    EXPECT_EQ(texts("empty.example.org"), "cannot resolve empty.example.org: the name has no address");
    EXPECT_EQ(texts("refused.example.org"),
              "cannot resolve refused.example.org: no DNS server can be reached and is able to answer");
    EXPECT_EQ(texts("failing.example.org"),
              "cannot resolve failing.example.org: no DNS server can be reached and is able to answer");
    servers_.back()->close();
    EXPECT_EQ(texts("away.example.org"),
              "cannot resolve away.example.org: no DNS server can be reached and is able to answer");
}

TEST_F(ResolverTest, SilenceEndsWithTheConfigurationsPatience) {
    DnsServer const& server = serve(always({.is_silent = true}));
    configure("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
    auto const begin = std::chrono::steady_clock::now();
    EXPECT_EQ(texts("api.example.org"), "cannot resolve api.example.org: no DNS server answers");
    auto const took = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(took, milliseconds(990));
    EXPECT_EQ(server.asked.size(), 1);
}

TEST_F(ResolverTest, SilenceEndsWithTheLimit) {
    serve(always({.is_silent = true}));
    settings_.limit = milliseconds(50);
    EXPECT_EQ(texts("api.example.org"), "cannot resolve api.example.org: no answer within 50ms");
}

TEST_F(ResolverTest, AnAnswerToAnotherQuestionIsNone) {
    serve(always({.addresses = {"127.0.0.6"}, .is_for_another = true}));
    settings_.limit = milliseconds(50);
    EXPECT_EQ(texts("api.example.org"), "cannot resolve api.example.org: no answer within 50ms");
}

TEST_F(ResolverTest, ASilentFamilyCostsItsPatienceAndNoMore) {
    serve(
        [](std::string const&, Type type) { return type == AAAA ? Answer{.is_silent = true} : Answer{{"127.0.0.3"}}; });
    configure("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
    EXPECT_EQ(texts("api.example.org"), "127.0.0.3");
}

TEST_F(ResolverTest, TheNextServerIsAskedWhenOneIsAwayOrFails) {
    DnsServer const& good = serve(always({{"127.0.0.4"}}));
    DnsServer const& bad = serve(always({.code = 2}), "127.0.0.2");
    // The refusal of the first question may be the result of sending the second: then the first waits for its timeout.
    configure("nameserver 127.0.0.3\nnameserver 127.0.0.2\nnameserver 127.0.0.1\noptions timeout:1\n");
    EXPECT_EQ(texts("api.example.org"), "127.0.0.4");
    EXPECT_EQ(good.asked.size(), 1);
    EXPECT_EQ(bad.asked.size(), 1);
}

TEST_F(ResolverTest, ATruncatedAnswerIsAskedForByTcp) {
    std::vector<std::string> many;
    for (int last = 1; last <= 60; ++last)
        many.push_back("127.1.1." + std::to_string(last));
    DnsServer const& server = serve(always({.addresses = many, .is_truncated = true}));
    Addresses const found = resolve("api.example.org");
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(found->size(), 60);
    EXPECT_EQ(server.tcp_questions, 2);
}

TEST_F(ResolverTest, TheConfigurationIsReadForEachLookup) {
    serve(always({{"127.0.0.5"}}));
    serve(always({{"127.0.0.6"}}), "127.0.0.2");
    net::Resolver resolver(io_, settings_);
    EXPECT_EQ(resolve(resolver, "api.example.org")->front().to_string(), "127.0.0.5");
    configure("nameserver 127.0.0.2\n");
    EXPECT_EQ(resolve(resolver, "api.example.org")->front().to_string(), "127.0.0.6");
    std::filesystem::remove(area_ / "resolv.conf");  // then it is this machine that serves
    EXPECT_EQ(resolve(resolver, "api.example.org")->front().to_string(), "127.0.0.5");
    std::filesystem::create_directory(area_ / "resolv.conf");
    Addresses const none = resolve(resolver, "api.example.org");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().text(),
              "cannot resolve api.example.org: cannot read " + settings_.configuration + ": Is a directory");
}

TEST_F(ResolverTest, LocalhostIsNoMatterOfDns) {
    DnsServer const& server = serve(always({{"10.9.9.9"}}));
    EXPECT_THAT(texts("localhost"), testing::AnyOf(HasSubstr("127.0.0.1"), HasSubstr("::1")));
    EXPECT_THAT(server.asked, IsEmpty());
}

TEST_F(ResolverTest, StopEndsWhatIsUnderWayAndWhatComes) {
    serve(always({.is_silent = true}));
    net::Resolver resolver(io_, settings_);
    std::vector<std::string> ends;
    for (int count = 0; count < 2; ++count) {
        asio::co_spawn(
            io_,
            [](net::Resolver& asked, std::vector<std::string>& out) -> awaitable<void> {
                auto const found = co_await asked.resolve("api.example.org");
                out.push_back(found ? "found" : found.error().text());
            }(resolver, ends),
            asio::detached);
    }
    while (servers_.back()->asked.size() < 2)
        ASSERT_GT(io_.run_one_for(seconds(20)), 0);
    resolver.stop();
    while (ends.size() < 2)
        ASSERT_GT(io_.run_one_for(seconds(20)), 0);
    EXPECT_THAT(ends, testing::Each("cannot resolve api.example.org: DNS query cancelled"));
    EXPECT_EQ(resolve(resolver, "api.example.org").error().text(),
              "cannot resolve api.example.org: DNS query cancelled");
}

TEST_F(ResolverTest, NoDescriptorIsLeft) {
    serve([](std::string const& name, Type) {
        if (name.starts_with("silent")) return Answer{.is_silent = true};
        return name.starts_with("none") ? Answer{.code = 3} : Answer{.addresses = {"127.0.0.1"}, .is_truncated = true};
    });
    settings_.limit = milliseconds(20);
    auto const descriptors = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
    (void)texts("good.example.org");  // what is made once is made now
    io_.poll();
    auto const before = descriptors();
    for (int count = 0; count < 20; ++count) {
        (void)texts("good.example.org");
        (void)texts("none.example.org");
        (void)texts("silent.example.org");
    }
    // The server's side of TCP ends when it has read the end.
    for (int turns = 0; turns < 1000 && descriptors() > before; ++turns)
        io_.run_one_for(milliseconds(20));
    EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace triton::kubernetes
