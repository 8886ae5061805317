#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "launcher/control/control_backend.h"
#include "launcher/control/control_methods.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/varlink/server.h"
#include "lib/varlink/socket.h"

namespace triton::launcher {

struct ControlSettings {
    std::string path{};  ///< empty: no socket, only adopted connections
    mode_t mode = 0600;
    std::optional<gid_t> group{};                    ///< whose members may connect too; the socket is made theirs
    std::optional<varlink::HandedSocket> adopted{};  ///< of the launcher before us, instead of a new one
    varlink::Closer close{};                         ///< of connections, in which descriptors may lie
    bool keeps_for_agent = false;                    ///< what our agent was not there to hear: see publish()
};

/// Limits of our memory and time, whatever the clients do.
struct ControlLimits {
    std::size_t clients = 64;
    std::size_t reserved = 8;                      ///< beside them, for root and our own user
    std::size_t input_bytes = 64 * 1024;           ///< of one client: the longest call
    std::size_t output_bytes = 256 * 1024;         ///< of one client
    std::uint32_t work = 64;                       ///< in one round of the loop: processes rendered, calls count for 4
    std::size_t line_bytes = 512 * 1024;           ///< of kept output that one client is still to be sent
    Duration partial = std::chrono::seconds(10);   ///< for the rest of a call that has begun to arrive
    Duration unread = std::chrono::seconds(30);    ///< for a client to read any of its waiting data
    Duration evictable = std::chrono::seconds(5);  ///< a client that idles longer gives way when all places are taken
    /// Connections of our agent; the oldest gives way to one more. It needs twelve: calls, probes, two streams and a
    /// reload each of Kubernetes and of the page, and four stagings.
    std::size_t adopted = 16;
    std::size_t adopted_input_bytes = 512 * 1024;  ///< of one of them: SetPod, with its escapes, fits
    std::size_t adopted_output_bytes = 4 << 20;    ///< of one of them: a configuration, with its escapes, fits
    std::size_t kept_bytes = 32 * 1024;            ///< of records for an agent to come; the oldest give way
};

/// Serves org.tritonlaunch.Launcher: joins the launcher with its methods (control_methods.h) and with the server that
/// bounds their cost (lib/varlink/server.h). No exception leaves it.
class ControlServer {
public:
    /// Makes the socket (and the last part of its directory, 0755, if that is missing) and listens.
    /// Errors: those of mkdir(2), bind(2), chown(2); EADDRINUSE when another launcher answers there; EEXIST when the
    /// path is something else than a socket; ENAMETOOLONG. A socket without a listener is replaced.
    static Result<std::unique_ptr<ControlServer>> create(EventLoop& loop, ControlSettings settings,
                                                         ControlBackend& backend, ControlLimits const& limits = {});
    /// Removes the socket's file if it is still ours.
    ~ControlServer();
    ControlServer(ControlServer const&) = delete;
    ControlServer& operator=(ControlServer const&) = delete;

    /// One event for all subscribers: a JSON object in one line. Costs nothing when there are none. One that is of
    /// note is kept while none of them is our agent (ControlSettings::keeps_for_agent), and is the first that it hears.
    void publish(std::string_view record, bool is_of_note = false) noexcept;
    /// Whether publish() would do anything.
    [[nodiscard]] bool wants_records() const;
    /// One new line of output, for those who follow it. Costs nothing without followers.
    void publish_output(std::string_view program, OutputLine const& line) noexcept;
    [[nodiscard]] bool has_followers() const;

    /// Some process or program is in another state than before: calls that wait are looked at in end_round(). Cheap.
    void state_changed() noexcept;

    /// Serves a connection that did not come through the socket, from the next round on. Anything but a Unix
    /// stream socket is closed and reported (ControlBackend::control_failed()). The role `agent` takes no place of
    /// the clients and never gives way to one; garbage from it, or an agent that does not read, ends that connection
    /// alone, and it comes back by another.
    void adopt(UniqueFd connection, ControlRole role) noexcept;

    /// How long the agent has not read the news of the configuration; none: it reads, or does not listen.
    [[nodiscard]] Duration agent_deaf_for() const;

    /// The outcome of ControlBackend::stage(). Nothing happens if the caller has gone.
    void answer_stage(std::uint64_t ticket, Result<StagingAnswer> const& answer) noexcept;

    /// For the agent that listens for probes (ControlBackend::probes_wanted()), if there is one. An agent that has left
    /// so many unread that no more fit is cut off: the probes are then no longer wanted, which is reported later.
    void send_probe(ProbeRequest const& request) noexcept;
    void cancel_probe(std::uint64_t id) noexcept;
    /// Lines of output for a probe of kind log.
    void send_lines(std::uint64_t id, std::span<std::string_view const> lines) noexcept;
    /// Whether an agent listens for probes that has read so much of what it was sent that it may be sent lines. What it
    /// is sent before it has read that is bounded by this.
    [[nodiscard]] bool has_room_for_lines() const { return methods_.has_room_for_lines(); }

    /// ControlBackend::active_configuration() is another than before: calls that watch it are answered in end_round(),
    /// once for all changes of a round. Cheap.
    void configuration_changed() noexcept;

    /// The outcome of ControlBackend::reload(), if that was to be given later. Errors: as there.
    void answer_reload(Result<> const& answer) noexcept;

    /// The outcome of ControlBackend::upgrade(): versions just before the new program is executed, or why it will
    /// not be. After a success an error may follow when the execution itself has failed.
    void answer_upgrade(Result<UpgradeVersions> const& answer) noexcept;

    /// When time_passed() is due; "now" when more was asked than one round may cost. nullopt: nothing waits for time.
    [[nodiscard]] std::optional<TimePoint> next_deadline() const;
    void time_passed() noexcept;
    /// Answers waiting calls and writes waiting data: at the end of each round in which something may have
    /// changed, after everything that is more urgent.
    void end_round() noexcept;

    /// For the state that an upgrade passes on; the descriptor stays close-on-exec and owned here.
    [[nodiscard]] varlink::HandedSocket socket() const;

private:
    ControlServer(ControlSettings const& settings, ControlBackend& backend, ControlLimits const& limits);

    ControlMethods methods_;
    std::unique_ptr<varlink::Server> server_;
};

}  // namespace triton::launcher
