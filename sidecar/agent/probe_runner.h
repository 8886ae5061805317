#pragma once

#include <memory>
#include <string>

#include "lib/net/loop.h"
#include "sidecar/control/control_client.h"

namespace triton::agent {

/// Makes the probes over the network that the launcher asks for, because PID 1 does not speak to networks, and tells it
/// what came of each: a connection was made, or a request was answered by a status from 200 to 399. As the kubelet's,
/// they verify no certificate and follow no redirection.
///
/// It also looks for patterns in the lines that the launcher sends, since PID 1 has no regular expressions: such a
/// probe succeeds with the first line that matches, and fails only when its pattern is not a regular expression.
///
/// At most 256 use the network at once; others wait for a place while their time runs. When the stream of orders ends,
/// all are forgotten: the launcher asks anew.
class ProbeRunner {
public:
    /// Begins. `user_agent`: what it calls itself in requests. `control` must outlive it.
    ProbeRunner(net::Loop& loop, sidecar::control::ControlClient& control, std::string user_agent);
    ~ProbeRunner();
    ProbeRunner(ProbeRunner const&) = delete;
    ProbeRunner& operator=(ProbeRunner const&) = delete;

private:
    class State;
    std::shared_ptr<State> state_;
};

}  // namespace triton::agent
