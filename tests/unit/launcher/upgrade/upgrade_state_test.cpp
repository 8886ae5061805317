#include "launcher/upgrade/upgrade_state.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;

/// Every byte there is.
std::string binary() {
    std::string text;
    for (int byte = 0; byte < 256; ++byte)
        text += static_cast<char>(byte);
    return text;
}

TimePoint at(Duration since) { return TimePoint(since); }

config::SocketAddress address(std::string_view text) {
    auto parsed = config::parse_socket_address(text);
    EXPECT_TRUE(parsed) << text;
    return parsed ? *parsed : config::SocketAddress{};
}

ProgramPolicy odd_policy() {
    ProgramPolicy policy;
    policy.count = 65535;
    policy.kind = ProgramKind::scheduled;
    policy.auto_start = false;
    policy.restart = Restart::never;
    policy.success_ends = {3, 143};
    policy.permanent_ends = {78, config::signal_end + 9};
    policy.backoff = {1ns, 2h, 1.7, 0.3, 3s, 4ms};
    policy.start_limit = StartLimit{7, 8s, 255};
    policy.critical = true;
    policy.auxiliary = true;
    policy.stop_signal = 64;
    policy.stop_timeout = 0s;
    policy.drain = 9s;
    policy.has_pre_stop = true;
    policy.pre_stop_timeout = 11s;
    policy.stop_scope = StopScope::tree;
    policy.kills_tree = true;
    policy.on_change = OnChange::signal;
    policy.change_signal = 12;
    policy.has_on_failure = true;
    policy.after = {ProgramId{1}, ProgramId{2}};
    policy.requires_ = {ProgramId{4'000'000'000}};
    policy.binds_to = {ProgramId{4'000'000'000}};
    policy.readiness = Readiness::probed;
    policy.probe_interval = 13s;
    policy.start_timeout = 14s;
    policy.watchdog = 15s;
    policy.checks = {Health{16s, 17, 18s, HealthAction::exit}};
    policy.is_sequential = true;
    policy.max_unavailable = 19;
    policy.is_told_of_files = true;
    return policy;
}

ProcessRecord odd_process() {
    ProcessRecord process;
    process.state = ProcessState::held;
    process.is_to_be_held = true;
    process.is_to_restart = true;
    process.has_run_badly = true;
    process.is_untold = true;
    process.is_stale = true;
    process.has_status = true;
    process.fails_once_more = true;
    process.fault = Fault::unhealthy;
    process.helpers = 5;
    process.cancelled = 4;
    process.exit_code = 3;
    process.failures = std::numeric_limits<std::uint32_t>::max();
    process.is_unwell = true;
    process.is_to_roll = true;
    process.is_unwatched = true;
    process.starts = 99;
    process.pid = Pid{4321};
    process.last_status = -1;
    process.since = at(1s);
    process.last_end = at(2s);
    process.deadline = TimePoint::max();
    process.probe_at = TimePoint::min();
    return process;
}

/// Nothing in it has its default value.
UpgradeState odd_state() {
    UpgradeState state;
    state.version = "9.8.7 \"quoted\" \\ back";
    state.pid = 17;
    ProgramRecord program;
    program.policy = odd_policy();
    program.is_configured = !program.is_configured;
    program.is_held = true;
    program.is_stop_begun = true;
    program.stop_at = at(3s);
    program.processes = {odd_process(), ProcessRecord{}};
    program.start_times = {at(4s), at(0s)};
    program.checks = {{at(9s), 10}, {}};
    state.supervisor.phase = SupervisorPhase::finished;
    state.supervisor.programs = {program, ProgramRecord{}};
    state.supervisor.random = std::numeric_limits<std::uint64_t>::max();
    state.supervisor.exit_code = 5;
    state.supervisor.stops_asked = 2;
    state.supervisor.sweep_signal = 9;
    state.supervisor.phase_deadline = at(5s);
    state.supervisor.stop_deadline = at(6s);
    state.supervisor.latest_kill = at(7s);
    state.supervisor.earliest = at(-8s);
    state.programs = {{"web",
                       true,
                       {config::OutputKind::captured, "/log/\xff", config::OutputFormat::raw, 1, 0, 0640,
                        config::WhenFull::drop, config::OutputTimestamp::rfc3339},
                       {"7.1", "7.3"},
                       {1, 0, 1}},
                      {}};
    state.instances = {{1, 2, std::numeric_limits<std::uint64_t>::max(), true, "at\twork"}};
    state.has_configuration = true;
    state.configuration = "{\n  \"version\": \"1\"\r\n}\n" + binary();
    state.warnings = {"one", binary()};
    state.output.pipes.push_back({{1, 2}, OutputStream::err, 10, 11, binary(), true, std::string(3, '\0'), true, 12});
    state.output.pipes.back().is_leaving = true;
    state.output.pipes.back().is_dropping = true;
    state.output.programs.push_back({3, "/log/02\xff", "waits", true, binary(), 13});
    state.output.syslog.push_back({"unix:/dev/log", "<30>1 - - - - - - waits\n"});
    state.syslog_relay = {100, 101, 102, 103, std::numeric_limits<std::int64_t>::max(), 105};
    config::Output& numbered = state.programs.front().output;
    numbered.file_argument = {.type = config::ArgumentType::concatenate,
                              .values = {{.value = "/log/\xff"},
                                         {.type = config::ArgumentType::process_number,
                                          .multiplier = -2,
                                          .offset = std::numeric_limits<std::int64_t>::min(),
                                          .width = 20}}};
    numbered.error.push_back({.kind = config::OutputKind::captured});
    numbered.error.front().syslog = config::Syslog{.address = "tls:[::1]:6514",
                                                   .facility = static_cast<config::SyslogFacility>(23),
                                                   .severity = config::SyslogSeverity::debug,
                                                   .error_severity = static_cast<config::SyslogSeverity>(0),
                                                   .name = "web",
                                                   .format = config::SyslogFormat::rfc3164};
    state.sockets.entries.push_back({address("tcp:[::1]:80"), 20, true, 21, 22});
    state.sockets.entries.push_back({address("unix:/run/with \"quotes\""), 23, false, 24, 25});
    state.links = {{"logger", 26, 27}, {"other", 28, -1}};
    state.notify.sockets.push_back({{4, 5}, 30, std::string("\0abstract\xfe", 10)});
    state.notify.pipes.push_back({{6, 7}, 31});
    state.helpers = {{std::numeric_limits<std::uint64_t>::max() - 1, 40, at(41s), true}, {1, 2, {}, false}};
    state.control = varlink::HandedSocket{50, 51, 52};
    state.schedules = {{ProgramId{60}, at(61s), {}}, {ProgramId{62}, {}, 1'000'000}};
    state.cgroup_tree = "/sys/fs/cgroup/\xc3\xa4";
    state.inherited_mask = std::numeric_limits<std::uint64_t>::max();
    state.sigchld_was_ignored = true;
    state.descriptor_limit = process::ResourceLimit{7, 1024, process::unlimited};
    state.began = at(70s);
    state.told_ready = true;
    state.stop_requests = 2;
    state.stop_asked_at = TimePoint{} + milliseconds(77);
    state.reboots = true;
    state.agent_link = {80, 81};
    state.probes = {{82, config::ProbeKind::http, "http://[::1]:80/", 83s, {"A=b", "C=\xff"}, {{200, 299}}, "s"}, {}};
    state.probes.back().stream = config::LogStream::err;
    state.pid_files = {{1, 2, 91, 92, 93, 94}, {}};
    state.hunts = {{1, 2, UINT64_MAX}, {}};
    state.marks = {0, UINT64_MAX};
    state.file_changes = {{3, "/etc/\xff.pem", at(95s)}, {}};
    state.history.ends = {{1, 2, 3, 4'000'000, std::chrono::seconds(5), 137, 2, 19, Fault::unhealthy, true, true}, {}};
    state.history.results = {{1, 2, 3, true, 4, 5'000'000, "exit code 7", "out\n\xff"}, {}};
    state.history.outputs = {{1ULL << 60, 42, "begun"}};
    state.watched_files = {{"/etc/\xff.pem", 7, UINT64_MAX, -1, 999'999'999}, {}};
    state.pod = {true, 84s, {{"NODE_LABEL_A", "b"}, {"EMPTY", ""}}};
    state.configuration_changes = 85;
    state.configuration_time = 86;
    state.script = 90;
    state.filters = 91;
    return state;
}

UpgradeState read(std::string_view text) {
    auto state = read_upgrade_state(text);
    EXPECT_TRUE(state) << state.error().error;
    return state ? std::move(*state) : UpgradeState{};
}

}  // namespace

TEST(UpgradeState, GoesThroughTextWhole) {
    UpgradeState const state = odd_state();
    std::string const text = write_upgrade_state(state);
    UpgradeState const again = read(text);

    EXPECT_EQ(again.version, state.version);
    EXPECT_EQ(again.pid, state.pid);
    EXPECT_EQ(again.supervisor, state.supervisor);
    EXPECT_EQ(again.programs, state.programs);
    EXPECT_EQ(again.instances, state.instances);
    EXPECT_TRUE(again.has_configuration);
    EXPECT_EQ(again.configuration, state.configuration);
    EXPECT_EQ(again.warnings, state.warnings);
    ASSERT_EQ(again.output.pipes.size(), 1U);
    OutputState::Pipe const& pipe = again.output.pipes.front();
    EXPECT_EQ(pipe.key, (OutputKey{1, 2}));
    EXPECT_EQ(pipe.stream, OutputStream::err);
    EXPECT_EQ(pipe.read_end, 10);
    EXPECT_EQ(pipe.write_end, 11);
    EXPECT_EQ(pipe.begun, binary());
    EXPECT_TRUE(pipe.is_continued);
    EXPECT_EQ(pipe.held, std::string(3, '\0'));
    EXPECT_TRUE(pipe.is_ending);
    EXPECT_EQ(pipe.until_end, 12U);
    ASSERT_EQ(again.output.programs.size(), 1U);
    OutputState::Program const& output = again.output.programs.front();
    EXPECT_EQ(output.program, 3U);
    EXPECT_EQ(output.file, "/log/02\xff");
    ASSERT_EQ(again.output.syslog.size(), 1U);
    EXPECT_EQ(again.output.syslog.front().address, "unix:/dev/log");
    EXPECT_EQ(again.output.syslog.front().waiting, "<30>1 - - - - - - waits\n");
    EXPECT_EQ(again.syslog_relay, state.syslog_relay);
    EXPECT_EQ(output.waiting, "waits");
    EXPECT_TRUE(output.is_mid_line);
    EXPECT_EQ(output.ring, binary());
    EXPECT_EQ(output.dropped, 13U);
    ASSERT_EQ(again.sockets.entries.size(), 2U);
    EXPECT_EQ(again.sockets.entries[0].address, address("tcp:[::1]:80"));
    EXPECT_EQ(again.sockets.entries[0].fd, 20);
    EXPECT_TRUE(again.sockets.entries[0].is_ours);
    EXPECT_EQ(again.sockets.entries[0].device, 21U);
    EXPECT_EQ(again.sockets.entries[0].inode, 22U);
    EXPECT_EQ(again.sockets.entries[1].address, address("unix:/run/with \"quotes\""));
    ASSERT_EQ(again.notify.sockets.size(), 1U);
    EXPECT_EQ(again.notify.sockets[0].key, (NotifyKey{4, 5}));
    EXPECT_EQ(again.notify.sockets[0].fd, 30);
    EXPECT_EQ(again.notify.sockets[0].address, state.notify.sockets[0].address);
    ASSERT_EQ(again.notify.pipes.size(), 1U);
    EXPECT_EQ(again.notify.pipes[0].key, (NotifyKey{6, 7}));
    EXPECT_EQ(again.notify.pipes[0].fd, 31);
    ASSERT_EQ(again.helpers.size(), 2U);
    EXPECT_EQ(again.helpers[0].key, state.helpers[0].key);
    EXPECT_EQ(again.helpers[0].pid, 40);
    EXPECT_EQ(again.helpers[0].deadline, at(41s));
    EXPECT_TRUE(again.helpers[0].is_answered);
    EXPECT_FALSE(again.helpers[1].deadline);
    ASSERT_TRUE(again.control);
    EXPECT_EQ(again.control->fd, 50);
    EXPECT_EQ(again.control->device, 51U);
    EXPECT_EQ(again.control->inode, 52U);
    ASSERT_EQ(again.schedules.size(), 2U);
    EXPECT_EQ(again.schedules[0].program, ProgramId{60});
    EXPECT_EQ(again.schedules[0].when, at(61s));
    EXPECT_FALSE(again.schedules[0].second);
    EXPECT_EQ(again.schedules[1].second, 1'000'000);
    EXPECT_EQ(again.cgroup_tree, state.cgroup_tree);
    EXPECT_EQ(again.inherited_mask, state.inherited_mask);
    EXPECT_TRUE(again.sigchld_was_ignored);
    EXPECT_EQ(again.descriptor_limit, state.descriptor_limit);
    EXPECT_EQ(again.began, state.began);
    EXPECT_TRUE(again.told_ready);
    EXPECT_EQ(again.stop_requests, 2);
    EXPECT_EQ(again.stop_asked_at, TimePoint{} + milliseconds(77));
    EXPECT_TRUE(again.reboots);
    EXPECT_EQ(again.agent_link, state.agent_link);
    EXPECT_EQ(again.probes, state.probes);
    EXPECT_EQ(again.pid_files, state.pid_files);
    EXPECT_EQ(again.hunts, state.hunts);
    EXPECT_EQ(again.marks, state.marks);
    EXPECT_EQ(again.file_changes, state.file_changes);
    EXPECT_EQ(again.watched_files, state.watched_files);
    EXPECT_EQ(again.history, state.history);
    EXPECT_EQ(again.links, state.links);
    EXPECT_EQ(again.pod, state.pod);
    EXPECT_EQ(again.configuration_changes, 85U);
    EXPECT_EQ(again.configuration_time, 86);
    EXPECT_EQ(again.script, 90);
    EXPECT_EQ(again.filters, 91);

    // A field that is compared nowhere above cannot get lost either, nor drift from upgrade to upgrade.
    EXPECT_EQ(write_upgrade_state(again), text);
}

TEST(UpgradeState, LeavesDefaultsOut) {
    EXPECT_EQ(write_upgrade_state({}), "{}");
    UpgradeState const state = read("{}");
    EXPECT_EQ(write_upgrade_state(state), "{}");
    EXPECT_EQ(state.supervisor, SupervisorState{});
    // In lists too: only what is not as usual is there.
    UpgradeState one;
    one.programs.resize(1);
    one.supervisor.programs.resize(1);
    one.supervisor.programs[0].processes.resize(2);
    one.supervisor.programs[0].processes[1].starts = 1;
    EXPECT_EQ(write_upgrade_state(one),
              R"({"supervisor":{"programs":[{"processes":[{},{"starts":1}]}]},"programs":[{}]})");
    // An optional value that is there is written, though it be its type's default.
    UpgradeState limited;
    limited.descriptor_limit.emplace();
    EXPECT_TRUE(read(write_upgrade_state(limited)).descriptor_limit);
}

TEST(UpgradeState, IsWrittenInPrintableCharacters) {
    std::string const text = write_upgrade_state(odd_state());
    EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; }));
}

