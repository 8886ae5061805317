#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/probe_target.h"
#include "lib/base/clock.h"

namespace triton::launcher {

/// The probes that are under way with the agent, which speaks to networks and has regular expressions; here is only
/// which probes wait for a verdict, and until when. One of kind log has no time limit of its own.
///
/// Every run() is answered by exactly one call of `done`. Without an agent there is no verdict: a probe waits for one
/// then, and its time begins when it is sent. So an agent that dies makes no healthy process a sick one.
class NetworkProbes {
public:
    using Key = std::uint64_t;  ///< the caller's: whose probe, and which
    struct Probe {
        Key key = 0;
        config::ProbeKind kind = config::ProbeKind::tcp;
        std::string target;
        Duration timeout{};
        std::vector<std::string> headers{};                  ///< http: NAME=VALUE
        std::vector<config::StatusRange> status{};           ///< http: good ones; empty: 200 to 399
        std::string service{};                               ///< grpc
        config::LogStream stream = config::LogStream::both;  ///< log

        bool operator==(Probe const&) const = default;
    };
    struct Verdict {
        bool ok = false;
        std::string detail;          ///< why not
        bool was_cancelled = false;  ///< so nothing is known
    };
    struct Calls {
        std::function<void(std::uint64_t id, Probe const& probe)> send;
        std::function<void(std::uint64_t id)> cancel;
        std::function<void(Key key, Verdict const& verdict)> done;
    };
    /// `last_id`: the highest id that an agent may still report; a previous version has had agents, too.
    explicit NetworkProbes(Calls calls, std::uint64_t last_id = 0) : calls_(std::move(calls)), last_id_(last_id) {}

    void run(Probe probe, TimePoint now);
    /// `done` is called, without success, before this returns. Nothing happens when none runs. Returns whether one did.
    bool cancel(Key key);
    /// Whether there is an agent that takes probes. A new one gets all waiting probes, including its predecessor's.
    void set_listening(bool is_listening, TimePoint now);
    /// The agent's verdict. One that nothing waits for is ignored.
    void result(std::uint64_t id, bool ok, std::string_view detail);

    [[nodiscard]] std::optional<TimePoint> next_deadline() const;
    void time_passed(TimePoint now);

    /// For an upgrade: all waiting probes.
    [[nodiscard]] std::vector<Probe> waiting() const;

private:
    struct Waiting {
        Probe probe;
        std::uint64_t id = 0;               // 0: not sent
        std::optional<TimePoint> deadline;  // of one that was sent
    };
    void send(Waiting& waiting, TimePoint now);
    void answer(std::vector<Waiting>::iterator which, Verdict const& verdict);

    Calls calls_;
    std::vector<Waiting> waiting_;
    std::uint64_t last_id_;
    bool is_listening_ = false;
};

}  // namespace triton::launcher
