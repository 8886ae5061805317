#include "host/cri/images/pulls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

namespace {

using namespace triton;
using namespace triton::cri;
using testing::ElementsAre;

class CriPulls : public testing::Test {
protected:
    struct Started {
        PullKey key;
        int cancel;
        Pulls::Done finished;
    };
    std::vector<Started> started;
    std::vector<std::string> told;
    bool can_start = true;
    Pulls pulls{[this](PullKey const& key, int cancel, Pulls::Done finished) -> Result<> {
        if (!can_start) return fail(ErrorKind::unavailable, "no thread");
        started.push_back({key, cancel, std::move(finished)});
        return {};
    }};
    Pulls::Done note(std::string const& who) {
        return
            [this, who](Result<std::string> const& id) { told.push_back(who + ": " + (id ? *id : id.error().text())); };
    }
};

TEST_F(CriPulls, EqualOnesAreOne) {
    pulls.pull({"a", "secret"}, note("first"));
    pulls.pull({"a", "secret"}, note("second"));
    pulls.pull({"a", "other"}, note("third"));
    ASSERT_EQ(started.size(), 2U) << "with other credentials it may have another end";
    started[0].finished("id");
    EXPECT_THAT(told, ElementsAre("first: id", "second: id"));
    pulls.pull({"a", "secret"}, note("fourth"));
    EXPECT_EQ(started.size(), 3U) << "a tag may mean something else by now";
    started[1].finished(fail("no such image"));
    started[2].finished("new");
    EXPECT_THAT(told, ElementsAre("first: id", "second: id", "third: no such image", "fourth: new"));
    EXPECT_EQ(pulls.running(), 0U);
}

TEST_F(CriPulls, OneThatCannotStartIsOver) {
    can_start = false;
    pulls.pull({"a", ""}, note("first"));
    EXPECT_THAT(told, ElementsAre("first: no thread"));
    EXPECT_EQ(pulls.running(), 0U);
}

TEST_F(CriPulls, AllCanBeGivenUp) {
    pulls.pull({"a", ""}, note("first"));
    pulls.pull({"b", ""}, note("second"));
    auto const is_cancelled = [this](std::size_t i) {
        pollfd waiting{.fd = started[i].cancel, .events = POLLIN, .revents = 0};
        return ::poll(&waiting, 1, 0) == 1;
    };
    EXPECT_FALSE(is_cancelled(0) || is_cancelled(1));
    pulls.cancel();
    EXPECT_TRUE(is_cancelled(0) && is_cancelled(1));
    started[0].finished(fail("cancelled"));
    EXPECT_EQ(pulls.running(), 1U);
}

}  // namespace
