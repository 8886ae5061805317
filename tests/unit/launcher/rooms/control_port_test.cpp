// What the control socket is answered from the rooms, and what may not be asked now.

#include "launcher/rooms/control_port.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "tests/unit/launcher/control/control_subject.h"
#include "tests/unit/launcher/rooms/rooms_subject.h"

namespace triton::launcher {

namespace {

using testing::Contains;
using testing::HasSubstr;

class ControlPortTest : public RoomsSubject {
protected:
    std::string ask(std::string_view name, std::string_view parameters = "{}") {
        TestClient client(*loop, options.control_socket);
        client.call(method(name), parameters);
        until([&] { return !client.replies.empty() || client.is_ended; });
        return client.replies.empty() ? "" : client.replies.front();
    }
};

TEST_F(ControlPortTest, TellsOfWhatRuns) {
    port.open({});
    ASSERT_TRUE(activate(R"({"programs":{"web":{"command":["/bin/web"],"count":2}}})"));
    start();
    end(FakeSys::first_pid, 3 << 8);
    std::string const status = ask("List");
    EXPECT_THAT(status, HasSubstr(R"("name":"web")"));
    EXPECT_THAT(status, HasSubstr(R"("pid":101)"));
    EXPECT_THAT(status, HasSubstr(R"("code":3)"));
}

TEST_F(ControlPortTest, AskedToSignalWhatDoesNotRunItSaysSo) {
    port.open({});
    ASSERT_TRUE(activate(R"({"programs":{"web":{"command":["/bin/web"],"count":2}}})"));
    start();
    end(FakeSys::first_pid);
    EXPECT_THAT(ask("Signal", R"({"program":"web","process":1,"signal":"10"})"),
                HasSubstr("process 1 of web does not run"));
    EXPECT_THAT(ask("Signal", R"({"program":"web","process":2,"signal":"10"})"), HasSubstr(R"({"parameters":{})"));
    EXPECT_THAT(told, Contains("command to web"));
}

/// A long line is kept in several chunks, and counts as one.
TEST_F(ControlPortTest, PiecesOfAKeptLineAreMarked) {
    port.open({});
    ASSERT_TRUE(activate(R"({"programs":{"web":{"command":["/bin/web"],"output":{}}}})"));
    auto const hands = channels.for_start({ProgramId{0}, ProcessNumber{1}});
    ASSERT_TRUE(hands);
    std::string const text = "short\n" + std::string(20'000, 'Q') + "\n";
    ASSERT_EQ(::write(hands->files.out, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    channels.output()->flush(milliseconds(1000));
    std::string const answer = ask("Logs", R"({"program":"web","lines":1})");
    EXPECT_EQ(std::ranges::count(answer, 'Q'), 20'000);
    EXPECT_THAT(answer, testing::Not(HasSubstr("short")));
    EXPECT_THAT(answer, HasSubstr(R"(Q","partial":true},{)"));
    EXPECT_TRUE(answer.ends_with(R"(Q"}]}})")) << answer.substr(answer.size() - 40);
}

TEST_F(ControlPortTest, SaysWhyNothingIsToRun) {
    port.open({});
    ASSERT_TRUE(activate(R"({"programs":{"web":{"command":["/bin/web"],"count":0}}})"));
    EXPECT_THAT(ask("Start", R"({"program":"web"})"), HasSubstr("web has no process: its count is 0"));
    options.agent.is_reporting = true;
    agent.set_pod(isolated());
    EXPECT_THAT(ask("Restart", R"({"program":"web"})"), HasSubstr("the pod is isolated: nothing may run"));
}

TEST_F(ControlPortTest, NothingIsStartedInAStop) {
    port.open({});
    ASSERT_TRUE(activate(R"({"programs":{"web":{"command":["/bin/web"]}}})"));
    start();
    dispatch(event::StopAsked{});
    EXPECT_THAT(ask("Stop", R"({"program":"web"})"), HasSubstr("the launcher is stopping"));
    EXPECT_THAT(ask("Reload"), HasSubstr("the launcher is stopping"));
    EXPECT_THAT(ask("Signal", R"({"program":"web","signal":"10"})"), HasSubstr(R"({"parameters":{})"));
}

TEST_F(ControlPortTest, AReloadSaysWhyItWasRejected) {
    port.open({});
    EXPECT_THAT(ask("Reload"), HasSubstr("cannot open " + options.configuration_path + ": No such file or directory"));
}

TEST_F(ControlPortTest, WithoutAPlaceForASocketTheLauncherRunsAllTheSame) {
    options.control_socket = "/proc/nothing/here/control";
    port.open({});
    EXPECT_EQ(line.server(), nullptr);
    EXPECT_THAT(logged(), HasSubstr("no control socket: "));
    port.open_for_agent();
    EXPECT_NE(line.server(), nullptr);
}

TEST_F(ControlPortTest, AnUnknownGroupIsNamed) {
    options.control_group = "no-such-group";
    port.open({});
    EXPECT_THAT(logged(), HasSubstr(R"(no control socket: --control-group: no group "no-such-group" in /etc/group)"));
}

/// Whoever could command the launcher before an upgrade would be locked out for good, and the next upgrade with him.
TEST_F(ControlPortTest, ASocketThatWasTakenOverDoesWithoutItsGroup) {
    port.open({});
    UpgradeState state;
    port.save(state);
    ASSERT_TRUE(state.control);
    state.control->fd = ::fcntl(state.control->fd, F_DUPFD_CLOEXEC, 0);
    line.connect(nullptr);
    options.control_group = "no-such-group";
    port.open(state.control);
    ASSERT_NE(line.server(), nullptr);
    EXPECT_EQ(line.server()->socket(), *state.control);
    EXPECT_THAT(logged(), HasSubstr("only root and the launcher's own user can command it"));
}

}  // namespace

}  // namespace triton::launcher
