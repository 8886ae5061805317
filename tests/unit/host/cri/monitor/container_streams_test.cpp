#include "host/cri/monitor/container_streams.h"

#include <array>
#include <csignal>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/base/pipe.h"
#include "lib/base/write_all.h"

namespace triton::cri::monitor {

namespace {

/// What is in a pipe now. "<end>" is its end.
std::string content_of(int fd) {
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    std::string text;
    std::array<char, 65536> buffer{};
    ssize_t size = 0;
    while ((size = ::read(fd, buffer.data(), buffer.size())) > 0)
        text.append(buffer.data(), static_cast<std::size_t>(size));
    return size == 0 ? text + "<end>" : text;
}

class ContainerStreamsTest : public testing::Test {
protected:
    ContainerStreamsTest() { ::signal(SIGPIPE, SIG_IGN); }  // as the monitor does

    void open_input(bool is_terminal, bool is_once) {
        Pipe pipe = make_pipe().value();
        ::fcntl(pipe.writer.get(), F_SETFL, O_NONBLOCK);
        input_ = std::move(pipe.reader);
        streams_.set_input(std::move(pipe.writer), is_terminal, is_once);
    }
    void poll_once() {
        PollSet polled;
        streams_.add_to(polled, [this] { return &streams_; });
        polled.wait(0);
    }

