// What programs are given and speak through, and that a refused configuration leaves all of it as it was.

#include "launcher/rooms/channels.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/launcher/rooms/rooms_subject.h"

namespace triton::launcher {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

std::string content(std::string const& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

class ChannelsTest : public RoomsSubject {
protected:
    static constexpr ProcessId first{ProgramId{0}, ProcessNumber{1}};

    /// Says something through what a start would be given.
    void say(ProcessId id, std::string_view text) {
        auto const hands = channels.for_start(id);
        ASSERT_TRUE(hands);
        ASSERT_EQ(::write(hands->files.out, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    void notify(std::string_view address, std::string_view text) {
        UniqueFd const socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
        sockaddr_un to{};
        to.sun_family = AF_UNIX;
        address.copy(to.sun_path, sizeof to.sun_path - 1);
        if (to.sun_path[0] == '@') to.sun_path[0] = '\0';
        auto const size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
        ASSERT_EQ(::sendto(socket.get(), text.data(), text.size(), 0, reinterpret_cast<sockaddr*>(&to), size),
                  static_cast<ssize_t>(text.size()))
            << errno_text(errno);
    }
};

TEST_F(ChannelsTest, TheDesignsFormIsGivenNothing) {
    ASSERT_TRUE(activate(R"({"version":"7.1.57","arguments":[{"value":"/bin/fdbserver"}]})"));
    auto const hands = channels.for_start(first);
    ASSERT_TRUE(hands);
    EXPECT_EQ(hands->files.in, -1);
    EXPECT_EQ(hands->files.out, -1);
    EXPECT_TRUE(hands->files.listen.empty());
}

TEST_F(ChannelsTest, ASuccessorWritesIntoTheSamePipe) {
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"],"output":{"format":"raw"},"count":2}}})"));
    start();
    int const before = channels.for_start(first)->files.out;
    say(first, "cut off");
    end(FakeSys::first_pid);
    EXPECT_EQ(channels.for_start(first)->files.out, before);
    EXPECT_NE(channels.for_start({ProgramId{0}, ProcessNumber{2}})->files.out, before);
    console.flush();
    std::string text(100, '\0');
    ssize_t const size = ::read(console_reader.get(), text.data(), text.size());
    ASSERT_GT(size, 0);
    EXPECT_THAT(text, testing::HasSubstr("cut off\n")) << "its last words come, and their line is ended";
}

TEST_F(ChannelsTest, ARefusedFilePutsTheOthersBack) {
    auto const with_file = [&](std::string const& name, std::string const& file) {
        return "\"" + name + R"(":{"command":["/bin/a"],"output":{"file":")" + directory + file + "\"}}";
    };
    ASSERT_TRUE(activate(R"({"programs":{)" + with_file("a", "/one") + "}}"));
    Result<> const refused = activate(R"({"programs":{)" + with_file("a", "/two") + "," + with_file("b", "") + "}}");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().text(), "programs.b.output: cannot open " + directory + ": Is a directory");
    say(first, "hello\n");
    channels.output()->flush(milliseconds(1000));
    EXPECT_THAT(content(directory + "/one"), testing::HasSubstr("hello"));
    EXPECT_EQ(content(directory + "/two"), "");
}

TEST_F(ChannelsTest, AFileThatAnUpgradeCannotOpenIsTriedAgainOnRequest) {
    std::string const logs = directory + "/logs";
    std::filesystem::create_directory(logs);
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"],"output":{"file":")" + logs + R"(/a"}}}})"));
    std::filesystem::remove_all(logs);
    channels.output()->forget(0);  // as the next version, which has configured nothing yet
    channels.capture_again(ProgramId{0});
    EXPECT_FALSE(channels.output()->settings(0)->output.file);
    channels.reopen_files();
    EXPECT_FALSE(channels.output()->settings(0)->output.file);
    std::filesystem::create_directory(logs);
    channels.reopen_files();
    say(first, "hello\n");
    channels.output()->flush(milliseconds(1000));
    EXPECT_EQ(content(logs + "/a"), "hello\n");
}

/// Whose output is not captured any more goes on with the pipe that it has.
TEST_F(ChannelsTest, ARefusedFileLeavesARunningProcessItsPipe) {
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"],"output":{}}}})"));
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"]}}})"));
    Result<> const refused = activate(R"({"programs":{"a":{"command":["/bin/a"],"output":{"format":"json"}},
                                                      "z":{"command":["/bin/z"],"output":{"file":")" +
                                      directory + "/no/log\"}}}}");
    ASSERT_FALSE(refused);
    auto const settings = channels.output()->settings(0);
    ASSERT_TRUE(settings) << "it was forgotten";
    EXPECT_EQ(settings->output.format, config::OutputFormat::prefix);
    EXPECT_FALSE(channels.output()->settings(1));
}

/// NotifyAccess is "main": a stranger who knows the address is not the process.
TEST_F(ChannelsTest, OnlyTheProcessItselfSaysThatItIsReady) {
    ASSERT_TRUE(activate(R"({"programs":{"theirs":{"command":["/bin/a"],"readiness":{"type":"notify"}},
                                         "ours":{"command":["/bin/a"],"readiness":{"type":"notify"}}}})"));
    sys.next_pid = ::getpid() - 1;  // of "ours" it is our own
    start();
    EXPECT_EQ(supervisor.view({ProgramId{1}, ProcessNumber{1}}).pid, Pid{::getpid()});
    told.clear();
    std::string const theirs(channels.for_start(first)->files.notify_socket);
    std::string const ours(channels.for_start({ProgramId{1}, ProcessNumber{1}})->files.notify_socket);
    notify(theirs, "READY=1");
    notify(ours, "READY=1\nSTATUS=fine");
    until([this] { return !told.empty(); });
    notify(ours, "STATUS=better");
    until([this] { return table.find_instance({ProgramId{1}, ProcessNumber{1}})->status == "better"; });
    EXPECT_THAT(told, ElementsAre("ready 1:1"));
    sys.end(::getpid(), 0);
    sys.living = 2;
    children.reap();
    EXPECT_EQ(table.find_instance({ProgramId{1}, ProcessNumber{1}})->status, "") << "it was the process's own";
}