TEST(UpgradeState, TellsWhatWouldBeLost) {
    auto const lost = [](std::string_view text) {
        auto const state = read_upgrade_state(text);
        return state ? std::vector<std::string>{"nothing"} : state.error().lost;
    };
    EXPECT_EQ(lost("{}"), std::vector<std::string>{"nothing"});
    EXPECT_EQ(lost(R"({"moods":{"a":1},"pid":1,"zeal":null})"), (std::vector<std::string>{"moods", "zeal"}));
    EXPECT_EQ(lost(R"({"programs":[{},{"name":"x","tint":1}],"supervisor":{"programs":[{},{"policy":{"rank":1}}]}})"),
              (std::vector<std::string>{"supervisor.programs[1].policy.rank", "programs[1].tint"}));
    EXPECT_EQ(lost(R"({"control":{"fd":3,"tls":true}})"), std::vector<std::string>{"control.tls"});
}

TEST(UpgradeState, RefusesGarbage) {
    auto const error = [](std::string_view text) {
        auto const state = read_upgrade_state(text);
        return state ? std::string("none") : state.error().error;
    };
    for (std::string_view const text : {"", "x", "[]", "1", "{", "{\"version\":\"1\"", "{}{}", "\xff", "null"})
        EXPECT_NE(error(text), "none") << text;
    EXPECT_EQ(error(R"({"version":1})"), "version: not a valid value");
    EXPECT_EQ(error(R"({"version":{"hex":"0"}})"), "version: not a valid value");
    EXPECT_EQ(error(R"({"version":{"hex":"0g"}})"), "version: not a valid value");
    EXPECT_EQ(error(R"({"version":{"hex":"00","more":1}})"), "version: not a valid value");
    EXPECT_EQ(error(R"({"pid":1.5})"), "pid: not a valid value");
    EXPECT_EQ(error(R"({"pid":99999999999})"), "pid: not a valid value");
    EXPECT_EQ(error(R"({"told_ready":"yes"})"), "told_ready: not a valid value");
    EXPECT_EQ(error(R"({"programs":{}})"), "programs: not a valid value");
    EXPECT_EQ(error(R"({"programs":[1]})"), "programs[0]: not a valid value");
    EXPECT_EQ(error(R"({"sockets":{"entries":[{"address":"nowhere"}]}})"),
              "sockets.entries[0].address: not a valid value");
    EXPECT_EQ(error(R"({"control":null})"), "control: not a valid value");
}

