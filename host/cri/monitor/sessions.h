#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "host/cri/monitor/console_socket.h"
#include "host/cri/monitor/container_streams.h"
#include "host/cri/monitor/message.h"
#include "host/cri/monitor/poll_set.h"
#include "host/cri/monitor/port_connection.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::cri::monitor {

/// What the monitor does for Sessions.
class SessionHost {
public:
    virtual ~SessionHost() = default;
    /// nullptr: the container does not run.
    virtual ContainerStreams* streams_of(std::string const& container) = 0;
    virtual void resize(std::string const& container, std::int64_t width, std::int64_t height) = 0;
    /// Starts a command, whose end is reported to Sessions. `console`: path of its socket, empty: it has no terminal.
    /// Streams that are empty are /dev/null. When it succeeds, the file `process` is the host's to remove.
    virtual Result<> start_command(std::uint64_t session, std::string const& container, std::string const& process,
                                   StreamEnds const& streams, std::string const& console) = 0;
};

/// Commands with their streams, attached clients and forwarded ports. Each has a socket to the stream server, which has
/// no rights: all that it can say there is that it begins, the size of the terminal, and which port it wants. What it
/// may have was said by the daemon, which has made the socket.
///
/// A session that has not begun has cost nothing but its socket. When the peer closes it, the terminal of the command
/// is hung up; a command without a terminal goes on.
class Sessions {
public:
    using Id = std::uint64_t;
    static constexpr std::size_t most = 128;
    static constexpr std::size_t most_connections = 64;  ///< on their way, of one session

    /// `directory`: for the sockets of terminals.
    Sessions(SessionHost& host, std::string directory) : host_(host), directory_(std::move(directory)) {}

    /// Takes the socket of a session that the daemon has made: `execute_streams`, `attach` or `forward`.
    Result<> open(Message const& request, UniqueFd socket);

    /// The command runs: its terminal was delivered.
    void command_started(Id session);
    /// It has ended, or could not be started.
    void command_ended(Id session, Result<std::int64_t> const& exit_code);
    /// Ends what is attached to it, but for clients that its output still waits for: to be called again when they had
    /// time to take it.
    void container_ended(ContainerStreams& streams);
    /// Ends all that is attached to it.
    void container_removed(ContainerStreams& streams);

    void add_to(PollSet& polled);
    /// TimePoint::max(): none.
    [[nodiscard]] TimePoint deadline() const;
    void go_on_with_late_connections();

private:
    struct Connecting {
        std::uint64_t sequence;
        PortConnection connection;
    };
    struct Session {
        Kind kind;
        UniqueFd socket;
        std::string container;
        std::string process;
        std::int64_t streams = 0;  // StreamBit
        bool has_begun = false;
        bool has_file = false;  // `process`, which is to be removed with it
        ConsoleSocket console;
        UniqueFd terminal;
        UniqueFd network;
        std::list<Connecting> connecting;
    };

    Session* find(Id id);
    void hear(Id id);
    void begin(Id id, Session& session);
    Result<> begin_command(Id id, Session& session);
    Result<> begin_attached(Id id, Session& session);
    void connect(Id id, Session& session, Message const& request);
    void go_on(Id id, std::uint64_t sequence);
    void send_ends(Session& session, StreamEnds const& ends);
    void end(Id id, Result<std::int64_t> const& code, std::uint64_t lost = 0);
    void close(Id id);

    SessionHost& host_;
    std::string directory_;
    std::map<Id, Session> sessions_;
    Id next_ = 1;
};

}  // namespace triton::cri::monitor
