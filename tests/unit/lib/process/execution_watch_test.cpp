#include "lib/process/execution_watch.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/unit/lib/process/spawn_subject.h"

// Children whose execve takes its time. A seccomp filter hands every execve to this process, which lets it go on when
// the test wants; the filter stays for good, hence each test is a process of its own. The same is done with the open(2)
// of a standard input.

namespace triton::launcher::test {

namespace {

using namespace std::chrono_literals;
using process::ExecutionWatch;
using process::Pid;
using process::ProcessNumber;
using process::Spawner;

/// Every execve of this process and its children waits until it is let go, and so does every open that is not to block.
class HeldCalls {
public:
    HeldCalls() {
        sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 3, 0),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
                                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
                                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_NONBLOCK, 0, 1),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        sock_fprog const program{std::size(filter), filter};
        (void)::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        listener_ = UniqueFd{static_cast<int>(
            ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program))};
        if (listener_) (void)::fcntl(listener_.get(), F_SETFD, FD_CLOEXEC);
    }
    explicit operator bool() const { return static_cast<bool>(listener_); }

    /// Waits until so many are held.
    void await(std::size_t count) {
        while (held_.size() < count) {
            seccomp_notif notification{};
            if (::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_RECV, &notification) == 0)
                held_[Pid{static_cast<pid_t>(notification.pid)}] = notification.id;
        }
    }
    void let_go(Pid pid) {
        seccomp_notif_resp answer{held_.at(pid), 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        (void)::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SEND, &answer);
        held_.erase(pid);
    }

    /// They hold the listener, too, and would wait for ever.
    void kill_rest() const {
        for (auto const& [pid, id] : held_)
            (void)::kill(static_cast<pid_t>(pid), SIGKILL);
    }

private:
    UniqueFd listener_;
    std::map<Pid, std::uint64_t> held_;
};

/// Runs `test` in a process of its own, and gives its text back.
template <class Test>
std::string alone(Test test) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
    UniqueFd const read_end{ends[0]};
    UniqueFd write_end{ends[1]};
    pid_t const child = ::fork();
    if (child == 0) {
        (void)::alarm(60);
        HeldCalls held;
        std::string const text = held ? test(held) : "no listener";
        (void)!::write(write_end.get(), text.data(), text.size());
        held.kill_rest();
        ::_exit(0);
    }
    write_end = UniqueFd{};
    std::string text = read_to_end(read_end.get());
    int status = -1;
    (void)::waitpid(child, &status, 0);
    return status == 0 ? text : "ended with status " + std::to_string(status);
}

/// A loop, a spawner and a watch, with what was told in the order of the names that the test gives.
class Subject {
public:
    explicit Subject(bool is_copy) : loop_(EventLoop::create().value()) {
        process::Attributes attributes;
        if (is_copy) attributes.oom_score_adj = 500;
        good_ = plan_of("/bin/true", {}, attributes);
        bad_ = plan_of("/nonexistent", {}, std::move(attributes));
    }

    Pid start(char name, bool is_good = true, process::StartFiles const& files = {}) {
        Pid const pid = watch_.spawn(is_good ? good_ : bad_, ProcessNumber{1}, files).value();
        names_[pid] = name;
        return pid;
    }
    void end_round() { watch_.end_round(); }
    /// Runs the loop until so many have been told of.
    std::string told(std::size_t count) {
        while (told_.size() < count) {
            if (!loop_->run()) break;
        }
        return told_;
    }
    void reap(Pid pid) {
        int status = 0;
        (void)::waitpid(static_cast<pid_t>(pid), &status, 0);
        watch_.reaped(pid);
    }
    [[nodiscard]] bool has_deadline() const { return watch_.waits_for_time(); }
    ExecutionWatch& watch() { return watch_; }
    Spawner& spawner() { return spawner_; }
    std::string const& told() const { return told_; }

private:
    void executed(Pid pid) {
        told_ += names_.at(pid);
        loop_->stop();
    }