TEST(UpgradeState, RefusesWhatOnlyANewerVersionKnows) {
    auto const error = [](std::string_view text) {
        auto const state = read_upgrade_state(text);
        return state ? std::string("none") : state.error().error;
    };
    EXPECT_EQ(error(R"({"supervisor":{"phase":4}})"), "supervisor.phase: not a valid value");
    EXPECT_EQ(error(R"({"supervisor":{"phase":-1}})"), "supervisor.phase: not a valid value");
    EXPECT_EQ(error(R"({"supervisor":{"phase":3}})"), "none");
    EXPECT_EQ(error(R"({"programs":[{"output":{"kind":4}}],"supervisor":{"programs":[{}]}})"),
              "programs[0].output.kind: not a valid value");
    for (std::string_view const name : {"kind", "restart", "stop_scope", "on_change", "readiness"}) {
        std::string const text = std::string(R"({"programs":[{}],"supervisor":{"programs":[{"policy":{")")
                                     .append(name)
                                     .append(R"(":200}}]}})");
        EXPECT_EQ(error(text), std::string("supervisor.programs[0].policy.").append(name) + ": not a valid value");
    }
}

TEST(UpgradeState, TakesTheOneCheckOfALauncherThatKnewNoMore) {
    auto const state = read_upgrade_state(
        R"({"programs":[{}],"supervisor":{"programs":[{"policy":{"health":{"retries":2,"action":1}},)"
        R"("processes":[{"state":4,"bad_probes":2,"probe_at":7}]}]}})");
    ASSERT_TRUE(state) << state.error().error;
    ProgramRecord const& program = state->supervisor.programs.front();
    ASSERT_EQ(program.policy.checks.size(), 1);
    EXPECT_EQ(program.policy.checks.front(), (Health{.retries = 2, .action = HealthAction::report}));
    Supervisor const supervisor({}, state->supervisor);
    EXPECT_EQ(supervisor.view({ProgramId{0}, ProcessNumber{1}}).bad_probes, 0);  // it counts anew
    CheckRecord const check = supervisor.state().programs.front().checks.front();
    EXPECT_EQ(check.probe_at, TimePoint(Duration(7)));
    EXPECT_EQ(supervisor.state().programs.front().processes.front().probe_at, TimePoint::max());
}

