#include <csignal>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "launcher/wrap/wrap.h"

namespace triton::launcher {

namespace {

using Words = std::vector<std::string>;

/// argv and envp as the kernel lays them out, and what parse_wrap makes of them.
struct Parse {
    explicit Parse(Words const& arguments, Words const& environment = {}) : argv_(arguments), envp_(environment) {
        parsed = parse_wrap(static_cast<int>(argv_.size()), pointers(argv_, argv).data(), pointers(envp_, envp).data(),
                            options);
    }
    [[nodiscard]] std::string command() const { return argv_.at(static_cast<std::size_t>(options.command)); }
    [[nodiscard]] bool is_remapped(int code) const { return ((options.remapped[code / 32] >> (code % 32)) & 1) != 0; }

    WrapOptions options{};
    WrapParsed parsed{};

private:
    static std::vector<char*>& pointers(Words& words, std::vector<char*>& into) {
        for (std::string& word : words)
            into.push_back(word.data());
        into.push_back(nullptr);
        return into;
    }
    Words argv_;
    Words envp_;
    std::vector<char*> argv;
    std::vector<char*> envp;
};

struct Case {
    Words arguments;
    WrapParse result;
    int index;
};

void expect(Case const& row, Words const& environment, bool in_environment) {
    std::string what;
    for (std::string const& word : row.arguments)
        what += word + " ";
    for (std::string const& word : environment)
        what += "[" + word + "]";
    Parse const parse(row.arguments, environment);
    EXPECT_EQ(static_cast<int>(parse.parsed.result), static_cast<int>(row.result)) << what;
    EXPECT_EQ(parse.parsed.index, row.index) << what;
    EXPECT_EQ(parse.parsed.in_environment, in_environment) << what;
}

TEST(WrapParse, SeparatorRules) {
    using enum WrapParse;
    Case const cases[] = {
        {{"triton-launch", "--", "true"}, wrap, 2},
        {{"/sbin/triton-launch", "--", "--", "true"}, wrap, 2},  // only the first is ours
        {{"triton-launch", "-g", "--", "true", "-x"}, wrap, 3},
        {{"triton-launch", "true"}, not_wrap, 0},
        {{"triton-launch"}, not_wrap, 0},
        {{"triton-launch", "--mode", "launch"}, not_wrap, 0},
        {{"triton-launch", "-h"}, not_wrap, 0},
        {{"triton-launch", "check", "--", "FILE"}, not_wrap, 1},
        {{"triton-launch", "-g", "check", "--", "FILE"}, not_wrap, 2},
        {{"triton-launch", "--"}, no_command, 1},
        {{"tini", "true"}, wrap, 1},
        {{"tini", "--", "true"}, wrap, 2},
        {{"tini", "-g", "-s", "true", "--", "-g"}, wrap, 3},
        {{"tini"}, no_command, 0},
        {{"tini", "-g"}, no_command, 1},
        {{"tini", "-g", "--"}, no_command, 2},
        {{"tini", "-"}, wrap, 1},  // a strange name, but a name
        {{"dumb-init", "true"}, wrap, 1},
        {{"catatonit", "true"}, wrap, 1},
    };
    for (Case const& row : cases)
        expect(row, {}, false);
}

TEST(WrapParse, TinisUsageLineHasTheSeparatorAfterTheProgram) {
    struct Row {
        Words arguments;
        bool drops;
    };
    Row const rows[] = {
        {{"tini", "true", "--", "x"}, true},         {{"docker-init", "-g", "true", "--"}, true},
        {{"tini", "true", "x", "--"}, false},        {{"tini", "--", "true", "--"}, false},
        {{"dumb-init", "true", "--"}, false},        {{"catatonit", "true", "--"}, true},
        {{"triton-launch", "--", "a", "--"}, false},
    };
    for (Row const& row : rows) {
        Parse const parse(row.arguments);
        EXPECT_EQ(static_cast<int>(parse.parsed.result), static_cast<int>(WrapParse::wrap));
        EXPECT_EQ(parse.options.drops_separator, row.drops) << row.arguments[0] << " " << row.arguments[1];
    }
}

TEST(WrapParse, EveryErrorHasItsPlace) {
    using enum WrapParse;
    Case const cases[] = {
        {{"triton-launch", "-h", "--", "true"}, information, 1},
        {{"triton-launch", "-g", "--version", "--", "true"}, information, 2},
        {{"tini", "-l"}, information, 1},
        {{"tini", "-gV", "true"}, information, 1},
        {{"catatonit", "-L"}, information, 1},
        {{"tini", "-L"}, unknown_option, 1},
        {{"tini", "-x", "true"}, unknown_option, 1},
        {{"tini", "-g", "-gx", "true"}, unknown_option, 2},
        {{"tini", "--kill-grou", "true"}, unknown_option, 1},
        {{"tini", "--kill-groups", "true"}, unknown_option, 1},
        {{"tini", "--=x", "true"}, unknown_option, 1},
        {{"tini", "-g", "-p"}, missing_value, 2},
        {{"tini", "-ge"}, missing_value, 1},
        {{"tini", "--rewrite"}, missing_value, 1},
        {{"tini", "--kill-group=yes", "true"}, unexpected_value, 1},
        {{"tini", "--help="}, unexpected_value, 1},
        {{"tini", "-p", "FOO", "true"}, bad_signal, 1},
        {{"tini", "-p0", "true"}, bad_signal, 1},
        {{"tini", "--parent-death-signal=65", "true"}, bad_signal, 1},
        {{"tini", "--parent-death-signal=", "true"}, bad_signal, 1},
        {{"tini", "-g", "-r", "15", "true"}, bad_rewrite, 2},
        {{"tini", "-r15:70", "true"}, bad_rewrite, 1},
        {{"tini", "-e", "256", "true"}, bad_exit_code, 1},
        {{"tini", "-e-1", "true"}, bad_exit_code, 1},
        {{"tini", "--remap-exit=x", "true"}, bad_exit_code, 1},
        {{"triton-launch", "-p", "--", "true"}, bad_signal, 1},  // the value of -p is "--"
    };
    for (Case const& row : cases)
        expect(row, {}, false);
}

TEST(WrapParse, EveryErrorOfTheEnvironmentHasItsPlace) {
    using enum WrapParse;
    Words const command{"tini", "true"};
    expect({command, bad_boolean, 1}, {"PATH=/bin", "TRITON_LAUNCH_KILL_GROUP=maybe"}, true);
    expect({command, bad_signal, 0}, {"TRITON_LAUNCH_PARENT_DEATH_SIGNAL=NO"}, true);
    expect({command, bad_rewrite, 0}, {"TRITON_LAUNCH_REWRITE=15"}, true);
    expect({{"triton-launch"}, not_wrap, 0}, {"TRITON_LAUNCH_KILL_GROUP=maybe"}, false);  // not ours to judge
    expect({command, wrap, 1},
           {"TRITON_LAUNCH_VERSION=5", "TRITON_LAUNCH_HELP=x", "TRITON_LAUNCH_INPUT_DIR=/x", "TRITON_LAUNCH_",
            "TRITON_LAUNCH_KILL_GROUP", "TRITON_LAUNCH_KILL_GROUPS=maybe", "T", "D", ""},
           false);
}

TEST(WrapParse, FlavorIsTheNameItWasStartedBy) {
    struct {
        char const* name;
        Flavor flavor;
    } const cases[] = {{"tini", Flavor::tini},
                       {"/usr/bin/tini-static", Flavor::tini},
                       {"./docker-init", Flavor::tini},
                       {"/a/b/dumb-init", Flavor::dumb_init},
                       {"catatonit", Flavor::catatonit},
                       {"tini2", Flavor::triton_launch},
                       {"/tini/run", Flavor::triton_launch},
                       {"", Flavor::triton_launch}};
    for (auto const& row : cases)
        EXPECT_EQ(static_cast<int>(Parse({row.name, "--", "true"}).options.flavor), static_cast<int>(row.flavor))
            << row.name;
}

TEST(WrapParse, OnlyDumbInitTakesTheGroupAndASessionByDefault) {
    Parse const dumb_init({"dumb-init", "true"});
    EXPECT_TRUE(dumb_init.options.group);
    EXPECT_TRUE(dumb_init.options.session);
    for (char const* const name : {"tini", "catatonit", "triton-launch"}) {
        Parse const other({name, "--", "true"});
        EXPECT_FALSE(other.options.group) << name;
        EXPECT_FALSE(other.options.session) << name;
    }
    Parse const single({"dumb-init", "-c", "true"});
    EXPECT_FALSE(single.options.group);
    EXPECT_FALSE(single.options.session);
}

TEST(WrapParse, DefaultsForwardEverySignalAsItIs) {
    Parse const parse({"tini", "true"});
    for (int signo = 1; signo <= 64; ++signo)
        EXPECT_EQ(parse.options.rewrite[signo], signo);
    for (int code = 0; code < 256; ++code)
        EXPECT_FALSE(parse.is_remapped(code)) << code;
    EXPECT_EQ(parse.options.parent_death_signal, 0);
    EXPECT_EQ(parse.options.verbosity, 0);
    EXPECT_FALSE(parse.options.subreaper);
    EXPECT_FALSE(parse.options.warn_on_reap);
    EXPECT_EQ(parse.options.stop_timeout_text, nullptr);
}

TEST(WrapParse, ShortOptionsMayStandTogether) {
    Parse const parse({"tini", "-gswvvpTERM", "true"});
    EXPECT_EQ(parse.command(), "true");
    EXPECT_TRUE(parse.options.group);
    EXPECT_TRUE(parse.options.subreaper);
    EXPECT_TRUE(parse.options.warn_on_reap);
    EXPECT_EQ(parse.options.verbosity, 2);
    EXPECT_EQ(parse.options.parent_death_signal, SIGTERM);
    Parse const apart({"tini", "-gp", "HUP", "true"});
    EXPECT_EQ(apart.options.parent_death_signal, SIGHUP);
    EXPECT_EQ(apart.command(), "true");
}

TEST(WrapParse, LongOptionsTakeTheirValueEitherWay) {
    Parse const parse({"triton-launch", "--setsid", "--stop-timeout=1m30s", "--parent-death-signal", "SIGINT",
                       "--rewrite=15:3", "--remap-exit", "143", "--kill-group", "--subreaper", "--warn-on-reap",
                       "--verbose", "--", "true"});
    EXPECT_EQ(static_cast<int>(parse.parsed.result), static_cast<int>(WrapParse::wrap));
    EXPECT_EQ(parse.command(), "true");
    EXPECT_TRUE(parse.options.session);
    EXPECT_STREQ(parse.options.stop_timeout_text, "1m30s");
    EXPECT_EQ(parse.options.parent_death_signal, SIGINT);
    EXPECT_EQ(parse.options.rewrite[SIGTERM], SIGQUIT);
    EXPECT_TRUE(parse.is_remapped(143));
    EXPECT_TRUE(parse.options.group && parse.options.subreaper && parse.options.warn_on_reap);
    EXPECT_EQ(parse.options.verbosity, 1);
}

TEST(WrapParse, RepeatableOptionsAddUp) {
    Parse const parse({"tini", "-e0", "-e", "143", "-e255", "-r", "TERM:QUIT", "-rHUP:0", "-rTERM:INT", "true"});
    for (int code = 0; code < 256; ++code)
        EXPECT_EQ(parse.is_remapped(code), code == 0 || code == 143 || code == 255) << code;
    EXPECT_EQ(parse.options.rewrite[SIGTERM], SIGINT);  // of two the later
    EXPECT_EQ(parse.options.rewrite[SIGHUP], 0);
    EXPECT_EQ(parse.options.rewrite[SIGQUIT], SIGQUIT);
}

TEST(WrapParse, OwnVariablesAreTheLongOptions) {
    Parse const parse({"triton-launch", "--", "true"},
                      {"TRITON_LAUNCH_KILL_GROUP=1", "TRITON_LAUNCH_SUBREAPER=True", "TRITON_LAUNCH_WARN_ON_REAP=on",
                       "TRITON_LAUNCH_SETSID=yes", "TRITON_LAUNCH_REWRITE=15:2", "TRITON_LAUNCH_REMAP_EXIT=7",
                       "TRITON_LAUNCH_STOP_TIMEOUT=5s", "TRITON_LAUNCH_PARENT_DEATH_SIGNAL=HUP"});
    EXPECT_EQ(static_cast<int>(parse.parsed.result), static_cast<int>(WrapParse::wrap));
    EXPECT_TRUE(parse.options.group && parse.options.subreaper && parse.options.warn_on_reap && parse.options.session);
    EXPECT_EQ(parse.options.rewrite[SIGTERM], SIGINT);
    EXPECT_TRUE(parse.is_remapped(7));
    EXPECT_STREQ(parse.options.stop_timeout_text, "5s");
    EXPECT_EQ(parse.options.parent_death_signal, SIGHUP);
    for (char const* const off :
         {"TRITON_LAUNCH_KILL_GROUP=0", "TRITON_LAUNCH_KILL_GROUP=no", "TRITON_LAUNCH_KILL_GROUP=False",
          "TRITON_LAUNCH_KILL_GROUP=off", "TRITON_LAUNCH_KILL_GROUP="})
        EXPECT_FALSE(Parse({"tini", "true"}, {off}).options.group) << off;
}

TEST(WrapParse, VariableThatIsSetButEmptyIsNotSet) {
    // An error in this mode, nothing in the other one: a container did not start for `-e TRITON_LAUNCH_STOP_TIMEOUT=`.
    Parse const parse({"triton-launch", "--", "true"},
                      {"TRITON_LAUNCH_REWRITE=", "TRITON_LAUNCH_REMAP_EXIT=", "TRITON_LAUNCH_STOP_TIMEOUT=",
                       "TRITON_LAUNCH_PARENT_DEATH_SIGNAL="});
    EXPECT_EQ(static_cast<int>(parse.parsed.result), static_cast<int>(WrapParse::wrap));
    EXPECT_EQ(parse.options.rewrite[SIGTERM], SIGTERM);
    EXPECT_FALSE(parse.is_remapped(0));
    EXPECT_EQ(parse.options.stop_timeout_text, nullptr);
    EXPECT_EQ(parse.options.parent_death_signal, 0);
}

TEST(WrapParse, VariableHoldsSeveralRewrites) {
    // As in the other mode, where this variable was understood and here it was an error.
    for (char const* const variable : {"TRITON_LAUNCH_REWRITE=15:3 HUP:0", "TRITON_LAUNCH_REWRITE= 15:3  HUP:0 "}) {
        Parse const parse({"triton-launch", "--", "true"}, {variable});
        EXPECT_EQ(static_cast<int>(parse.parsed.result), static_cast<int>(WrapParse::wrap)) << variable;
        EXPECT_EQ(parse.options.rewrite[SIGTERM], SIGQUIT);
        EXPECT_EQ(parse.options.rewrite[SIGHUP], 0);
    }
    Parse const wrong({"triton-launch", "--", "true"}, {"TRITON_LAUNCH_REWRITE=15:3 HUP"});
    EXPECT_EQ(static_cast<int>(wrong.parsed.result), static_cast<int>(WrapParse::bad_rewrite));
}

TEST(WrapParse, FlagBeatsEnvironment) {
    Parse const parse({"tini", "-c", "-pINT", "true"},
                      {"TRITON_LAUNCH_KILL_GROUP=1", "TRITON_LAUNCH_PARENT_DEATH_SIGNAL=HUP"});
    EXPECT_FALSE(parse.options.group);
    EXPECT_EQ(parse.options.parent_death_signal, SIGINT);
}

TEST(WrapParse, TinisVariablesCountByBeingThere) {
    Parse const parse({"tini", "true"}, {"TINI_SUBREAPER=", "TINI_KILL_PROCESS_GROUP=0", "TINI_VERBOSITY=3"});
    EXPECT_TRUE(parse.options.subreaper);
    EXPECT_TRUE(parse.options.group);
    EXPECT_EQ(parse.options.verbosity, 2);
    EXPECT_EQ(Parse({"tini", "true"}, {"TINI_VERBOSITY=1"}).options.verbosity, 0);
    EXPECT_EQ(Parse({"tini", "true"}, {"TINI_VERBOSITY=x"}).options.verbosity, 0);
    EXPECT_FALSE(Parse({"dumb-init", "true"}, {"TINI_SUBREAPER=1"}).options.subreaper);
}

TEST(WrapParse, DumbInitsVariablesCountUnderItsName) {
    Parse const parse({"dumb-init", "true"}, {"DUMB_INIT_SETSID=0", "DUMB_INIT_DEBUG=1"});
    EXPECT_FALSE(parse.options.group);
    EXPECT_FALSE(parse.options.session);
    EXPECT_EQ(parse.options.verbosity, 2);
    EXPECT_TRUE(Parse({"dumb-init", "true"}, {"DUMB_INIT_SETSID=1"}).options.session);
    EXPECT_EQ(Parse({"tini", "true"}, {"DUMB_INIT_DEBUG=1"}).options.verbosity, 0);
}

TEST(WrapParse, EveryRowCanBeGiven) {
    for (WrapOptionRow const& row : wrap_option_rows) {
        bool const takes_value = row.value_name[0] != 0;
        Parse const parse({"tini", "--" + std::string(row.long_name), "1:1", "true"});
        WrapParse const result = parse.parsed.result;
        EXPECT_NE(static_cast<int>(result), static_cast<int>(WrapParse::unknown_option)) << row.long_name;
        if (!takes_value && result == WrapParse::wrap) {
            EXPECT_EQ(parse.command(), "1:1") << row.long_name;
        }
    }
}

}  // namespace

}  // namespace triton::launcher
