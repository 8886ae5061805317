#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include "lib/varlink/method_table.h"
#include "lib/varlink/server.h"

namespace triton::varlink {

namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr Role guest{0};
constexpr Role owner{1};

struct EchoParameters {
    std::string text;
};

class ListenJob : public Job {
public:
    static constexpr std::uint8_t tag = 1;
    ListenJob() : Job(tag) {}
};

/// Says what it is told, and tells numbers to those who listen.
class EchoService : public Service {
public:
    ServiceInfo info() const override { return {"Us", "echo", "1", "https://x.y"}; }
    std::string_view interface() const override { return "x.Echo"; }
    std::string_view description() const override { return "interface x.Echo"; }
    void call(Session& session, Call const& call) override;
    void connection_failed(std::string_view reason) override { failures.emplace_back(reason); }

    void echo(Session& session, EchoParameters const& parameters) {
        ++echoes;
        server->reply(session, one_text("text", parameters.text));
    }
    void listen(Session& session, EchoParameters const&) {
        session.begin(std::make_unique<ListenJob>());
        server->reply(session, "{}", true);
    }
    void fail(Session& session, EchoParameters const&) {
        server->fail_call(session, Error{ErrorKind::busy, "say it", "somebody else talks", {"first", "second"}});
    }
    void crash(Session&, EchoParameters const&) { throw std::bad_alloc(); }

