#include "host/cri/monitor/sessions.h"

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/pipe.h"

namespace triton::cri::monitor {

namespace {

Result<Pipe> make_command_pipe() {
    Pipe pipe = TRY(make_pipe());
    ::fcntl(pipe.writer.get(), F_SETPIPE_SZ, ContainerStreams::pipe_bytes);
    return pipe;
}

}  // namespace

Result<> Sessions::open(Message const& request, UniqueFd socket) {
    if (sessions_.size() >= most)
        return fail(ErrorKind::exhausted, "the pod has " + std::to_string(most) + " sessions already");
    Session session{.kind = request.kind,
                    .socket = std::move(socket),
                    .container = request.container,
                    .process = {},
                    .streams = request.numbers[0],
                    .console = {},
                    .terminal = {},
                    .network = {},
                    .connecting = {}};
    std::string const text = request.texts.empty() ? "" : request.texts.front();
    if (request.kind == Kind::forward && !text.empty()) {
        session.network = UniqueFd{::open(text.c_str(), O_RDONLY | O_CLOEXEC)};
        if (!session.network) return fail(errno, "open " + text);
    } else {
        session.process = text;
        session.has_file = !text.empty();
    }
    ::fcntl(session.socket.get(), F_SETFL, O_NONBLOCK);
    sessions_.emplace(next_++, std::move(session));
    return {};
}

Sessions::Session* Sessions::find(Id id) {
    auto const found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : &found->second;
}

void Sessions::add_to(PollSet& polled) {
    for (auto const& [id, session] : sessions_) {
        polled.add(session.socket.get(), POLLIN, [this, id = id] { hear(id); });
        for (Connecting const& one : session.connecting)
            polled.add(one.connection.fd(), POLLOUT, [this, id = id, sequence = one.sequence] { go_on(id, sequence); });
    }
}

TimePoint Sessions::deadline() const {
    TimePoint earliest = TimePoint::max();
    for (auto const& [id, session] : sessions_)
        for (Connecting const& one : session.connecting)
            earliest = std::min(earliest, one.connection.deadline());
    return earliest;
}

void Sessions::go_on_with_late_connections() {
    std::vector<std::pair<Id, std::uint64_t>> late;
    for (auto const& [id, session] : sessions_)
        for (Connecting const& one : session.connecting)
            if (one.connection.deadline() <= steady_now()) late.emplace_back(id, one.sequence);
    for (auto const& [id, sequence] : late)
        go_on(id, sequence);
}

/// What the peer sends is not trusted: a message that does not fit ends the session.
void Sessions::hear(Id id) {
    Session* const session = find(id);
    if (!session) return;
    auto const received = receive_message(session->socket.get());
    if (!received && received.error().kind == ErrorKind::busy) return;
    if (!received || !received->descriptors.empty()) return close(id);
    Message const& request = received->message;
    if (request.kind == Kind::begin && !session->has_begun) return begin(id, *session);
    if (request.kind == Kind::resize && session->kind == Kind::attach && (session->streams & stream_terminal) != 0)
        return host_.resize(session->container, request.numbers[0], request.numbers[1]);
    if (request.kind == Kind::resize) {
        if (session->terminal) resize_terminal(session->terminal.get(), request.numbers[0], request.numbers[1]);
        return;
    }
    if (request.kind == Kind::connect && session->kind == Kind::forward && session->has_begun)
        return connect(id, *session, request);
    close(id);
}

void Sessions::begin(Id id, Session& session) {
    session.has_begun = true;
    Result<> begun{};
    if (session.kind == Kind::execute_streams) begun = begin_command(id, session);
    if (session.kind == Kind::attach) begun = begin_attached(id, session);
    if (!begun) end(id, std::unexpected(begun.error()));
}

Result<> Sessions::begin_command(Id id, Session& session) {
    if (!host_.streams_of(session.container))
        return fail(ErrorKind::refused, "container " + session.container + " does not run");
    if ((session.streams & stream_terminal) != 0) {
        session.console = TRY(ConsoleSocket::create(directory_));
        TRY(host_.start_command(id, session.container, session.process, {}, session.console.path()));
        session.has_file = false;
        return {};
    }
    StreamEnds of_command;
    StreamEnds of_client;
    if ((session.streams & stream_input) != 0) {
        Pipe pipe = TRY(make_command_pipe());
        of_command.input = std::move(pipe.reader);
        of_client.input = std::move(pipe.writer);
    }
    for (auto const& [bit, writer, reader] : {std::tuple(stream_output, &of_command.output, &of_client.output),
                                              std::tuple(stream_errors, &of_command.errors, &of_client.errors)}) {
        if ((session.streams & bit) == 0) continue;
        Pipe pipe = TRY(make_command_pipe());
        *writer = std::move(pipe.writer);
        *reader = std::move(pipe.reader);
    }
    TRY(host_.start_command(id, session.container, session.process, of_command, ""));
    session.has_file = false;
    send_ends(session, of_client);
    return {};
}

Result<> Sessions::begin_attached(Id id, Session& session) {
    ContainerStreams* const streams = host_.streams_of(session.container);
    if (!streams) return fail(ErrorKind::refused, "container " + session.container + " does not run");
    send_ends(session, TRY(streams->attach(id, session.streams)));
    return {};
}

void Sessions::command_started(Id id) {
    Session* const session = find(id);
    if (!session || !session->console) return;
    auto terminal = session->console.take();
    session->console = {};
    if (!terminal) return end(id, std::unexpected(terminal.error()));
    session->terminal = *std::move(terminal);
    // One descriptor for both directions.
    send_ends(*session,
              {.input = {}, .output = UniqueFd{::fcntl(session->terminal.get(), F_DUPFD_CLOEXEC, 0)}, .errors = {}});
}

void Sessions::command_ended(Id id, Result<std::int64_t> const& exit_code) {
    if (find(id)) end(id, exit_code);
}

void Sessions::container_ended(ContainerStreams& streams) {
    for (Id const id : streams.clients())
        if (!streams.is_behind(id)) end(id, 0, streams.detach(id));
    streams.close();
}

void Sessions::container_removed(ContainerStreams& streams) {
    for (Id const id : streams.clients())
        end(id, 0, streams.detach(id));
}

/// The ends that there are, in the order input, output, errors; numbers[0] says which.
void Sessions::send_ends(Session& session, StreamEnds const& ends) {
    Message message{.kind = Kind::opened};
    std::vector<int> descriptors;
    for (auto const& [bit, end] : {std::pair(stream_input, &ends.input), std::pair(stream_output, &ends.output),
                                   std::pair(stream_errors, &ends.errors)}) {
        if (!*end) continue;
        message.numbers[0] |= bit;
        descriptors.push_back(end->get());
    }
    (void)send_message(session.socket.get(), message, descriptors);  // a peer that has gone is seen by hear()
}

void Sessions::connect(Id id, Session& session, Message const& request) {
    std::int64_t const port = request.numbers[0];
    if (port < 1 || port > UINT16_MAX || session.connecting.size() >= most_connections) return close(id);
    session.connecting.push_back({request.sequence, PortConnection(session.network ? session.network.get() : -1,
                                                                   static_cast<std::uint16_t>(port))});
    go_on(id, request.sequence);
}

void Sessions::go_on(Id id, std::uint64_t sequence) {
    Session* const session = find(id);
    if (!session) return;
    auto const one = std::ranges::find(session->connecting, sequence, &Connecting::sequence);
    if (one == session->connecting.end()) return;
    auto const socket = one->connection.go_on();
    if (socket && !*socket) return;
    Message message{.kind = Kind::connected, .sequence = sequence};
    if (!socket) message.texts.push_back(socket.error().text().substr(0, 4096));
    bool const is_sent = static_cast<bool>(
        send_message(session->socket.get(), message, socket ? std::vector<int>{socket->get()} : std::vector<int>{}));
    session->connecting.erase(one);
    if (!is_sent) close(id);
}

/// The last message: numbers[0] is 0 and numbers[1] the exit code, or texts[0] says what has failed; numbers[2] is the
/// output that was lost.
void Sessions::end(Id id, Result<std::int64_t> const& code, std::uint64_t lost) {
    Session* const session = find(id);
    if (!session) return;  // an attached client has gone before it had taken all
    Message message{.kind = Kind::ended};
    message.numbers[0] = code ? 0 : static_cast<std::int64_t>(code.error().kind) + 1;
    message.numbers[1] = code.value_or(0);
    message.numbers[2] = static_cast<std::int64_t>(lost);
    if (!code) message.texts.push_back(code.error().text().substr(0, 4096));
    (void)send_message(session->socket.get(), message);
    close(id);
}

void Sessions::close(Id id) {
    auto node = sessions_.extract(id);
    if (!node) return;
    Session& session = node.mapped();
    if (session.kind == Kind::attach)
        if (ContainerStreams* const streams = host_.streams_of(session.container)) streams->detach(id);
    if (session.has_file) ::unlink(session.process.c_str());
}

}  // namespace triton::cri::monitor
