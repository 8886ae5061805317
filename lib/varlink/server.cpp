#include "lib/varlink/server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <tuple>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/error_kinds.h"
#include "lib/json/writer.h"

namespace triton::varlink {

namespace {

constexpr std::uint32_t work_of_call = 4;
constexpr std::size_t bytes_of_work = 512;  // of a call or a reply
constexpr int accepts_per_round = 8;
constexpr Duration between_accepts = milliseconds(100);         // while there are no descriptors left
constexpr Duration between_refusals = std::chrono::seconds(1);  // in the log

bool is_owner(Peer const& peer) { return peer.uid == 0 || peer.uid == ::geteuid(); }

}  // namespace

std::string one_text(std::string_view name, std::string_view text) {
    return json::Writer{}.open('{').key(name).value(text).close('}').text();
}

Result<std::unique_ptr<Server>> Server::create(EventLoop& loop, Settings settings, Service& service, Limits limits) {
    Listener listener = TRY(settings.adopted        ? Listener::adopt(settings.path, *settings.adopted)
                            : settings.path.empty() ? Result<Listener>{}
                                                    : Listener::create(settings.path, settings.mode, settings.group));
    std::unique_ptr<Server> server(
        new Server(loop, std::move(settings), service, std::move(limits), std::move(listener)));
    TRY(server->listen());
    return server;
}

Server::~Server() {
    for (auto const& session : sessions_)
        session->end();
}

// Connections.

void Server::close(UniqueFd fd) {
    if (settings_.close && fd) settings_.close(std::move(fd));
}

/// Wraps what the loop calls; the program ends the round after it.
template <class Act>
void Server::call_back(Act const& act) {
    enter(act);
    enter([this] { service_.do_deferred(); });
}

Result<> Server::listen() {
    if (listener_.fd() < 0) return {};
    listener_watch_ = TRY(loop_.on_readable(listener_.fd(), [this] { call_back([this] { accept_clients(); }); }));
    return {};
}

void Server::accept_clients() {
    for (int i = 0; i < accepts_per_round; ++i) {
        UniqueFd fd{::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
        int const err = errno;
        if (fd) {
            take_client(std::move(fd));
        } else if (err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM) {
            // The connection keeps waiting and the listener stays readable, so stop watching it for a while.
            listener_watch_ = {};
            accept_again_at_ = loop_.now() + between_accepts;
            if (!std::exchange(is_shortage_told_, true))
                service_.connection_failed("cannot accept a connection: " + errno_text(err));
            return;
        } else if (err != EINTR && err != ECONNABORTED) {
            is_shortage_told_ = false;  // all that waited have been accepted
            return;
        }
    }
}

Server::Entrance Server::entrance(int fd, Peer const& peer) const {
    bool const is_open_to_all = (settings_.mode & 0002) != 0;
    if (is_open_to_all || (settings_.group && is_in_group(fd, peer, *settings_.group))) return Entrance::by_mode;
    return is_owner(peer) ? Entrance::by_uid : Entrance::none;
}

/// Reports a refusal, but not each: a client that connects again and again must not fill the log.
void Server::tell_refusal(Peer const& peer, std::string_view why) {
    if (refusal_told_at_ && loop_.now() < *refusal_told_at_ + between_refusals) {
        ++refusals_untold_;
        return;
    }
    refusal_told_at_ = loop_.now();
    std::string text =
        "a connection of user " + std::to_string(peer.uid) + ", pid " + std::to_string(peer.pid) + ", is not allowed";
    if (!why.empty()) text.append(": ").append(why);
    if (std::size_t const untold = std::exchange(refusals_untold_, 0); untold > 0)
        text.append(" (and ").append(std::to_string(untold)).append(" before it were not reported)");
    service_.connection_failed(text);
}

Session* Server::longest_idle(Role role) const {
    Session* longest = nullptr;
    for (auto const& session : sessions_) {
        bool const is_idle = !session->is_dead() && session->role() == role && !session->job() &&
                             session->pending() == 0 && !session->has_message() &&
                             session->last_active() + limits_.evictable <= loop_.now();
        if (is_idle && (!longest || session->last_active() < longest->last_active())) longest = session.get();
    }
    return longest;
}

Session* Server::oldest(Role role) const {
    for (auto const& session : sessions_) {
        if (!session->is_dead() && session->role() == role) return session.get();
    }
    return nullptr;
}

/// The session that has done nothing for the longest time; others come before those of the owner.
Session* Server::least_active(Role role) const {
    Session* least = nullptr;
    auto const rank = [](Session const& session) {
        return std::make_tuple(is_owner(session.peer()), session.job() != nullptr, session.last_active());
    };
    for (auto const& session : sessions_) {
        if (session->is_dead() || session->role() != role) continue;
        if (!least || rank(*session) < rank(*least)) least = session.get();
    }
    return least;
}

bool Server::make_place(Role role, bool is_owner) {
    RoleLimits const& limit = limits(role);
    bool const is_preferred = is_owner && limit.reserved > 0;
    if (count(role) < limit.sessions + (is_preferred ? limit.reserved : 0)) return true;
    Session* leaving = limit.is_oldest_replaced ? oldest(role) : longest_idle(role);
    if (!leaving && is_preferred) leaving = least_active(role);
    if (leaving) leaving->end();
    return leaving != nullptr;
}

void Server::take_client(UniqueFd fd) {
    auto const refuse = [&fd](std::string_view error, std::string_view parameters) {
        std::string message;
        append_error(message, error, parameters);
        // A new socket has room for this; if not, the end of the connection says the same.
        (void)::send(fd.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    };
    auto const peer = peer_of(fd.get());
    if (!peer) return close(std::move(fd));
    Entrance const by = entrance(fd.get(), *peer);
    std::expected<Role, std::string> const role =
        by == Entrance::none ? std::unexpected(std::string()) : service_.admit(*peer, by == Entrance::by_uid);
    if (!role) {
        refuse(service_name("PermissionDenied"), "{}");
        close(std::move(fd));
        return tell_refusal(*peer, role.error());
    }
    if (make_place(*role, is_owner(*peer))) return add_session(std::move(fd), *peer, *role);
    auto const limit = static_cast<std::int64_t>(limits(*role).sessions);
    refuse(own_error("TooManyClients"), json::Writer{}.open('{').key("limit").value(limit).close('}').text());
    close(std::move(fd));
}

void Server::add_session(UniqueFd fd, Peer const& peer, Role role) {
    sessions_.push_back(std::make_unique<Session>(std::move(fd), peer, role, loop_.now(), &settings_.close));
    Session& session = *sessions_.back();
    if (limits(role).is_reader_watched) session.watch_reader();
    serve(session, [this, &session] { watch(session); });
}

std::size_t Server::count(Role role) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        sessions_, [role](auto const& session) { return !session->is_dead() && session->role() == role; }));
}

