#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "lib/varlink/session.h"

namespace triton::varlink {

namespace {

TEST(VarlinkSession, GivesBackWhatOnlySomethingLongHasNeeded) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    UniqueFd const reader{ends[0]};
    Session session{UniqueFd{ends[1]}, {}, Role{0}, {}};
    std::string const text(1 << 20, 'x');
    session.output({}) += text;
    std::string taken;
    while (session.pending() > 0) {
        session.flush({});
        char buffer[65536];
        for (ssize_t size; (size = ::recv(reader.get(), buffer, sizeof buffer, 0)) > 0;)
            taken.append(buffer, static_cast<std::size_t>(size));
    }
    EXPECT_TRUE(taken == text);
    EXPECT_LE(session.output({}).capacity(), std::size_t{64} * 1024);
}

/// The time of a reader begins when there is something to read, not when it last took something.
TEST(VarlinkSession, TheTimeToReadBeginsWithWhatIsToBeRead) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    UniqueFd const reader{ends[0]};
    TimePoint const start{std::chrono::seconds(100)};
    TimePoint const later = start + std::chrono::hours(1);
    Session session{UniqueFd{ends[1]}, {}, Role{0}, start};
    session.output(start) += "x";
    session.flush(start);
    ASSERT_EQ(session.pending(), 0U);
    session.output(later) += "y";
    EXPECT_EQ(session.progress_at(), later);
    session.output(later + std::chrono::seconds(1)) += "z";  // "y" still waits
    EXPECT_EQ(session.progress_at(), later);
}

/// Whoever reads slowly, but goes on reading, is neither stuck nor idle.
TEST(VarlinkSession, EachPartThatIsTakenIsProgress) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    UniqueFd const reader{ends[0]};
    int const small = 4096;
    ASSERT_EQ(::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    auto const at = [](int second) { return TimePoint{std::chrono::seconds(second)}; };
    Session session{UniqueFd{ends[1]}, {}, Role{0}, at(0)};
    session.output(at(1)) += std::string(100'000, 'x');
    session.flush(at(1));
    ASSERT_GT(session.pending(), 0U);
    session.flush(at(2));  // nobody has read
    EXPECT_EQ(session.progress_at(), at(1));
    EXPECT_EQ(session.last_active(), at(1));
    char buffer[65536];
    while (::recv(reader.get(), buffer, sizeof buffer, 0) > 0) {
    }
    session.flush(at(3));
    ASSERT_GT(session.pending(), 0U);
    EXPECT_EQ(session.progress_at(), at(3));
    EXPECT_EQ(session.last_active(), at(3));
}

/// What was not read an hour ago has been read since: whoever reads late once is not deaf.
TEST(VarlinkSession, WhoDoesNotReadIsDeafSinceTheLastTimeThatItHadReadAll) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    UniqueFd const reader{ends[0]};
    auto const at = [](int second) { return TimePoint{std::chrono::seconds(second)}; };
    Session session{UniqueFd{ends[1]}, {}, Role{0}, at(0)};
    session.watch_reader();
    auto const send = [&](int second) {
        session.output(at(second)) += "x";
        session.flush(at(second));
    };
    char buffer[16];
    send(10);
    send(20);
    EXPECT_EQ(session.deaf_for(at(25)), std::chrono::seconds(15));
    ASSERT_EQ(::recv(reader.get(), buffer, sizeof buffer, 0), 2);
    EXPECT_EQ(session.deaf_for(at(30)), Duration::zero());
    send(3600);
    EXPECT_EQ(session.deaf_for(at(3601)), std::chrono::seconds(1));
}

TEST(VarlinkSession, TheTimeForTheRestOfACallBeginsWithItsFirstByte) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    UniqueFd const writer{ends[0]};
    auto const at = [](int second) { return TimePoint{std::chrono::seconds(second)}; };
    auto const send = [&](std::string_view text) {
        ASSERT_EQ(::send(writer.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    };
    Session session{UniqueFd{ends[1]}, {}, Role{0}, at(0)};
    send("a");
    session.receive(100, at(1));
    send("b");
    session.receive(100, at(5));
    EXPECT_TRUE(session.has_partial_message());
    EXPECT_EQ(session.partial_since(), at(1));
    send(std::string_view("\0c", 2));
    session.receive(100, at(6));
    EXPECT_EQ(session.take_message(at(7)), "ab");
    EXPECT_EQ(session.partial_since(), at(7));  // of the next
    EXPECT_FALSE(session.has_message());
}

/// A job may end the session's job from inside of its own run(): it lives on until nobody is at work with it.
TEST(VarlinkSession, AJobThatHasEndedLivesUntilItIsDropped) {
    class Counted : public Job {
    public:
        explicit Counted(int& count) : Job(1), count_(count) { ++count_; }
        ~Counted() override { --count_; }

    private:
        int& count_;
    };
    int count = 0;
    Session session{UniqueFd{}, {}, Role{0}, {}};
    session.begin(std::make_unique<Counted>(count));
    session.begin(std::make_unique<Counted>(count));
    session.end_job();
    EXPECT_EQ(session.job(), nullptr);
    EXPECT_EQ(count, 2);
    session.drop_ended_jobs();
    EXPECT_EQ(count, 0);
}

}  // namespace

}  // namespace triton::varlink
