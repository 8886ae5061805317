// The whole launcher against a kernel that does what the test says.

#include "launcher/shell/shell.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/launcher/children/fake_sys.h"
#include "tests/unit/launcher/output/file_size_limit.h"

namespace triton::launcher {

namespace {

using testing::Contains;
using testing::ElementsAre;

constexpr char const* environment[] = {"PATH=/bin", nullptr};

class ShellTest : public testing::Test {
protected:
    ShellTest() {
        options.built_in.configuration = R"({"programs":{"web":{"command":["/bin/true"]}}})";
        options.log.level = log::LogLevel::off;
        options.cgroup = CgroupMode::none;
        options.control_socket.clear();
        for (std::size_t signo = 0; signo < options.rewrite.size(); ++signo)
            options.rewrite[signo] = static_cast<std::uint8_t>(signo);
        sys.on_signal = [this](pid_t pid, int signo) {
            if (pid >= FakeSys::first_pid && (signo == SIGTERM || signo == SIGKILL)) sys.end(pid, signo);
        };
        limit.arm(std::chrono::steady_clock::now() + std::chrono::seconds(20));
    }

    int run() {
        ProcessSetup setup;
        setup.signals = UniqueFd{::dup(sys.signal_fd.get())};
        auto const code = Shell{options, environment, std::move(setup), sys, *loop}.run();
        EXPECT_TRUE(code) << code.error().text();
        EXPECT_FALSE(is_late);
        return code.value_or(-1);
    }
    std::vector<std::string> spawns() const {
        std::vector<std::string> found;
        std::ranges::copy_if(sys.calls, std::back_inserter(found),
                             [](std::string const& call) { return call.starts_with("spawn"); });
        return found;
    }

    std::unique_ptr<EventLoop> loop = *EventLoop::create();
    bool is_late = false;
    EventLoop::Timer limit{*loop, [this] { is_late = true, sys.send(SIGTERM), sys.send(SIGTERM); }};
    LaunchOptions options;
    FakeSys sys;
};

TEST_F(ShellTest, StartsStopsAndEnds) {
    sys.on_spawn = [this](pid_t) { sys.send(SIGTERM); };
    EXPECT_EQ(run(), 0);
    EXPECT_THAT(sys.calls, Contains("spawn /bin/true 1"));
    EXPECT_THAT(sys.calls, Contains("kill 100 15"));
}

TEST_F(ShellTest, ANamedProgramHasNullInput) {
    sys.on_spawn = [this](pid_t) { sys.send(SIGTERM); };
    EXPECT_EQ(run(), 0);
    EXPECT_GE(sys.last_files.in, 0);
    EXPECT_EQ(sys.last_files.out, -1);
    EXPECT_EQ(sys.last_files.cgroup, -1);
}

TEST_F(ShellTest, TriesACloneThatFailedAgain) {
    sys.spawn_errors = {EAGAIN, EAGAIN};
    sys.on_spawn = [this](pid_t) { sys.send(SIGTERM); };
    EXPECT_EQ(run(), 0);
    EXPECT_THAT(spawns(), ElementsAre("spawn /bin/true 1", "spawn /bin/true 1", "spawn /bin/true 1"));
}

/// The action in hand is tried again, after a moment; nothing that waited behind it is forgotten.
TEST_F(ShellTest, AnExceptionInTheMiddleOfARoundLosesNothing) {
    options.built_in.configuration =
        R"({"programs":{"a":{"command":["/bin/true"]},"b":{"command":["/bin/true"],"count":2}}})";
    int started = 0;
    sys.throws_at_spawn = 5;  // the second of the second round
    sys.on_spawn = [&](pid_t pid) {
        ++started;
        if (started <= 3) sys.end(pid, 1 << 8);  // all are started again
        if (started == 6) sys.send(SIGTERM);
    };
    EXPECT_EQ(run(), 0);
    EXPECT_EQ(started, 6);
    EXPECT_EQ(spawns().size(), 7) << "one start was tried twice";
    EXPECT_EQ(sys.dead.size(), 0);
    EXPECT_EQ(sys.living, std::ranges::count(sys.calls, "copy")) << "whose end nobody has told";
}

/// What it said last could not be heard. It has been reaped, so nobody would tell of its end again.
TEST_F(ShellTest, AnEndIsSeenWhateverThereIsNoMemoryFor) {
    options.built_in.configuration =
        R"({"programs":{"web":{"command":["/bin/true"],"readiness":{"type":"notify","notifyAccess":"all"}}}})";
    int started = 0;
    sys.on_spawn = [&](pid_t pid) {
        if (++started > 1) return sys.send(SIGTERM);
        UniqueFd const socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
        sockaddr_un to{};
        to.sun_family = AF_UNIX;
        std::string_view const name = sys.last_files.notify_socket;
        ASSERT_TRUE(name.starts_with('@')) << name;
        name.substr(1).copy(to.sun_path + 1, sizeof to.sun_path - 1);
        auto const size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
        ASSERT_EQ(::sendto(socket.get(), "READY=1", 7, 0, reinterpret_cast<sockaddr*>(&to), size), 7);
        sys.throws_at_group_of = 1;
        sys.end(pid, 1 << 8);
    };
    EXPECT_EQ(run(), 0);
    EXPECT_EQ(started, 2);
    EXPECT_EQ(sys.throws_at_group_of, 0);
}

/// Each takes long, as with very many arguments. In between signals are read, and the stop starts no others.
TEST_F(ShellTest, ManyStartsHoldUpNothing) {
    options.built_in.configuration = R"({"programs":{"web":{"command":["/bin/true"],"count":100}}})";
    sys.on_spawn = [this](pid_t pid) {
        if (pid == FakeSys::first_pid) sys.send(SIGTERM);
        auto const end = std::chrono::steady_clock::now() + StartQueue::time_per_round / 4;
        while (std::chrono::steady_clock::now() < end) {
        }
    };
    EXPECT_EQ(run(), 0);
    EXPECT_GE(spawns().size(), 2U);
    EXPECT_LE(spawns().size(), 9U) << "those of the first round, and of the one in which the signal is read";
    EXPECT_EQ(sys.living, std::ranges::count(sys.calls, "copy"));
}

TEST_F(ShellTest, StartsGoOnInTheNextRound) {
    options.built_in.configuration = R"({"programs":{"web":{"command":["/bin/true"],"count":12}}})";
    int started = 0;
    sys.on_spawn = [&](pid_t) {
        if (++started == 12) return sys.send(SIGTERM);
        auto const end = std::chrono::steady_clock::now() + StartQueue::time_per_round / 4;
        while (std::chrono::steady_clock::now() < end) {
        }
    };
    EXPECT_EQ(run(), 0);
    EXPECT_EQ(started, 12);
    EXPECT_EQ(spawns().size(), 12U) << "each once";
}

/// The flood is passed on to the process, and still the stop comes through and its end is seen.
TEST_F(ShellTest, AStormOfSignalsHoldsUpNothing) {
    sys.on_spawn = [this](pid_t) {
        sys.floods_with = SIGRTMIN;
        sys.send(SIGTERM);
    };
    EXPECT_EQ(run(), 0);
    EXPECT_LT(sys.reads_of_signals, 100);
}

/// Nobody reads the log: it waits in its buffer, and nothing waits for it.
TEST_F(ShellTest, AFullPipeHoldsUpNoProcess) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    UniqueFd const reader{ends[0]};
    UniqueFd const writer{ends[1]};
    while (::write(writer.get(), std::string(4096, 'x').data(), 4096) > 0) {
    }
    ASSERT_EQ(::fcntl(writer.get(), F_SETFL, 0), 0);  // a write that did not fit would wait for ever
    UniqueFd const known{::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)};
    ASSERT_EQ(::dup2(writer.get(), STDERR_FILENO), STDERR_FILENO);
    options.log.console = STDERR_FILENO;
    options.log.level = log::LogLevel::info;
    options.log.format = log::LogFormat::json;
    std::string text(1 << 20, '\0');
    int started = 0;
    sys.on_spawn = [&](pid_t pid) {
        if (++started == 1) return sys.end(pid, 1 << 8);  // restarted at once
        EXPECT_EQ(::read(reader.get(), text.data(), text.size()), 65536);
        sys.send(SIGTERM);
    };
    int const code = run();
    ASSERT_EQ(::dup2(known.get(), STDERR_FILENO), STDERR_FILENO);
    EXPECT_EQ(code, 0);
    EXPECT_EQ(started, 2);
    ssize_t const size = ::read(reader.get(), text.data(), text.size());
    ASSERT_GT(size, 0);
    text.resize(static_cast<std::size_t>(size));
    EXPECT_THAT(text, testing::HasSubstr(R"("event":"launcher-stopped")")) << "nothing is lost";
    EXPECT_THAT(text, testing::HasSubstr(R"("event":"process-exited")"));
}

