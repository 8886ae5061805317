#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/varlink/codec.h"
#include "lib/varlink/session.h"
#include "lib/varlink/socket.h"

namespace triton::varlink {

struct Settings {
    std::string path{};  ///< empty: no socket, only adopted connections
    mode_t mode = 0600;
    std::optional<gid_t> group{};           ///< whose members may connect too; the socket is made theirs
    std::optional<HandedSocket> adopted{};  ///< of the program before us, instead of a new one
    Closer close{};                         ///< of connections; empty: here
};

/// What the sessions of a role may cost.
struct RoleLimits {
    std::size_t sessions = 64;
    std::size_t input_bytes = 64 * 1024;    ///< of one: the longest call
    std::size_t output_bytes = 256 * 1024;  ///< of one: the longest reply
    std::size_t values = 256;               ///< of one call: JSON values
    /// Further places for root and our own user, for whom others also make way: a crowd does not lock out users who
    /// could end it.
    std::size_t reserved = 0;
    /// How one more finds a place when all are taken: the oldest gives way, else the one that has idled longest.
    bool is_oldest_replaced = false;
    bool is_reader_watched = false;  ///< Session::deaf_for() may be asked
};

/// Limits of our memory and time, whatever the clients do.
struct Limits {
    std::vector<RoleLimits> roles{RoleLimits{}};   ///< by Role
    std::uint32_t work = 64;                       ///< in one round of the loop: the unit is a process rendered
    std::size_t stream_bytes = 256 * 1024;         ///< of one session: output up to which stream() adds to it
    Duration partial = std::chrono::seconds(10);   ///< for the rest of a call that has begun to arrive
    Duration unread = std::chrono::seconds(30);    ///< for a client to read any of its waiting data
    Duration evictable = std::chrono::seconds(5);  ///< a session that idles longer gives way when all places are taken
};

/// Who we are, for org.varlink.service.GetInfo.
struct ServiceInfo {
    std::string vendor;
    std::string product;
    std::string version;
    std::string url;
};

/// What a Server asks of its program: the methods behind the protocol.
class Service {
public:
    virtual ~Service() = default;
    [[nodiscard]] virtual ServiceInfo info() const = 0;
    /// The name of our interface. It declares the errors Refused and Failed (reason, details: see
    /// lib/base/error_kinds.h), BadMessage (reason) and TooManyClients (limit).
    [[nodiscard]] virtual std::string_view interface() const = 0;
    /// The text of its description.
    [[nodiscard]] virtual std::string_view description() const = 0;
    /// Answers a call to it: by a reply, an error or a job.
    virtual void call(Session& session, Call const& call) = 0;
    /// The role of somebody whom the socket's mode lets in, or why it is not served. `is_by_uid`: nothing but its uid
    /// (root's, or ours) lets it in.
    [[nodiscard]] virtual std::expected<Role, std::string> admit(Peer const& peer, bool is_by_uid) const {
        (void)peer;
        (void)is_by_uid;
        return Role{0};
    }
    /// For the log: a connection could not be served (no descriptor left, a peer that is not allowed).
    virtual void connection_failed(std::string_view reason) = 0;
    /// What has become due by what a session did, and cannot be done where that is found out. do_deferred() is called
    /// from callbacks of the loop and from time_passed(), never inside of a call into the server.
    [[nodiscard]] virtual bool has_deferred() const { return false; }
    virtual void do_deferred() {}
};

/// Serves Varlink on a Unix socket and on connections that come another way. One thread, never blocks, no exception
/// leaves it; what it does in one round of the loop is bounded, so that a flood of calls delays nothing else. Whoever
/// had to wait is the first in the next round.
///
/// Source: https://varlink.org, "Protocol".
class Server {
public:
    /// Errors: those of Listener::create() and Listener::adopt().
    static Result<std::unique_ptr<Server>> create(EventLoop& loop, Settings settings, Service& service, Limits limits);
    Server(Server const&) = delete;
    Server& operator=(Server const&) = delete;
    /// Ends all sessions.
    ~Server();

    /// Serves a connection that did not come through the socket, from the next round on. Anything but a Unix
    /// stream socket is closed and reported (Service::connection_failed()).
    void adopt(UniqueFd connection, Role role);

    /// When time_passed() is due; "now" when more was asked than one round may cost. nullopt: nothing waits for time.
    [[nodiscard]] std::optional<TimePoint> next_deadline() const;
    void time_passed();
    /// Continues with jobs and writes waiting data: at the end of each round in which something may have changed.
    void end_round();
    [[nodiscard]] bool is_idle() const { return sessions_.empty(); }
    [[nodiscard]] HandedSocket socket() const { return listener_.socket(); }

    /// Every entry from outside goes through here: it keeps exceptions in, and removes ended sessions and jobs only
    /// when none is in use.
    template <class Act>
    void enter(Act const& act) noexcept;

    // For handlers and jobs.

