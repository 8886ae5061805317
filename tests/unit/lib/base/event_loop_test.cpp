#include "lib/base/event_loop.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton {

namespace {

using namespace std::chrono_literals;
using Watch = EventLoop::Watch;
using Timer = EventLoop::Timer;

struct Pipe {
    UniqueFd read;
    UniqueFd write;

    Pipe() {
        int fds[2];
        if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
        read = UniqueFd{fds[0]};
        write = UniqueFd{fds[1]};
    }
    void fill() const { EXPECT_EQ(::write(write.get(), "x", 1), 1); }
    void drain() const {
        char byte = 0;
        EXPECT_EQ(::read(read.get(), &byte, 1), 1);
    }
};

class EventLoopTest : public testing::Test {
protected:
    /// Runs until a callback stops the loop; a loop that hangs fails instead.
    void run() {
        Timer limit{*loop, [this] { hung = true, loop->stop(); }};
        limit.arm(std::chrono::steady_clock::now() + 10s);
        run_as_it_is();
        EXPECT_FALSE(hung);
    }
    void run_as_it_is() {
        auto const result = loop->run();
        EXPECT_TRUE(result) << result.error().text();
    }
    Watch on_readable(int fd, std::function<void()> call) {
        auto watch = loop->on_readable(fd, std::move(call));
        EXPECT_TRUE(watch) << watch.error().text();
        return watch ? std::move(*watch) : Watch{};
    }
    /// Lets the loop go round until nothing is left of what was ready: `last` becomes ready in a later round.
    void run_two_rounds() {
        Pipe last;
        int rounds = 0;
        Watch const counter = on_readable(last.read.get(), [&] {
            if (++rounds == 2) loop->stop();
        });
        last.fill();
        run();
    }

