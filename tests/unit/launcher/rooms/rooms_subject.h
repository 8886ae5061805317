#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launcher/output/console.h"
#include "launcher/rooms/agent_host.h"
#include "launcher/rooms/channels.h"
#include "launcher/rooms/configuration_keeper.h"
#include "launcher/rooms/control_port.h"
#include "launcher/rooms/life_cycle.h"
#include "launcher/rooms/pid_files.h"
#include "launcher/rooms/process_trees.h"
#include "launcher/rooms/program_table.h"
#include "launcher/rooms/programs.h"
#include "launcher/rooms/upgrader.h"
#include "tests/unit/launcher/children/fake_sys.h"

namespace triton::launcher {

/// All rooms around a supervisor, without the shell: what a room brings about elsewhere is kept for the test, and
/// starts are made when the test says so. The kernel does what the test says, too.
class RoomsSubject : public testing::Test,
                     protected EventSink,
                     protected Children::Listener,
                     protected AgentHost::Listener,
                     protected Programs::Owner,
                     protected LifeCycle::Listener,
                     protected Upgrader::Owner {
protected:
    RoomsSubject() {
        char name[] = "/tmp/triton-rooms.XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory = name;
        options.configuration_path = directory + "/config.json";
        options.cgroup = CgroupMode::none;
        options.control_socket = directory + "/control";
        options.arguments = arguments;
        children.make_room(64);
    }
    ~RoomsSubject() override { std::filesystem::remove_all(directory); }

    // What the rooms bring about.
    void dispatch(Event const& event) override {
        if (auto const* const ready = std::get_if<event::Ready>(&event)) told.push_back("ready " + text(ready->id));
        if (auto const* const stop = std::get_if<event::StopAsked>(&event))
            told.push_back("stop asked, " + std::to_string(stop->exit_code));
        if (auto const* const accepted = std::get_if<event::ConfigurationAccepted>(&event))
            told.push_back("accepted " + std::to_string(accepted->programs->size()));
        if (auto const* const command = std::get_if<event::Command>(&event))
            told.push_back("command to " + std::string(table.name(static_cast<std::uint32_t>(command->program))));
        if (auto const* const empty = std::get_if<event::TreeEmpty>(&event)) told.push_back("empty " + text(empty->id));
        supervisor.handle(event, std::chrono::steady_clock::now(), actions);
    }
    void make_room_for_an_end() override {}
    void before_reaping(ProcessId, pid_t) override {}
    void process_executed(ProcessId id) override { dispatch(event::Executed{id}); }
    void process_ended(ProcessId id, int status, std::optional<process::SpawnError> error) override {
        channels.process_ended(id, status);
        dispatch(event::Exited{id, status, error});
    }
    void command_ended(Children::Key key, Children::Outcome const& outcome) override {
        if (key == upgrade_key) upgrader.answered(outcome);
        if (key == judge_key) keeper.judged(outcome);
        if (key == scout_key) keeper.scouted(outcome);
        if (key == files_key) programs.files_scouted(outcome);
        if (key == aside_key) programs.files_aside_scouted(outcome);
    }
    void no_child_left() override {}
    void orphan_reaped() override {}
    void agent_connected(UniqueFd) override {}
    void pod_told(PodState const& pod, bool have_changed) override { keeper.know_node(pod.variables, have_changed); }
    void isolation_changed() override {}
    void probe_ended(NetworkProbes::Key, NetworkProbes::Verdict const&) override {}
    void make_room(std::vector<ProgramSpec> const& specs) override {
        if (has_no_memory) throw std::bad_alloc();
        supervisor.reserve(specs);
    }
    void expect_leftovers() override { expects_leftovers = true; }
    void settled() override { told.emplace_back("settled"); }
    void given_away(ProgramId id) override { told.push_back("given away " + text({id, ProcessNumber{1}})); }
    void children_changed(pid_t) override { children.reap(); }
    void continued() override { foreground.continued(); }
    void stop_asked() override {}
    void hung_up() override {}
    [[nodiscard]] bool has_configuration() const override { return true; }
    UpgradeState state() override {
        UpgradeState state;
        state.version = "1.0";
        state.supervisor = supervisor.state();
        table.save(state);
        return state;
    }
    void bring_up_to_date() override { console.flush(); }
    std::string has_yet_to_clean_up() override { return yet_to_clean_up; }
    void stop_output() override { told.emplace_back("output stopped"); }
    void resume_output() override { told.emplace_back("output resumed"); }
    void about_to_leave() override { told.emplace_back("about to leave"); }

    // What a test does.

    /// Starts what the supervisor wants started.
    void start() {
        while (!actions.empty()) {
            for (Action const& action : std::exchange(actions, {})) {
                auto const* const effect = std::get_if<Effect>(&action);
                auto const* const spawn = effect ? std::get_if<action::Spawn>(effect) : nullptr;
                if (!spawn) continue;
                auto const pid = trees.start(spawn->id);
                ASSERT_TRUE(pid) << errno_text(pid.error().code);
                dispatch(event::Spawned{spawn->id, *pid});
                dispatch(event::Executed{spawn->id});
            }
        }
    }
    /// The process of that pid has ended.
    void end(pid_t pid, int status = 0) {
        sys.end(pid, status);
        children.reap();
    }
    Accepted load(std::string const& document) {
        auto loaded = load_configuration(document, options.source, environment, BinaryCheck::skipped);
        if (!loaded) throw std::runtime_error(loaded.error().errors.front());  // the test's own mistake
        return std::move(*loaded);
    }
    Result<> activate(std::string const& document) {
        active = std::make_unique<Accepted>(load(document));
        return programs.activate(active.get(), true);
    }
    void write(std::string const& path, std::string_view text) const {
        std::string const temporary = path + ".new";
        FILE* const file = ::fopen(temporary.c_str(), "we");
        ASSERT_NE(file, nullptr);
        EXPECT_EQ(::fwrite(text.data(), 1, text.size(), file), text.size());
        EXPECT_EQ(::fclose(file), 0);
        std::filesystem::rename(temporary, path);
    }
    /// The pid of a helper that runs; 0: there is none.
    [[nodiscard]] pid_t helper(Children::Key key) const {
        auto const& all = children.commands();
        auto const found =
            std::ranges::find_if(all, [&](auto const& one) { return one.key == key && !one.is_answered; });
        return found == all.end() ? 0 : found->pid;
    }
    void scout_returns() {
        if (pid_t const pid = helper(scout_key); scouts_return && pid != 0) end(pid);
    }
    /// Rounds of the loop until it is so, or a failure. A copy that goes before a look comes back, if it may.
    void until(std::function<bool()> const& is_true) {
        if (is_true()) return;
        EventLoop::Timer limit(*loop, [this] {
            ADD_FAILURE() << "it does not happen";
            loop->stop();
        });
        limit.arm(std::chrono::steady_clock::now() + std::chrono::seconds(20));
        loop->set_round_end([&] {
            port.end_round();
            scout_returns();
            if (is_true()) loop->stop();
        });
        EXPECT_TRUE(loop->run());
        loop->set_round_end([] {});
    }
    /// The log so far, one line a record: "level event message".
    std::string logged() {
        log.flush();
        std::string text(65536, '\0');
        ssize_t const size = ::pread(log_file.get(), text.data(), text.size(), 0);
        text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
        return text;
    }
    [[nodiscard]] static PodState isolated() {
        PodState pod;
        pod.is_isolated = true;
        return pod;
    }
    [[nodiscard]] static std::string text(ProcessId id) {
        return std::to_string(static_cast<std::uint32_t>(id.program)) + ":" +
               std::to_string(static_cast<std::uint32_t>(id.number));
    }
    [[nodiscard]] std::vector<std::string> shown() const {
        std::vector<std::string> names;
        for (ProgramId const id : table.shown())
            names.push_back(table[id].name);
        return names;
    }
    static log::Log::Settings settings_for(int fd) {
        log::Log::Settings settings;
        settings.level = log::LogLevel::debug;
        settings.format = log::LogFormat::text;
        settings.console = fd;
        return settings;
    }

    static constexpr char const* environment[] = {"PATH=/bin", nullptr};
    static constexpr char const* arguments[] = {"triton-launch", "--log-level", "info", nullptr};

    std::string directory;
    std::unique_ptr<EventLoop> loop = *EventLoop::create();
    UniqueFd log_file{::memfd_create("log", MFD_CLOEXEC)};
    int console_ends[2] = {-1, -1};
    bool has_pipes = ::pipe2(console_ends, O_CLOEXEC) == 0;
    UniqueFd console_reader{console_ends[0]};
    UniqueFd console_writer{console_ends[1]};
    log::Log log{settings_for(log_file.get())};
    LaunchOptions options;
    ProcessSetup setup;
    FakeSys sys;
    Console console{console_writer.get(), console_writer.get()};
    SourceOptions source;
    Supervisor supervisor{SupervisorPolicy{}};
    std::vector<Action> actions;
    std::vector<std::string> told;
    std::string yet_to_clean_up;  // a program
    std::unique_ptr<Accepted> active;
    bool scouts_return = true;
    bool has_no_memory = false;
    bool expects_leftovers = false;

    ControlLine line;
    ProgramTable table{supervisor};
    Children children{sys, *loop, log, *this};
    Channels channels{options, sys, *loop, console, log, table, supervisor, *this, line};
    AgentHost agent{options, source, environment, *loop, log, supervisor, channels, children, line, *this};
    Programs programs{*loop, log, table, supervisor, children, channels, agent, *this, *this};
    ConfigurationKeeper keeper{options,    source,   environment, sys,   *loop, log,
                               supervisor, children, programs,    *this, line};
    PidFiles pid_files{sys, *loop, log, table, supervisor, children, channels, *this};
    Foreground foreground{sys, setup};
    LeftTrees left_trees{sys, *loop, children, channels, *this};
    ProcessTrees trees{options,    sys,        table,      children, channels, pid_files,
                       left_trees, supervisor, foreground, *loop,    line};
    LogKeeper own_log{options.log, *loop, log, {}};
    LifeCycle life{options, setup, sys, *loop, log, own_log, supervisor, agent.pod(), *this, *this};
    Upgrader upgrader{options, environment, sys, *loop, log, console, supervisor, children, line, *this};
    ProcessHistory history;
    ControlPort port{
        options,
        *loop,
        log,
        line,
        {supervisor, table, children, channels, agent, programs, keeper, life, upgrader, trees, history, *this}};
};

}  // namespace triton::launcher