    Server* server = nullptr;
    int echoes = 0;
    std::vector<std::string> failures;
};

using EchoMethod = Method<EchoService, EchoParameters>;
using EchoParameter = Parameter<EchoParameters>;

constexpr std::array text_only{EchoParameter{"text", true, [](json::Node const& node, EchoParameters& parameters) {
                                                 auto const* const text = node.get<std::string>();
                                                 if (text) parameters.text = *text;
                                                 return text != nullptr;
                                             }}};
constexpr Roles both = only(guest) | only(owner);
constexpr std::array<EchoMethod, 4> methods{{{"Echo", text_only, both, &EchoService::echo},
                                             {"Listen", {}, both, &EchoService::listen, true},
                                             {"Fail", {}, both, &EchoService::fail},
                                             {"Crash", {}, only(owner), &EchoService::crash}}};

void EchoService::call(Session& session, Call const& call) {
    dispatch(*server, *this, std::span<EchoMethod const>(methods), session, call);
}

class VarlinkServerTest : public ::testing::Test {
protected:
    void start(Limits limits = {.roles = {{}, {}}}) {
        auto made_loop = EventLoop::create();
        ASSERT_TRUE(made_loop);
        loop = std::move(*made_loop);
        auto made = Server::create(*loop, {.close = [this](UniqueFd fd) { closed.push_back(std::move(fd)); }}, service,
                                   std::move(limits));
        ASSERT_TRUE(made);
        server = std::move(*made);
        service.server = server.get();
        loop->set_round_end([this] {
            server->enter([this] { server->time_passed(); });
            server->enter([this] { server->end_round(); });
            loop->stop();
        });
    }
    /// A client's end, which does not block.
    UniqueFd connect(Role role = guest) {
        int ends[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        server->enter([&] { server->adopt(UniqueFd{ends[1]}, role); });
        return UniqueFd{ends[0]};
    }
    static void send(UniqueFd const& client, std::string_view method, std::string_view parameters = "{}",
                     bool wants_more = false) {
        std::string const text = call_text(method, parameters, wants_more);
        ASSERT_EQ(::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    }
    /// One round. A pipe that is always readable makes one, whatever else there is to do.
    void round() {
        int ends[2];
        ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        UniqueFd const reader{ends[0]};
        UniqueFd const writer{ends[1]};
        ASSERT_EQ(::write(writer.get(), "x", 1), 1);
        auto const watch = loop->on_readable(reader.get(), [] {});
        ASSERT_TRUE(watch);
        ASSERT_TRUE(loop->run());
    }
    /// What has come, message by message; "(end)" at the end.
    static std::vector<std::string> receive(UniqueFd const& client) {
        std::string bytes;
        char buffer[65536];
        ssize_t size = 0;
        while ((size = ::recv(client.get(), buffer, sizeof buffer, 0)) > 0)
            bytes.append(buffer, static_cast<std::size_t>(size));
        std::vector<std::string> messages;
        for (std::size_t end = 0; (end = bytes.find('\0')) != std::string::npos; bytes.erase(0, end + 1))
            messages.push_back(bytes.substr(0, end));
        if (size == 0 || errno == ECONNRESET) messages.emplace_back("(end)");
        return messages;
    }
    std::vector<std::string> ask(std::string_view method, std::string_view parameters = "{}", Role role = guest) {
        UniqueFd const client = connect(role);
        send(client, method, parameters);
        for (int i = 0; i < 3; ++i)
            round();
        closed.clear();
        return receive(client);
    }

    /// Numbers to all who listen, going on from the last.
    void tell(int count) {
        for (; count > 0; --count) {
            server->enter([&] {
                std::string message;
                append_reply(message, one_text("n", std::to_string(told++) + " " + std::string(1000, 'x')), true);
                server->each<ListenJob>([&](Session& session, ListenJob&) { server->stream(session, message); });
            });
        }
    }
    /// How often something is missing of what was told: each time it is said how much, in its place.
    int gaps_in(std::vector<std::string> const& seen) const {
        int next = 0;
        int gaps = 0;
        for (std::string const& message : seen) {
            auto const reply = parse_reply(message, 1 << 20);
            if (!reply) throw std::runtime_error(message);
            if (auto const* const lost = find_member(reply->parameters, "lost")) {
                next += static_cast<int>(*lost->get<std::int64_t>());
                ++gaps;
                continue;
            }
            auto const* const text = find_member(reply->parameters, "n");
            if (!text) throw std::runtime_error(message);
            int const number = std::stoi(*text->get<std::string>());
            EXPECT_EQ(number, next);
            if (number != next) return -1;
            ++next;
        }
        EXPECT_EQ(next, told);
        return gaps;
    }

    int told = 0;
    std::vector<UniqueFd> closed;  // outlives the server, which fills it to its end
    EchoService service;
    std::unique_ptr<EventLoop> loop;
    std::unique_ptr<Server> server;
};

TEST_F(VarlinkServerTest, CallsReachTheirHandlersAndTheirErrorsAreTheProtocols) {
    start();
    struct Row {
        std::string method;
        std::string parameters;
        std::string reply;
    };
    for (
        Row const& row : {
            Row{"x.Echo.Echo", R"({"text":"a"})", R"({"parameters":{"text":"a"}})"},
            Row{"x.Echo.Echo", "{}",
                R"({"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"text"}})"},
            Row{"x.Echo.Echo", R"({"text":1})",
                R"({"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"text"}})"},
            Row{"x.Echo.Echo", R"({"text":"a","b":1})",
                R"({"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"b"}})"},
            Row{"x.Echo.Cry", "{}",
                R"({"error":"org.varlink.service.MethodNotFound","parameters":{"method":"x.Echo.Cry"}})"},
            Row{"y.Echo.Echo", "{}",
                R"({"error":"org.varlink.service.InterfaceNotFound","parameters":{"interface":"y.Echo"}})"},
            Row{"x.Echo.Listen", "{}", R"({"error":"org.varlink.service.ExpectedMore","parameters":{}})"},
            Row{"x.Echo.Crash", "{}", R"({"error":"org.varlink.service.PermissionDenied","parameters":{}})"},
            Row{"x.Echo.Fail", "{}",
                R"({"error":"x.Echo.Refused","parameters":{"reason":"cannot say it: somebody else talks",)"
                R"("details":["first","second"]}})"},
            Row{"org.varlink.service.GetInfo", "{}",
                R"({"parameters":{"vendor":"Us","product":"echo","version":"1","url":"https://x.y",)"
                R"("interfaces":["org.varlink.service","x.Echo"]}})"},
            Row{"org.varlink.service.GetInfo", R"({"a":1})",
                R"({"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"a"}})"},
            Row{"org.varlink.service.GetInterfaceDescription", R"({"interface":"x.Echo"})",
                R"({"parameters":{"description":"interface x.Echo"}})"},
            Row{"org.varlink.service.GetInterfaceDescription", "{}",
                R"({"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"interface"}})"},
            Row{"org.varlink.service.GetInterfaceDescription", R"({"interface":"x"})",
                R"({"error":"org.varlink.service.InterfaceNotFound","parameters":{"interface":"x"}})"},
            Row{"org.varlink.service.Other", "{}",
                R"({"error":"org.varlink.service.MethodNotFound","parameters":{"method":"org.varlink.service.Other"}})"},
        })
        EXPECT_THAT(ask(row.method, row.parameters), ElementsAre(row.reply));
}