    std::unique_ptr<EventLoop> loop = *EventLoop::create();
    bool hung = false;
};

/// After all callbacks of a round, the timers' too, and never without one.
TEST_F(EventLoopTest, ARoundEndsOnce) {
    std::string seen;
    Pipe one;
    Pipe other;
    one.fill();
    other.fill();
    TimePoint due = std::chrono::steady_clock::now();
    Watch const first = on_readable(one.read.get(), [&] { one.drain(), seen += 'c'; });
    Watch const second = on_readable(other.read.get(), [&] { other.drain(), seen += 'c'; });
    loop->set_round_end([&] {
        seen += 'e';
        if (seen.size() > 4) loop->stop();
    });
    Timer timer{*loop, [&] { seen += 't', timer.arm(due += 10ms); }};
    timer.arm(due);
    run_as_it_is();
    EXPECT_EQ(seen,
              "ccte"
              "te");
}

TEST_F(EventLoopTest, CallsInEachRoundInWhichItIsReadable) {
    Pipe pipe;
    int calls = 0;
    Watch const watch = on_readable(pipe.read.get(), [&] {
        if (++calls == 3) loop->stop();  // nothing was read: it is readable still
    });
    pipe.fill();
    run();
    EXPECT_EQ(calls, 3);
}

TEST_F(EventLoopTest, HangUpIsReadable) {
    Pipe pipe;
    int calls = 0;
    Watch const watch = on_readable(pipe.read.get(), [&] { ++calls, loop->stop(); });
    pipe.write = UniqueFd{};
    run();
    EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, WritableIsAnEventOfItsOwn) {
    Pipe pipe;
    bool readable = false;
    Watch const reader = on_readable(pipe.read.get(), [&] { readable = true; });
    int calls = 0;
    auto const writer = loop->on_writable(pipe.write.get(), [&] { ++calls, loop->stop(); });
    ASSERT_TRUE(writer);
    run();
    EXPECT_EQ(calls, 1);
    EXPECT_FALSE(readable);
}

TEST_F(EventLoopTest, DroppedWatchIsSilent) {
    Pipe pipe;
    int calls = 0;
    {
        Watch const watch = on_readable(pipe.read.get(), [&] { ++calls; });
    }
    pipe.fill();
    run_two_rounds();
    EXPECT_EQ(calls, 0);
    // and the descriptor may be watched anew
    Watch const again = on_readable(pipe.read.get(), [&] { ++calls, loop->stop(); });
    run();
    EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, WatchMayBeDroppedByItsOwnCallback) {
    Pipe pipe;
    // What the callback owns must live until it returns, although it gives up its registration before.
    auto const witness = std::make_shared<int>(0);
    Watch watch;
    watch = on_readable(pipe.read.get(), [&watch, witness] {
        watch = Watch{};
        ++*witness;
    });
    EXPECT_EQ(witness.use_count(), 2);
    pipe.fill();
    run_two_rounds();
    EXPECT_EQ(*witness, 1);
    EXPECT_EQ(witness.use_count(), 1);
    EXPECT_FALSE(watch);
}

/// Both are ready in one round, in an order that is the kernel's choice; whoever comes first drops the other.
TEST_F(EventLoopTest, WatchMayBeDroppedByAnotherCallbackOfTheRound) {
    std::array<Pipe, 2> pipes;
    std::array<Watch, 2> watches;
    int calls = 0;
    for (std::size_t i : {0, 1}) {
        watches[i] = on_readable(pipes[i].read.get(), [&, i] {
            ++calls;
            watches[1 - i] = Watch{};
            pipes[i].drain();
        });
        pipes[i].fill();
    }
    run_two_rounds();
    EXPECT_EQ(calls, 1);
}

/// As before, but the number of the dropped descriptor is in use again when its event is still in flight.
TEST_F(EventLoopTest, EventOfAClosedDescriptorDoesNotReachItsNumbersNextOwner) {
    std::array<Pipe, 2> pipes;
    std::array<Watch, 2> watches;
    Pipe successor;
    int calls = 0;
    int wrong_calls = 0;
    for (std::size_t i : {0, 1}) {
        watches[i] = on_readable(pipes[i].read.get(), [&, i] {
            ++calls;
            pipes[i].drain();
            std::size_t const other = 1 - i;
            int const number = pipes[other].read.get();
            watches[other] = Watch{};
            ASSERT_EQ(::dup2(successor.read.get(), number), number);  // closes it, opens it as another pipe's end
            watches[other] = on_readable(number, [&] { ++wrong_calls; });
        });
        pipes[i].fill();
    }
    run_two_rounds();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(wrong_calls, 0);  // nobody has written to the successor
}

TEST_F(EventLoopTest, WatchMadeInACallbackCounts) {
    Pipe first;
    Pipe second;
    second.fill();
    Watch late;
    std::array<Pipe, 20> spare;
    std::vector<Watch> more;
    bool called = false;
    Watch const watch = on_readable(first.read.get(), [&] {
        first.drain();
        late = on_readable(second.read.get(), [&] { called = true, loop->stop(); });
        // enough of them to move the registrations while one of them is being called
        for (Pipe const& pipe : spare)
            more.push_back(on_readable(pipe.read.get(), [] {}));
    });
    first.fill();
    run();
    EXPECT_TRUE(called);
}

TEST_F(EventLoopTest, MoreEventsThanFitIntoOneRoundAllArrive) {
    std::vector<Pipe> pipes(50);
    std::vector<Watch> watches;
    std::size_t left = pipes.size();
    for (Pipe& pipe : pipes) {
        watches.push_back(on_readable(pipe.read.get(), [&] {
            pipe.drain();
            if (--left == 0) loop->stop();
        }));
        pipe.fill();
    }
    run();
    EXPECT_EQ(left, 0);
}

TEST_F(EventLoopTest, RefusesWhatCannotBeWatched) {
    Pipe pipe;
    auto const closed = loop->on_readable(-1, [] {});
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().text(), ("cannot watch descriptor -1: Bad file descriptor"));
    Watch const first = on_readable(pipe.read.get(), [] {});
    auto const second = loop->on_readable(pipe.read.get(), [] {});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EEXIST);
}

TEST_F(EventLoopTest, ATimerWhoseTimeHasPassedIsCalledAtOnceAndOnce) {
    int calls = 0;
    Timer timer{*loop, [&] { ++calls; }};
    timer.arm(TimePoint{});
    EXPECT_EQ(timer.when(), TimePoint{});
    run_two_rounds();
    EXPECT_EQ(calls, 1);
    EXPECT_FALSE(timer.is_armed());
    EXPECT_EQ(timer.when(), std::nullopt);
}