/// Takes a connection that was handed over. It may be any descriptor, even a file that blocks.
void Server::adopt(UniqueFd fd, Role role) {
    if (!is_unix_stream(fd.get())) return service_.connection_failed("what was handed over is not a connection");
    auto const peer = peer_of(fd.get());
    if (peer && make_place(role, false)) return add_session(std::move(fd), *peer, role);
    close(std::move(fd));
}

/// Watches for what comes next: input, or room for our output. Never both: a client that does not read is not heard.
void Server::watch(Session& session) {
    using Interest = Session::Interest;
    if (session.is_dead()) return;
    Job const* const job = session.job();
    bool const waits = job && !job->is_answering();
    bool const has_more_to_do = session.has_message() || (job && job->is_answering());
    if (session.pending() == 0 && (session.is_closing || (session.is_at_end() && (waits || !has_more_to_do))))
        return session.end();
    bool const takes_input = !session.is_at_end() && (waits || !session.has_message()) &&
                             session.has_input_room(limits(session).input_bytes);
    Interest const wanted = session.pending() > 0 ? Interest::output : takes_input ? Interest::input : Interest::none;
    if (wanted == session.interest) return;
    session.watch = {};
    session.interest = wanted;
    if (wanted == Interest::none) return;
    auto call = [this, &session] {
        call_back([this, &session] { serve(session, [this, &session] { ready(session); }); });
    };
    auto watched = wanted == Interest::output ? loop_.on_writable(session.fd(), std::move(call))
                                              : loop_.on_readable(session.fd(), std::move(call));
    if (!watched) return session.end();  // the kernel has no memory for it
    session.watch = std::move(*watched);
}

