// Signals, the stop and the exit code against a kernel that does what the test says.

#include "launcher/rooms/life_cycle.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/signal_names.h"
#include "tests/unit/launcher/children/fake_sys.h"

namespace triton::launcher {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

log::Log::Settings silent() {
    log::Log::Settings settings;
    settings.level = log::LogLevel::off;
    return settings;
}

class LifeCycleTest : public testing::Test, public EventSink, public LifeCycle::Listener {
protected:
    LifeCycleTest() {
        for (std::size_t signo = 0; signo < options.rewrite.size(); ++signo)
            options.rewrite[signo] = static_cast<std::uint8_t>(signo);
    }

    void dispatch(Event const& event) override {
        if (auto const* const signal = std::get_if<event::SignalReceived>(&event))
            told.push_back("signal " + std::to_string(signal->signo));
        if (auto const* const stop = std::get_if<event::StopAsked>(&event))
            told.push_back("stop, " + std::to_string(stop->exit_code));
        std::vector<Action> actions;
        supervisor.handle(event, std::chrono::steady_clock::now(), actions);
    }
    void children_ended(pid_t) override { told.emplace_back("children"); }
    void stop_asked() override { told.emplace_back("stop asked"); }
    void hung_up() override { told.emplace_back("hung up"); }

    std::unique_ptr<EventLoop> loop = *EventLoop::create();
    log::Log log{silent()};
    LaunchOptions options;
    ProcessSetup setup;
    FakeSys sys;
    Supervisor supervisor{SupervisorPolicy{}};
    PodState pod;
    std::vector<std::string> told;
    LifeCycle life{options, setup, sys, *loop, log, supervisor, pod, *this, *this};
};

TEST_F(LifeCycleTest, PassesSignalsOn) {
    sys.signals = {SIGUSR1, SIGWINCH, rtmin + 5};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("signal 10", "signal 28", "signal " + std::to_string(rtmin + 5)));
}

TEST_F(LifeCycleTest, RewritesAndDrops) {
    options.rewrite[SIGUSR1] = SIGUSR2;
    options.rewrite[SIGUSR2] = 0;
    options.rewrite[SIGWINCH] = SIGTERM;
    sys.signals = {SIGUSR1, SIGUSR2, SIGWINCH};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("stop, 0", "stop asked", "signal 12"));
}

/// What ends things comes first, then who has ended, then all others.
TEST_F(LifeCycleTest, TakesTheStopFirst) {
    sys.signals = {SIGHUP, SIGUSR1, SIGCHLD, SIGTERM};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("stop, 0", "stop asked", "children", "hung up", "signal 10"));
}

TEST_F(LifeCycleTest, TheTerminalSpeaksToUsAlone) {
    sys.signals = {SIGTTIN, SIGTTOU, SIGTSTP};
    life.take_signals();
    EXPECT_THAT(told, IsEmpty());
    EXPECT_THAT(sys.calls, ElementsAre("kill 7 " + std::to_string(SIGSTOP)));
    setup.is_pid_1 = true;
    sys.signals = {SIGTSTP};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("signal " + std::to_string(SIGTSTP)));
}

/// Real-time signals queue: a program that sends them in a loop could keep us reading for ever.
TEST_F(LifeCycleTest, AStormOfSignalsIsReadInBatches) {
    sys.floods_with = rtmin;
    life.take_signals();
    EXPECT_EQ(told.size(), 16);
    EXPECT_EQ(sys.reads_of_signals, 1);
    told.clear();
    sys.signals = {SIGTERM, SIGCHLD};
    life.take_signals();
    EXPECT_EQ(told[0], "stop, 0");
    EXPECT_EQ(told[1], "stop asked");
    EXPECT_EQ(told[2], "children");
    EXPECT_EQ(told.size(), 3 + 14);
}

TEST_F(LifeCycleTest, AnInterruptedReadIsTriedAgain) {
    sys.signals = {SIGUSR1};
    sys.read_errors = {EINTR, EINTR};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("signal 10"));
    sys.read_errors.assign(1000, EINTR);
    sys.reads_of_signals = 0;
    life.take_signals();
    EXPECT_LE(sys.reads_of_signals, 9) << "the loop comes back";
}

TEST_F(LifeCycleTest, NoSignalIsNoEvent) {
    life.take_signals();
    EXPECT_THAT(told, IsEmpty());
}

TEST_F(LifeCycleTest, EndsWithTheCodeThatItIsGiven) {
    EXPECT_FALSE(life.is_over());
    sys.signals = {SIGTERM};
    life.take_signals();
    ASSERT_EQ(supervisor.phase(), SupervisorPhase::finished);
    life.finish(3);
    EXPECT_TRUE(life.is_over());
    EXPECT_EQ(life.exit_code(), 3);
}

TEST_F(LifeCycleTest, StaysAsLongAsThePodAsksUntilTheSecondSignal) {
    pod.shutdown_delay = std::chrono::hours(1);
    sys.signals = {SIGTERM};
    life.take_signals();
    life.finish(0);
    EXPECT_FALSE(life.is_over());
    told.clear();
    sys.signals = {SIGTERM};
    life.take_signals();
    EXPECT_TRUE(life.is_over());
    EXPECT_THAT(told, IsEmpty());
}

TEST_F(LifeCycleTest, AMachineIsRebootedBySigint) {
    setup.is_machine = true;
    sys.signals = {rtmin + 4};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("stop, 0", "stop asked"));
    life.reboot_if_asked();
    EXPECT_THAT(sys.calls, IsEmpty()) << "the first request was another one";
}

}  // namespace

}  // namespace triton::launcher
