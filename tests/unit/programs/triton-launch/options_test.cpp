#include "programs/triton-launch/options.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "programs/triton-launch/stage_flags.h"

namespace triton::program {
namespace {

struct StageTable {
    StageTable() { add_stage_flags(flags, command, mode); }
    StageTable(StageTable const&) = delete;
    StageTable& operator=(StageTable const&) = delete;

    Flags flags;
    StageCommand command;
    sidecar::StageOptions& options = command.options;
    Mode mode = Mode::init;
};

/// "": taken; else the reason.
std::string set(Flags const& flags, std::string_view name, std::string const& value) {
    auto const flag = std::ranges::find(flags, name, &Flag::name);
    if (flag == flags.end()) return "no such flag";
    auto const result = flag->apply(value);
    return result ? "" : result.error().text();
}

TEST(StageFlags, RepeatableOnesAddUpAndOthersReplace) {
    StageTable const table;
    Flags const& flags = table.flags;
    sidecar::StageOptions const& options = table.options;
    for (std::string_view const name :
         {"copy-file", "copy-template", "copy-binary", "copy-library", "require-not-empty", "substitute-variable"}) {
        EXPECT_EQ(set(flags, name, "a"), "") << name;
        EXPECT_EQ(set(flags, name, "b c"), "") << name;
        EXPECT_EQ(set(flags, name, ""), "must not be empty") << name;
    }
    std::vector<std::string> const both{"a", "b c"};
    for (auto const& list : {options.files, options.templates, options.binaries, options.libraries,
                             options.require_not_empty, options.substitute_variables})
        EXPECT_EQ(list, both);
    EXPECT_EQ(set(flags, "output-dir", "x"), "");
    EXPECT_EQ(set(flags, "output-dir", "y"), "");
    EXPECT_EQ(options.output_directory, "y");
}

TEST(StageFlags, EveryTextReachesItsOwnMember) {
    StageTable const table;
    Flags const& flags = table.flags;
    sidecar::StageOptions const& options = table.options;
    struct Row {
        std::string_view name;
        std::string sidecar::StageOptions::* member;
    };
    Row const rows[] = {
        {"input-dir", &sidecar::StageOptions::input_directory},
        {"output-dir", &sidecar::StageOptions::output_directory},
        {"copy-primary-library", &sidecar::StageOptions::primary_library},
        {"binary-dir", &sidecar::StageOptions::binary_directory},
        {"library-dir", &sidecar::StageOptions::library_directory},
        {"binary-output-dir", &sidecar::StageOptions::binary_output_directory},
        {"version-file", &sidecar::StageOptions::version_file},
        {"main-container-version", &sidecar::StageOptions::main_container_version},
        {"input-monitor-conf", &sidecar::StageOptions::monitor_conf},
        {"main-container-conf-dir", &sidecar::StageOptions::main_container_conf_directory},
        {"additional-env-file", &sidecar::StageOptions::environment_file},
    };
    for (Row const& row : rows) {
        EXPECT_EQ(set(flags, row.name, std::string(row.name)), "");
        EXPECT_EQ(options.*row.member, row.name);
    }
    EXPECT_EQ(set(flags, "public-ip-family", "6"), "");
    EXPECT_EQ(options.public_ip_family, config::IpFamily::v6);
    EXPECT_EQ(set(flags, "public-ip-family", "5"), "unknown value \"5\" (known: 4 6)");
    EXPECT_EQ(set(flags, "output-dir", ""), "must not be empty");
    EXPECT_EQ(set(flags, "main-container-version", ""), "");
}

TEST(StageFlags, SwitchAndFormat) {
    StageTable const table;
    Flags const& flags = table.flags;
    sidecar::StageOptions const& options = table.options;
    EXPECT_EQ(set(flags, "watch", "true"), "");
    EXPECT_TRUE(options.watch);
    EXPECT_EQ(set(flags, "watch", "no"), "");
    EXPECT_FALSE(options.watch);
    EXPECT_EQ(set(flags, "watch", "maybe"), "unknown value \"maybe\" (known: true 1 yes on false 0 no off)");
    EXPECT_EQ(set(flags, "format", "json"), "");
    EXPECT_TRUE(options.as_json);
    EXPECT_EQ(set(flags, "format", "xml"), "unknown value \"xml\" (known: text json)");
    EXPECT_EQ(set(flags, "format", "text"), "");
    EXPECT_FALSE(options.as_json);
}

/// Sets a variable for the time of a test.
class Variable {
public:
    Variable(char const* name, char const* value) : name_(name) { ::setenv(name, value, 1); }
    ~Variable() { ::unsetenv(name_); }
    Variable(Variable const&) = delete;
    Variable& operator=(Variable const&) = delete;

private:
    char const* name_;
};

Result<Command> parse(std::vector<char const*> words) {
    words.insert(words.begin(), "triton-launch");
    return parse_command_line(static_cast<int>(words.size()), words.data());
}

std::string refusal(std::vector<char const*> const& words) {
    auto const command = parse(words);
    return command ? "" : command.error().text();
}

TEST(CommandLine, ModeDecidesWhichTableIsRead) {
    auto const launch = parse({"--mode", "launcher", "--main-container-version", "1", "--process-count", "3"});
    ASSERT_TRUE(launch) << launch.error().text();
    EXPECT_EQ(launch->kind, Command::Kind::launch);
    EXPECT_EQ(launch->launch.source.server_count, 3);
    for (auto const& [name, mode] :
         {std::pair("init", sidecar::StageMode::init), std::pair("sidecar", sidecar::StageMode::sidecar)}) {
        auto const stage = parse({"--copy-file", "a", "--mode", name, "--log-path", "/l", "--copy-binary=b"});
        ASSERT_TRUE(stage) << stage.error().text();
        EXPECT_EQ(stage->kind, Command::Kind::stage);
        EXPECT_EQ(stage->stage.options.mode, mode);
        EXPECT_EQ(stage->stage.options.files, std::vector<std::string>{"a"});
        EXPECT_EQ(stage->stage.options.binaries, std::vector<std::string>{"b"});
        EXPECT_EQ(stage->stage.log.path, "/l");
    }
}

TEST(CommandLine, ModeOfTheEnvironmentIsBeatenByTheCommandLine) {
    Variable const variable("TRITON_LAUNCH_MODE", "sidecar");
    auto const by_variable = parse({"--copy-file", "a"});
    ASSERT_TRUE(by_variable) << by_variable.error().text();
    EXPECT_EQ(by_variable->stage.options.mode, sidecar::StageMode::sidecar);
    auto const by_option = parse({"--mode=init", "--mode", "launch", "--main-container-version", "1"});
    ASSERT_TRUE(by_option) << by_option.error().text();
    EXPECT_EQ(by_option->kind, Command::Kind::launch);
}

TEST(CommandLine, VariablesThatMeanNothingAreTold) {
    std::vector<std::string> const none;
    Variable const known("TRITON_LAUNCH_WATCH", "true");  // of another mode
    Variable const of_wrap("TRITON_LAUNCH_KILL_GROUP", "true");
    Variable const host("TRITON_LAUNCH_SERVICE_HOST", "10.0.0.1");
    Variable const port("TRITON_LAUNCH_PORT_80_TCP", "tcp://10.0.0.1:80");
    EXPECT_EQ(parse({"--main-container-version", "1"})->launch.warnings, none);
    Variable const wrong("TRITON_LAUNCH_LOG_LEVL", "debug");
    Variable const strange("TRITON_LAUNCH_QZWXV", "");
    std::vector<std::string> const both{
        "unknown variable TRITON_LAUNCH_LOG_LEVL, which has no effect; did you mean TRITON_LAUNCH_LOG_LEVEL?",
        "unknown variable TRITON_LAUNCH_QZWXV, which has no effect"};
    EXPECT_THAT(parse({"--main-container-version", "1"})->launch.warnings, testing::UnorderedElementsAreArray(both));
    EXPECT_THAT(parse({"--mode", "init"})->stage.warnings, testing::UnorderedElementsAreArray(both));
    EXPECT_THAT(parse({"check", "c.json"})->check.remarks, testing::UnorderedElementsAreArray(both));
    EXPECT_EQ(parse({"stage", "--mode", "init"})->stage.warnings, none);  // the launcher has told them
}

TEST(CommandLine, ModeBehindTheSeparatorIsTheCommands) {
    auto const launch = parse({"--main-container-version", "1", "--input-dir", "c", "--", "echo", "--mode", "init"});
    ASSERT_TRUE(launch) << launch.error().text();
    EXPECT_EQ(launch->kind, Command::Kind::launch);
    EXPECT_EQ(launch->launch.source.command, (std::vector<std::string>{"echo", "--mode", "init"}));
}

TEST(CommandLine, WhatIsWrongIsNamed) {
    EXPECT_EQ(refusal({"--mode", "sidcar"}), "--mode: unknown value \"sidcar\"; did you mean \"sidecar\"?");
    EXPECT_EQ(refusal({"--mode"}), "--mode: MODE is missing");
    EXPECT_EQ(refusal({"--mode", "init", "--copy-fil", "a"}), "unknown option --copy-fil; did you mean --copy-file?");
    EXPECT_EQ(refusal({"--mode", "init", "--server-count", "2"}), "--server-count is an option of launch mode");
    EXPECT_EQ(refusal({"--copy-file", "a"}), "--copy-file is an option of --mode init and --mode sidecar");
    EXPECT_EQ(refusal({"--mode", "init", "stray"}),
              "unknown command \"stray\"; to run a program: triton-launch -- stray");
    EXPECT_EQ(refusal({"--main-container-version", "1", "check"}), "the command comes first: triton-launch check ...");
    EXPECT_EQ(refusal({"--mode", "init", "ctl"}), "the command comes first: triton-launch ctl ...");
    Variable const variable("TRITON_LAUNCH_MODE", "bad");
    EXPECT_EQ(refusal({}), "TRITON_LAUNCH_MODE: unknown value \"bad\" (known: launch launcher init sidecar)");
}

TEST(CommandLine, TheAgentLogsAsTheLauncherDoes) {
    auto const arguments = [](std::vector<char const*> const& more) {
        std::vector<char const*> words{"--main-container-version", "1", "--agent-path", "/bin/true", "--listen", ":80"};
        words.insert(words.end(), more.begin(), more.end());
        auto const command = parse(words);
        std::string text;
        for (std::string const& word : command ? command->launch.agent.arguments : std::vector<std::string>{"failed"})
            if (word.starts_with("--log-")) text += word + ' ';
        return text;
    };
    EXPECT_EQ(arguments({}), "") << "a default leaves TRITON_AGENT_LOG_LEVEL in force";
    EXPECT_EQ(arguments({"--log-level", "warning"}), "--log-level=warning ");
    EXPECT_EQ(arguments({"--log-level", "off", "--log-format", "text"}), "--log-level=off --log-format=text ");
    EXPECT_EQ(arguments({"--log-format", "json", "--agent-option", "log-level=debug"}),
              "--log-format=json --log-level=debug ");
    auto const stage = parse({"--mode", "sidecar", "--listen", ":80", "--log-level", "error"});
    ASSERT_TRUE(stage) << stage.error().text();
    EXPECT_EQ(stage->launch.agent.arguments.front(), "--log-level=error");
}

TEST(CommandLine, HelpIsPlainText) {
    for (std::vector<char const*> const& words : {std::vector{"--help"}, std::vector{"check", "--help"}}) {
        auto const command = parse(words);
        ASSERT_TRUE(command) << command.error().text();
        EXPECT_EQ(command->kind, Command::Kind::print);
        EXPECT_TRUE(std::ranges::all_of(command->text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }))
            << command->text;
    }
}

TEST(CommandLine, UpgradeCheckTakesTheOptionsOfLaunchMode) {
    auto const command = parse({"upgrade-check", "--main-container-version", "1", "--stop-signal", "INT",
                                "--restart-delay", "3s", "--stop-timeout", "4s", "--stop-limit", "5s"});
    ASSERT_TRUE(command) << command.error().text();
    EXPECT_EQ(command->kind, Command::Kind::upgrade_check);
    EXPECT_EQ(command->launch.source.defaults.stop_signal, SIGINT);
    EXPECT_EQ(command->launch.source.defaults.backoff.delay, std::chrono::seconds(3));
    EXPECT_EQ(command->launch.source.defaults.stop_timeout, std::chrono::seconds(4));
    EXPECT_EQ(command->launch.supervisor.stop_limit, std::chrono::seconds(5));
    EXPECT_EQ(refusal({"upgrade-check", "--mode", "init"}), "upgrade-check: these are not options of launch mode");
}

TEST(CommandLine, EmptyPathsMeanNone) {
    auto const command =
        parse({"--main-container-version", "1", "--log-path", "a", "--log-path", "", "--additional-env-file", ""});
    ASSERT_TRUE(command) << command.error().text();
    EXPECT_EQ(command->launch.log.path, "");
    EXPECT_EQ(command->launch.source.environment_file, "");
}

TEST(CommandLine, TheOperatorAsksForTheNodeAsGoReadsIt) {
    std::string const no_kubernetes = "--enable-node-watch: there is no Kubernetes to ask for the node";
    auto const warnings = [](char const* value) {
        Variable const variable("ENABLE_NODE_WATCH", value);
        auto const command = parse({"--main-container-version", "1", "--kubernetes", "off"});
        return command ? command->launch.warnings : std::vector<std::string>{command.error().text()};
    };
    for (char const* const yes : {"1", "t", "T", "TRUE", "true", "True"})
        EXPECT_EQ(warnings(yes), std::vector{no_kubernetes}) << yes;
    for (char const* const no : {"0", "f", "F", "FALSE", "false", "False"})
        EXPECT_EQ(warnings(no), std::vector<std::string>{}) << no;
    EXPECT_EQ(warnings("yes"), std::vector<std::string>{"ENABLE_NODE_WATCH: yes is not true or false; the node is not "
                                                        "watched"});
    EXPECT_EQ(warnings(""), std::vector<std::string>{});
}

TEST(CommandLine, TheListenerOfTheMonitorIsLaunchModesAlone) {
    Variable const variable("TRITON_LAUNCH_LISTEN_ADDRESS", ":8081");
    auto const listens = [](std::initializer_list<char const*> more) {
        std::vector<char const*> words{"--main-container-version", "1", "--agent-path", "/bin/true"};
        words.insert(words.end(), more);
        auto const command = parse(words);
        return command ? command->launch.agent.listen : std::vector<std::string>{command.error().text()};
    };
    EXPECT_EQ(listens({}), std::vector<std::string>{":8081"});
    EXPECT_EQ(listens({"--listen-address", ":9000"}), std::vector<std::string>{":9000"}) << "as with the monitor";
    EXPECT_EQ(listens({"--listen-address", "none"}), std::vector<std::string>{});
    EXPECT_EQ(listens({"--listen", ":8080"}), (std::vector<std::string>{":8080", ":8081"}));
    auto const sidecar = parse({"--mode", "sidecar", "--copy-file", "a"});
    ASSERT_TRUE(sidecar) << sidecar.error().text();
    EXPECT_EQ(sidecar->kind, Command::Kind::stage) << "two containers of a pod share their ports";
    EXPECT_EQ(refusal({"--mode", "sidecar", "--listen-address", ":1"}), "--listen-address is an option of launch mode");
}

TEST(CommandLine, TlsNeedsAListener) {
    auto const answer = [](std::initializer_list<char const*> more) {
        std::vector<char const*> words{"--main-container-version", "1", "--agent-path", "/bin/true"};
        words.insert(words.end(), more);
        auto const command = parse(words);
        return command ? std::string() : command.error().text();
    };
    EXPECT_EQ(answer({"--tls"}), "--tls: needs --listen");
    EXPECT_EQ(answer({"--tls-ca-file=/ca"}), "--tls-ca-file: needs --listen");
    EXPECT_EQ(answer({"--probe-listen", ":1", "--tls-key-file", "/key"}), "--tls-key-file: needs --listen");
    EXPECT_EQ(answer({"--listen-address", "none", "--tls"}), "--tls: needs --listen");
    EXPECT_EQ(answer({"--listen", ":1", "--tls"}), "");
    EXPECT_EQ(answer({"--listen-address", ":1", "--tls"}), "");
    EXPECT_EQ(answer({"--agent-option", "--tls-min-version=1.3"}), "");
    EXPECT_EQ(answer({"--certificate-path", "/a", "--certificate-key-path", "/b"}), "") << "of fdb-kubernetes-monitor";
    Variable const variable("TRITON_LAUNCH_TLS_CA_FILE", "/ca");
    EXPECT_EQ(answer({}), "") << "several containers may share it";
}

TEST(CommandLine, ArgumentsOfAStagingWithAListenerAreUtf8) {
    EXPECT_EQ(refusal({"--mode", "init", "--listen", ":1", "--copy-file", "a\xff"}),
              "\"a\xef\xbf\xbd\" is not UTF-8, as with --listen every argument must be");
    EXPECT_TRUE(parse({"--mode", "init", "--listen", ":1", "--copy-file", "\xc3\xa4"}));
    EXPECT_TRUE(parse({"--mode", "init", "--copy-file", "a\xff"}));
}

TEST(CommandLine, SizesOfTheLog) {
    auto const size = [](char const* text) {
        auto const command = parse({"--main-container-version", "1", "--log-max-size", text});
        EXPECT_TRUE(command) << command.error().text();
        return command ? command->launch.log.max_size : 1;
    };
    EXPECT_EQ(parse({"--main-container-version", "1"})->launch.log.max_size, 104'857'600U);
    EXPECT_EQ(size("1.5Mi"), 1'572'864U);
    EXPECT_EQ(size("none"), 0U);
    for (char const* const bad : {"0", "1 M", "many", ""}) {
        EXPECT_EQ(refusal({"--log-max-size", bad}),
                  "--log-max-size: \"" + std::string(bad) + "\" is not a size (for example 64Ki, 10M) or none");
    }
}

TEST(CommandLine, ControlSocketAndGroups) {
    auto const plain = parse({"--main-container-version", "1"});
    ASSERT_TRUE(plain) << plain.error().text();
    EXPECT_EQ(plain->launch.control_socket, "/run/triton-launch/control");
    EXPECT_EQ(plain->launch.control_mode, 0600U);
    EXPECT_FALSE(plain->launch.is_control_asked_for);
    EXPECT_EQ(plain->launch.cgroup, launcher::CgroupMode::automatic);
    auto const given = parse({"--main-container-version", "1", "--control-socket", "none", "--control-mode", "0660",
                              "--control-group", "adm", "--cgroup", "required"});
    ASSERT_TRUE(given) << given.error().text();
    EXPECT_EQ(given->launch.control_socket, "");
    EXPECT_TRUE(given->launch.is_control_asked_for);
    EXPECT_EQ(given->launch.control_mode, 0660U);
    EXPECT_EQ(given->launch.control_group, "adm");
    auto const group = parse({"--main-container-version", "1", "--control-group", "adm"});
    ASSERT_TRUE(group) << group.error().text();
    EXPECT_TRUE(group->launch.is_control_asked_for);
    EXPECT_EQ(given->launch.cgroup, launcher::CgroupMode::required);
    for (char const* const mode : {"", "8", "1000", "0x1", "rw", "6 0"}) {
        EXPECT_EQ(refusal({"--control-mode", mode}), "--control-mode: \"" + std::string(mode) +
                                                         "\" is not a mode in octal, from 0 to 777 (for example 0660)");
    }
}

}  // namespace
}  // namespace triton::program