void Server::ready(Session& session) {
    std::size_t const limit = limits(session).input_bytes;
    if (session.interest == Session::Interest::output) {
        flush(session);
    } else if (has_work_left()) {  // otherwise the input waits in the kernel for the next round
        charge(1);
        session.receive(limit, loop_.now());
        if (session.is_input_full(limit)) refuse_message(session, "longer than a call may be");
    }
    run(session, true);
}

/// Sends output. What was lost is reported as soon as there is room for what comes after it.
void Server::flush(Session& session) {
    session.flush(loop_.now());
    if (session.lost == 0 || session.is_dead() || session.pending() > limits_.stream_bytes / 2) return;
    if (session.job() && !session.job()->may_tell_lost()) return;
    json::Writer out;
    out.open('{');
    if (session.job()) session.job()->write_lost_members(out);
    out.key("lost").value(static_cast<std::int64_t>(std::exchange(session.lost, 0))).close('}');
    append_reply(session.output(loop_.now()), out.text(), true);
    session.flush(loop_.now());
}

UniqueFd Server::release(Session& session) {
    flush(session);
    bool const is_ready = !session.is_dead() && session.pending() == 0 && !session.has_input();
    if (is_ready) return session.release();
    session.end();
    return {};
}

// Work.

bool Server::has_work_left() {
    if (round_ != loop_.now()) {
        round_ = loop_.now();
        work_left_ = limits_.work;
    }
    return work_left_ > 0;
}

void Server::charge(std::size_t work) { work_left_ -= std::min(work_left_, work); }
void Server::charge_bytes(std::size_t bytes) { charge(bytes / bytes_of_work); }

bool Server::is_runnable(Session const& session) const {
    if (session.is_dead() || session.pending() > 0 || session.is_closing) return false;
    return session.job() ? session.job()->is_due() : session.has_message();
}

/// Works for a session as long as the round has work left and its reader takes the answers.
void Server::run(Session& session, bool takes_calls) {
    while (is_runnable(session) && (takes_calls || session.job()) && has_work_left()) {
        if (session.job()) {
            session.job()->run(session);
        } else {
            charge(work_of_call);
            handle_message(session);
        }
        flush(session);
    }
    watch(session);
}

std::optional<TimePoint> Server::next_deadline() const {
    if (service_.has_deferred()) return loop_.now();
    std::optional<TimePoint> next = accept_again_at_;
    auto const consider = [&next](TimePoint when) { next = next ? std::min(*next, when) : when; };
    for (auto const& session : sessions_) {
        if (is_runnable(*session)) consider(loop_.now());
        if (session->has_partial_message()) consider(session->partial_since() + limits_.partial);
        if (session->pending() > 0) consider(session->progress_at() + limits_.unread);
    }
    return next;
}

void Server::time_passed() {
    TimePoint const now = loop_.now();
    service_.do_deferred();
    if (accept_again_at_ && *accept_again_at_ <= now) {
        accept_again_at_ = now + between_accepts;  // in advance, in case an exception is thrown
        if (listen()) accept_again_at_.reset();
    }
    for (auto const& session : sessions_) {
        bool const is_late = session->has_partial_message() && session->partial_since() + limits_.partial <= now;
        bool const is_unread = session->pending() > 0 && session->progress_at() + limits_.unread <= now;
        if (is_late || is_unread) session->end();
    }
    run_all(true);
}

/// Ends the round without taking new calls: their effects would be told a round too late.
void Server::end_round() {
    if (depth_ == 1) run_all(false);  // otherwise we are inside a call, whose end comes
}

/// Works for all sessions that have something to do; one that had to wait comes first next time.
void Server::run_all(bool takes_calls) {
    std::size_t const count = sessions_.size();
    std::size_t const first = count > 0 ? turn_ % count : 0;
    std::optional<std::size_t> starved;
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t const at = (first + i) % count;
        Session& session = *sessions_[at];
        bool const is_too_late = !has_work_left();
        serve(session, [this, &session, takes_calls] {
            // A client that takes nothing more is left to epoll.
            if (session.pending() > 0 && session.interest != Session::Interest::output) flush(session);
            run(session, takes_calls);
        });
        if (is_too_late && !starved && is_runnable(session)) starved = at;
    }
    if (starved) turn_ = *starved;
}

