// Signals, the stop and the exit code against a kernel that does what the test says.

#include "launcher/rooms/life_cycle.h"

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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
    void children_changed(pid_t) override { told.emplace_back("children"); }
    void continued() override { told.emplace_back("continued"); }
    void stop_asked() override { told.emplace_back("stop asked"); }
    void hung_up() override { told.emplace_back("hung up"); }
    [[nodiscard]] bool has_configuration() const override { return is_configured; }

    /// The first request is so old that another signal is another request.
    void let_time_pass() {
        UpgradeState state;
        life.save(state);
        *state.stop_asked_at -= StopRequests::one_request;
        life.restore(state);
    }

    std::unique_ptr<EventLoop> loop = *EventLoop::create();
    log::Log log{silent()};
    LaunchOptions options;
    ProcessSetup setup;
    FakeSys sys;
    Supervisor supervisor{SupervisorPolicy{}};
    PodState pod;
    std::vector<std::string> told;
    bool is_configured = true;
    LogKeeper log_file{options.log, *loop, log, {}};
    LifeCycle life{options, setup, sys, *loop, log, log_file, supervisor, pod, *this, *this};
};

TEST_F(LifeCycleTest, PassesSignalsOn) {
    sys.signals = {SIGUSR1, SIGWINCH, rtmin + 5};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("signal 10", "signal 28", "signal " + std::to_string(rtmin + 5)));
}

TEST_F(LifeCycleTest, WhatTheKernelSendsIsASignalLikeOthersButForOurOwnLimit) {
    sys.signal_code = SI_KERNEL;  // of a terminal, too
    sys.signals = {SIGUSR1, SIGXCPU};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("signal 10"));
    told.clear();
    sys.signal_code = SI_USER;
    sys.signals = {SIGXCPU};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("signal 24"));
}

TEST_F(LifeCycleTest, RewritesAndDrops) {
    options.rewrite[SIGUSR1] = SIGUSR2;
    options.rewrite[SIGUSR2] = 0;
    options.rewrite[SIGWINCH] = SIGTERM;
    sys.signals = {SIGUSR1, SIGUSR2, SIGWINCH};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("stop, 0", "stop asked", "signal 12"));
}

TEST_F(LifeCycleTest, AStopBeforeAnyConfigurationIsNoSuccess) {
    is_configured = false;
    sys.signals = {SIGTERM};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("stop, 143", "stop asked"));
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

/// Who leads the session of a terminal has no shell above that could continue it: kubectl attach, docker exec -it.
TEST_F(LifeCycleTest, TheTerminalDoesNotStopWhomNobodyWouldContinue) {
    sys.signal_code = SI_KERNEL;
    setup.leads_session = true;
    sys.signals = {SIGTSTP};
    life.take_signals();
    setup.is_pid_1 = true;
    sys.signals = {SIGTSTP};
    life.take_signals();
    EXPECT_THAT(told, IsEmpty());
    EXPECT_THAT(sys.calls, IsEmpty());
    setup.is_pid_1 = setup.leads_session = false;
    sys.signals = {SIGTSTP};
    life.take_signals();
    EXPECT_THAT(sys.calls, ElementsAre("kill 7 " + std::to_string(SIGSTOP)));
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
    sys.signals = {SIGTERM, SIGINT};  // the same request, as far as anybody can tell
    life.take_signals();
    EXPECT_FALSE(life.is_over());
    let_time_pass();
    sys.signals = {SIGTERM};
    life.take_signals();
    EXPECT_TRUE(life.is_over());
    EXPECT_THAT(told, IsEmpty());
}

/// timeout(1) signals its child and the group in which it is.
TEST_F(LifeCycleTest, TwoSignalsAtATimeAreOneRequest) {
    sys.signals = {SIGTERM, SIGTERM, SIGINT};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("stop, 0", "stop asked"));
    EXPECT_FALSE(supervisor.is_in_a_hurry());
    let_time_pass();
    told.clear();
    sys.signals = {SIGINT};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("stop, 0", "stop asked"));
}

/// It is what lxc-stop sends. Elsewhere it is for programs.
TEST_F(LifeCycleTest, PowerFailureStopsPid1) {
    sys.signals = {SIGPWR};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("signal 30"));
    told.clear();
    setup.is_pid_1 = true;
    sys.signals = {rtmin + 3};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("signal " + std::to_string(rtmin + 3)));
    told.clear();
    sys.signals = {SIGPWR};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("stop, 0", "stop asked"));
}

