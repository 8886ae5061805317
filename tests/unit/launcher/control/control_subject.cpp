#include "tests/unit/launcher/control/control_subject.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/control/control_calls.h"

namespace triton::launcher {

std::string method(std::string_view name) { return std::string(launcher_interface).append(".").append(name); }

FakeBackend::Program& FakeBackend::add(std::string const& name, std::uint32_t count) {
    Program program;
    program.status.name = name;
    program.status.wanted = program.status.processes = count;
    program.status.is_ready = true;
    for (std::uint32_t number = 1; number <= count; ++number) {
        ProcessStatus process;
        process.number = number;
        process.state = ProcessState::up;
        process.pid = static_cast<pid_t>(1000 + number);
        process.uptime = std::chrono::milliseconds(61500);
        process.starts = 1;
        program.processes.push_back(std::move(process));
    }
    return programs.emplace_back(std::move(program));
}

FakeBackend::FakeBackend() {
    status.version = "0.1.0+1a2b3c4";
    status.pid = 1;
    status.uptime = std::chrono::seconds(90);
    status.phase = "running";
    status.configuration_path = "/etc/config.json";
    status.has_configuration = true;
}

std::optional<std::size_t> FakeBackend::find_program(std::string_view name) const {
    for (std::size_t i = 0; i < programs.size(); ++i) {
        if (programs[i].status.name == name) return i;
    }
    return std::nullopt;
}

ProgramDescription FakeBackend::describe(std::size_t index) const {
    ProgramDescription description;
    description.command = {"/bin/" + programs.at(index).status.name, "--level", "\xff"};
    description.restart = "always";
    description.requires_ = {"db"};
    description.output = "inherit";
    return description;
}

ProcessStatus FakeBackend::process(std::size_t program, std::uint32_t number) const {
    ++processes_asked;
    return programs.at(program).processes.at(number - 1);
}

ProcessUsage FakeBackend::usage(std::size_t, std::uint32_t) const { return {1 << 20, std::chrono::milliseconds(1500)}; }

Result<> FakeBackend::command(std::string const& verb, ProcessSelection const& which) {
    if (refusal) return std::unexpected(*refusal);
    done.push_back(verb + " " + std::to_string(which.program));
    if (which.number) done.back() += ":" + std::to_string(*which.number);
    on_command();
    return {};
}

Result<> FakeBackend::signal(ProcessSelection const& which, int signo) {
    auto const result = command("signal", which);
    if (result) done.back() += " " + std::to_string(signo);
    return result;
}

Result<Reloaded> FakeBackend::reload() {
    if (refusal) return std::unexpected(*refusal);
    done.emplace_back("reload");
    on_command();
    return reloaded;
}

Result<> FakeBackend::upgrade(std::string const& path) {
    if (refusal) return std::unexpected(*refusal);
    done.push_back("upgrade " + path);
    on_command();
    return {};
}

Result<> FakeBackend::stage(StagingKind what, std::uint64_t ticket) {
    if (refusal) return std::unexpected(*refusal);
    done.push_back("stage " + std::string(staging_kind_names[static_cast<std::size_t>(what)]));
    if (on_stage) on_stage(what, ticket);
    return {};
}

ActiveConfiguration FakeBackend::active_configuration() const {
    ++configurations_asked;
    ActiveConfiguration active;
    active.sequence = sequence;
    active.text = configuration;
    active.environment = environment;
    if (configuration) active.accepted_at = 1'600'000'000'000'001;
    active.rejection = rejection;
    return active;
}

void FakeBackend::probes_wanted(bool is_wanted) {
    wanted.push_back(is_wanted);
    on_probes(is_wanted);
}

void FakeBackend::probe_result(std::uint64_t id, bool ok, std::string_view detail) {
    results.push_back(std::to_string(id) + (ok ? " ok " : " not ok ") + std::string(detail));
}

Result<> FakeBackend::check_attachment(ProcessSelection const& which, bool follows) {
    if (refusal) return std::unexpected(*refusal);
    done.push_back("attach " + std::to_string(which.program) + ":" + std::to_string(which.number.value_or(0)) +
                   (follows ? " follow" : ""));
    return {};
}

void FakeBackend::attach(Attachment const& attachment, UniqueFd connection) {
    attached.emplace_back(attachment, std::move(connection));
}

Result<ControlBackend::KeptLines> FakeBackend::output_lines(ProcessSelection const& which, OutputLineSink& sink) const {
    Program const& program = programs.at(which.program);
    if (!program.is_captured) return std::unexpected(Error{ErrorKind::refused, {}, "its output is not captured", {}});
    for (auto line = program.lines.rbegin(); line != program.lines.rend(); ++line) {
        auto const at = static_cast<std::uint64_t>(program.lines.rend() - line - 1);
        OutputLine const one{
            .text = *line, .sequence = first_line == 0 ? 0 : first_line + at, .is_partial = line->ends_with("..")};
        if (!sink.take(one)) break;
    }
    return KeptLines{first_line, first_line + program.lines.size()};
}

void FakeBackend::command_given(std::string_view command, varlink::Peer const& peer) {
    given.emplace_back(command);
    peers.push_back(peer);
}

TestClient::TestClient(EventLoop& loop, std::string const& path)
    : loop_(loop), fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    auto const address = varlink::socket_address(path);
    EXPECT_TRUE(address);
    int result = -1;
    if (address) result = ::connect(fd_.get(), reinterpret_cast<sockaddr const*>(&*address), sizeof *address);
    EXPECT_EQ(result, 0) << errno_text(errno);
    EXPECT_EQ(::fcntl(fd_.get(), F_SETFL, O_NONBLOCK), 0);
    read();
}

