#include "launcher/control/ctl.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/control/ctl_options.h"
#include "launcher/control/ctl_text.h"
#include "tests/unit/launcher/control/control_subject.h"

namespace triton::launcher {

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Result<CtlOptions> parse(std::vector<char const*> const& words) {
    return parse_ctl(static_cast<int>(words.size()), words.data(), "/default");
}

TEST(CtlOptions, CommandsAndTheirWords) {
    auto const options = parse({"--socket=/x", "logs", "-fn20", "web:3", "--json"});
    ASSERT_TRUE(options) << options.error().text();
    EXPECT_EQ(options->command->name, "logs");
    EXPECT_EQ(options->socket, "/x");
    EXPECT_TRUE(options->follows && options->is_json);
    EXPECT_EQ(options->lines, 20U);
    EXPECT_THAT(options->targets, ElementsAre(CtlTarget{"web", 3}));

    auto const restart = parse({"restart", "--no-wait", "-", "-:2", "a.b", "--timeout", "1m"});
    ASSERT_TRUE(restart) << restart.error().text();
    EXPECT_THAT(restart->targets, ElementsAre(CtlTarget{"", {}}, CtlTarget{"", 2}, CtlTarget{"a.b", {}}));
    EXPECT_FALSE(restart->waits);
    EXPECT_EQ(restart->timeout, std::chrono::minutes(1));
    EXPECT_EQ(restart->socket, "/default");

    auto const signal = parse({"signal", "usr1", "web"});
    ASSERT_TRUE(signal);
    EXPECT_EQ(signal->signal, "usr1");
    EXPECT_EQ(parse({"wait", "--for", "down", "web"})->condition, "down");
    EXPECT_EQ(parse({"upgrade", "./new"})->path, "./new");
    EXPECT_EQ(parse({"stage"})->what, "all");
    EXPECT_EQ(parse({"stage", "monitor-conf"})->what, "monitor_conf");
    EXPECT_TRUE(parse({"top", "--all"})->shows_all);
    EXPECT_EQ(parse({"status"})->targets.size(), 0U);
    EXPECT_TRUE(parse({"status", "--help"})->wants_help);
    EXPECT_EQ(parse({"help"})->command->name, "help");
    EXPECT_EQ(parse({"version", "--timeout", "2s"})->timeout, std::chrono::seconds(2));
    EXPECT_THAT(parse({"--", "status", "-x"})->targets, ElementsAre(CtlTarget{"-x", {}}));
}

TEST(CtlOptions, HelpOfOneCommandHasItsOptionsOnly) {
    for (auto const& words :
         {std::vector<char const*>{"help", "logs"}, {"logs", "--help"}, {"-h", "logs", "web", "x"}}) {
        auto const options = parse(words);
        ASSERT_TRUE(options && options->wants_help);
        ASSERT_EQ(options->command->name, "logs");
        std::string const text = ctl_help(options->command);
        EXPECT_THAT(text,
                    StartsWith("usage: triton-launch ctl [OPTIONS] logs [-f] [-n LINES] NAME[:N]\n\nprint the last"));
        EXPECT_THAT(text, AllOf(HasSubstr("--follow"), HasSubstr("--socket"), HasSubstr("NAME is a program")));
        EXPECT_THAT(text, AllOf(Not(HasSubstr("--force")), Not(HasSubstr("Commands:"))));
    }
    EXPECT_THAT(ctl_help(parse({"help", "reload"})->command), Not(HasSubstr("NAME is")));
    EXPECT_THAT(ctl_help(parse({"--help"})->command), AllOf(HasSubstr("Commands:"), HasSubstr("--force")));
    EXPECT_EQ(ctl_help(parse({"help", "help"})->command), ctl_help(nullptr));
}

TEST(CtlOptions, WhatIsWrongIsNamed) {
    struct Row {
        std::vector<char const*> words;
        std::string text;
    };
    for (Row const& row : std::vector<Row>{
             {{}, "the command is missing; triton-launch ctl --help lists the commands"},
             {{"stats"}, "unknown command stats; did you mean status?"},
             {{"frobnicate"}, "unknown command frobnicate; triton-launch ctl --help lists all"},
             {{"status", "--jsn"}, "unknown option --jsn; did you mean --json?"},
             {{"status", "-x"}, "unknown option -x; triton-launch ctl --help lists all"},
             {{"status", "-f"}, "--follow cannot be used with status"},
             {{"status", "--json=1"}, "--json takes no value"},
             {{"top", "--json"}, "--json means nothing for top; status --json has its numbers"},
             {{"status", "--socket"}, "--socket needs a value (PATH)"},
             {{"logs", "-n"}, "-n needs a value (LINES)"},
             {{"logs", "-n", "x", "web"}, "-n: \"x\" is not a whole number from 0 to 10000"},
             {{"logs", "--lines=10001", "web"}, "--lines: \"10001\" is not a whole number from 0 to 10000"},
             {{"logs"}, "the name of a program is missing; usage: triton-launch ctl logs [-f] [-n LINES] NAME[:N]"},
             {{"logs", "a", "b"}, "unexpected argument b; usage: triton-launch ctl logs [-f] [-n LINES] NAME[:N]"},
             {{"reload", "a"}, "unexpected argument a; usage: triton-launch ctl reload"},
             {{"help", "stats"}, "unknown command stats; did you mean status?"},
             {{"stats", "--help"}, "unknown command stats; did you mean status?"},
             {{"help", "a", "b"},
              "one command at a time, or none for all of them; usage: triton-launch ctl help [COMMAND]"},
             {{"stop", "web:0"}, "\"web:0\" is not NAME or NAME:NUMBER"},
             {{"stop", "web:"}, "\"web:\" is not NAME or NAME:NUMBER"},
             {{"stop", "web:1x"}, "\"web:1x\" is not NAME or NAME:NUMBER"},
             {{"stop", ":1"}, "\":1\" is not NAME or NAME:NUMBER; the unnamed program is \"-\""},
             {{"signal"}, "the signal is missing; usage: triton-launch ctl signal SIGNAL NAME[:N]..."},
             {{"signal", "TERM"},
              "the name of a program is missing; usage: triton-launch ctl signal SIGNAL NAME[:N]..."},
             {{"signal", "web"},
              "\"web\" is not a signal (for example TERM, 15, RTMIN+3); usage: triton-launch ctl signal SIGNAL "
              "NAME[:N]..."},
             {{"wait", "web", "--for", "dead"}, "--for: \"dead\" is not one of ready, up, down, done"},
             {{"wait", "web", "--timeout", "soon"},
              "--timeout: \"soon\" is not a duration (for example 500ms, 10s, 1m30s)"},
             {{"upgrade"}, "the path of the new launcher is missing; usage: triton-launch ctl upgrade PATH"},
             {{"upgrade", ""}, "the path of the new launcher is missing; usage: triton-launch ctl upgrade PATH"},
             {{"top", "--interval", "0s"}, "--interval: \"0s\" is less than 100ms"},
             {{"top", "--interval=99ms"}, "--interval: \"99ms\" is less than 100ms"},
             {{"upgrade", "a", "b"}, "one path is enough; usage: triton-launch ctl upgrade PATH"},
             {{"stage", "monitor_conf"}, "\"monitor_conf\" is not one of files, binaries, libraries, monitor-conf"},
             {{"stage", "files", "binaries"},
              "one kind at a time, or none for all of them; usage: triton-launch ctl stage "
              "[files|binaries|libraries|monitor-conf]"},
             {{"stage", "--all"}, "--all cannot be used with stage"},
             {{"describe", "web:1"}, "describe takes a program, not one of its processes"},
             {{"describe", "@web"}, "describe takes one program, not a group; usage: triton-launch ctl describe NAME"},
             {{"logs", "@web"},
              "logs takes one program, not a group; usage: triton-launch ctl logs [-f] [-n LINES] NAME[:N]"},
             {{"stop", "@web:1"}, "\"@web:1\" is not @GROUP: a group has no numbers"},
         }) {
        auto const options = parse(row.words);
        ASSERT_FALSE(options) << row.text;
        EXPECT_EQ(options.error().text(), row.text);
    }
}

TEST(CtlText, DurationsAndSizesForPeople) {
    for (auto const& [seconds, text] : std::vector<std::pair<double, std::string>>{{-1, "0.0s"},
                                                                                   {0.04, "0.0s"},
                                                                                   {0.26, "0.3s"},
                                                                                   {9.94, "9.9s"},
                                                                                   {9.96, "10s"},
                                                                                   {59.4, "59s"},
                                                                                   {60, "1m0s"},
                                                                                   {3599.6, "1h0m"},
                                                                                   {7260, "2h1m"},
                                                                                   {90000, "1d1h"},
                                                                                   {1e30, "11574074074d1h"}}) {
        EXPECT_EQ(short_duration(seconds), text);
    }
    for (auto const& [bytes, text] : std::vector<std::pair<std::int64_t, std::string>>{{0, "0"},
                                                                                       {1023, "1023"},
                                                                                       {1024, "1.0K"},
                                                                                       {1 << 20, "1.0M"},
                                                                                       {1500000, "1.4M"},
                                                                                       {150000, "146K"},
                                                                                       {INT64_MAX, "8.0E"}}) {
        EXPECT_EQ(short_bytes(bytes), text);
    }
}

std::vector<json::Object> programs_of(std::string const& json) {
    std::string message;
    varlink::append_reply(message, R"({"programs":)" + json + "}", false);
    message.pop_back();
    auto reply = varlink::parse_reply(message, message.size());
    EXPECT_TRUE(reply) << message;
    std::vector<json::Object> programs;
    if (reply) merge_programs(programs, reply->parameters);
    return programs;
}

std::string joined(std::vector<std::string> const& lines) {
    std::string text;
    for (std::string const& line : lines)
        text += line;
    return text;
}

/// What a launcher says, of its processes too, must not steer the terminal of whoever asks.
TEST(CtlText, StatesAndSignalsAreMadePrintable) {
    json::ProblemList problems{1};
    auto const reply = json::read_json(
        R"({"programs":[{"name":"a\u009bb","processes":[{"number":1,"state":"\u001b[2J","last_exit":{"signal":"\u0007"}}]}]})",
        {}, problems);
    ASSERT_TRUE(reply);
    json::Object answer = *reply->get<json::Object>();
    std::vector<json::Object> programs;
    merge_programs(programs, answer);
    CpuTimes before;
    std::string text;
    for (auto const& lines : {status_lines(programs, false), top_lines(programs, before, 0, false)}) {
        for (std::string const& line : lines)
            text += line;
    }
    EXPECT_THAT(text, Not(HasSubstr("\033")));
    EXPECT_THAT(text, Not(HasSubstr("\a")));
    EXPECT_THAT(text, Not(HasSubstr("\xc2\x9b")));
    EXPECT_THAT(text, HasSubstr("\\x1b[2J"));
    EXPECT_THAT(text, HasSubstr("\\x07"));
}

TEST(CtlText, StatusIsATable) {
    auto const programs = programs_of(
        R"([{"name":"web","processes":[{"number":1,"state":"up","pid":17,"uptime_seconds":61.5,"restarts":0,"ready":true,)"
        R"("memory_bytes":1048576}]},{"name":"x","processes":[]},{"name":"web","processes":[{"number":10,"state":"backoff",)"
        R"("restart_in_seconds":1.25,"restarts":12,"ready":false,"last_exit":{"signal":"SIGKILL","oom_killed":true}}]},)"
        R"({"name":"","processes":[{"number":1,"state":"failed","last_exit":{"code":3}}]}])");
    EXPECT_EQ(joined(status_lines(programs, false)),
              "NAME  NUMBER  STATE         PID  UPTIME  RESTARTS  READY  MEMORY  LAST EXIT\n"
              "web        1  up             17    1m2s         0  yes      1.0M  -\n"
              "web       10  backoff 1.3s    -       -        12  no          -  SIGKILL (out of memory)\n"
              "x          -  none            -       -         -  -           -  -\n"
              "-          1  failed          -       -         -  no          -  code 3\n");
    EXPECT_THAT(joined(status_lines(programs, true)), HasSubstr("\033[32mup\033[0m"));
    EXPECT_THAT(joined(status_lines(programs, true)), HasSubstr("\033[31mfailed\033[0m"));
}

TEST(CtlText, TheLastExitHasItsTime) {
    auto const programs = programs_of(
        R"([{"name":"a","processes":[{"number":1,"state":"up","last_exit":{"code":3},"ended_seconds_ago":185}]}])");
    EXPECT_THAT(joined(status_lines(programs, false)), HasSubstr("  code 3, 3m5s ago\n"));
}

TEST(CtlText, HistoryIsATable) {
    auto const programs = programs_of(
        R"([{"name":"web","processes":[{"number":2,"ends":[)"
        R"({"time":1700000000.5,"run_seconds":61.5,"code":3,"oom_killed":false},)"
        R"({"time":1700000100,"run_seconds":1,"signal":"SIGKILL","oom_killed":true,"reason":"start_timeout"},)"
        R"({"time":1700000200,"run_seconds":0,"error":"cannot execute /x\u001b: No","oom_killed":false}]}]}])");
    EXPECT_EQ(joined(history_lines(programs, false)),
              "NAME  NUMBER  ENDED                 AFTER  LAST EXIT                  REASON\n"
              "web        2  2023-11-14T22:13:20Z   1m2s  code 3                     -\n"
              "web        2  2023-11-14T22:15:00Z   1.0s  SIGKILL (out of memory)    was not ready in time\n"
              "web        2  2023-11-14T22:16:40Z   0.0s  cannot execute /x\\x1b: No  -\n");
}

TEST(CtlText, ChecksHaveTheirOutput) {
    auto const programs = programs_of(
        R"([{"name":"web","processes":[{"number":1,"checks":[)"
        R"({"check":"health a","time":90,"ok":false,"why":"exit code 7","output":"no route\nagain\u001b[2J"},)"
        R"({"check":"readiness","time":95,"ok":true}]}]},{"name":"x","processes":[{"number":1}]}])");
    EXPECT_EQ(joined(check_lines(programs, 100)),
              "\nweb:1 health a, 10s ago, failed: exit code 7\n    no route\n    again\\x1b[2J\n"
              "web:1 readiness, 5.0s ago, good\n");
    EXPECT_TRUE(check_lines(programs_of("[]"), 100).empty());
}

TEST(CtlText, VersionsStandThereWhenTheyDiffer) {
    auto const table = [](std::string const& first, std::string const& second) {
        return joined(status_lines(programs_of(R"([{"name":"web","version":"7.3","processes":[{"number":1)" + first +
                                               R"(}]},{"name":"db")" + second + R"(,"processes":[]}])"),
                                   false));
    };
    std::string const same = table(R"(,"version":"7.3")", R"(,"version":"7.3")");
    EXPECT_EQ(same, table("", R"(,"version":"7.3")"));
    EXPECT_THAT(same, Not(HasSubstr("VERSION")));
    EXPECT_EQ(table(R"(,"version":"7.1\u001b")", R"(,"version":"7.3")"),
              "NAME  NUMBER  VERSION         STATE  PID  UPTIME  RESTARTS  READY  MEMORY  LAST EXIT\n"
              "web        1  7.1\\x1b -> 7.3           -       -         -  no          -  -\n"
              "db         -  7.3             none     -       -         -  -           -  -\n");
    EXPECT_EQ(table("", ""),
              "NAME  NUMBER  VERSION  STATE  PID  UPTIME  RESTARTS  READY  MEMORY  LAST EXIT\n"
              "web        1  7.3               -       -         -  no          -  -\n"
              "db         -  -        none     -       -         -  -           -  -\n");
}

TEST(CtlText, TheReporterIsALine) {
    auto const lines = [](std::string const& launcher) {
        auto const reply = varlink::parse_reply(R"({"parameters":)" + launcher + "}", 4096);
        EXPECT_TRUE(reply) << launcher;
        return reply ? joined(launcher_lines(reply->parameters, 1'600'000'180)) : "";
    };
    auto const reporter = [&lines](std::string const& members) { return lines(R"({"reporter":{)" + members + "}}"); };
    EXPECT_EQ(lines("{}"), "");
    EXPECT_EQ(lines(R"({"isolated":false,"reporter":null})"), "");
    EXPECT_EQ(lines(R"({"isolated":true})"), "isolated: the pod's annotation holds the processes back\n");
    EXPECT_EQ(reporter(R"("state":"off","detail":"no cluster")"), "");
    EXPECT_EQ(reporter(R"("state":"ok","detail":"","last_success":1600000000.25)"), "kubernetes: ok\n");
    EXPECT_EQ(reporter(R"("state":"connecting","detail":"")"), "kubernetes: connecting\n");
    EXPECT_EQ(reporter(R"("state":"failing","detail":"no \u001b[0m route")"),
              "kubernetes: failing: no \\x1b[0m route\n");
    EXPECT_EQ(reporter(R"("state":"failing","detail":"403 Forbidden: pods \"x\" is forbidden: verb patch",)"
                       R"("last_success":1600000000.0)"),
              "kubernetes: failing since 3m0s: 403 Forbidden: pods \"x\" is forbidden: verb patch\n");
}

TEST(CtlText, WhatIsWrongWithTheConfigurationIsALine) {
    auto const lines = [](std::string const& launcher) {
        auto const reply = varlink::parse_reply(R"({"parameters":)" + launcher + "}", 4096);
        EXPECT_TRUE(reply) << launcher;
        return reply ? joined(launcher_lines(reply->parameters, 0)) : "";
    };
    EXPECT_EQ(lines(R"({"has_configuration":true,"rejection":[]})"), "");
    EXPECT_EQ(lines(R"({"has_configuration":false,"rejection":[]})"), "configuration: none is active\n");
    EXPECT_EQ(lines(R"({"has_configuration":true,"rejection":["line 3: bad \u001b"]})"),
              "configuration: the latest was rejected: line 3: bad \\x1b\n");
    EXPECT_EQ(lines(R"({"has_configuration":false,"rejection":["a","b","c"],"isolated":true})"),
              "configuration: none is active; the latest was rejected: a (and 2 more)\n"
              "isolated: the pod's annotation holds the processes back\n");
}

TEST(CtlText, LinesAreCutAtTheWidth) {
    EXPECT_EQ(cut_line("abcdef\n", 6), "abcdef\n");
    EXPECT_EQ(cut_line("abcdef\n", 3), "abc\n");
    EXPECT_EQ(cut_line("a\xc3\xa9\xe2\x82\xacz\n", 3), "a\xc3\xa9\xe2\x82\xac\n");
    EXPECT_EQ(cut_line("ab\033[32mcd\033[0mef\n", 3), "ab\033[32mc\033[0m\n");
    EXPECT_EQ(cut_line("ab\033[1", 9), "ab\033[1");
}

TEST(CtlText, TopSortsByWhatIsUsedNow) {
    auto const picture = [](double a, double b) {
        return programs_of(R"([{"name":"a","processes":[{"number":1,"state":"up","pid":1,"cpu_seconds":)" +
                           std::to_string(a) +
                           R"(}]},{"name":"b","processes":[{"number":1,"state":"up","pid":2,"cpu_seconds":)" +
                           std::to_string(b) + "}]}]");
    };
    CpuTimes before;
    EXPECT_EQ(joined(top_lines(picture(1, 1), before, 0, false)),
              "NAME  NUMBER  STATE  PID  CPU %  CPU TIME  MEMORY  UPTIME  RESTARTS\n"
              "a          1  up       1      -      1.0s       -       -         -\n"
              "b          1  up       2      -      1.0s       -       -         -\n");
    EXPECT_EQ(joined(top_lines(picture(1.2, 3), before, 2, false)),
              "NAME  NUMBER  STATE  PID  CPU %  CPU TIME  MEMORY  UPTIME  RESTARTS\n"
              "b          1  up       2    100      3.0s       -       -         -\n"
              "a          1  up       1   10.0      1.2s       -       -         -\n");
}

TEST(CtlText, EventsAreLines) {
    std::string const json =
        R"({"time":"2026-01-02T03:04:05.000006Z","level":"info","event":"x","message":"a \u001b b"})";
    auto const reply = varlink::parse_reply(R"({"parameters":)" + json + "}", 1000);
    ASSERT_TRUE(reply);
    EXPECT_EQ(event_text(reply->parameters), "2026-01-02T03:04:05.000006Z info    a \\x1b b\n");
    EXPECT_EQ(json_text(reply->parameters), json);
}

/// The client as a process of its own, against the server in the test's loop.
class CtlTest : public ControlSubject {
protected:
    struct Run {
        std::string out;
        std::string err;
        int exit_code = -1;
        pid_t pid = -1;
        UniqueFd out_fd, err_fd, pidfd;
        EventLoop::Watch out_watch, err_watch, end_watch;
        bool has_ended = false;
    };

    /// `terminal`: the client's end of one, for its standard output. `prepare` is called in the new process.
    std::unique_ptr<Run> begin(
        std::vector<std::string> words, UniqueFd terminal = {}, std::function<void()> const& prepare = [] {}) {
        auto run = std::make_unique<Run>();
        int out[2];
        int err[2];
        EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
        EXPECT_EQ(::pipe2(err, O_CLOEXEC), 0);
        run->pid = ::fork();
        if (run->pid == 0) {
            ::dup2(terminal ? terminal.get() : out[1], STDOUT_FILENO);
            ::dup2(err[1], STDERR_FILENO);
            (void)::close_range(3, ~0U, 0);  // there is no execve to do it: the test's listener would live on in here
            prepare();
            words.insert(words.begin(), {"triton-launch", "ctl"});
            std::vector<char*> argv;
            for (std::string& word : words)
                argv.push_back(word.data());
            argv.push_back(nullptr);
            std::string variable = "TRITON_LAUNCH_CONTROL_SOCKET=" + path;
            std::string term = "TERM=xterm";
            char* envp[] = {variable.data(), term.data(), nullptr};
            ::_exit(ctl_main(static_cast<int>(words.size()), argv.data(), envp));
        }
        ::close(out[1]);
        ::close(err[1]);
        run->out_fd = UniqueFd{out[0]};
        run->err_fd = UniqueFd{err[0]};
        run->pidfd = UniqueFd{static_cast<int>(::syscall(SYS_pidfd_open, run->pid, 0))};
        Run* const raw = run.get();
        auto const reader = [](UniqueFd const& fd, std::string& text, EventLoop::Watch& watch) {
            return [&fd, &text, &watch] {
                char buffer[65536];
                ssize_t const size = ::read(fd.get(), buffer, sizeof buffer);
                if (size <= 0) watch = {};
                if (size > 0) text.append(buffer, static_cast<std::size_t>(size));
            };
        };
        run->out_watch = *loop->on_readable(out[0], reader(raw->out_fd, raw->out, raw->out_watch));
        run->err_watch = *loop->on_readable(err[0], reader(raw->err_fd, raw->err, raw->err_watch));
        run->end_watch = *loop->on_readable(raw->pidfd.get(), [raw] {
            raw->end_watch = {};
            raw->has_ended = true;
        });
        return run;
    }

    void finish(Run& run) {
        until([&run] { return run.has_ended && !run.out_watch && !run.err_watch; });
        if (!run.has_ended) (void)::kill(run.pid, SIGKILL);  // the test has failed already
        int status = 0;
        EXPECT_EQ(::waitpid(run.pid, &status, 0), run.pid);
        run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }

    /// What an upgrade does to it: all connections are cut off, the listening socket stays, its file too.
    void replace_server() {
        varlink::HandedSocket handed = server->socket();
        handed.fd = ::dup(handed.fd);
        // What stands at the path from now on is not the server's to remove, and leads to the same socket all the time.
        std::filesystem::rename(path, path + ".kept");
        std::filesystem::create_symlink(path + ".kept", path);
        server.reset();
        auto next = ControlServer::create(*loop, {.path = path, .adopted = handed}, backend);
        ASSERT_TRUE(next) << next.error().text();
        server = std::move(*next);
    }

    std::unique_ptr<Run> ctl(std::vector<std::string> words) {
        auto run = begin(std::move(words));
        finish(*run);
        return run;
    }
};

TEST_F(CtlTest, StatusOfAllAndOfSome) {
    start();
    backend.add("web", 2);
    backend.add("db", 1);
    auto const all = ctl({"status"});
    EXPECT_EQ(all->exit_code, 0) << all->err;
    EXPECT_EQ(all->out,
              "NAME  NUMBER  STATE   PID  UPTIME  RESTARTS  READY  MEMORY  LAST EXIT\n"
              "web        1  up     1001    1m2s         0  yes      1.0M  -\n"
              "web        2  up     1002    1m2s         0  yes      1.0M  -\n"
              "db         1  up     1001    1m2s         0  yes      1.0M  -\n");
    EXPECT_THAT(
        ctl({"status", "web:2", "--json"})->out,
        StartsWith(
            R"({"programs":[{"name":"web","kind":"service","internal":false,"wanted":2,"ready":true,"processes":[)"));
    auto const wrong = ctl({"status", "wep"});
    EXPECT_EQ(wrong->exit_code, 1);
    EXPECT_EQ(wrong->err, "triton-launch ctl: there is no program wep; did you mean web?\n");
}

TEST_F(CtlTest, TheLaunchersOwnProgramsAreShownWhenAskedFor) {
    start();
    backend.add("web", 1);
    backend.add("triton-agent", 1).status.is_internal = true;
    backend.status.is_isolated = true;
    backend.status.reporter = ReporterStatus{"failing", "hung", {}};
    std::string const head = "NAME  NUMBER  STATE   PID  UPTIME  RESTARTS  READY  MEMORY  LAST EXIT\n";
    std::string const web = "web        1  up     1001    1m2s         0  yes      1.0M  -\n";
    std::string const notes = "\nisolated: the pod's annotation holds the processes back\nkubernetes: failing: hung\n";
    EXPECT_EQ(ctl({"status"})->out, head + web + notes);
    EXPECT_EQ(ctl({"status", "web"})->out, head + web);
    EXPECT_THAT(ctl({"status", "--all"})->out, HasSubstr("\ntriton-agent       1  up"));
    EXPECT_THAT(ctl({"status", "triton-agent"})->out, HasSubstr("\ntriton-agent       1  up"));
    std::string const json = ctl({"status", "--json"})->out;
    EXPECT_THAT(json, HasSubstr(R"({"name":"triton-agent","kind":"service","internal":true,)"));
    EXPECT_THAT(json, HasSubstr(R"(],"launcher":{"version":"0.1.0+1a2b3c4",)"));
    EXPECT_THAT(json, HasSubstr(R"("isolated":true,"reporter":{"state":"failing","detail":"hung"},)"));
    EXPECT_THAT(ctl({"top"})->out, Not(HasSubstr("triton-agent")));
    EXPECT_THAT(ctl({"top", "--all"})->out, HasSubstr("triton-agent"));
    EXPECT_EQ(ctl({"__names"})->out, "web\n");
    EXPECT_EQ(ctl({"__names", "--all"})->out, "web\ntriton-agent\n");
}

TEST_F(CtlTest, StagePrintsWhatWasCopied) {
    start();
    std::vector<StagingKind> asked;
    StagingAnswer answer{{"/out/a", "/out/\x1b"}, {}};
    backend.on_stage = [&](StagingKind what, std::uint64_t ticket) {
        asked.push_back(what);
        server->answer_stage(ticket, answer);
    };
    auto const good = ctl({"stage"});
    EXPECT_EQ(good->exit_code, 0) << good->err;
    EXPECT_EQ(good->out, "/out/a\n/out/\\x1b\n");
    EXPECT_EQ(ctl({"stage", "monitor-conf", "--json"})->out,
              "{\"files\":[\"/out/a\",\"/out/\\u001b\"],\"errors\":[]}\n");
    EXPECT_THAT(asked, ElementsAre(StagingKind::all, StagingKind::monitor_conf));
    answer = {{"/out/a"}, {"cannot copy b: No space left on device"}};
    auto const bad = ctl({"stage", "files"});
    EXPECT_EQ(bad->exit_code, 1);
    EXPECT_EQ(bad->out, "/out/a\n");
    EXPECT_EQ(bad->err,
              "triton-launch ctl: not everything could be copied\n    cannot copy b: No space left on device\n");
    answer = {std::vector<std::string>(10'000, std::string(100, 'x')), {}};
    auto const many = ctl({"stage"});
    EXPECT_EQ(many->exit_code, 0);
    auto const shown = std::ranges::count(many->out, '\n');
    EXPECT_EQ(many->err, "triton-launch ctl: " + std::to_string(10'000 - shown) +
                             " more are not shown: the answer would be too long\n");
    backend.on_stage = {};
    auto const late = ctl({"stage", "--timeout", "30ms"});
    EXPECT_EQ(late->exit_code, 4);
    backend.refusal = Error{ErrorKind::refused, {}, "there is nothing to copy", {}};
    auto const refused = ctl({"stage"});
    EXPECT_EQ(refused->exit_code, 1);
    EXPECT_EQ(refused->err, "triton-launch ctl: there is nothing to copy\n");
}

TEST_F(CtlTest, AListOfThousandsIsWhole) {
    start();
    backend.add("web", 2000);
    auto const run = ctl({"status"});
    EXPECT_EQ(run->exit_code, 0) << run->err;
    EXPECT_EQ(std::ranges::count(run->out, '\n'), 2001);
}

TEST_F(CtlTest, OnATerminalStatesAreColored) {
    start();
    backend.add("web", 1);
    UniqueFd const ours{::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
    ASSERT_EQ(::grantpt(ours.get()) | ::unlockpt(ours.get()), 0);
    UniqueFd theirs{::open(::ptsname(ours.get()), O_RDWR | O_NOCTTY | O_CLOEXEC)};
    auto const run = begin({"status"}, std::move(theirs));
    finish(*run);
    char buffer[4096];
    ssize_t const size = ::read(ours.get(), buffer, sizeof buffer);
    EXPECT_THAT(std::string(buffer, static_cast<std::size_t>(std::max<ssize_t>(size, 0))),
                HasSubstr("\033[32mup\033[0m"));
}

TEST_F(CtlTest, TopFillsATerminalAndIsRenewed) {
    start();
    backend.add("web", 2);
    UniqueFd const ours{::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
    ASSERT_EQ(::grantpt(ours.get()) | ::unlockpt(ours.get()), 0);
    UniqueFd theirs{::open(::ptsname(ours.get()), O_RDWR | O_NOCTTY | O_CLOEXEC)};
    winsize const size{.ws_row = 4, .ws_col = 24, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(::ioctl(ours.get(), TIOCSWINSZ, &size), 0);
    auto const run = begin({"top", "--interval", "100ms"}, std::move(theirs));
    std::string shown;
    auto const watch = loop->on_readable(ours.get(), [&] {
        char buffer[4096];
        ssize_t const length = ::read(ours.get(), buffer, sizeof buffer);
        shown.append(buffer, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    });
    ASSERT_TRUE(watch);
    std::string_view const end = "\033[J";
    until([&] { return shown.find(end, shown.find(end) + 1) != std::string::npos; });
    (void)::kill(run->pid, SIGTERM);
    finish(*run);
    // Each line erases what an earlier and longer one has left behind it; the terminal has made CR and newline of each
    // newline.
    EXPECT_EQ(shown.substr(0, shown.find(end)),
              "\033[Htriton-launch 0.1.0+1a2b\033[K\r\n"
              "\033[1mNAME  NUMBER  STATE   PI\033[0m\033[K\r\n"
              "web        1  \033[32mup\033[0m     100\033[K\r\n");
    EXPECT_THAT(shown.substr(shown.find(end) + end.size()), StartsWith("\033[Htriton-launch"));
}

TEST_F(CtlTest, Commands) {
    start();
    backend.add("", 1);
    backend.add("web", 2);
    backend.on_command = [this] {
        backend.at(1, 2).state = backend.done.back().starts_with("stop") ? ProcessState::held : ProcessState::up;
        ++backend.at(0, 1).starts;
        server->state_changed();
    };
    for (std::vector<std::string> const& words : {std::vector<std::string>{"stop", "web:2"},
                                                  {"start", "web:2"},
                                                  {"restart", "-"},
                                                  {"signal", "HUP", "web", "-:1"},
                                                  {"reload"},
                                                  {"restart", "--no-wait", "web"}}) {
        auto const run = ctl(words);
        EXPECT_EQ(run->exit_code, 0) << words.front() << run->err;
        EXPECT_EQ(run->out + run->err, "");
    }
    EXPECT_THAT(backend.done,
                ElementsAre("stop 1:2", "start 1:2", "restart 0", "signal 1 1", "signal 0:1 1", "reload", "restart 1"));
}

TEST_F(CtlTest, RefusalsAndWhatCannotBeReached) {
    auto const nobody = ctl({"status"});
    EXPECT_EQ(nobody->exit_code, 3);
    EXPECT_EQ(nobody->err,
              "triton-launch ctl: cannot reach a launcher on " + path +
                  ": No such file or directory\n"
                  "    Is a launcher running with --control-socket? Another path than this is given by --socket "
                  "PATH or $TRITON_LAUNCH_CONTROL_SOCKET.\n");
    start();
    backend.add("web", 1);
    backend.refusal = Error{ErrorKind::internal, {}, "the configuration is rejected", {"line 1: bad"}};
    auto const refused = ctl({"reload"});
    EXPECT_EQ(refused->exit_code, 1);
    EXPECT_EQ(refused->err, "triton-launch ctl: the configuration is rejected\n    line 1: bad\n");
    EXPECT_EQ(ctl({"stop", "web:7"})->err, "triton-launch ctl: web:7: web has no process 7\n");
    EXPECT_EQ(ctl({"stop"})->exit_code, 2);
    auto const help = ctl({"--help"});
    EXPECT_EQ(help->exit_code, 0);
    EXPECT_THAT(help->out, HasSubstr("restart NAME[:N]..."));
}

/// Where somebody listens and nobody answers, as a launcher that hangs: the time is limited, at the connection too.
TEST_F(CtlTest, ALauncherThatHangsIsNotWaitedForForEver) {
    auto const listener = varlink::Listener::create(path, 0600, {});
    ASSERT_TRUE(listener) << listener.error().text();
    for (std::vector<std::string> const& words : {std::vector<std::string>{"version", "--timeout", "30ms"},
                                                  {"events", "--timeout", "30ms"},
                                                  {"stop", "web", "--timeout", "30ms"},
                                                  {"status", "--timeout", "30ms"}}) {
        auto const late = ctl(words);
        EXPECT_EQ(late->exit_code, 4) << words.front();
        EXPECT_THAT(late->err, ::testing::EndsWith("timed out\n")) << words.front();
    }
    auto const address = varlink::socket_address(path);
    std::vector<UniqueFd> crowd;
    for (int result = 0; result == 0;) {
        crowd.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        result = ::connect(crowd.back().get(), reinterpret_cast<sockaddr const*>(&*address), sizeof *address);
    }
    auto const crowded = ctl({"version", "--timeout", "30ms"});
    EXPECT_EQ(crowded->exit_code, 4);
    EXPECT_EQ(crowded->err, "triton-launch ctl: cannot reach a launcher on " + path + ": it accepts no connection\n");
}

TEST_F(CtlTest, WaitEndsWithTheStateOrTheTime) {
    start();
    backend.add("web", 1);
    backend.at(0, 1).state = ProcessState::starting;
    auto const late = ctl({"wait", "web", "--timeout", "20ms"});
    EXPECT_EQ(late->exit_code, 4);
    EXPECT_EQ(late->err, "triton-launch ctl: timed out\n");
    auto const run = begin({"wait", "web", "--for", "ready"});
    until([this] { return backend.processes_asked > 0; });
    backend.at(0, 1).state = ProcessState::up;
    server->state_changed();
    server->end_round();
    finish(*run);
    EXPECT_EQ(run->exit_code, 0) << run->err;
    backend.at(0, 1).state = ProcessState::failed;
    auto const never = ctl({"wait", "web:1"});
    EXPECT_EQ(never->exit_code, 1);
    EXPECT_EQ(never->err, "triton-launch ctl: process 1 of web is failed\n");
    backend.at(0, 1).last_exit = LastExit{.code = 3};
    EXPECT_EQ(ctl({"wait", "web"})->err, "triton-launch ctl: process 1 of web is failed (code 3)\n");
    backend.at(0, 1).last_exit = LastExit{.error = "cannot execute /bin/web: No such file or directory"};
    EXPECT_EQ(ctl({"start", "web"})->err,
              "triton-launch ctl: web: process 1 of web is failed "
              "(cannot execute /bin/web: No such file or directory)\n");
}

TEST_F(CtlTest, WaitAndEventsGoOnAcrossAnUpgrade) {
    start();
    backend.add("web", 1);
    backend.at(0, 1).state = ProcessState::starting;
    auto const waiting = begin({"wait", "web"});
    auto const events = begin({"events"});
    until([this] { return backend.processes_asked > 0 && server->wants_records(); });
    server->publish(R"({"time":"t","level":"info","message":"before"})");
    server->end_round();
    until([&events] { return !events->out.empty(); });
    replace_server();
    until([this] { return server->wants_records(); });
    server->publish(R"({"time":"t","level":"info","message":"after"})");
    backend.at(0, 1).state = ProcessState::up;
    server->state_changed();
    server->end_round();
    finish(*waiting);
    EXPECT_EQ(waiting->exit_code, 0) << waiting->err;
    until([&events] { return events->out.contains("after"); });
    server.reset();  // for good
    finish(*events);
    EXPECT_EQ(events->exit_code, 0) << events->err;
    EXPECT_EQ(events->out, "t info    before\nt info    after\n");
}

/// Who the kernel lets connect is looked at once more: by user, and by the group that was configured.
TEST_F(CtlTest, OnlyWhoIsMeantIsLetIn) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
    constexpr gid_t group = 4242;
    ASSERT_EQ(::chmod(directory.c_str(), 0755), 0);
    auto const ask_as = [this](gid_t gid, std::vector<gid_t> const& groups) {
        auto run = begin({"version"}, {}, [&] {
            bool const is_somebody = ::setgroups(groups.size(), groups.data()) == 0 &&
                                     ::setresgid(gid, gid, gid) == 0 && ::setresuid(65534, 65534, 65534) == 0;
            if (!is_somebody) ::_exit(99);
        });
        finish(*run);
        return std::to_string(run->exit_code) + " " + run->err;
    };
    std::string const denied = "1 triton-launch ctl: the launcher does not let this user in\n";
    start({}, 0660);  // of group root, which was not asked for
    EXPECT_EQ(ask_as(0, {}), denied);
    EXPECT_THAT(backend.failures, ElementsAre(StartsWith("a connection of user 65534, pid ")));
    EXPECT_THAT(ask_as(group, {}), HasSubstr("Permission denied"));  // the kernel's
    server.reset();
    auto made = ControlServer::create(*loop, {.path = path, .mode = 0660, .group = group}, backend);
    ASSERT_TRUE(made) << made.error().text();
    server = std::move(*made);
    EXPECT_EQ(ask_as(group, {}), "0 ");
    EXPECT_EQ(ask_as(65534, {1, group}), "0 ");
    EXPECT_THAT(ask_as(65534, {1}), HasSubstr("Permission denied"));
}

TEST_F(CtlTest, WaitEndsWithTheLauncher) {
    start();
    backend.add("web", 1);
    backend.at(0, 1).state = ProcessState::starting;
    auto const run = begin({"wait", "web"});
    until([this] { return backend.processes_asked > 0; });
    server.reset();
    finish(*run);
    EXPECT_EQ(run->exit_code, 3);
    EXPECT_EQ(run->err, "triton-launch ctl: the launcher has ended\n");
}

TEST_F(CtlTest, LogsWithTheNumberWhereThereAreSeveral) {
    start();
    backend.add("web", 2).lines = {"one", "two"};
    backend.add("db", 1).lines = {"raw \xff"};
    EXPECT_EQ(ctl({"logs", "web", "-n1"})->out, "1: two\n");
    EXPECT_EQ(ctl({"logs", "db"})->out, "raw \xef\xbf\xbd\n");
    EXPECT_EQ(ctl({"logs", "db", "--json"})->out,
              "{\"process\":1,\"stream\":\"stdout\",\"text\":\"raw \xef\xbf\xbd\"}\n");
    auto const run = begin({"logs", "-f", "web:2"});
    until([this] { return server->has_followers(); });
    server->publish_output("web", {.process = 2, .text = "three"});
    server->end_round();
    until([&run] { return run->out.ends_with("three\n"); });
    server.reset();
    finish(*run);
    EXPECT_EQ(run->exit_code, 0) << run->err;
    EXPECT_EQ(run->out, "one\ntwo\nthree\n");
}

TEST_F(CtlTest, LogsJoinsThePiecesOfALine) {
    start();
    backend.add("web", 2).lines = {"zero", "one..", "two..", "three", "four..", "five"};
    EXPECT_EQ(ctl({"logs", "web", "-n2"})->out, "1: one..two..three\n1: four..five\n");
    EXPECT_EQ(ctl({"logs", "web", "-n1", "--json"})->out,
              "{\"process\":1,\"stream\":\"stdout\",\"text\":\"four..\",\"partial\":true}\n"
              "{\"process\":1,\"stream\":\"stdout\",\"text\":\"five\"}\n");
    auto const run = begin({"logs", "-f", "-n0", "web"});
    until([this] { return server->has_followers(); });
    server->publish_output("web", {.process = 1, .text = "a", .is_partial = true});
    server->publish_output("web", {.process = 1, .text = "b", .is_partial = true});
    server->publish_output("web", {.process = 2, .text = "between"});
    server->publish_output("web", {.process = 1, .text = "c", .is_partial = true});
    server->end_round();
    until([&run] { return run->out.ends_with("c"); });
    server.reset();
    finish(*run);
    EXPECT_EQ(run->out, "1: ab\n2: between\n1: c\n");
}

TEST_F(CtlTest, UpgradeWaitsForTheNewOne) {
    start();
    backend.on_command = [this] { server->answer_upgrade(UpgradeVersions{"1", "2"}); };
    auto const run = begin({"upgrade", "new"});
    until([this] { return !backend.done.empty(); });
    EXPECT_THAT(backend.done.front(), StartsWith("upgrade /"));
    EXPECT_THAT(backend.done.front(), ::testing::EndsWith("/new"));
    until_quiet();
    replace_server();
    finish(*run);
    EXPECT_EQ(run->exit_code, 0) << run->err;
    EXPECT_EQ(run->out, "upgraded from 1 to 0.1.0+1a2b3c4\n");
    backend.refusal = Error{ErrorKind::refused, {}, "it would lose something", {"programs.web.health"}};
    auto const refused = ctl({"upgrade", "/old"});
    EXPECT_EQ(refused->exit_code, 1);
    EXPECT_EQ(refused->err, "triton-launch ctl: it would lose something\n    programs.web.health\n");
}

TEST_F(CtlTest, TheRest) {
    start();
    backend.add("", 1);
    backend.add("web", 1);
    EXPECT_EQ(ctl({"__names"})->out, "-\nweb\n");
    EXPECT_THAT(ctl({"__commands"})->out, StartsWith("status\tshow a table of what runs\ndescribe\t"));
    EXPECT_EQ(ctl({"version"})->out, "0.1.0+1a2b3c4\n");
    EXPECT_THAT(ctl({"top"})->out, StartsWith("NAME  NUMBER  STATE   PID  CPU %  CPU TIME"));
    auto const described = ctl({"describe", "web"});
    EXPECT_THAT(described->out, StartsWith("name:               web\nkind:               service\n"));
    EXPECT_THAT(described->out, HasSubstr("\ncommand:            /bin/web --level \"\xef\xbf\xbd\"\n"));
    EXPECT_THAT(ctl({"describe", "web", "--json"})->out, StartsWith(R"({"program":{"name":"web")"));
    server.reset();
    auto const quiet = ctl({"__names"});
    EXPECT_EQ(quiet->out + quiet->err, "");
    EXPECT_EQ(quiet->exit_code, 3);
}

}  // namespace

}  // namespace triton::launcher
