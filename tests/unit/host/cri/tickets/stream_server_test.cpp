// The daemon's side of the stream server, with programs that die, lie and do not start.

#include "host/cri/tickets/stream_server.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace triton::cri {

namespace {

using monitor::Kind;
using monitor::Message;

/// The other end of a channel: what triton-cri-stream would have.
struct Peer {
    UniqueFd channel;
    UniqueFd listener = {};
};

class StubProcess : public StreamServer::Process {
public:
    StubProcess(UniqueFd channel, Result<> end) : channel_(std::move(channel)), end_(std::move(end)) {}
    [[nodiscard]] int channel() override { return channel_.get(); }
    Result<> finish() override { return end_; }

private:
    UniqueFd channel_;
    Result<> end_;
};

class StreamServerTest : public testing::Test {
protected:
    StreamServer& server() {
        if (!server_)
            server_ = std::make_unique<StreamServer>(
                StreamServer::Settings{.address = {"127.0.0.1", 0}, .first_delay = delay_, .longest_delay = 4 * delay_},
                StreamServer::Surroundings{.loop = loop_,
                                           .open =
                                               [this](Ticket const& ticket, StreamServer::Opened opened) {
                                                   opened_.push_back(ticket);
                                                   waiting_.push_back(std::move(opened));
                                               },
                                           .warn = [this](std::string const& warning) { warnings_.push_back(warning); },
                                           .start_process = [this] { return start(); }});
        return *server_;
    }

    Result<std::unique_ptr<StreamServer::Process>> start() {
        starts_.push_back(steady_now());
        if (failures_ > 0) {
            --failures_;
            return fail(ErrorKind::not_found, "start triton-cri-stream", "No such file or directory");
        }
        int ends[2] = {-1, -1};
        if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
            return fail(errno, "make a socket pair");
        peers_.push_back({UniqueFd{ends[1]}});
        return std::make_unique<StubProcess>(UniqueFd{ends[0]}, end_);
    }

    /// Runs the loop until something is as it should be; at most ten seconds.
    template <class Condition>
    bool run_until(Condition condition) {
        TimePoint const limit = steady_now() + std::chrono::seconds(10);
        while (!condition() && steady_now() < limit) {
            loop_.restart();
            loop_.run_one_for(std::chrono::milliseconds(50));
        }
        return condition();
    }
    Peer& peer() { return peers_.back(); }
    /// What the peer was sent next.
    std::optional<monitor::Received> received() {
        std::optional<monitor::Received> got;
        run_until([&] {
            auto next = monitor::receive_message(peer().channel.get());
            if (next) got = *std::move(next);
            return got.has_value();
        });
        return got;
    }
    void redeem(std::string const& token, Kind kind, std::uint64_t sequence) {
        Message message{.kind = Kind::redeem, .sequence = sequence, .texts = {token}};
        message.numbers[0] = static_cast<std::int64_t>(kind);
        ASSERT_TRUE(monitor::send_message(peer().channel.get(), message));
    }
    static std::string token_of(std::string const& url) { return url.substr(url.rfind('/') + 1); }
    void start_and_serve() {
        server().start();
        auto const first = received();
        ASSERT_TRUE(first);
        ASSERT_EQ(first->message.kind, Kind::serve);
        ASSERT_EQ(first->descriptors.size(), 1U);
    }

    net::Loop loop_{1};
    Duration delay_ = std::chrono::milliseconds(5);
    int failures_ = 0;
    Result<> end_{};
    std::vector<Peer> peers_;
    std::vector<TimePoint> starts_;
    std::vector<Ticket> opened_;
    std::vector<StreamServer::Opened> waiting_;
    std::vector<std::string> warnings_;

private:
    std::unique_ptr<StreamServer> server_;
};

TEST_F(StreamServerTest, TicketIsRedeemedOnceAndItsSocketIsHandedOver) {
    start_and_serve();
    std::string const url =
        server().issue({.kind = Kind::forward, .id = "pod", .streams = 5, .ports = {80, 443}}).value();
    EXPECT_TRUE(url.starts_with("http://127.0.0.1:"));
    EXPECT_NE(url.find("/portforward/"), std::string::npos);
    redeem(token_of(url), Kind::forward, 7);
    ASSERT_TRUE(run_until([&] { return waiting_.size() == 1; }));
    EXPECT_EQ(opened_.front().id, "pod");
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    UniqueFd const other{ends[1]};
    waiting_.front()(UniqueFd{ends[0]});
    auto const answer = received();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->message.kind, Kind::redeemed);
    EXPECT_EQ(answer->message.sequence, 7U);
    EXPECT_EQ(answer->message.numbers[2], 0);
    EXPECT_EQ(answer->message.texts, (std::vector<std::string>{"pod", "80,443"}));
    EXPECT_EQ(answer->descriptors.size(), 1U);
    redeem(token_of(url), Kind::forward, 8);
    auto const again = received();
    ASSERT_TRUE(again);
    EXPECT_TRUE(again->message.texts.empty());
    EXPECT_EQ(opened_.size(), 1U);
}

