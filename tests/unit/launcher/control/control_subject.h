#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "launcher/control/control_server.h"
#include "lib/base/event_loop.h"
#include "lib/varlink/codec.h"

namespace triton::launcher {

/// A launcher whose programs are what the test says.
class FakeBackend : public ControlBackend {
public:
    struct Program {
        ProgramStatus status;
        std::vector<ProcessStatus> processes;
        std::deque<std::string> lines;  // oldest first; one that ends with .. goes on in the next
        bool is_captured = true;
    };

    FakeBackend();

    /// `count` processes that are up.
    Program& add(std::string const& name, std::uint32_t count);
    ProcessStatus& at(std::size_t program, std::uint32_t number) { return programs[program].processes[number - 1]; }

    LauncherStatus launcher() const override { return status; }
    std::size_t program_count() const override { return programs.size(); }
    std::optional<std::size_t> find_program(std::string_view name) const override;
    ProgramStatus program(std::size_t index) const override { return programs.at(index).status; }
    ProgramDescription describe(std::size_t index) const override;
    ProcessStatus process(std::size_t program, std::uint32_t number) const override;
    ProcessPast past(std::size_t program, std::uint32_t number) const override { return pasts[program][number]; }
    ProcessUsage usage(std::size_t program, std::uint32_t number) const override;
    Leftovers leftovers(std::size_t, std::uint32_t number) override {
        return left_behind.contains(number) ? left_behind[number] : Leftovers::none;
    }
    std::vector<std::string> missing_for(std::size_t index) const override { return missing.at(index); }
    std::vector<std::string> held_up_by(std::size_t index) const override { return held_up.at(index); }
    std::vector<std::string> running_on(std::size_t index) const override { return dependents.at(index); }
    Result<> start(ProcessSelection const& which) override { return command("start", which); }
    Result<> stop(ProcessSelection const& which) override { return command("stop", which); }
    Result<> restart(ProcessSelection const& which) override { return command("restart", which); }
    Result<> signal(ProcessSelection const& which, int signo) override;
    Result<Reloaded> reload() override;
    Reloaded reloaded = Reloaded::now;
    Result<> upgrade(std::string const& path) override;
    Result<> stage(StagingKind what, std::uint64_t ticket) override;
    ActiveConfiguration active_configuration() const override;
    void set_pod(PodState state) override { pods.push_back(std::move(state)); }
    void set_reporter(ReporterStatus reporter) override { reporters.push_back(std::move(reporter)); }
    void probes_wanted(bool is_wanted) override;
    void probe_result(std::uint64_t id, bool ok, std::string_view detail) override;
    Result<KeptLines> output_lines(ProcessSelection const& which, OutputLineSink& sink) const override;
    Result<> check_attachment(ProcessSelection const& which, bool follows) override;
    void attach(Attachment const& attachment, UniqueFd connection) override;
    std::vector<std::pair<Attachment, UniqueFd>> attached;
    std::uint64_t first_line = 0;  // the sequence of the first line of each program, if it has one; the others follow
    void command_given(std::string_view command, varlink::Peer const& peer) override;
    void control_failed(std::string_view reason) override { failures.emplace_back(reason); }

    mutable std::map<std::size_t, std::map<std::uint32_t, ProcessPast>> pasts;  // by program and number
    LauncherStatus status;
    std::vector<Program> programs;
    std::map<std::uint32_t, Leftovers> left_behind;                                               // by number
    std::vector<std::vector<std::string>> missing = std::vector<std::vector<std::string>>(8);     // by program
    std::vector<std::vector<std::string>> held_up = std::vector<std::vector<std::string>>(8);     // the same
    std::vector<std::vector<std::string>> dependents = std::vector<std::vector<std::string>>(8);  // the same
    std::optional<Error> refusal;                                                                 // of every command
    std::vector<std::string> done;  // "stop 0", "signal 0:2 15"
    std::vector<std::string> given;
    std::vector<varlink::Peer> peers;
    ProcessOwner owner_of(pid_t pid) const override {
        auto const found = owners.find(pid);
        return found == owners.end() ? ProcessOwner::nobody : found->second;
    }
    bool has_strangers() const override {
        return has_sandbox ||
               std::ranges::any_of(owners, [](auto const& owned) { return owned.second != ProcessOwner::program; });
    }
    bool has_sandboxes() const override { return has_sandbox; }

    std::map<pid_t, ProcessOwner> owners;
    bool has_sandbox = false;
    std::vector<std::string> failures;
    std::uint64_t sequence = 0;
    std::optional<std::string> configuration;
    std::vector<std::pair<std::string, std::string>> environment;
    std::vector<std::string> rejection;
    std::vector<PodState> pods;
    std::vector<ReporterStatus> reporters;
    std::vector<bool> wanted;          // what the server has said of probes
    std::vector<std::string> results;  // "7 ok connected"
    mutable std::size_t processes_asked = 0;
    mutable std::size_t configurations_asked = 0;
    std::function<void()> on_command = [] {};
    std::function<void(StagingKind, std::uint64_t)> on_stage;
    std::function<void(bool)> on_probes = [](bool) {};

private:
    Result<> command(std::string const& verb, ProcessSelection const& which);
};

/// One end of a connection in the test's own loop.
class TestClient {
public:
    TestClient(EventLoop& loop, std::string const& path);
    TestClient(EventLoop& loop, UniqueFd fd);

    void send(std::string_view bytes);
    void call(std::string_view method, std::string_view parameters = "{}", bool wants_more = false) {
        send(varlink::call_text(method, parameters, wants_more));
    }
    /// Reads from now on, or no longer.
    void read(bool reads = true);
    void shut_down_writing();
    void close();

    std::deque<std::string> replies;  // without their NUL
    std::string rest;
    bool is_ended = false;
    std::size_t received = 0;

private:
    void take();

    EventLoop& loop_;
    UniqueFd fd_;
    EventLoop::Watch watch_;
};

/// A server with its backend in one loop, which runs until the test has seen what it waits for.
class ControlSubject : public ::testing::Test {
protected:
    ControlSubject();
    ~ControlSubject() override;

    void start(ControlLimits const& limits = {}, mode_t mode = 0600);
    std::unique_ptr<TestClient> connect() { return std::make_unique<TestClient>(*loop, path); }
    /// A connection that the agent has made.
    std::unique_ptr<TestClient> adopted(ControlRole role = ControlRole::agent);
    /// Rounds until `is_true`, or a failure after some seconds.
    void until(std::function<bool()> const& is_true);
    /// Rounds until the server has nothing to do any more.
    void until_quiet();
    /// The next reply, as it is.
    std::string reply(TestClient& client);
    /// A call on a connection of its own, and its reply.
    std::string ask(std::string_view method, std::string_view parameters = "{}");

    std::string directory;
    std::string path;
    bool keeps_for_agent = false;  // of the server that start() makes
    std::unique_ptr<EventLoop> loop;
    FakeBackend backend;
    std::unique_ptr<ControlServer> server;
    std::size_t rounds = 0;

private:
    void check();
    void prepare_to_wait();

    std::function<bool()> is_true_;
    TimePoint give_up_at_{};
    std::unique_ptr<EventLoop::Timer> wake_;
    std::optional<TimePoint> quiet_at_;
};

/// "org.tritonlaunch.Launcher.<name>"
std::string method(std::string_view name);

}  // namespace triton::launcher