TEST_F(EventLoopTest, ATimerIsNotCalledEarly) {
    TimePoint const when = std::chrono::steady_clock::now() + 5ms + 300us;  // not a whole number of milliseconds
    TimePoint called{};
    Timer timer{*loop, [&] { called = loop->now(), loop->stop(); }};
    timer.arm(when);
    run_as_it_is();
    EXPECT_GE(called, when);
}

TEST_F(EventLoopTest, ATimerThatNeverComesDoesNotOverflow) {
    Timer timer{*loop, [] { FAIL(); }};
    timer.arm(TimePoint::max());
    Timer first{*loop, [&] { loop->stop(); }};
    first.arm(TimePoint::min());
    run_as_it_is();
    EXPECT_TRUE(timer.is_armed());
}

TEST_F(EventLoopTest, ATimerArmedAgainIsCalledAtItsLatestTimeAlone) {
    int calls = 0;
    Timer timer{*loop, [&] { ++calls; }};
    timer.arm(TimePoint{});
    timer.arm(TimePoint::max());
    run_two_rounds();
    EXPECT_EQ(calls, 0);
    timer.arm(TimePoint{} + 1ns);
    run_two_rounds();
    EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, ADisarmedTimerIsSilent) {
    int calls = 0;
    Timer timer{*loop, [&] { ++calls; }};
    timer.arm(TimePoint{});
    timer.disarm();
    timer.disarm();
    timer.arm(std::nullopt);
    run_two_rounds();
    EXPECT_EQ(calls, 0);
}

TEST_F(EventLoopTest, TimersOfOneRoundAreCalledInTheOrderOfTheirTimes) {
    std::string seen;
    Timer third{*loop, [&] { seen += '3', loop->stop(); }};
    Timer first{*loop, [&] { seen += '1'; }};
    Timer second{*loop, [&] { seen += '2'; }};
    third.arm(TimePoint{} + 3ns);
    first.arm(TimePoint{} + 1ns);
    second.arm(TimePoint{} + 2ns);
    run_as_it_is();
    EXPECT_EQ(seen, "123");
}

/// A round is bounded, whatever a callback arms; and descriptors are served in between.
TEST_F(EventLoopTest, ATimerThatArmsItselfIsCalledOnceInARound) {
    Pipe pipe;
    pipe.fill();
    std::string seen;
    Timer timer{*loop, [&] { seen += 't', timer.arm(TimePoint{}); }};
    timer.arm(TimePoint{});
    Watch const watch = on_readable(pipe.read.get(), [&] { seen += 'd'; });
    loop->set_round_end([&] {
        seen += 'e';
        if (seen.size() >= 9) loop->stop();
    });
    run_as_it_is();
    EXPECT_EQ(seen, "dtedtedte");
}

/// Else one that each event arms anew would starve.
TEST_F(EventLoopTest, ATimerThatADescriptorsCallbackArmsIsCalledInTheSameRound) {
    Pipe pipe;
    pipe.fill();
    std::string seen;
    Timer timer{*loop, [&] { seen += 't', loop->stop(); }};
    Watch const watch = on_readable(pipe.read.get(), [&] { seen += 'd', timer.arm(TimePoint{}); });
    run_as_it_is();
    EXPECT_EQ(seen, "dt");
}

TEST_F(EventLoopTest, ATimerMayBeDroppedByItsOwnCallback) {
    auto const witness = std::make_shared<int>(0);
    std::optional<Timer> timer;
    timer.emplace(*loop, [&timer, witness] {
        timer.reset();
        ++*witness;
    });
    timer->arm(TimePoint{});
    run_two_rounds();
    EXPECT_EQ(*witness, 1);
    EXPECT_EQ(witness.use_count(), 1);
}

TEST_F(EventLoopTest, ATimerMayBeDroppedByAnotherCallbackOfTheRound) {
    int calls = 0;
    Pipe pipe;
    pipe.fill();
    std::optional<Timer> first;
    std::optional<Timer> second;
    std::optional<Timer> third;
    first.emplace(*loop, [&] { ++calls, second.reset(); });
    second.emplace(*loop, [&] { ++calls; });
    third.emplace(*loop, [&] { ++calls; });
    Watch const watch = on_readable(pipe.read.get(), [&] { pipe.drain(), third.reset(); });
    first->arm(TimePoint{});
    second->arm(TimePoint{} + 1ns);
    third->arm(TimePoint{} + 2ns);
    run_two_rounds();
    EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, ATimerMadeInACallbackCounts) {
    std::string seen;
    std::vector<std::unique_ptr<Timer>> more;
    Timer timer{*loop, [&] {
                    for (int i = 0; i < 20; ++i) {  // enough of them to move the list that is gone through
                        more.push_back(std::make_unique<Timer>(*loop, [&] { seen += 'm'; }));
                        more.back()->arm(TimePoint{});
                    }
                }};
    timer.arm(TimePoint{});
    run_two_rounds();
    run_two_rounds();
    EXPECT_EQ(seen, std::string(20, 'm'));
}