    std::unique_ptr<EventLoop> loop_;
    Spawner spawner_{{}, 0};
    ExecutionWatch watch_{*loop_, spawner_, [this](Pid pid) { executed(pid); }};
    std::shared_ptr<process::StartPlan const> good_, bad_;
    std::map<Pid, char> names_;
    std::string told_;
};

class ExecutionWatchTest : public testing::TestWithParam<bool> {};

TEST_P(ExecutionWatchTest, TellsOfAChildWhenItHasExecutedAndNotBefore) {
    EXPECT_EQ(alone([](HeldCalls& held) {
                  Subject subject(GetParam());
                  Pid const child = subject.start('a');
                  subject.end_round();
                  held.await(1);
                  subject.watch().look();
                  std::string const before = subject.told();
                  bool const sleeps = !subject.has_deadline() && !subject.spawner().is_idle();
                  held.let_go(child);
                  std::string const after = subject.told(1);
                  return before + "|" + (sleeps ? "sleeps" : "wakes") + "|" + after + "|" +
                         (subject.spawner().is_idle() ? "idle" : "busy");
              }),
              "|sleeps|a|idle");
}

TEST_P(ExecutionWatchTest, OneThatIsStuckHoldsUpNobody) {
    EXPECT_EQ(alone([](HeldCalls& held) {
                  Subject subject(GetParam());
                  Pid const stuck = subject.start('a');
                  Pid const second = subject.start('b');
                  Pid const third = subject.start('c');
                  subject.end_round();
                  held.await(3);
                  held.let_go(third);
                  held.let_go(second);
                  std::string told = subject.told(2);  // the pipe says nothing: by time
                  std::ranges::sort(told);
                  bool const sleeps = !subject.has_deadline();
                  held.let_go(stuck);
                  return told + "|" + (sleeps ? "sleeps" : "wakes") + "|" + subject.told(3).substr(2);
              }),
              "bc|sleeps|a");
}

/// As on a file system that does not answer.
TEST_P(ExecutionWatchTest, OneThatIsStuckAtItsInputHoldsUpNobody) {
    EXPECT_EQ(alone([](HeldCalls& held) {
                  Subject subject(GetParam());
                  process::CommandTemplate const input = literals({"/dev/null"});
                  Pid const killed = subject.start('a', true, {.input = &input});
                  Pid const late = subject.start('b', true, {.input = &input});
                  Pid const other = subject.start('c');
                  subject.end_round();
                  held.await(3);
                  held.let_go(other);
                  std::string const told = subject.told(1);
                  (void)::kill(static_cast<pid_t>(killed), SIGKILL);
                  subject.reap(killed);
                  held.let_go(late);
                  held.await(2);  // it has come to its execve
                  held.let_go(late);
                  std::string const after = subject.told(2);
                  return told + "|" + after + "|" + (subject.spawner().is_idle() ? "idle" : "busy");
              }),
              "c|cb|idle");
}

TEST_P(ExecutionWatchTest, AFailureIsNotTold) {
    EXPECT_EQ(alone([](HeldCalls& held) {
                  Subject subject(GetParam());
                  Pid const bad = subject.start('a', false);
                  Pid const good = subject.start('b');
                  subject.end_round();
                  held.await(2);
                  held.let_go(bad);
                  subject.reap(bad);
                  auto const error = subject.spawner().take_error(bad);
                  held.let_go(good);
                  std::string const told = subject.told(1);
                  subject.watch().look();
                  return told + "|" + (error ? std::to_string(error->code) : "no error") + "|" +
                         (subject.spawner().is_idle() ? "idle" : "busy");
              }),
              "b|2|idle");
}

/// Its pid may belong to another child by then.
TEST_P(ExecutionWatchTest, OneThatWasReapedIsNotTold) {
    EXPECT_EQ(alone([](HeldCalls& held) {
                  Subject subject(GetParam());
                  Pid const child = subject.start('a');
                  subject.end_round();
                  held.await(1);
                  (void)::kill(static_cast<pid_t>(child), SIGKILL);
                  subject.reap(child);
                  subject.watch().look();
                  return subject.told() + "|" + (subject.spawner().is_idle() ? "idle" : "busy");
              }),
              "|idle");
}