TEST_F(VarlinkServerTest, AnExceptionEndsOneSessionAlone) {
    start();
    UniqueFd const other = connect();
    EXPECT_THAT(ask("x.Echo.Crash", "{}", owner), ElementsAre("(end)"));
    send(other, "x.Echo.Echo", R"({"text":"b"})");
    round();
    round();
    EXPECT_THAT(receive(other), ElementsAre(R"({"parameters":{"text":"b"}})"));
}

/// What was lost is told where it is missing: after all that came before, and before all that comes after.
TEST_F(VarlinkServerTest, WhatWasLostIsToldInItsPlace) {
    start({.roles = {{}, {}}, .stream_bytes = 64 * 1024});
    UniqueFd const client = connect();
    send(client, "x.Echo.Listen", "{}", true);
    round();
    round();
    EXPECT_THAT(receive(client), ElementsAre(R"({"parameters":{},"continues":true})"));
    std::vector<std::string> seen;
    auto const drain = [&] {
        for (int i = 0; i < 3; ++i) {
            round();
            std::ranges::move(receive(client), std::back_inserter(seen));
        }
    };
    tell(2000);  // more than the socket and the limit hold
    drain();
    tell(3);
    drain();
    EXPECT_EQ(gaps_in(seen), 1);
}

/// A reader that takes a little at a time makes room for one message, but what was lost before it is not told yet.
TEST_F(VarlinkServerTest, NothingOvertakesWhatWasLost) {
    start({.roles = {{}, {}}, .stream_bytes = 1 << 20});
    UniqueFd const client = connect();
    send(client, "x.Echo.Listen", "{}", true);
    round();
    round();
    EXPECT_THAT(receive(client), ElementsAre(R"({"parameters":{},"continues":true})"));
    tell(3000);
    std::string bytes;
    auto const read = [&](std::size_t most) {
        std::string piece(most, '\0');
        ssize_t const size = ::recv(client.get(), piece.data(), piece.size(), 0);
        if (size > 0) bytes.append(piece, 0, static_cast<std::size_t>(size));
    };
    for (int i = 0; i < 200; ++i) {
        read(20'000);
        round();
        tell(1);
    }
    for (int i = 0; i < 200; ++i) {
        round();
        read(65536);
    }
    std::vector<std::string> seen;
    for (std::size_t end = 0; (end = bytes.find('\0')) != std::string::npos; bytes.erase(0, end + 1))
        seen.push_back(bytes.substr(0, end));
    EXPECT_GE(gaps_in(seen), 1);
}

/// Whoever had to wait is first in the next round: of several who flood, none gets ahead of the others by much.
TEST_F(VarlinkServerTest, SeveralFloodsAdvanceTogether) {
    start({.roles = {{}, {}}, .work = 8});
    std::vector<UniqueFd> clients;
    std::vector<std::size_t> answers(4);
    for (std::size_t i = 0; i < answers.size(); ++i) {
        clients.push_back(connect());
        for (int k = 0; k < 100; ++k)
            send(clients.back(), "x.Echo.Echo", R"({"text":"a"})");
    }
    for (int i = 0; i < 60; ++i) {
        int const before = service.echoes;
        round();
        EXPECT_LE(service.echoes - before, 4);  // a call costs 4, in each of the two passes of a round at most
        for (std::size_t k = 0; k < clients.size(); ++k)
            answers[k] += receive(clients[k]).size();
    }
    auto const [least, most] = std::ranges::minmax(answers);
    EXPECT_GE(least, 10U);
    EXPECT_LE(most - least, 6U);
}

/// The oldest gives way where the role says so, and takes no place of another role.
TEST_F(VarlinkServerTest, TheOldestGivesWay) {
    start({.roles = {{.sessions = 1}, {.sessions = 2, .is_oldest_replaced = true}}});
    UniqueFd const other = connect(guest);
    UniqueFd const first = connect(owner);
    UniqueFd const second = connect(owner);
    UniqueFd const third = connect(owner);
    round();
    EXPECT_THAT(closed, SizeIs(1));
    closed.clear();
    EXPECT_THAT(receive(first), ElementsAre("(end)"));
    for (UniqueFd const* const client : {&other, &second, &third})
        EXPECT_THAT(receive(*client), SizeIs(0));
}

/// Neither whoever has not read its answer, nor whoever waits for its turn, nor somebody of another role.
TEST_F(VarlinkServerTest, OnlyWhoIdlesGivesWay) {
    start({.roles = {{.sessions = 1}, {.sessions = 1}}, .work = 8, .evictable = Duration::zero()});
    UniqueFd const of_another_role = connect(owner);
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    UniqueFd const client{ends[0]};
    int const small = 4096;
    ASSERT_EQ(::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    server->enter([&] { server->adopt(UniqueFd{ends[1]}, guest); });
    auto const is_next_refused = [&] {
        UniqueFd const next = connect();
        round();
        closed.clear();
        return receive(next) == std::vector<std::string>{"(end)"};
    };
    auto const read_all = [&] {
        for (int i = 0; i < 100; ++i) {
            round();
            (void)receive(client);
        }
    };
    send(client, "x.Echo.Echo", one_text("text", std::string(30'000, 'x')));
    for (int i = 0; i < 10; ++i)
        round();
    EXPECT_EQ(service.echoes, 1);
    EXPECT_TRUE(is_next_refused()) << "it has not read its answer";
    read_all();
    for (int i = 0; i < 20; ++i)
        send(client, "x.Echo.Echo", R"({"text":"a"})");
    round();
    EXPECT_TRUE(is_next_refused()) << "its calls wait for their turn";
    EXPECT_LT(service.echoes, 21);
    read_all();
    EXPECT_EQ(service.echoes, 21);
    EXPECT_FALSE(is_next_refused());
    EXPECT_THAT(receive(client), ElementsAre("(end)"));
    EXPECT_THAT(receive(of_another_role), SizeIs(0));
}

TEST_F(VarlinkServerTest, WhoHasIdledLongestGivesWay) {
    start({.roles = {{.sessions = 2}, {}}, .evictable = Duration::zero()});
    UniqueFd const first = connect();
    round();
    UniqueFd const second = connect();
    round();
    send(first, "x.Echo.Echo", R"({"text":"a"})");
    for (int i = 0; i < 3; ++i)
        round();
    EXPECT_THAT(receive(first), SizeIs(1));
    UniqueFd const third = connect();
    round();
    closed.clear();
    EXPECT_THAT(receive(second), ElementsAre("(end)"));
    EXPECT_THAT(receive(first), SizeIs(0));
    EXPECT_THAT(receive(third), SizeIs(0));
}

/// What a peer has sent beside its bytes is never taken, nor given up, by us: both would close it here.
TEST_F(VarlinkServerTest, WhoSendsDescriptorsIsHandedToTheCloser) {
    start();
    UniqueFd const client = connect();
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    UniqueFd const reader{ends[0]};
    {
        UniqueFd const writer{ends[1]};
        send(client, "x.Echo.Echo", R"({"text":"a"})");
        char byte = '{';
        iovec content{&byte, 1};
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
        msghdr message{};
        message.msg_iov = &content;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        int const fd = writer.get();
        std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
        ASSERT_EQ(::sendmsg(client.get(), &message, 0), 1);
    }
    for (int i = 0; i < 4; ++i)
        round();
    char byte = 0;
    EXPECT_THAT(closed, SizeIs(1));
    EXPECT_TRUE(::read(reader.get(), &byte, 1) < 0 && errno == EAGAIN);  // the other end lives on in the queue
    EXPECT_TRUE(server->is_idle());
    closed.clear();
    EXPECT_EQ(::read(reader.get(), &byte, 1), 0);
}

TEST_F(VarlinkServerTest, WhatIsNotAConnectionIsNotAdopted) {
    start();
    server->enter([this] { server->adopt(UniqueFd{::open("/dev/null", O_RDWR | O_CLOEXEC)}, guest); });
    EXPECT_THAT(service.failures, ElementsAre("what was handed over is not a connection"));
    EXPECT_TRUE(server->is_idle());
}

}  // namespace

}  // namespace triton::varlink