TestClient::TestClient(EventLoop& loop, UniqueFd fd) : loop_(loop), fd_(std::move(fd)) { read(); }

void TestClient::send(std::string_view bytes) {
    // What does not fit is not sent: a test that needs more has a reader at the other end.
    ssize_t const size = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    EXPECT_EQ(size, static_cast<ssize_t>(bytes.size())) << errno_text(errno);
}

void TestClient::read(bool reads) {
    watch_ = {};
    if (!reads) return;
    auto watch = loop_.on_readable(fd_.get(), [this] { take(); });
    ASSERT_TRUE(watch);
    watch_ = std::move(*watch);
}

void TestClient::take() {
    char buffer[65536];
    ssize_t const size = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) {  // a connection that is closed with something unread is reset
        is_ended = true;
        watch_ = {};
        return;
    }
    received += static_cast<std::size_t>(size);
    rest.append(buffer, static_cast<std::size_t>(size));
    for (std::size_t end; (end = rest.find('\0')) != std::string::npos; rest.erase(0, end + 1))
        replies.push_back(rest.substr(0, end));
}

void TestClient::shut_down_writing() { EXPECT_EQ(::shutdown(fd_.get(), SHUT_WR), 0); }

void TestClient::close() {
    watch_ = {};
    fd_ = {};
}

ControlSubject::ControlSubject() {
    char name[] = "/tmp/triton-control.XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
    path = directory + "/control";
    auto made = EventLoop::create();
    EXPECT_TRUE(made);
    loop = std::move(*made);
    wake_ = std::make_unique<EventLoop::Timer>(*loop, [this] {
        if (server) server->time_passed();
    });
    loop->set_round_end([this] {
        if (server) server->end_round();
        prepare_to_wait();
    });
}

ControlSubject::~ControlSubject() {
    server.reset();
    std::filesystem::remove_all(directory);
}

void ControlSubject::start(ControlLimits const& limits, mode_t mode) {
    ControlSettings settings{.path = path, .mode = mode, .keeps_for_agent = keeps_for_agent};
    auto made = ControlServer::create(*loop, std::move(settings), backend, limits);
    ASSERT_TRUE(made) << made.error().text();
    server = std::move(*made);
}

std::unique_ptr<TestClient> ControlSubject::adopted(ControlRole role) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    EXPECT_EQ(::fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    auto client = std::make_unique<TestClient>(*loop, UniqueFd{ends[0]});
    server->adopt(UniqueFd{ends[1]}, role);
    return client;
}

/// Before each wait of the loop.
void ControlSubject::check() {
    ++rounds;
    if (is_true_ && is_true_()) {
        is_true_ = {};
        loop->stop();
    } else if (is_true_ && std::chrono::steady_clock::now() >= give_up_at_) {
        ADD_FAILURE() << "what was waited for did not come";
        is_true_ = {};
        loop->stop();
    }
}

void ControlSubject::prepare_to_wait() {
    check();
    std::optional<TimePoint> const next = server ? server->next_deadline() : std::nullopt;
    wake_->arm(next ? std::min(*next, give_up_at_) : give_up_at_);
}

void ControlSubject::until(std::function<bool()> const& is_true) {
    is_true_ = is_true;
    give_up_at_ = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    wake_->arm(TimePoint{});  // a first round in any case: the test itself may have called the server
    ASSERT_TRUE(loop->run());
}

void ControlSubject::until_quiet() {
    // A connection of its own goes through the same queue, and its answer comes when nothing was left before it.
    (void)ask(varlink::service_name("GetInfo"));
    until([this] {
        auto const next = server->next_deadline();
        return !next || *next > loop->now();
    });
}

std::string ControlSubject::reply(TestClient& client) {
    until([&client] { return !client.replies.empty() || client.is_ended; });
    if (client.replies.empty()) return "(end)";
    std::string const text = client.replies.front();
    client.replies.pop_front();
    return text;
}

std::string ControlSubject::ask(std::string_view name, std::string_view parameters) {
    auto const client = connect();
    client->call(name, parameters);
    return reply(*client);
}

}  // namespace triton::launcher
