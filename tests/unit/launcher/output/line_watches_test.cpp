#include "launcher/output/line_watches.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace triton::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Processes write into real pipes, and what is sent of it is kept. What they have written is read in one round.
class Lines : public testing::Test {
protected:
    using Sent = std::pair<std::uint64_t, std::string>;

    Lines() {
        output.follow([this](std::uint32_t program, LogChunk const& chunk) { watches.take(program, chunk); });
        config::Output wanted{.kind = config::OutputKind::captured};
        EXPECT_TRUE(output.configure(0, "web", wanted));
    }
    void begin_run(std::uint32_t process = 1) { ends[process] = *output.write_ends({0, process}); }
    void say(std::string_view text, std::uint32_t process = 1, bool is_err = false) {
        int const fd = is_err ? ends[process].err : ends[process].out;
        EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
        timer.arm(std::chrono::steady_clock::now());
        EXPECT_TRUE(loop->run());
    }
    std::vector<Sent> take() { return std::exchange(sent, {}); }

    std::unique_ptr<EventLoop> loop = std::move(*EventLoop::create());
    EventLoop::Timer timer{*loop, [this] { loop->stop(); }};
    Console console;
    SyslogRelay relay{*loop, {}};
    OutputCapture output{*loop, console, relay, {}};
    std::size_t room = SIZE_MAX;  // calls of send()
    std::vector<Sent> sent;
    std::vector<std::uint32_t> missed;
    LineWatches watches{output,
                        {.has_room = [this] { return room > 0; },
                         .send =
                             [this](std::uint64_t id, std::span<std::string_view const> lines) {
                                 --room;
                                 for (std::string_view const line : lines)
                                     sent.emplace_back(id, line);
                             },
                         .missed = [this](OutputKey key) { missed.push_back(key.process); }}};
    std::map<std::uint32_t, OutputCapture::WriteEnds> ends;
};

constexpr auto both = config::LogStream::both;
constexpr OutputKey web1{0, 1};

TEST_F(Lines, AreSentFromTheStartOfTheRunOn) {
    begin_run();
    say("before\nmore\n");
    watches.begin(web1, 7, both);
    EXPECT_THAT(sent, IsEmpty()) << "not from inside of begin()";
    EXPECT_TRUE(watches.is_to_catch_up());
    watches.catch_up();
    EXPECT_THAT(take(), ElementsAre(Sent{7, "before"}, Sent{7, "more"}));
    EXPECT_FALSE(watches.is_to_catch_up());
    say("later\n");
    EXPECT_THAT(take(), ElementsAre(Sent{7, "later"})) << "at once";
    watches.end(web1);
    say("nobody asks\n");
    EXPECT_THAT(take(), IsEmpty());
}

TEST_F(Lines, OfAnEarlierRunAreNotSent) {
    begin_run();
    say("old\n");
    say("begun");
    output.process_ended(web1);
    begin_run();
    watches.begin(web1, 7, both);
    watches.catch_up();
    EXPECT_THAT(take(), IsEmpty());
    say("new\n");
    EXPECT_THAT(take(), ElementsAre(Sent{7, "new"}));
}

TEST_F(Lines, OfOtherNumbersAndStreamsAreNotSent) {
    begin_run(1);
    begin_run(2);
    watches.begin(web1, 7, config::LogStream::err);
    say("out\n");
    say("err\n", 1, true);
    say("other\n", 2, true);
    watches.catch_up();
    EXPECT_THAT(take(), ElementsAre(Sent{7, "err"}));
    say("out\n");
    say("err again\n", 1, true);
    say("other\n", 2, true);
    EXPECT_THAT(take(), ElementsAre(Sent{7, "err again"}));
}

TEST_F(Lines, NobodyWaitsForWhoeverIsSlow) {
    begin_run();
    watches.begin(web1, 7, both);
    watches.catch_up();
    room = 0;
    for (int i = 0; i < 3; ++i)
        say(std::to_string(i) + "\n");
    EXPECT_THAT(take(), IsEmpty());
    EXPECT_FALSE(watches.is_to_catch_up()) << "without room";
    room = 2;
    watches.catch_up();
    EXPECT_THAT(take(), ElementsAre(Sent{7, "0"}, Sent{7, "1"}));
    room = SIZE_MAX;
    say("3\n");
    EXPECT_THAT(take(), IsEmpty()) << "in their order";
    watches.catch_up();
    EXPECT_THAT(take(), ElementsAre(Sent{7, "2"}, Sent{7, "3"}));
    EXPECT_THAT(missed, IsEmpty());
}

TEST_F(Lines, ThatAreGoneAreToldOnce) {
    begin_run();
    watches.begin(web1, 7, both);
    room = 0;
    for (int i = 0; i < 40; ++i)
        say(std::string(4000, 'x') + "\n");
    room = SIZE_MAX;
    watches.catch_up();
    EXPECT_THAT(missed, ElementsAre(1U));
    EXPECT_LE(take().size(), LogRing::default_capacity / 4000);
    say("end\n");
    EXPECT_THAT(take(), ElementsAre(Sent{7, "end"}));
    EXPECT_THAT(missed, ElementsAre(1U));
}

TEST_F(Lines, AreSentByTheirBeginnings) {
    begin_run();
    watches.begin(web1, 7, both);
    watches.catch_up();
    std::string const piece(30'000, 'a');
    for (int i = 0; i < 4; ++i)
        say(piece);
    say("end\nnext\n");
    EXPECT_THAT(take(), ElementsAre(Sent{7, std::string(LineWatches::longest_shown, 'a')}, Sent{7, "next"}));
}

TEST_F(Lines, ARoundReadsSoManyRings) {
    std::size_t const count = 3 * LineWatches::most_reads;
    for (std::uint32_t number = 1; number <= count; ++number) {
        begin_run(number);
        say("up\n", number);
        watches.begin({0, number}, number, both);
    }
    watches.catch_up();
    EXPECT_EQ(take().size(), LineWatches::most_reads);
    watches.catch_up();
    watches.catch_up();
    EXPECT_EQ(take().size(), 2 * LineWatches::most_reads);
    EXPECT_FALSE(watches.is_to_catch_up());
    watches.clear();
    say("nobody\n");
    EXPECT_THAT(take(), IsEmpty());
}

}  // namespace
}  // namespace triton::launcher
