#pragma once

#include <functional>
#include <memory>

#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/process/quarantine.h"

namespace triton::launcher {

/// How the agent reaches us: a pair of message sockets, of which it is passed one end at each start. For each
/// connection that it wants it makes a pair of stream sockets and sends one of them over (unix(7), SCM_RIGHTS).
///
/// So it needs no name in a file system, no right to one, and no descriptor that is made for it at each start. Both
/// ends stay open here, across its restarts and our upgrades: its messages wait meanwhile, and it sees an end
/// only when we are gone.
class AgentLink {
public:
    using Connected = std::function<void(UniqueFd)>;

    /// `connected` gets each connection: a connected stream socket, close-on-exec, looked at in `quarantine`, where
    /// anything else is closed. The agent shares its flags, so O_NONBLOCK is not reliable. Both outlive this.
    /// Errors: those of socketpair(2) and epoll_ctl(2).
    static Result<std::unique_ptr<AgentLink>> create(EventLoop& loop, process::Quarantine& quarantine,
                                                     Connected connected);

    /// Both ends, for an upgrade; they stay close-on-exec and owned here.
    struct State {
        int ours = -1;
        int theirs = -1;

        bool operator==(State const&) const = default;
    };
    [[nodiscard]] State export_state() const { return {ours_.get(), theirs_.get()}; }
    /// The link of the launcher before us. Errors: those of epoll_ctl(2).
    static Result<std::unique_ptr<AgentLink>> adopt(EventLoop& loop, process::Quarantine& quarantine,
                                                    State const& state, Connected connected);

    /// The agent's end, borrowed.
    [[nodiscard]] int descriptor() const { return theirs_.get(); }

private:
    AgentLink(EventLoop& loop, process::Quarantine& quarantine, UniqueFd ours, UniqueFd theirs, Connected connected)
        : loop_(loop),
          quarantine_(quarantine),
          ours_(std::move(ours)),
          theirs_(std::move(theirs)),
          connected_(std::move(connected)) {}
    Result<> watch();
    void take_connections();
    void take_connection(UniqueFd connection);

    EventLoop& loop_;
    process::Quarantine& quarantine_;
    UniqueFd ours_;
    UniqueFd theirs_;
    Connected connected_;
    EventLoop::Watch watch_;
    process::Quarantine::Ticket ticket_;  // while a message is looked at
};

}  // namespace triton::launcher