    /// One reply. One that is too long becomes an error; a oneway call gets none.
    void reply(Session& session, std::string_view parameters, bool continues = false);
    /// The last answer to a call: an error with its full name. Ends the job.
    void fail_call(Session& session, std::string_view error, std::string_view parameters);
    /// The same by the error of our interface that the kind stands for.
    void fail_call(Session& session, Error const& error);
    /// A further reply of a call that continues, as bytes with their NUL, or one more that is lost. Losses are reported
    /// as soon as there is room, before later replies.
    void stream(Session& session, std::string_view message);
    void flush(Session& session);
    /// The connection, for another protocol, once the reply that says so is written; the session has ended. None when
    /// the client has sent more before that, or does not read.
    UniqueFd release(Session& session);

    [[nodiscard]] bool has_work_left();
    void charge(std::size_t work);
    void charge_bytes(std::size_t bytes);
    /// How long one reply may be.
    [[nodiscard]] std::size_t reply_limit(Session const& session) const { return limits(session).output_bytes; }
    [[nodiscard]] std::size_t stream_limit() const { return limits_.stream_bytes; }
    [[nodiscard]] TimePoint now() const { return loop_.now(); }

    /// Calls `act(session, job)` for each session whose job is a T.
    template <class T, class Act>
    void each(Act const& act);
    template <class T>
    [[nodiscard]] bool has() const;
    [[nodiscard]] std::vector<std::unique_ptr<Session>> const& sessions() const { return sessions_; }

private:
    Server(EventLoop& loop, Settings settings, Service& service, Limits limits, Listener listener)
        : loop_(loop),
          settings_(std::move(settings)),
          service_(service),
          limits_(std::move(limits)),
          listener_(std::move(listener)) {}

    Result<> listen();
    void accept_clients();
    void take_client(UniqueFd fd);
    void add_session(UniqueFd fd, Peer const& peer, Role role);
    [[nodiscard]] bool make_place(Role role, bool is_owner);
    [[nodiscard]] Session* least_active(Role role) const;
    void close(UniqueFd fd);
    void tell_refusal(Peer const& peer, std::string_view why);
    [[nodiscard]] std::size_t count(Role role) const;
    [[nodiscard]] RoleLimits const& limits(Role role) const { return limits_.roles[static_cast<std::size_t>(role)]; }
    [[nodiscard]] RoleLimits const& limits(Session const& session) const { return limits(session.role()); }
    enum class Entrance : std::uint8_t { none, by_uid, by_mode };
    [[nodiscard]] Entrance entrance(int fd, Peer const& peer) const;
    [[nodiscard]] Session* oldest(Role role) const;
    [[nodiscard]] Session* longest_idle(Role role) const;
    template <class Act>
    void call_back(Act const& act);
    template <class Act>
    void serve(Session& session, Act const& act) noexcept;

    void ready(Session& session);
    void watch(Session& session);
    void run(Session& session, bool takes_calls);
    void run_all(bool takes_calls);
    [[nodiscard]] bool is_runnable(Session const& session) const;
    void handle_message(Session& session);
    void describe_service(Session& session, Call const& call);
    void describe_interface(Session& session, Call const& call);
    [[nodiscard]] std::string own_error(std::string_view name) const;
    void refuse_message(Session& session, std::string_view reason);

    EventLoop& loop_;
    Settings settings_;
    Service& service_;
    Limits limits_;
    Listener listener_;
    EventLoop::Watch listener_watch_;
    std::optional<TimePoint> accept_again_at_;
    bool is_shortage_told_ = false;             // of descriptors; until all who wait have been accepted
    std::optional<TimePoint> refusal_told_at_;  // the latest
    std::size_t refusals_untold_ = 0;
    std::vector<std::unique_ptr<Session>> sessions_;
    std::size_t turn_ = 0;  // whose it is when work was left over
    TimePoint round_{};
    std::size_t work_left_ = 0;
    int depth_ = 0;  // of enter()
};

/// {"name":"text"}
std::string one_text(std::string_view name, std::string_view text);

/// The text of org.varlink.service's description.
std::string_view service_description();

template <class Act>
void Server::enter(Act const& act) noexcept {
    ++depth_;
    try {
        act();
    } catch (...) {  // NOLINT(bugprone-empty-catch)
        // Out of memory for the server as a whole; what one client asks for is caught in serve().
    }
    if (--depth_ > 0) return;
    for (auto const& session : sessions_)
        session->drop_ended_jobs();
    std::erase_if(sessions_, [](auto const& session) { return session->is_dead(); });
}

/// A failure of one session ends only that one.
template <class Act>
void Server::serve(Session& session, Act const& act) noexcept {
    try {
        if (!session.is_dead()) act();
    } catch (...) {
        session.end();
    }
}

template <class T, class Act>
void Server::each(Act const& act) {
    for (std::size_t i = 0; i < sessions_.size(); ++i) {  // one may be added meanwhile
        Session& session = *sessions_[i];
        if (!session.job() || session.job()->tag != T::tag) continue;
        serve(session, [&] { act(session, static_cast<T&>(*session.job())); });
    }
}

template <class T>
bool Server::has() const {
    for (auto const& session : sessions_) {
        if (session->job() && session->job()->tag == T::tag) return true;
    }
    return false;
}

}  // namespace triton::varlink