TEST(UpgradeState, NeedsBothListsOfProgramsAlike) {
    auto const state = read_upgrade_state(R"({"programs":[{}]})");
    ASSERT_FALSE(state);
    EXPECT_EQ(state.error().error, "programs: the number differs from supervisor.programs");
}

TEST(UpgradeState, ListsAllDescriptors) {
    EXPECT_EQ(odd_state().descriptors(),
              (std::vector<int>{10, 11, 20, 23, 26, 27, 28, 30, 31, 100, 101, 102, 103, 50, 80, 81, 42, 90, 91}));
    EXPECT_TRUE(UpgradeState{}.descriptors().empty());
}

TEST(UpgradeState, IsSealed) {
    std::string const text = std::string(200'000, 'x') + binary();
    auto const file = seal_upgrade_state(text);
    ASSERT_TRUE(file) << file.error().text();
    EXPECT_EQ(::write(file->get(), "y", 1), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_NE(::fcntl(file->get(), F_GETFD) & FD_CLOEXEC, 0);
    for (int i = 0; i < 2; ++i) {  // whoever has read it before
        auto const again = read_sealed(file->get());
        ASSERT_TRUE(again) << again.error().text();
        EXPECT_EQ(*again, text);
    }
}

TEST(UpgradeState, IsNotReadFromWhatMayChange) {
    UniqueFd const file{::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    ASSERT_TRUE(file);
    ASSERT_EQ(::write(file.get(), "{}", 2), 2);
    auto const unsealed = read_sealed(file.get());
    ASSERT_FALSE(unsealed);
    EXPECT_EQ(unsealed.error().text(), "cannot read the state: it is not in a sealed memory file");
    ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
    EXPECT_FALSE(read_sealed(file.get()));
    EXPECT_FALSE(read_sealed(-1));
    UniqueFd const null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    EXPECT_FALSE(read_sealed(null.get()));
}

}  // namespace triton::launcher