TEST_F(StreamServerTest, ProgramThatEndsIsStartedAgainAndTicketsStayGood) {
    end_ = fail(ErrorKind::unavailable, "triton-cri-stream was killed by SIGKILL");
    start_and_serve();
    std::string const url = server().issue({.kind = Kind::attach, .id = "c"}).value();
    peer().channel = {};
    ASSERT_TRUE(run_until([&] { return peers_.size() == 2; }));
    EXPECT_EQ(warnings_, std::vector<std::string>{"exec, attach and port-forward: triton-cri-stream is started again: "
                                                  "triton-cri-stream was killed by SIGKILL"});
    ASSERT_TRUE(received());
    redeem(token_of(url), Kind::attach, 1);
    EXPECT_TRUE(run_until([&] { return opened_.size() == 1; }));
}

TEST_F(StreamServerTest, WithoutTheProgramNoTicketIsIssued) {
    delay_ = std::chrono::minutes(1);
    start_and_serve();
    peer().channel = {};
    ASSERT_TRUE(run_until([&] { return !warnings_.empty(); }));
    auto const issued = server().issue({.kind = Kind::attach, .id = "c"});
    ASSERT_FALSE(issued);
    EXPECT_EQ(issued.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(warnings_.front(), "exec, attach and port-forward: triton-cri-stream is started again: it has ended");
    EXPECT_EQ(starts_.size(), 1U);
}

TEST_F(StreamServerTest, SessionOfTheProgramBeforeIsNotGivenToTheNextOne) {
    start_and_serve();
    std::string const url = server().issue({.kind = Kind::attach, .id = "c"}).value();
    redeem(token_of(url), Kind::attach, 1);
    ASSERT_TRUE(run_until([&] { return waiting_.size() == 1; }));
    peer().channel = {};
    ASSERT_TRUE(run_until([&] { return peers_.size() == 2; }));
    ASSERT_TRUE(received());  // "serve"
    waiting_.front()(fail(ErrorKind::refused, "container c does not run"));
    redeem("unknown", Kind::attach, 2);
    auto const answer = received();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->message.sequence, 2U);  // and nothing before it
}

TEST_F(StreamServerTest, ProgramThatDoesNotStayIsStartedMoreAndMoreRarely) {
    delay_ = std::chrono::milliseconds(20);
    start_and_serve();
    for (std::size_t i = 2; i <= 6; ++i) {
        peer().channel = {};
        ASSERT_TRUE(run_until([&] { return peers_.size() == i; }));
    }
    std::vector<Duration> const least{delay_, 2 * delay_, 4 * delay_, 4 * delay_, 4 * delay_};
    for (std::size_t i = 0; i < least.size(); ++i)
        EXPECT_GE(starts_[i + 1] - starts_[i], least[i]) << i;
    EXPECT_EQ(warnings_.size(), 5U);
}

TEST_F(StreamServerTest, ProgramThatHasStayedIsStartedSoonAgain) {
    delay_ = std::chrono::milliseconds(20);
    start_and_serve();
    for (std::size_t i = 2; i <= 4; ++i) {
        peer().channel = {};
        ASSERT_TRUE(run_until([&] { return peers_.size() == i; }));
    }
    TimePoint const stays = steady_now() + 5 * delay_;
    (void)run_until([&] { return steady_now() >= stays; });
    TimePoint const ended = steady_now();
    peer().channel = {};
    ASSERT_TRUE(run_until([&] { return peers_.size() == 5; }));
    EXPECT_GE(starts_.back() - ended, delay_);
    EXPECT_LT(starts_.back() - ended, 4 * delay_ + std::chrono::seconds(5));
}

TEST_F(StreamServerTest, ProgramThatCannotBeStartedIsTriedAgainAndToldOnce) {
    failures_ = 3;
    server().start();
    ASSERT_TRUE(run_until([&] { return peers_.size() == 1; }));
    EXPECT_EQ(starts_.size(), 4U);
    EXPECT_EQ(warnings_,
              std::vector<std::string>{"exec, attach and port-forward: cannot start triton-cri-stream: No such "
                                       "file or directory"});
    EXPECT_TRUE(server().issue({.kind = Kind::attach, .id = "c"}));
    failures_ = 1;
    peer().channel = {};
    ASSERT_TRUE(run_until([&] { return peers_.size() == 2; }));
    EXPECT_EQ(warnings_.size(), 3U);  // that it has ended, and that it could not be started
}

TEST_F(StreamServerTest, ProgramThatSaysWhatItMustNotIsReplaced) {
    start_and_serve();
    for (Message const& bad : {Message{.kind = Kind::end}, Message{.kind = Kind::redeem},
                               Message{.kind = Kind::redeem, .texts = {"a", "b"}}}) {
        std::size_t const before = peers_.size();
        ASSERT_TRUE(monitor::send_message(peer().channel.get(), bad));
        ASSERT_TRUE(run_until([&] { return peers_.size() == before + 1; }));
        EXPECT_EQ(warnings_.back(),
                  "exec, attach and port-forward: triton-cri-stream is started again: it has sent what it must not");
        ASSERT_TRUE(received());
    }
}

}  // namespace

}  // namespace triton::cri