/// What has failed for want of memory is tried again, and so are the others that were due.
TEST_F(EventLoopTest, ATimerWhoseCallbackThrowsStaysArmed) {
    std::string seen;
    Timer thrower{*loop, [&] {
                      seen += 'x';
                      if (seen.size() == 1) throw std::bad_alloc();
                  }};
    Timer other{*loop, [&] { seen += 'o', loop->stop(); }};
    thrower.arm(TimePoint{});
    other.arm(TimePoint{} + 1ns);
    EXPECT_THROW((void)loop->run(), std::bad_alloc);
    EXPECT_EQ(thrower.when(), TimePoint{});
    run_as_it_is();
    EXPECT_EQ(seen, "xxo");
}

TEST_F(EventLoopTest, ATimerThatWasDroppedBeforeItsCallbackThrowsIsGone) {
    std::optional<Timer> timer;
    timer.emplace(*loop, [&] {
        timer.reset();
        throw std::bad_alloc();
    });
    timer->arm(TimePoint{});
    EXPECT_THROW((void)loop->run(), std::bad_alloc);
    run_two_rounds();
}

TEST_F(EventLoopTest, EventsComeBeforeTheTimersOfTheirRound) {
    Pipe pipe;
    pipe.fill();
    std::vector<std::string> order;
    Watch const watch = on_readable(pipe.read.get(), [&] {
        pipe.drain();
        order.emplace_back("event");
    });
    Timer timer{*loop, [&] {
                    order.emplace_back("timer");
                    loop->stop();
                }};
    timer.arm(TimePoint{});
    run_as_it_is();
    EXPECT_EQ(order, (std::vector<std::string>{"event", "timer"}));
}

/// After we were held up (stopped, or without a processor), a watchdog must not bite who has spoken in time.
TEST_F(EventLoopTest, TimersWaitForAllThatWasReadyInTime) {
    std::vector<Pipe> pipes(50);
    std::vector<Watch> watches;
    std::size_t heard = 0;
    for (Pipe& pipe : pipes) {
        watches.push_back(on_readable(pipe.read.get(), [&] {
            pipe.drain();
            ++heard;
        }));
        pipe.fill();
    }
    Timer timer{*loop, [this] { loop->stop(); }};
    timer.arm(TimePoint{});
    run_as_it_is();
    EXPECT_EQ(heard, pipes.size());
}

TEST_F(EventLoopTest, TimersDoNotWaitForWhatIsAlwaysReady) {
    std::vector<Pipe> pipes(50);
    std::vector<Watch> watches;
    std::vector<std::size_t> heard(pipes.size());
    for (std::size_t i = 0; i < pipes.size(); ++i) {
        watches.push_back(on_readable(pipes[i].read.get(), [&heard, i] { ++heard[i]; }));
        pipes[i].fill();
    }
    Timer timer{*loop, [this] { loop->stop(); }};
    timer.arm(TimePoint{});
    run_as_it_is();
    EXPECT_THAT(heard, testing::Each(testing::AllOf(testing::Ge(1U), testing::Le(2U))));
}

TEST_F(EventLoopTest, OneRoundHasOneTime) {
    std::array<Pipe, 2> pipes;
    std::vector<Watch> watches;
    std::vector<TimePoint> times;
    for (Pipe& pipe : pipes) {
        watches.push_back(on_readable(pipe.read.get(), [&] {
            TimePoint const before = std::chrono::steady_clock::now();
            while (std::chrono::steady_clock::now() == before)
                continue;  // the clock has gone on
            times.push_back(loop->now());
            loop->stop();
        }));
        pipe.fill();
    }
    run();
    ASSERT_EQ(times.size(), 2);
    EXPECT_EQ(times[0], times[1]);
}

}  // namespace

}  // namespace triton
