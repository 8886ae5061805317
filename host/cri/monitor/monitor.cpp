#include "host/cri/monitor/monitor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/idle_memory.h"

namespace triton::cri::monitor {

namespace {

constexpr std::size_t most_clients = 8;
constexpr std::size_t most_unclaimed_exits = 256;
constexpr std::size_t pipe_bytes = 64 * 1024;
constexpr std::size_t small_bytes = 4096;  // output that leaves no memory behind that is worth its release
constexpr milliseconds quiet_time{1000};   // before memory is released
alignas(4096) std::array<char, pipe_bytes> output_buffer;  // whole pages, which are released

Message description(std::string const& id, Kind kind, std::array<std::int64_t, container_numbers> numbers) {
    Message message{.kind = kind, .container = id};
    message.numbers = numbers;
    return message;
}

}  // namespace

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

Result<std::unique_ptr<Monitor>> Monitor::create(UniqueFd listener, std::string state, pid_t first) {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    sigset_t children;
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    // Whoever listens is the one that the other end sees.
    if (::listen(listener.get(), most_clients) != 0) return fail(errno, "listen");
    UniqueFd signals{::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK)};
    if (!signals) return fail(errno, "make a signalfd");
    return std::unique_ptr<Monitor>(new Monitor(std::move(listener), std::move(signals), std::move(state), first));
}

void Monitor::run() {
    while (!is_over_) {
        polled_.clear();
        // What containers have written comes before their ends.
        for (auto const& [id, container] : containers_) {
            for (bool const is_errors : {false, true}) {
                Stream const& stream = is_errors ? container.errors : container.output;
                if (stream.pipe && !container.streams.holds_up(is_errors))
                    polled_.add(stream.pipe.get(), POLLIN, [this, id = id, is_errors] {
                        Container* const one = find(id);
                        if (one) read_output(*one, is_errors ? one->errors : one->output, false);
                    });
            }
        }
        polled_.add(signals_.get(), POLLIN, [this] { reap(); });
        for (auto const& [client, socket] : clients_)
            polled_.add(socket.get(), POLLIN, [this, client = client] { hear(client); });
        sessions_.add_to(polled_);
        for (auto& [id, container] : containers_)
            container.streams.add_to(polled_, [this, id = id] {
                Container* const one = find(id);
                return one ? &one->streams : nullptr;
            });
        polled_.add(listener_.get(), POLLIN, [this] { accept_client(); });
        if (!polled_.wait(next_timeout()) && std::exchange(has_grown_, false)) release_memory();
        kill_late_jobs();
        serve_slow_clients();
        sessions_.go_on_with_late_connections();
    }
}

/// There are many monitors, which are idle nearly all of the time: what only work has needed is given back.
void Monitor::release_memory() {
    release_pages(output_buffer.data(), output_buffer.size());
    release_idle_memory();
}

void Monitor::serve_slow_clients() {
    TimePoint const now = steady_now();
    for (auto& [id, container] : containers_) {
        container.streams.give_up_stopped(now);
        if (container.phase == phase_exited) sessions_.container_ended(container.streams);
    }
}

void Monitor::accept_client() {
    UniqueFd socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket || clients_.size() >= most_clients) return;
    clients_.emplace(next_client_++, std::move(socket));
}

void Monitor::hear(Client client) {
    auto const found = clients_.find(client);
    if (found == clients_.end()) return;
    auto received = receive_message(found->second.get());
    if (!received && received.error().kind == ErrorKind::busy) return;
    if (!received) return drop(client);
    has_grown_ = true;
    handle(client, *std::move(received));
}

void Monitor::handle(Client client, Received received) {
    Message& request = received.message;
    switch (request.kind) {
        case Kind::table: return list(client, request);
        case Kind::create: return create(client, request);
        case Kind::start: return start(client, request);
        case Kind::signal: return signal(client, request);
        case Kind::destroy: return destroy(client, request);
        case Kind::execute: return execute(client, received);
        case Kind::abort: return abort(client, request);
        case Kind::end: return end(client, request);
        case Kind::execute_streams:
        case Kind::attach:
        case Kind::forward: return open_session(client, received);
        case Kind::reopen: {
            Container* const container = find(request.container);
            if (!container || !container->log)
                return answer(client, request.sequence,
                              fail(ErrorKind::not_found, "the monitor has no such container"));
            auto const opened = container->log->reopen();
            return answer(client, request.sequence, opened ? Result<std::int64_t>(0) : std::unexpected(opened.error()));
        }
        case Kind::begin:
        case Kind::resize:
        case Kind::connect:
        case Kind::redeem:
        case Kind::answer:
        case Kind::container:
        case Kind::exited:
        case Kind::opened:
        case Kind::ended:
        case Kind::connected:
        case Kind::serve:
        case Kind::redeemed: break;
    }
    drop(client);
}

// --- Children

/// The programs of the runtime come first: what they have started may have ended with them, and is claimed by then.
void Monitor::reap() {
    has_grown_ = true;
    signalfd_siginfo ignored{};
    while (::read(signals_.get(), &ignored, sizeof ignored) > 0) {
    }
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;)
        exits_.push_back({pid, status});
    if (first_ != 0 && take_exit(first_)) is_over_ = true;  // and all that was in its namespace has
    for (auto job = jobs_.begin(); job != jobs_.end();) {
        auto const ended = job->command ? std::nullopt : take_exit(job->pid);
        auto const current = job++;
        if (!ended) continue;
        Job const copy = *current;
        if (copy.kind == Kind::execute && *ended == 0) {
            job_ended(copy, *ended);
            continue;
        }
        jobs_.erase(current);
        job_ended(copy, *ended);
    }
    for (auto job = jobs_.begin(); job != jobs_.end();) {
        auto const ended = job->command > 0 ? take_exit(job->command) : std::nullopt;
        auto const current = job++;
        if (!ended) continue;
        Job const copy = *current;
        jobs_.erase(current);
        command_ended(copy, *ended);
    }
    for (auto& [id, container] : containers_) {
        if (container.phase == phase_exited || container.pid == 0) continue;
        if (auto const ended = take_exit(container.pid)) container_ended(container, *ended);
    }
    while (exits_.size() > most_unclaimed_exits)
        exits_.pop_front();
    if (jobs_.empty()) exits_.clear();  // orphans of containers
}

