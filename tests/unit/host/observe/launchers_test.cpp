#include <condition_variable>
#include <mutex>
#include <set>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/observe/launcher_events.h"
#include "host/observe/launcher_looks.h"

namespace triton::observe {
namespace {

constexpr Duration patience = std::chrono::seconds(60);

/// Where a thread hangs until the test lets it go.
class Gate {
public:
    void open() {
        std::scoped_lock const lock(mutex_);
        is_open_ = true;
        changed_.notify_all();
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return is_open_; });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_open_ = false;
};

TEST(LauncherLooks, BringsWhatWasSeen) {
    net::Loop loop{1};
    LauncherLooks looks(loop, {}, [](LauncherLooks::Order const& order) {
        EXPECT_EQ(order.address, (LauncherAddress{47, 11}));
        EXPECT_TRUE(order.wants_events);
        EXPECT_EQ(order.patience, milliseconds(1500));
        return LauncherSeen{.report = {0, json::Object{}}, .events = {}};
    });
    LauncherSeen seen;
    looks.begin("a", {{47, 11}, true, milliseconds(1500)}, [&](LauncherSeen brought) {
        seen = std::move(brought);
        loop.stop();
    });
    loop.run_for(patience);
    EXPECT_EQ(seen.report.leader, 47);
    EXPECT_TRUE(seen.report.content);
}

TEST(LauncherLooks, WritesOffThoseThatHang) {
    net::Loop loop{1};
    std::set<std::string> freed;
    auto const gate = std::make_shared<Gate>();
    LauncherLooks looks(
        loop, {.at_once = 1, .written_off = 2, .grace = milliseconds(1)},
        [gate](LauncherLooks::Order const&) {
            gate->wait();
            return LauncherSeen{};
        },
        [&freed](std::string const& machine) { freed.insert(machine); });
    for (std::string const machine : {"a", "b"}) {
        ASSERT_TRUE(looks.has_room());
        bool is_done = false;
        looks.begin(machine, {{1, 0}, false, milliseconds(1)}, [&](LauncherSeen const& seen) {
            is_done = true;
            EXPECT_FALSE(seen.report.content);
            EXPECT_EQ(seen.report.leader, 1);
            loop.stop();
        });
        EXPECT_FALSE(looks.has_room());
        loop.restart();
        loop.run_for(patience);
        ASSERT_TRUE(is_done);
        EXPECT_TRUE(looks.hangs(machine));
    }
    EXPECT_EQ(looks.written_off(), 2U);
    EXPECT_FALSE(looks.has_room());  // more of them would be threads without end

    gate->open();
    loop.restart();
    TimePoint const deadline = std::chrono::steady_clock::now() + patience;
    net::Timer waiting(loop);  // without it the loop ends at once: it knows nothing of threads
    waiting.call_at(deadline, [] {});
    while (looks.written_off() > 0 && std::chrono::steady_clock::now() < deadline)
        loop.run_one_for(std::chrono::seconds(1));
    EXPECT_TRUE(looks.has_room());
    EXPECT_EQ(freed, (std::set<std::string>{"a", "b"}));  // somebody has to go on with what had to wait
    EXPECT_FALSE(looks.hangs("a"));
}

TEST(LauncherLooks, HearsNothingOnceItIsGone) {
    net::Loop loop{1};
    auto const gate = std::make_shared<Gate>();
    auto const finished = std::make_shared<Gate>();
    {
        LauncherLooks looks(loop, {}, [gate, finished](LauncherLooks::Order const&) {
            gate->wait();
            finished->open();
            return LauncherSeen{};
        });
        looks.begin("a", {.address = {1, 0}}, [](LauncherSeen const&) { FAIL(); });
    }
    gate->open();
    finished->wait();
    loop.run_for(milliseconds(10));
}

struct Ends {
    UniqueFd ours;
    UniqueFd theirs;
};
Ends make_ends() {
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
    return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

TEST(LauncherEvents, HearsAndHearsTheEnd) {
    net::Loop loop{1};
    int heard = 0;
    bool has_ended = false;
    Ends ends = make_ends();
    LauncherEvents events(loop, {.pause = milliseconds(1)},
                          {[&](std::string const& machine) {
                               EXPECT_EQ(machine, "a");
                               ++heard;
                               ends.theirs = UniqueFd();
                           },
                           [&](std::string const&) {
                               has_ended = true;
                               loop.stop();
                           }});
    LauncherAddress const address{1, 0};
    EXPECT_TRUE(events.is_wanted("a", address));
    events.follow("a", address, std::move(ends.ours));
    EXPECT_FALSE(events.is_wanted("a", address));
    EXPECT_TRUE(events.is_wanted("a", LauncherAddress{2, 0}));  // another PID 1
    ASSERT_EQ(::write(ends.theirs.get(), "x", 1), 1);
    loop.run_for(patience);
    EXPECT_EQ(heard, 1);
    EXPECT_TRUE(has_ended);
    EXPECT_EQ(events.connections(), 0U);
    EXPECT_FALSE(events.is_wanted("a", address));  // it has lived for a moment only
}

TEST(LauncherEvents, AConnectionThatHasLivedIsMadeAgainAtOnce) {
    net::Loop loop{1};
    Ends ends = make_ends();
    LauncherEvents events(loop, {.short_life = Duration(0)},
                          {[](std::string const&) {}, [&](std::string const&) { loop.stop(); }});
    events.follow("a", {1, 0}, std::move(ends.ours));
    ends.theirs = UniqueFd();
    loop.run_for(patience);
    EXPECT_TRUE(events.is_wanted("a", {1, 0}));
}

}  // namespace
}  // namespace triton::observe