// Calls and answers.

void Server::handle_message(Session& session) {
    std::string const message = session.take_message(loop_.now());
    charge_bytes(message.size());
    auto const call = parse_call(message, limits(session).values);
    if (!call) return refuse_message(session, call.error().text());
    session.wants_more = call->wants_more && !call->is_oneway;
    session.is_oneway = call->is_oneway;
    if (call->interface() == service_interface) return describe_service(session, *call);
    if (call->interface() != service_.interface())
        return fail_call(session, service_name("InterfaceNotFound"), one_text("interface", call->interface()));
    service_.call(session, *call);
}

/// Answers the methods of org.varlink.service, which everybody may call. Source:
/// lib/varlink/org.varlink.service.varlink.
void Server::describe_service(Session& session, Call const& call) {
    bool const is_info = call.name() == "GetInfo";
    if (!is_info && call.name() != "GetInterfaceDescription")
        return fail_call(session, service_name("MethodNotFound"), one_text("method", call.method));
    if (call.wants_upgrade)
        return fail_call(session, service_name("MethodNotImplemented"), one_text("method", call.method));
    if (!is_info) return describe_interface(session, call);
    if (!call.parameters.empty())
        return fail_call(session, service_name("InvalidParameter"), one_text("parameter", call.parameters.front().key));
    ServiceInfo const info = service_.info();
    json::Writer out;
    out.open('{').key("vendor").value(std::string_view(info.vendor));
    out.key("product").value(std::string_view(info.product)).key("version").value(std::string_view(info.version));
    out.key("url").value(std::string_view(info.url));
    out.key("interfaces").list(std::array{service_interface, service_.interface()}).close('}');
    reply(session, out.text());
}

void Server::describe_interface(Session& session, Call const& call) {
    std::string_view wrong;
    for (json::Member const& member : call.parameters) {
        if (member.key != "interface") wrong = member.key;
    }
    json::Node const* const node = find_member(call.parameters, "interface");
    auto const* const name = node ? node->get<std::string>() : nullptr;
    if (wrong.empty() && !name) wrong = "interface";
    if (!name || !wrong.empty())
        return fail_call(session, service_name("InvalidParameter"), one_text("parameter", wrong));
    if (*name == service_interface) return reply(session, one_text("description", service_description()));
    if (*name == service_.interface()) return reply(session, one_text("description", service_.description()));
    fail_call(session, service_name("InterfaceNotFound"), one_text("interface", *name));
}

void Server::reply(Session& session, std::string_view parameters, bool continues) {
    if (session.is_oneway) return;
    if (!session.has_room(parameters.size() + 64, limits(session).output_bytes))
        return fail_call(session, {ErrorKind::internal, {}, "the answer is too long to be sent", {}});
    charge_bytes(parameters.size());
    append_reply(session.output(loop_.now()), parameters, continues);
}

void Server::fail_call(Session& session, std::string_view error, std::string_view parameters) {
    session.end_job();
    if (!session.is_oneway) append_error(session.output(loop_.now()), error, parameters);
}

void Server::fail_call(Session& session, Error const& error) {
    json::Writer out;
    out.open('{').key("reason").value(std::string_view(error.text())).key("details").open('[');
    for (std::string const& detail : error.details) {
        if (out.size() + detail.size() > limits_.stream_bytes / 8) break;  // so it fits even when it is escaped
        out.value(std::string_view(detail));
    }
    out.close(']').close('}');
    fail_call(session, own_error(row_of(error.kind).varlink_error), out.text());
}

std::string Server::own_error(std::string_view name) const {
    return std::string(service_.interface()).append(".").append(name);
}

void Server::refuse_message(Session& session, std::string_view reason) {
    session.is_oneway = false;
    session.is_closing = true;
    if (session.job()) return session.end();  // an answer here would look like one to the current call
    fail_call(session, own_error("BadMessage"), one_text("reason", reason));
}

void Server::stream(Session& session, std::string_view message) {
    if (session.lost > 0 || !session.has_room(message.size(), limits_.stream_bytes)) {
        ++session.lost;
        return;
    }
    session.output(loop_.now()) += message;
}

}  // namespace triton::varlink