std::optional<int> Monitor::take_exit(pid_t pid) {
    auto const found = std::ranges::find(exits_, pid, &Exit::pid);
    if (found == exits_.end()) return std::nullopt;
    int const status = found->status;
    exits_.erase(found);
    return status;
}

/// What it has written before its end is in the log before its end is told.
void Monitor::container_ended(Container& container, int status) {
    read_output(container, container.output, true);
    read_output(container, container.errors, true);
    std::string rest;
    container.log->output().end(wall_nanoseconds(), rest);
    container.log->errors().end(wall_nanoseconds(), rest);
    container.log->write(rest);
    container.output.pipe = {};
    container.errors.pipe = {};
    container.terminal = {};
    sessions_.container_ended(container.streams);
    container.phase = phase_exited;
    container.exit_code = exit_code_of(status);
    container.exited_at = wall_nanoseconds();
    bool const was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    container.is_oom = was_killed && count_oom_kills(container.settings[create_oom]) > container.oom_before;
    tell_exit(container);
}

void Monitor::read_output(Container& container, Stream& stream, bool to_the_end) {
    if (!stream.pipe) return;
    // At the end only what is in the pipe: others may hold it, and write for ever.
    for (std::size_t left = to_the_end ? 16 * pipe_bytes : 1; left > 0;) {
        ssize_t const size = ::read(stream.pipe.get(), output_buffer.data(), output_buffer.size());
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) return;
        if (size <= 0) {
            stream.pipe = {};
            return;
        }
        std::string lines;
        std::string_view const bytes(output_buffer.data(), static_cast<std::size_t>(size));
        has_grown_ = has_grown_ || bytes.size() > small_bytes;
        stream.lines->add(bytes, wall_nanoseconds(), lines);
        container.log->write(lines);
        container.streams.pass_on(bytes, &stream == &container.errors, steady_now());
        left -= std::min(left, static_cast<std::size_t>(size));
    }
}

int Monitor::next_timeout() const {
    TimePoint earliest = has_grown_ ? steady_now() + quiet_time : TimePoint::max();
    earliest = std::min(earliest, sessions_.deadline());
    for (auto const& [id, container] : containers_)
        earliest = std::min(earliest, container.streams.deadline());
    for (Job const& job : jobs_)
        if (!job.command) earliest = std::min(earliest, job.deadline);
    if (earliest == TimePoint::max()) return -1;
    auto const left = std::chrono::duration_cast<milliseconds>(earliest - steady_now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 60'000));
}

void Monitor::kill_late_jobs() {
    TimePoint const now = steady_now();
    for (Job& job : jobs_) {
        if (job.command || job.deadline > now) continue;
        kill_family(job.pid);  // its end is its answer
        job.deadline = TimePoint::max();
    }
}

// --- Clients

Monitor::Container* Monitor::find(std::string const& id) {
    auto const found = containers_.find(id);
    return found == containers_.end() ? nullptr : &found->second;
}

ContainerStreams* Monitor::streams_of(std::string const& container) {
    Container* const found = find(container);
    return found && found->phase == phase_running ? &found->streams : nullptr;
}

void Monitor::resize(std::string const& container, std::int64_t width, std::int64_t height) {
    Container const* const found = find(container);
    if (found && found->terminal) resize_terminal(found->terminal.get(), width, height);
}

void Monitor::open_session(Client client, Received& received) {
    if (received.descriptors.size() != 1)
        return answer(client, received.message.sequence, fail(ErrorKind::invalid, "a session needs its socket"));
    auto const opened = sessions_.open(received.message, std::move(received.descriptors.front()));
    answer(client, received.message.sequence, opened ? Result<std::int64_t>(0) : std::unexpected(opened.error()));
}

void Monitor::list(Client client, Message const& request) {
    if (std::ranges::find(listening_, client) == listening_.end()) listening_.push_back(client);
    for (auto const& [id, one] : containers_)
        send(client, description(id, Kind::container, {one.phase, one.pid, one.exit_code, one.is_oom, one.exited_at}));
    answer(client, request.sequence, 0);
}

void Monitor::tell_exit(Container const& one) {
    for (Client const client : std::vector(listening_))
        send(client, description(one.id, Kind::exited, {one.phase, one.pid, one.exit_code, one.is_oom, one.exited_at}));
}

void Monitor::answer(Client client, std::uint64_t sequence, Result<std::int64_t> const& result) {
    Message message{.kind = Kind::answer, .sequence = sequence};
    message.numbers[0] = result ? 0 : static_cast<std::int64_t>(result.error().kind) + 1;
    message.numbers[1] = result.value_or(0);
    if (!result) message.texts.push_back(result.error().text().substr(0, 4096));
    send(client, message);
}

/// One that does not read is dropped: it asks for the table when it comes back.
void Monitor::send(Client client, Message const& message) {
    auto const found = clients_.find(client);
    if (found != clients_.end() && !send_message(found->second.get(), message)) drop(client);
}

void Monitor::drop(Client client) {
    clients_.erase(client);
    std::erase(listening_, client);
}

}  // namespace triton::cri::monitor