    TimePoint now_ = steady_now();
    ContainerStreams streams_;
    UniqueFd input_;
};

TEST_F(ContainerStreamsTest, OutputGoesToEachClientThatWantsIt) {
    auto const both = streams_.attach(1, stream_output | stream_errors).value();
    auto const errors = streams_.attach(2, stream_errors).value();
    EXPECT_FALSE(errors.output);
    streams_.pass_on("out", false, now_);
    streams_.pass_on("err", true, now_);
    EXPECT_EQ(content_of(both.output.get()), "out");
    EXPECT_EQ(content_of(both.errors.get()), "err");
    EXPECT_EQ(content_of(errors.errors.get()), "err");
    EXPECT_EQ(streams_.detach(1), 0U);
    EXPECT_EQ(content_of(both.output.get()), "<end>");
    EXPECT_EQ(streams_.clients(), std::vector<ContainerStreams::Client>{2});
}

TEST_F(ContainerStreamsTest, SlowClientHoldsUpTheContainerAndLosesNothing) {
    auto const slow = streams_.attach(1, stream_output | stream_errors).value();
    std::string const piece(64 * 1024, 'x');
    std::size_t written = 0;
    std::string seen;
    while (!streams_.holds_up(false)) {
        streams_.pass_on(piece, false, now_);
        written += piece.size();
    }
    EXPECT_GT(written, std::size_t{ContainerStreams::pipe_bytes});
    EXPECT_FALSE(streams_.holds_up(true));
    EXPECT_TRUE(streams_.is_behind(1));
    EXPECT_EQ(streams_.deadline(), now_ + ContainerStreams::patience);
    poll_once();  // there is no room yet
    EXPECT_TRUE(streams_.holds_up(false));
    seen += content_of(slow.output.get());
    poll_once();
    EXPECT_FALSE(streams_.holds_up(false));
    EXPECT_EQ(streams_.deadline(), TimePoint::max());
    seen += content_of(slow.output.get());
    EXPECT_EQ(seen.size(), written);
    EXPECT_EQ(streams_.detach(1), 0U);
}

TEST_F(ContainerStreamsTest, ClientThatHasStoppedHoldsUpTheContainerOnce) {
    auto const slow = streams_.attach(1, stream_output).value();
    auto const quick = streams_.attach(2, stream_output).value();
    std::string const piece(64 * 1024, 'x');
    std::size_t written = 0;
    std::size_t seen = 0;
    auto const pass = [&] {
        streams_.pass_on(piece, false, now_);
        written += piece.size();
        seen += content_of(quick.output.get()).size();
    };
    while (!streams_.holds_up(false))
        pass();
    streams_.give_up_stopped(now_ + ContainerStreams::patience - nanoseconds(1));
    EXPECT_TRUE(streams_.holds_up(false));
    streams_.give_up_stopped(now_ + ContainerStreams::patience);
    EXPECT_FALSE(streams_.holds_up(false));
    for (int i = 0; i < 64; ++i) {
        pass();
        ASSERT_FALSE(streams_.holds_up(false));
    }
    EXPECT_EQ(seen, written);
    // It has caught up, and counts again.
    std::size_t const kept = content_of(slow.output.get()).size();
    pass();
    std::size_t const last = content_of(slow.output.get()).size();
    EXPECT_EQ(last, piece.size());
    while (!streams_.holds_up(false))
        pass();
    EXPECT_EQ(streams_.detach(2), 0U);
    std::size_t const since = content_of(slow.output.get()).size();
    EXPECT_LE(kept + last + since + streams_.detach(1), written);
}

TEST_F(ContainerStreamsTest, EndOfTheContainerWaitsForASlowClient) {
    auto const slow = streams_.attach(1, stream_output).value();
    auto const quick = streams_.attach(2, stream_errors).value();
    std::string const piece(64 * 1024, 'x');
    std::size_t written = 0;
    for (int i = 0; i < 32; ++i) {  // what was left in its pipe, whoever is behind
        streams_.pass_on(piece, false, now_);
        written += piece.size();
    }
    streams_.close();
    EXPECT_FALSE(streams_.is_behind(2));
    EXPECT_EQ(content_of(quick.errors.get()), "<end>");
    std::size_t seen = 0;
    while (streams_.is_behind(1)) {
        seen += content_of(slow.output.get()).size();
        poll_once();
    }
    EXPECT_EQ(streams_.detach(1), 0U);
    std::string const rest = content_of(slow.output.get());
    EXPECT_TRUE(rest.ends_with("<end>"));
    EXPECT_EQ(seen + rest.size() - 5, written);
}

TEST_F(ContainerStreamsTest, ClientThatGoesHoldsUpNothing) {
    auto slow = streams_.attach(1, stream_output).value();
    while (!streams_.holds_up(false))
        streams_.pass_on(std::string(65536, 'x'), false, now_);
    slow.output = {};
    poll_once();
    EXPECT_FALSE(streams_.holds_up(false));
    while (!streams_.attach(2, stream_output)) {
    }
}

TEST_F(ContainerStreamsTest, NinthClientIsRefused) {
    for (ContainerStreams::Client i = 0; i < ContainerStreams::most_clients; ++i)
        ASSERT_TRUE(streams_.attach(i, stream_output));
    auto const refused = streams_.attach(99, stream_output);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().text(), "cannot attach to a container: it has 8 clients already");
    streams_.detach(3);
    EXPECT_TRUE(streams_.attach(99, stream_output));
}

TEST_F(ContainerStreamsTest, InputOnceEndsWithItsFirstClient) {
    open_input(false, true);
    auto ends = streams_.attach(1, stream_input).value();
    ASSERT_TRUE(write_all(ends.input.get(), "typed"));
    poll_once();
    EXPECT_EQ(content_of(input_.get()), "typed");
    ASSERT_TRUE(write_all(ends.input.get(), "last"));
    ends.input = {};
    streams_.detach(1);  // what was on its way still arrives
    poll_once();
    poll_once();
    EXPECT_EQ(content_of(input_.get()), "last<end>");
    EXPECT_FALSE(streams_.attach(2, stream_input).value().input);
}

TEST_F(ContainerStreamsTest, InputOfManyStaysOpen) {
    open_input(false, false);
    auto first = streams_.attach(1, stream_input).value();
    auto second = streams_.attach(2, stream_input).value();
    ASSERT_TRUE(write_all(first.input.get(), "one "));
    first.input = {};
    streams_.detach(1);
    poll_once();
    poll_once();
    ASSERT_TRUE(write_all(second.input.get(), "two"));
    poll_once();
    EXPECT_EQ(content_of(input_.get()), "one two");
}

TEST_F(ContainerStreamsTest, InputThatNobodyReadsWaitsInThePipeOfItsClient) {
    open_input(false, false);
    auto const ends = streams_.attach(1, stream_input).value();
    ::fcntl(ends.input.get(), F_SETFL, O_NONBLOCK);
    std::string const piece(4096, 'x');
    std::size_t written = 0;
    for (int i = 0; i < 1000; ++i) {
        ssize_t const size = ::write(ends.input.get(), piece.data(), piece.size());
        if (size > 0) written += static_cast<std::size_t>(size);
        poll_once();
    }
    EXPECT_LE(written, std::size_t{ContainerStreams::pipe_bytes} + 2 * 65536);
    input_ = {};  // the program reads no more: its clients are told
    poll_once();
    EXPECT_LT(::write(ends.input.get(), piece.data(), piece.size()), 0);
}

}  // namespace

}  // namespace triton::cri::monitor