/// The disk was full until a moment ago, and the next attempt would come after our end.
TEST_F(ShellTest, WhatWaitsForRoomIsWrittenAtTheEnd) {
    char name[] = "/tmp/triton-shell.XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    std::string const file = std::string(name) + "/log";
    options.built_in.configuration =
        R"({"programs":{"web":{"command":["/bin/true"],"output":{"file":")" + file + R"("}}}})";
    std::optional<FileSizeLimit> full;
    int out = -1;
    EventLoop::Timer is_taken(*loop, [&] {
        int left = 0;
        if (::ioctl(out, FIONREAD, &left) != 0 || left == 0) return sys.send(SIGTERM);
        is_taken.arm(std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
    });
    sys.on_spawn = [&](pid_t) {
        full.emplace(2);
        out = sys.last_files.out;
        EXPECT_EQ(::write(out, "line\n", 5), 5);
        is_taken.arm(std::chrono::steady_clock::now());
    };
    sys.on_signal = [&](pid_t pid, int signo) {
        if (pid < FakeSys::first_pid) return;
        full.reset();
        sys.end(pid, signo);
    };
    EXPECT_EQ(run(), 0);
    std::string text(100, '\0');
    UniqueFd const written{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
    ssize_t const size = ::read(written.get(), text.data(), text.size());
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    EXPECT_EQ(text, "line\n");
    std::filesystem::remove_all(name);
}

TEST_F(ShellTest, RefusesToRunWhereItCannotWaitForChildren) {
    sys.refuses_to_wait = true;
    sys.wait_errors = {EPERM};
    ProcessSetup setup;
    setup.signals = UniqueFd{::dup(sys.signal_fd.get())};
    auto const code = Shell{options, environment, std::move(setup), sys, *loop}.run();
    ASSERT_FALSE(code);
    EXPECT_EQ(code.error().text(), "cannot look for children that have ended: Operation not permitted");
    EXPECT_THAT(spawns(), testing::IsEmpty());
}

}  // namespace

}  // namespace triton::launcher