/// Whose pipe was opened when the first round ended.
TEST_P(ExecutionWatchTest, TellsOfALaterRoundWithoutAClock) {
    EXPECT_EQ(alone([](HeldCalls& held) {
                  Subject subject(GetParam());
                  Pid const first = subject.start('a');
                  subject.end_round();
                  held.await(1);
                  held.let_go(first);
                  (void)subject.told(1);
                  Pid const second = subject.start('b');
                  subject.end_round();
                  held.await(1);
                  bool const sleeps = !subject.has_deadline();
                  held.let_go(second);
                  return std::string(sleeps ? "sleeps" : "wakes") + "|" + subject.told(2);
              }),
              "sleeps|ab");
}

/// A child that nobody watches has the write end too, if it was started since the pipe was opened.
TEST_P(ExecutionWatchTest, OneThatIsNotWatchedHoldsUpNoLaterRound) {
    EXPECT_EQ(alone([](HeldCalls& held) {
                  Subject subject(GetParam());
                  Pid const first = subject.start('a');
                  subject.end_round();
                  held.await(1);
                  held.let_go(first);
                  (void)subject.told(1);
                  (void)subject.spawner().spawn(plan_of("/bin/true", {}), ProcessNumber{1});
                  held.await(1);
                  Pid const second = subject.start('b');
                  subject.end_round();
                  held.await(2);
                  bool const sleeps = !subject.has_deadline();
                  held.let_go(second);
                  return std::string(sleeps ? "sleeps" : "wakes") + "|" + subject.told(2);
              }),
              "wakes|ab");
}

int lowest_free_descriptor() { return UniqueFd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}.get(); }

/// More rounds with a child that is stuck than there are pipes: then time tells.
TEST_P(ExecutionWatchTest, NeedsAFewDescriptorsHoweverManyAreStuck) {
    EXPECT_EQ(alone([](HeldCalls& held) {
                  Subject subject(GetParam());
                  int const before = lowest_free_descriptor();
                  std::vector<Pid> children;
                  for (int i = 0; i < 40; ++i) {
                      children.push_back(subject.start('a'));
                      subject.end_round();
                  }
                  held.await(children.size());
                  int const used = lowest_free_descriptor() - before;
                  for (Pid const child : children)
                      held.let_go(child);
                  return (used < 20 ? "few" : std::to_string(used)) + "|" + std::to_string(subject.told(40).size());
              }),
              "few|40");
}

INSTANTIATE_TEST_SUITE_P(InBothWays, ExecutionWatchTest, testing::Bool(),
                         [](auto const& which) { return which.param ? "Copy" : "Shared"; });

/// Who is stuck keeps its own slot, and no other.
TEST(SpawnSlots, OneThatIsStuckKeepsNoOther) {
    EXPECT_EQ(alone([](HeldCalls& held) {
                  Spawner spawner({}, 0);
                  auto const plan = plan_of("/bin/true", {});
                  (void)spawner.spawn(plan, ProcessNumber{1});
                  held.await(1);
                  for (int i = 0; i < 500; ++i) {
                      Pid const child = spawner.spawn(plan, ProcessNumber{1}).value();
                      held.await(2);
                      held.let_go(child);
                      (void)::waitpid(static_cast<pid_t>(child), nullptr, 0);
                  }
                  return std::to_string(spawner.slot_bytes() / 4096) + " pages";
              }),
              "2 pages");
}

TEST(SpawnSlots, OneThatIsTooSmallIsNotUsedAgain) {
    Spawner spawner({}, 0);
    EXPECT_TRUE(run(spawner, plan_of("/bin/true", {})).is_ok());
    ASSERT_TRUE(spawner.is_idle());
    std::string const large(100'000, 'x');
    EXPECT_EQ(run(spawner, plan_of("/bin/echo", {large})).output, large + "\n");
    EXPECT_TRUE(run(spawner, plan_of("/bin/true", {})).is_ok());
}

}  // namespace

}  // namespace triton::launcher::test