/// The terminal is ours: httpd would stop at SIGWINCH.
TEST_F(LifeCycleTest, WhatTheKernelSaysAboutOurTerminalIsNotPassedOn) {
    options.rewrite[SIGWINCH] = SIGTERM;
    sys.signal_code = SI_KERNEL;
    sys.signals = {SIGWINCH, SIGCONT};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("continued"));
    options.rewrite[SIGWINCH] = SIGWINCH;
    told.clear();
    sys.signal_code = SI_USER;
    sys.signals = {SIGWINCH, SIGCONT};
    life.take_signals();
    EXPECT_THAT(told, testing::UnorderedElementsAre("signal 28", "continued", "signal 18"));
}

TEST_F(LifeCycleTest, AMachineIsRebootedBySigint) {
    setup.is_machine = true;
    sys.signals = {rtmin + 4};
    life.take_signals();
    EXPECT_THAT(told, ElementsAre("stop, 0", "stop asked"));
    sys.own = 1;
    life.reboot_if_asked();
    EXPECT_THAT(sys.calls, IsEmpty()) << "the first request was another one";
}

TEST_F(LifeCycleTest, NothingButPid1OfAMachineReboots) {
    sys.signals = {SIGINT};
    life.take_signals();
    sys.own = 1;
    life.reboot_if_asked();
    EXPECT_THAT(sys.calls, IsEmpty()) << "in a container it is a stop";
}

TEST_F(LifeCycleTest, AMachineThatWasAskedToRebootsItself) {
    setup.is_machine = true;
    sys.signals = {SIGINT};
    life.take_signals();
    life.reboot_if_asked();
    EXPECT_THAT(sys.calls, IsEmpty()) << "it would be the reboot of the machine around us";
    sys.own = 1;
    life.reboot_if_asked();
    EXPECT_THAT(sys.calls, ElementsAre("reboot"));
}

/// With somebody above us who wants to be told.
class ManagedLifeCycleTest : public LifeCycleTest {
protected:
    ManagedLifeCycleTest() : socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        std::string const name = "@triton-life-cycle-test." + std::to_string(::getpid());
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        name.copy(address.sun_path + 1, name.size() - 1, 1);
        auto const length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
        EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr const*>(&address), length), 0);
        (void)::setenv("NOTIFY_SOCKET", name.c_str(), 1);
        managed.emplace(options, setup, sys, *loop, log, log_file, supervisor, pod, *this, *this);
        (void)::unsetenv("NOTIFY_SOCKET");
    }
    /// One process, which says by itself that it is ready.
    void start_one() {
        ProgramPolicy policy;
        policy.count = 1;
        policy.readiness = Readiness::notified;
        auto specs = std::make_shared<std::vector<ProgramSpec>>();
        specs->push_back({ProgramId{0}, policy, true});
        handle(event::ConfigurationAccepted{specs});
        handle(event::Spawned{process, Pid{100}});
        handle(event::Executed{process});
    }
    void handle(Event const& event) {
        std::vector<Action> actions;
        supervisor.handle(event, std::chrono::steady_clock::now(), actions);
    }
    /// What the manager hears of the round that ends.
    std::vector<std::string> heard() {
        managed->tell_manager(1);
        std::vector<std::string> messages;
        char buffer[256];
        for (ssize_t size = 0; (size = ::recv(socket.get(), buffer, sizeof buffer, 0)) > 0;)
            messages.emplace_back(buffer, static_cast<std::size_t>(size));
        return messages;
    }

    static constexpr ProcessId process{ProgramId{0}, ProcessNumber{1}};
    UniqueFd socket;
    std::optional<LifeCycle> managed;
};

TEST_F(ManagedLifeCycleTest, IsToldOnceThatAllAreReadyAndNotBefore) {
    start_one();
    EXPECT_THAT(heard(), ElementsAre("STATUS=1 of 1 process running"));
    managed->note_reload();
    EXPECT_THAT(heard(), IsEmpty()) << "a reload before it is ready is a part of the start";
    handle(event::Ready{process});
    EXPECT_THAT(heard(), ElementsAre("READY=1\nSTATUS=1 of 1 process running"));
    EXPECT_THAT(heard(), IsEmpty());
    managed->note_reload();
    EXPECT_THAT(heard(), ElementsAre(testing::StartsWith("RELOADING=1\nMONOTONIC_USEC="),
                                     "READY=1\nSTATUS=1 of 1 process running"));
    handle(event::Exited{process, 1 << 8});
    EXPECT_THAT(heard(), ElementsAre("STATUS=0 of 1 process running"));
    handle(event::StopAsked{});
    EXPECT_THAT(heard(), ElementsAre("STOPPING=1\nSTATUS=stopping"));
    EXPECT_THAT(heard(), IsEmpty());
}

TEST_F(ManagedLifeCycleTest, AnUpgradeTellsNothingAgain) {
    start_one();
    handle(event::Ready{process});
    UpgradeState state;
    state.told_ready = true;
    managed->restore(state);
    EXPECT_THAT(heard(), ElementsAre("STATUS=1 of 1 process running"));
}

}  // namespace

}  // namespace triton::launcher
