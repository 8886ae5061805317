#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "host/cri/monitor/message.h"
#include "host/cri/tickets/tickets.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/net/listen_address.h"
#include "lib/net/loop.h"

namespace triton::cri {

/// The daemon's side of triton-cri-stream: starts it, gives it the socket to listen on, issues tickets, and answers
/// what it asks for them. It is started again when it ends. When the daemon ends, it goes on with the sessions that it
/// has.
class StreamServer {
public:
    struct Settings {
        net::ListenAddress address;  ///< of a loopback interface; port 0: any
        // Before it is started again: doubled as long as it does not stay.
        Duration first_delay = std::chrono::seconds(1);
        Duration longest_delay = std::chrono::minutes(1);
    };
    /// triton-cri-stream as a process, which a test replaces. The destructor ends it.
    class Process {
    public:
        virtual ~Process() = default;
        /// Its end of the channel. Borrowed.
        [[nodiscard]] virtual int channel() = 0;
        /// Why it has ended. Success: it has exited with 0.
        virtual Result<> finish() = 0;
    };
    using StartProcess = std::function<Result<std::unique_ptr<Process>>()>;
    /// The real one. `directory`: of the program, see role::RoleSettings.
    static Result<std::unique_ptr<Process>> start_role(std::string const& directory = {});
    /// Is called once, in the loop's thread, with the socket of the session; the other end is the monitor's.
    using Opened = std::function<void(Result<UniqueFd>)>;
    struct Surroundings {
        net::Loop& loop;
        std::function<void(Ticket const&, Opened)> open;
        std::function<void(std::string const& warning)> warn;
        StartProcess start_process = [] { return start_role(); };
    };
    StreamServer(Settings settings, Surroundings around);

    /// Now, and again as long as it fails.
    void start();
    /// Returns the URL that a client may use once, within a minute. Errors: `unavailable`: the server does not run;
    /// `exhausted`.
    Result<std::string> issue(Ticket ticket);

private:
    Result<> try_to_start();
    void start_later();
    void hear();
    void handle(monitor::Message const& request);
    void answer(std::uint64_t sequence, Ticket const& ticket, Result<UniqueFd> const& socket);
    void lose(std::string const& why);

    Settings settings_;
    Surroundings around_;
    Tickets tickets_;
    std::string address_;  // "127.0.0.1:40123"; empty: it does not run
    std::unique_ptr<Process> process_;
    std::unique_ptr<net::Descriptor> channel_;
    std::uint64_t generation_ = 0;  // of the process: answers for one before are dropped
    net::Timer timer_;
    TimePoint started_;
    Duration delay_;
    bool was_warned_ = false;
};

/// Errors: `invalid`: "stream_address 10.0.0.1:0 is not of a loopback interface: streams have no TLS".
Result<net::ListenAddress> parse_stream_address(std::string const& text);

}  // namespace triton::cri