TEST_F(ChannelsTest, WithoutControlGroupsALimitIsRefused) {
    Result<> const refused = activate(R"({"programs":{"a":{"command":["/bin/a"],"cgroup":{"memoryMax":"1M"}}}})");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().text(), "programs.a.cgroup: control groups are turned off (--cgroup none)");
}

/// A program that says more than the reader of our standard output takes is held up; nothing else is.
TEST_F(ChannelsTest, AFullPipeHoldsUpNobodyElse) {
    ASSERT_TRUE(activate(R"({"programs":{"loud":{"command":["/bin/a"],"output":{"whenFull":"block"}},
                                         "file":{"command":["/bin/b"],"output":{"file":")" +
                         directory + R"(/log"}}}})"));
    start();
    std::string const words = std::string(1000, 'x') + "\n";
    auto const loud = channels.for_start(first);
    ASSERT_TRUE(loud);
    ASSERT_EQ(::fcntl(loud->files.out, F_SETFL, O_NONBLOCK), 0);
    std::size_t said = 0;
    for (bool is_full = false; !is_full;) {
        ssize_t const size = ::write(loud->files.out, words.data(), words.size());
        if (size > 0) said += static_cast<std::size_t>(size);
        is_full = size < 0 && console.is_blocked();
        ASSERT_LT(said, 64U << 20);
        if (size >= 0) continue;
        say({ProgramId{1}, ProcessNumber{1}}, "still here\n");
        until([&, known = content(directory + "/log").size()] { return content(directory + "/log").size() > known; });
    }
    EXPECT_LT(said, 4U << 20) << "what is kept of it has a limit";
    std::string drained(1 << 20, '\0');
    ASSERT_GT(::read(console_reader.get(), drained.data(), drained.size()), 0);
    EXPECT_THAT(drained.substr(0, 1000), testing::HasSubstr("xxx"));
}

}  // namespace

}  // namespace triton::launcher
