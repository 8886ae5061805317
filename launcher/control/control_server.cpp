#include "launcher/control/control_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include "launcher/control/control_calls.h"
#include "launcher/control/control_client.h"
#include "launcher/control/control_render.h"
#include "launcher/control/varlink.h"
#include "lib/base/error_kinds.h"
#include "lib/base/signal_text.h"
#include "lib/json/text.h"

namespace triton::launcher {

namespace {

constexpr std::uint32_t work_of_call = 4;
constexpr std::size_t bytes_of_work = 512;  // of a reply
constexpr int accepts_per_round = 8;
constexpr std::size_t values_of_agent = 2 * most_variables;  // of a call: those of SetPod, and room to count too many
constexpr Duration between_accepts = milliseconds(100);      // when there is no descriptor left

std::string launcher_error(std::string_view name) { return std::string(launcher_interface).append(".").append(name); }
std::string service_error(std::string_view name) { return std::string(service_interface).append(".").append(name); }

/// {"name":"text"}
std::string one_text(std::string_view name, std::string_view text) {
    return json::Writer{}.open('{').key(name).value(text).close('}').text();
}

/// Source: socket(7), SO_PEERCRED, and Linux 4.13 for SO_PEERGROUPS.
std::optional<ControlPeer> peer_of(int fd) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
    return ControlPeer{credentials.uid, credentials.gid, credentials.pid};
}

bool is_unix_stream(int fd) {
    int domain = 0;
    int type = 0;
    socklen_t size = sizeof domain;
    return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
           ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

bool is_in_group(int fd, ControlPeer const& peer, gid_t group) {
    if (peer.gid == group) return true;
    std::vector<gid_t> groups(256);
    auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    int result = ::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size);
    if (result != 0 && errno == ERANGE) {  // size says how many there are
        groups.resize(size / sizeof(gid_t));
        result = ::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size);
    }
    if (result != 0) return false;
    groups.resize(size / sizeof(gid_t));
    return std::ranges::find(groups, group) != groups.end();
}

/// As many of the newest lines as were asked for.
class NewestLines : public OutputLineSink {
public:
    NewestLines(LogsJob& into, std::size_t wanted) : into_(into), wanted_(wanted) {}

    bool take(OutputLine const& line) override {
        if (into_.lines.size() < wanted_) into_.add(line);
        return into_.lines.size() < wanted_;
    }

private:
    LogsJob& into_;
    std::size_t wanted_;
};

/// The first line from which on all fit into one answer.
std::size_t first_that_fits(LogsJob const& job, std::size_t room) {
    std::size_t first = job.lines.size();
    for (; first > 0; --first) {
        json::Writer out;
        write_line(out, job.at(first - 1));
        if (out.size() + 1 > room) break;
        room -= out.size() + 1;
    }
    return first;
}

/// Whether it is a number that the program has no more, of which nothing is left that runs.
bool is_left_over(ProgramStatus const& program, ProcessStatus const& process) {
    return process.number > program.wanted && process.state == ProcessState::down;
}

/// Whether it has something to say by itself, without anything happening.
bool is_answering(Job const& job) {
    return std::holds_alternative<ListJob>(job) || std::holds_alternative<LogsJob>(job);
}

}  // namespace

/// The connections and what they are owed. Every entry from outside goes through enter(): it keeps exceptions in, and
/// removes clients only when nobody is at work with one.
class ControlServer::Server {
public:
    Server(EventLoop& loop, ControlSettings settings, ControlBackend& backend, ControlLimits const& limits,
           ControlListener listener)
        : loop_(loop),
          settings_(std::move(settings)),
          backend_(backend),
          limits_(limits),
          listener_(std::move(listener)) {}

    Result<> listen();

    void publish(std::string_view record, bool is_of_note);
    [[nodiscard]] bool wants_records() const;
    [[nodiscard]] Duration agent_deaf_for() const;
    void publish_output(std::string_view program, OutputLine const& line);
    [[nodiscard]] bool has_job(std::size_t kind) const;
    [[nodiscard]] bool has_followers() const;
    void state_changed() { ++changes_; }
    void answer_upgrade(Result<UpgradeVersions> const& answer);
    void adopt(UniqueFd fd, ControlRole role);
    void answer_stage(std::uint64_t ticket, Result<StagingAnswer> const& answer);
    void send_to_prober(json::Writer const& parameters);
    void configuration_changed() { ++configuration_changes_; }
    [[nodiscard]] std::optional<TimePoint> next_deadline() const;
    void time_passed();
    void end_round();
    [[nodiscard]] bool is_idle() const { return clients_.empty(); }
    ControlListener& listener() { return listener_; }

    template <class Call>
    void enter(Call const& call) noexcept;

private:
    using Clients = std::vector<std::unique_ptr<ControlClient>>;

    // connections
    void accept_clients();
    void take_client(UniqueFd fd);
    void add_client(UniqueFd fd, ControlPeer const& peer, ControlRole role);
    [[nodiscard]] std::size_t count(ControlRole role) const;
    [[nodiscard]] std::size_t input_limit(ControlClient const& client) const;
    template <class Call>
    void call_back(Call const& call);
    [[nodiscard]] bool has_lost_prober() const;
    void notice_prober();
    [[nodiscard]] bool is_allowed(int fd, ControlPeer const& peer) const;
    ControlClient* longest_idle() const;
    void ready(ControlClient& client);
    void watch(ControlClient& client);
    void flush(ControlClient& client);
    template <class Call>
    void serve(ControlClient& client, Call const& call) noexcept;

    // calls
    void run(ControlClient& client, bool takes_calls);
    [[nodiscard]] bool is_runnable(ControlClient const& client) const;
    void run_all(bool takes_calls);
    void handle_message(ControlClient& client);
    void handle(ControlClient& client, ControlMethod method, CallParameters const& parameters);
    void get_info(ControlClient& client);
    void get_description(ControlClient& client, CallParameters const& parameters);
    void get_status(ControlClient& client);
    void list(ControlClient& client, CallParameters const& parameters);
    void continue_list(ControlClient& client, ListJob& job);
    bool write_next(ListJob& job);
    void describe(ControlClient& client, CallParameters const& parameters);
    void command(ControlClient& client, ControlMethod method, CallParameters const& parameters);
    void reload(ControlClient& client);
    void wait(ControlClient& client, CallParameters const& parameters);
    void continue_wait(ControlClient& client, WaitJob& job);
    void logs(ControlClient& client, CallParameters const& parameters);
    void continue_logs(ControlClient& client, LogsJob& job);
    void upgrade(ControlClient& client, CallParameters const& parameters);
    void stage(ControlClient& client, CallParameters const& parameters);
    void continue_configuration(ControlClient& client, ConfigurationJob& job);
    void probes(ControlClient& client);
    std::optional<ProcessSelection> select(ControlClient& client, CallParameters const& parameters);
    void no_such_process(ControlClient& client, std::string_view program, std::uint32_t number);
    void subscribe(ControlClient& client);
    [[nodiscard]] bool is_agent_subscribed() const;
    void keep(std::string_view message);

    // answers
    void reply(ControlClient& client, std::string_view parameters, bool continues = false);
    void fail_call(ControlClient& client, std::string_view error, std::string_view parameters);
    void fail_call(ControlClient& client, Error const& error);
    void refuse_message(ControlClient& client, std::string_view reason);
    void stream(ControlClient& client, std::string_view message);

    // work of a round
    bool has_work_left();
    void charge(std::size_t work);

    EventLoop& loop_;
    ControlSettings settings_;
    ControlBackend& backend_;
    ControlLimits limits_;
    ControlListener listener_;
    EventLoop::Watch listener_watch_;
    std::optional<TimePoint> accept_again_at_;
    Clients clients_;
    std::size_t turn_ = 0;       // whose it is when work was left over
    std::uint64_t changes_ = 1;  // of the launcher's state
    std::uint64_t configuration_changes_ = 1;
    std::uint64_t last_ticket_ = 0;  // of a staging
    bool is_prober_known_ = false;   // to the backend
    std::string kept_;             // messages for an agent that will subscribe, oldest first, each ended by a zero byte
    std::uint64_t kept_lost_ = 0;  // those that had no room
    TimePoint round_{};
    std::size_t work_left_ = 0;
    int depth_ = 0;  // of enter()
    std::string scratch_;
};

template <class Call>
void ControlServer::Server::enter(Call const& call) noexcept {
    ++depth_;
    try {
        call();
    } catch (...) {
        // Out of memory for the server as a whole; what one client asks for is caught in serve().
    }
    if (--depth_ == 0) std::erase_if(clients_, [](auto const& client) { return client->is_dead(); });
}

/// What goes wrong with one client ends that one.
template <class Call>
void ControlServer::Server::serve(ControlClient& client, Call const& call) noexcept {
    try {
        if (!client.is_dead()) call();
    } catch (...) {
        client.end();
    }
}

/// What the loop calls; the launcher ends the round after it.
template <class Call>
void ControlServer::Server::call_back(Call const& call) {
    enter(call);
    enter([this] { notice_prober(); });
}

// Connections.

Result<> ControlServer::Server::listen() {
    if (listener_.fd() < 0) return {};
    listener_watch_ = TRY(loop_.on_readable(listener_.fd(), [this] { call_back([this] { accept_clients(); }); }));
    return {};
}

void ControlServer::Server::accept_clients() {
    for (int i = 0; i < accepts_per_round; ++i) {
        UniqueFd fd{::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
        int const err = errno;
        if (fd) {
            take_client(std::move(fd));
        } else if (err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM) {
            // The connection stays where it is, and the listener readable: look the other way for a while.
            listener_watch_ = {};
            accept_again_at_ = loop_.now() + between_accepts;
            backend_.control_failed("cannot accept a connection: " + errno_text(err));
            return;
        } else if (err != EINTR && err != ECONNABORTED) {
            return;
        }
    }
}

bool ControlServer::Server::is_allowed(int fd, ControlPeer const& peer) const {
    bool const is_open_to_all = (settings_.mode & 0002) != 0;
    return peer.uid == 0 || peer.uid == ::geteuid() || is_open_to_all ||
           (settings_.group && is_in_group(fd, peer, *settings_.group));
}

ControlClient* ControlServer::Server::longest_idle() const {
    ControlClient* longest = nullptr;
    for (auto const& client : clients_) {
        bool const is_idle = !client->is_dead() && !client->is_agent() && client->job.index() == 0 &&
                             client->pending() == 0 && !client->has_message() &&
                             client->last_active() + limits_.evictable <= loop_.now();
        if (is_idle && (!longest || client->last_active() < longest->last_active())) longest = client.get();
    }
    return longest;
}

void ControlServer::Server::take_client(UniqueFd fd) {
    auto const refuse = [&fd](std::string_view error, std::string_view parameters) {
        std::string message;
        append_varlink_error(message, error, parameters);
        // A new socket has room for it; if not, the end of the connection says the same.
        (void)::send(fd.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    };
    auto const peer = peer_of(fd.get());
    if (!peer) return;
    if (!is_allowed(fd.get(), *peer)) {
        refuse(service_error("PermissionDenied"), "{}");
        backend_.control_failed("a connection of user " + std::to_string(peer->uid) + ", pid " +
                                std::to_string(peer->pid) + ", is not allowed");
        return;
    }
    if (count(ControlRole::person) >= limits_.clients) {
        ControlClient* const idle = longest_idle();
        if (!idle) {
            auto const limit = static_cast<std::int64_t>(limits_.clients);
            refuse(launcher_error("TooManyClients"),
                   json::Writer{}.open('{').key("limit").value(limit).close('}').text());
            return;
        }
        idle->end();
    }
    add_client(std::move(fd), *peer, ControlRole::person);
}

void ControlServer::Server::add_client(UniqueFd fd, ControlPeer const& peer, ControlRole role) {
    clients_.push_back(std::make_unique<ControlClient>(std::move(fd), peer, role, loop_.now()));
    ControlClient& client = *clients_.back();
    serve(client, [this, &client] { watch(client); });
}

std::size_t ControlServer::Server::count(ControlRole role) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        clients_, [role](auto const& client) { return !client->is_dead() && client->role() == role; }));
}

/// Whoever sends us a descriptor may send anything, a file that blocks too.
void ControlServer::Server::adopt(UniqueFd fd, ControlRole role) {
    if (!is_unix_stream(fd.get())) return backend_.control_failed("what was handed over is no connection");
    auto const peer = peer_of(fd.get());
    if (!peer) return;
    std::size_t const places = role == ControlRole::agent ? limits_.adopted : limits_.clients;
    if (count(role) >= places) {
        auto const oldest = std::ranges::find_if(
            clients_, [role](auto const& client) { return !client->is_dead() && client->role() == role; });
        (*oldest)->end();
    }
    add_client(std::move(fd), *peer, role);
}

std::size_t ControlServer::Server::input_limit(ControlClient const& client) const {
    return client.is_agent() ? limits_.adopted_input_bytes : limits_.input_bytes;
}

/// Registers for what comes next: its input, or room for our output. Never both: who does not read is not heard either.
void ControlServer::Server::watch(ControlClient& client) {
    using Interest = ControlClient::Interest;
    if (client.is_dead()) return;
    bool const waits = client.job.index() != 0 && !is_answering(client.job);
    bool const has_more_to_do = client.has_message() || is_answering(client.job);
    if (client.pending() == 0 && (client.is_closing || (client.is_at_end() && (waits || !has_more_to_do))))
        return client.end();
    bool const takes_input =
        !client.is_at_end() && (waits || !client.has_message()) && client.has_input_room(input_limit(client));
    Interest const wanted = client.pending() > 0 ? Interest::output : takes_input ? Interest::input : Interest::none;
    if (wanted == client.interest) return;
    client.watch = {};
    client.interest = wanted;
    if (wanted == Interest::none) return;
    auto call = [this, &client] { call_back([this, &client] { serve(client, [this, &client] { ready(client); }); }); };
    auto watched = wanted == Interest::output ? loop_.on_writable(client.fd(), std::move(call))
                                              : loop_.on_readable(client.fd(), std::move(call));
    if (!watched) return client.end();  // out of memory in the kernel
    client.watch = std::move(*watched);
}

void ControlServer::Server::ready(ControlClient& client) {
    if (client.interest == ControlClient::Interest::output) {
        flush(client);
    } else if (has_work_left()) {  // else it waits in the kernel for the next round
        charge(1);
        client.receive(input_limit(client), loop_.now());
        if (client.is_input_full(input_limit(client))) refuse_message(client, "longer than a call may be");
    }
    run(client, true);
}

/// Sends, and tells what was lost as soon as there is room for what comes after it.
void ControlServer::Server::flush(ControlClient& client) {
    client.flush(loop_.now());
    if (client.lost == 0 || client.is_dead() || client.pending() > limits_.output_bytes / 2) return;
    if (std::holds_alternative<LogsJob>(client.job)) return;  // what is older comes first
    json::Writer out;
    out.open('{');
    if (std::holds_alternative<FollowJob>(client.job)) out.key("lines").open('[').close(']');
    out.key("lost").value(static_cast<std::int64_t>(std::exchange(client.lost, 0))).close('}');
    append_varlink_reply(client.output(loop_.now()), out.text(), true);
    client.flush(loop_.now());
}

// Work.

bool ControlServer::Server::has_work_left() {
    if (round_ != loop_.now()) {
        round_ = loop_.now();
        work_left_ = limits_.work;
    }
    return work_left_ > 0;
}

void ControlServer::Server::charge(std::size_t work) { work_left_ -= std::min(work_left_, work); }

bool ControlServer::Server::is_runnable(ControlClient const& client) const {
    if (client.is_dead() || client.pending() > 0 || client.is_closing) return false;
    if (client.job.index() == 0) return client.has_message();
    if (auto const* job = std::get_if<WaitJob>(&client.job)) return job->seen != changes_;
    if (auto const* job = std::get_if<ConfigurationJob>(&client.job)) return job->seen != configuration_changes_;
    return is_answering(client.job);
}

/// As much of a client's matters as the round has work left for and its reader takes answers to.
void ControlServer::Server::run(ControlClient& client, bool takes_calls) {
    while (is_runnable(client) && (takes_calls || client.job.index() != 0) && has_work_left()) {
        if (auto* const listed = std::get_if<ListJob>(&client.job)) {
            continue_list(client, *listed);
        } else if (auto* const waiting = std::get_if<WaitJob>(&client.job)) {
            continue_wait(client, *waiting);
        } else if (auto* const watching = std::get_if<ConfigurationJob>(&client.job)) {
            continue_configuration(client, *watching);
        } else if (auto* const answered = std::get_if<LogsJob>(&client.job)) {
            continue_logs(client, *answered);
        } else {
            charge(work_of_call);
            handle_message(client);
        }
        flush(client);
    }
    watch(client);
}

std::optional<TimePoint> ControlServer::Server::next_deadline() const {
    if (has_lost_prober()) return loop_.now();
    std::optional<TimePoint> next = accept_again_at_;
    auto const consider = [&next](TimePoint when) { next = next ? std::min(*next, when) : when; };
    for (auto const& client : clients_) {
        if (is_runnable(*client)) consider(loop_.now());
        if (client->has_partial_message()) consider(client->partial_since() + limits_.partial);
        if (client->pending() > 0) consider(client->progress_at() + limits_.unread);
    }
    return next;
}

void ControlServer::Server::time_passed() {
    TimePoint const now = loop_.now();
    notice_prober();
    if (accept_again_at_ && *accept_again_at_ <= now) {
        accept_again_at_ = now + between_accepts;  // if this fails, by an exception too
        if (listen()) accept_again_at_.reset();
    }
    for (auto const& client : clients_) {
        bool const is_late = client->has_partial_message() && client->partial_since() + limits_.partial <= now;
        bool const is_unread = client->pending() > 0 && client->progress_at() + limits_.unread <= now;
        if (is_late || is_unread) client->end();
    }
    run_all(true);
}

/// No new calls here: what they have done would be told a round too late.
void ControlServer::Server::end_round() {
    if (depth_ == 1) run_all(false);  // else we are inside a call, and its end comes
}

/// Everyone who has something to do; whoever had to wait is first the next time.
void ControlServer::Server::run_all(bool takes_calls) {
    std::size_t const count = clients_.size();
    std::size_t const first = count > 0 ? turn_ % count : 0;
    bool is_starved = false;
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t const at = (first + i) % count;
        ControlClient& client = *clients_[at];
        serve(client, [this, &client, takes_calls] {
            // One that takes no more is waited for by epoll.
            if (client.pending() > 0 && client.interest != ControlClient::Interest::output) flush(client);
            run(client, takes_calls);
        });
        if (!is_starved && is_runnable(client)) {
            turn_ = at;
            is_starved = true;
        }
    }
}

// Answers.

void ControlServer::Server::reply(ControlClient& client, std::string_view parameters, bool continues) {
    if (client.is_oneway) return;
    std::size_t const limit = client.is_agent() ? limits_.adopted_output_bytes : limits_.output_bytes;
    if (!client.has_room(parameters.size() + 64, limit))
        return fail_call(client, {ErrorKind::internal, {}, "the answer is too long to be sent", {}});
    charge(parameters.size() / bytes_of_work);
    append_varlink_reply(client.output(loop_.now()), parameters, continues);
}

void ControlServer::Server::fail_call(ControlClient& client, std::string_view error, std::string_view parameters) {
    client.job = {};
    if (!client.is_oneway) append_varlink_error(client.output(loop_.now()), error, parameters);
}

void ControlServer::Server::fail_call(ControlClient& client, Error const& error) {
    json::Writer out;
    out.open('{').key("reason").value(std::string_view(error.text())).key("details").open('[');
    for (std::string const& detail : error.details) {
        if (out.size() + detail.size() > limits_.output_bytes / 8) break;  // its escapes included, it fits
        out.value(std::string_view(detail));
    }
    out.close(']').close('}');
    fail_call(client, launcher_error(row_of(error.kind).varlink_error), out.text());
}

void ControlServer::Server::refuse_message(ControlClient& client, std::string_view reason) {
    client.is_oneway = false;
    client.is_closing = true;
    if (client.job.index() != 0) return client.end();  // an answer here would look like one to the call in hand
    fail_call(client, launcher_error("BadMessage"), one_text("reason", reason));
}

/// One message more of a call that goes on, or one more that is lost.
void ControlServer::Server::stream(ControlClient& client, std::string_view message) {
    if (client.lost > 0 || !client.has_room(message.size(), limits_.output_bytes)) {
        ++client.lost;
        return;
    }
    client.output(loop_.now()) += message;
}

void ControlServer::Server::publish(std::string_view record, bool is_of_note) {
    bool const is_kept = is_of_note && settings_.keeps_for_agent && !is_agent_subscribed();
    if (!is_kept && !has_job(Job{SubscribeJob{}}.index())) return;
    scratch_.clear();
    append_varlink_reply(scratch_, std::string(R"({"event":)").append(record).append("}"), true);
    for (auto const& client : clients_) {
        if (!std::holds_alternative<SubscribeJob>(client->job)) continue;
        serve(*client, [this, &client] { stream(*client, scratch_); });
    }
    if (is_kept) keep(scratch_);
}

bool ControlServer::Server::wants_records() const {
    return has_job(Job{SubscribeJob{}}.index()) || settings_.keeps_for_agent;
}

bool ControlServer::Server::is_agent_subscribed() const {
    return std::ranges::any_of(clients_, [](auto const& client) {
        return client->is_agent() && !client->is_dead() && std::holds_alternative<SubscribeJob>(client->job);
    });
}

Duration ControlServer::Server::agent_deaf_for() const {
    Duration longest{};
    for (auto const& client : clients_) {
        if (std::holds_alternative<ConfigurationJob>(client->job))
            longest = std::max(longest, client->deaf_for(loop_.now()));
    }
    return longest;
}

void ControlServer::Server::keep(std::string_view message) {
    if (message.size() > limits_.kept_bytes) {
        ++kept_lost_;
        return;
    }
    std::size_t room_made = 0;
    while (kept_.size() - room_made + message.size() > limits_.kept_bytes) {
        room_made = kept_.find('\0', room_made) + 1;
        ++kept_lost_;
    }
    kept_.erase(0, room_made).append(message);
}

void ControlServer::Server::subscribe(ControlClient& client) {
    client.job = SubscribeJob{};
    reply(client, "{}", true);
    if (!client.is_agent() || (kept_.empty() && kept_lost_ == 0)) return;
    if (std::uint64_t const lost = std::exchange(kept_lost_, 0)) {
        json::Writer out;
        out.open('{').key("lost").value(static_cast<std::int64_t>(lost)).close('}');
        reply(client, out.text(), true);
    }
    client.output(loop_.now()) += std::exchange(kept_, {});
}

void ControlServer::Server::publish_output(std::string_view program, OutputLine const& line) {
    scratch_.clear();
    auto const concerns = [program, &line](auto const& job) {
        return job.program == program && (!job.process || *job.process == line.process);
    };
    for (auto const& client : clients_) {
        if (auto* const answered = std::get_if<LogsJob>(&client->job)) {
            if (!answered->follows || !concerns(*answered)) continue;
            serve(*client, [this, &client = *client, answered, &line] {
                bool const has_room = client.lost == 0 && answered->bytes() + line.text.size() < limits_.line_bytes;
                has_room ? answered->add(line) : static_cast<void>(++client.lost);
            });
            continue;
        }
        auto const* const job = std::get_if<FollowJob>(&client->job);
        if (!job || !concerns(*job)) continue;
        if (scratch_.empty()) {
            json::Writer out;
            out.open('{').key("lines").open('[');
            write_line(out, line);
            append_varlink_reply(scratch_, out.close(']').close('}').text(), true);
        }
        serve(*client, [this, &client] { stream(*client, scratch_); });
    }
}

bool ControlServer::Server::has_job(std::size_t kind) const {
    return std::ranges::any_of(clients_, [kind](auto const& client) { return client->job.index() == kind; });
}

bool ControlServer::Server::has_followers() const {
    return std::ranges::any_of(clients_, [](auto const& client) {
        auto const* const answered = std::get_if<LogsJob>(&client->job);
        return answered ? answered->follows : std::holds_alternative<FollowJob>(client->job);
    });
}

// Calls.

void ControlServer::Server::handle_message(ControlClient& client) {
    std::string const message = client.take_message(loop_.now());
    charge(message.size() / bytes_of_work);
    auto const call = client.is_agent() ? parse_varlink_call(message, values_of_agent) : parse_varlink_call(message);
    if (!call) return refuse_message(client, call.error());
    client.wants_more = call->wants_more && !call->is_oneway;
    client.is_oneway = call->is_oneway;
    MethodRow const* const row = find_method(call->interface(), call->name());
    if (interface_description(call->interface()).empty()) {
        return fail_call(client, service_error("InterfaceNotFound"), one_text("interface", call->interface()));
    }
    if (!row) return fail_call(client, service_error("MethodNotFound"), one_text("method", call->method));
    if (!may_call(row->callers, client.role())) return fail_call(client, service_error("PermissionDenied"), "{}");
    if (call->wants_upgrade)  // of the connection to another protocol: there is none
        return fail_call(client, service_error("MethodNotImplemented"), one_text("method", call->method));
    auto const parameters = read_parameters(*row, call->parameters);
    if (!parameters)
        return fail_call(client, service_error("InvalidParameter"), one_text("parameter", parameters.error()));
    if ((row->needs_more || parameters->follows) && !client.wants_more)
        return fail_call(client, service_error("ExpectedMore"), "{}");
    handle(client, row->method, *parameters);
}

void ControlServer::Server::handle(ControlClient& client, ControlMethod method, CallParameters const& parameters) {
    switch (method) {
        case ControlMethod::get_info: return get_info(client);
        case ControlMethod::get_interface_description: return get_description(client, parameters);
        case ControlMethod::get_status: return get_status(client);
        case ControlMethod::list: return list(client, parameters);
        case ControlMethod::describe: return describe(client, parameters);
        case ControlMethod::start:
        case ControlMethod::stop:
        case ControlMethod::restart:
        case ControlMethod::signal: return command(client, method, parameters);
        case ControlMethod::reload: return reload(client);
        case ControlMethod::wait: return wait(client, parameters);
        case ControlMethod::subscribe: return subscribe(client);
        case ControlMethod::logs: return logs(client, parameters);
        case ControlMethod::upgrade: return upgrade(client, parameters);
        case ControlMethod::stage: return stage(client, parameters);
        case ControlMethod::watch_configuration:
            if (!client.is_oneway) client.job = ConfigurationJob{};
            return;
        case ControlMethod::probes: return probes(client);
        case ControlMethod::probe_result:
            backend_.probe_result(parameters.id, parameters.is_ok, parameters.detail);
            return reply(client, "{}");
        case ControlMethod::set_pod: backend_.set_pod(parameters.pod); return reply(client, "{}");
        case ControlMethod::set_reporter: backend_.set_reporter(parameters.reporter); return reply(client, "{}");
    }
    std::unreachable();
}

void ControlServer::Server::get_info(ControlClient& client) {
    json::Writer out;
    out.open('{')
        .key("vendor")
        .value(std::string_view("Triton"))
        .key("product")
        .value(std::string_view("triton-launch"));
    out.key("version").value(std::string_view(backend_.launcher().version)).key("url").value(std::string_view(""));
    out.key("interfaces").list(std::array{service_interface, launcher_interface}).close('}');
    reply(client, out.text());
}

void ControlServer::Server::get_description(ControlClient& client, CallParameters const& parameters) {
    std::string_view const text = interface_description(parameters.interface);
    if (text.empty())
        return fail_call(client, service_error("InterfaceNotFound"), one_text("interface", parameters.interface));
    reply(client, one_text("description", text));
}

void ControlServer::Server::get_status(ControlClient& client) {
    std::vector<std::string> names(backend_.program_count());
    for (std::size_t i = 0; i < names.size(); ++i)
        names[i] = backend_.program(i).name;
    charge(names.size() / 4);
    json::Writer out;
    write_launcher((out.open('{').key("launcher"), out), backend_.launcher(), names);
    reply(client, out.close('}').text());
}

/// The program and process that a call names, or an error reply.
std::optional<ProcessSelection> ControlServer::Server::select(ControlClient& client, CallParameters const& parameters) {
    auto const index = backend_.find_program(*parameters.program);
    if (!index) {
        fail_call(client, launcher_error("NoSuchProgram"), one_text("program", *parameters.program));
        return std::nullopt;
    }
    if (parameters.process && *parameters.process > backend_.program(*index).processes) {
        no_such_process(client, *parameters.program, *parameters.process);
        return std::nullopt;
    }
    return ProcessSelection{*index, parameters.process};
}

void ControlServer::Server::no_such_process(ControlClient& client, std::string_view program, std::uint32_t number) {
    json::Writer out;
    out.open('{').key("program").value(program).key("process").value(std::int64_t{number}).close('}');
    fail_call(client, launcher_error("NoSuchProcess"), out.text());
}

void ControlServer::Server::list(ControlClient& client, CallParameters const& parameters) {
    if (client.is_oneway) return;
    ListJob job;
    if (parameters.program) {
        auto const which = select(client, parameters);
        if (!which) return;
        job.program = parameters.program;
        std::uint32_t const number = which->number.value_or(0);
        if (number > 0 && is_left_over(backend_.program(which->program), backend_.process(which->program, number)))
            return no_such_process(client, *parameters.program, number);
    }
    job.process = parameters.process;
    client.job = std::move(job);
}

/// Writes one process, or the head or the end of a program. Returns false when there is nothing left.
bool ControlServer::Server::write_next(ListJob& job) {
    if (!job.is_open) {
        // After a reload a program stands elsewhere, or nowhere.
        auto const at = job.program ? backend_.find_program(*job.program) : std::optional(job.index);
        if (!at || *at >= backend_.program_count()) return false;
        job.index = *at;
        ProgramStatus const program = backend_.program(*at);
        if (program.name != job.name) job.next = 1;
        open_program(job.text, program);
        job.name = program.name;
        job.is_open = true;
        return true;
    }
    auto const at = backend_.find_program(job.name);
    ProgramStatus const program = at ? backend_.program(*at) : ProgramStatus{};
    std::uint32_t const last = program.processes;
    if (job.process && job.next < *job.process) job.next = *job.process;
    if (job.next > (job.process ? std::min(last, *job.process) : last)) {
        job.text.close(']').close('}');
        job.is_open = false;
        job.next = 1;
        job.index = at.value_or(job.index) + 1;
        return !job.program;
    }
    ProcessStatus const process = backend_.process(*at, job.next);
    if (!is_left_over(program, process)) write_process(job.text, process, backend_.usage(*at, job.next));
    ++job.next;
    return true;
}

/// A part of the list for each round. With "more" it is sent, else it grows until it is whole.
void ControlServer::Server::continue_list(ControlClient& client, ListJob& job) {
    bool goes_on = true;
    while (goes_on && has_work_left() && job.text.size() < limits_.output_bytes / 2) {
        if (!std::exchange(job.is_begun, true)) job.text.open('{').key("programs").open('[');
        charge(1);
        goes_on = write_next(job);
    }
    bool const is_full = job.text.size() >= limits_.output_bytes / 2;
    if (goes_on && !client.wants_more) {
        if (is_full) fail_call(client, service_error("ExpectedMore"), "{}");
        return;
    }
    if (job.is_open) job.text.close(']').close('}');
    std::string const text = std::exchange(job.text, {}).close(']').close('}').text();
    job.is_begun = job.is_open = false;
    if (!goes_on) client.job = {};  // `job` is gone
    reply(client, text, goes_on);
}

void ControlServer::Server::describe(ControlClient& client, CallParameters const& parameters) {
    auto const which = select(client, parameters);
    if (!which) return;
    json::Writer out;
    open_program((out.open('{').key("program"), out), backend_.program(which->program));
    out.close(']').close('}').key("description");
    write_description(out, backend_.describe(which->program));
    reply(client, out.close('}').text());
}

void ControlServer::Server::command(ControlClient& client, ControlMethod method, CallParameters const& parameters) {
    auto const which = select(client, parameters);
    if (!which) return;
    bool const is_signal = method == ControlMethod::signal;
    std::string text = method == ControlMethod::start     ? "start "
                       : method == ControlMethod::stop    ? "stop "
                       : method == ControlMethod::restart ? "restart "
                                                          : "signal " + signal_text(parameters.signo) + " ";
    text += parameters.program->empty() ? "-" : *parameters.program;
    if (which->number) text += ":" + std::to_string(*which->number);

    ProgramStatus const program = backend_.program(which->program);
    bool const is_to_run = method == ControlMethod::start || method == ControlMethod::restart;
    if (is_to_run && which->number && program.wanted > 0 && *which->number > program.wanted)
        return no_such_process(client, *parameters.program, *which->number);

    WaitJob job{*parameters.program, which->number, WaitFor::started, which->number.value_or(1), {}, 0};
    bool const waits = parameters.waits && !is_signal && !client.is_oneway;
    if (waits && method != ControlMethod::stop) {
        std::uint32_t const last = which->number.value_or(program.processes);
        for (std::uint32_t number = job.next; number <= last; ++number)
            job.starts_before.push_back(backend_.process(which->program, number).starts);
        charge(job.starts_before.size() / 8);
    }
    backend_.command_given(text, client.peer());
    Result<> const done = method == ControlMethod::start     ? backend_.start(*which)
                          : method == ControlMethod::stop    ? backend_.stop(*which)
                          : method == ControlMethod::restart ? backend_.restart(*which)
                                                             : backend_.signal(*which, parameters.signo);
    if (!done) return fail_call(client, done.error());
    if (!waits) return reply(client, "{}");
    job.what = method == ControlMethod::start  ? WaitFor::started
               : method == ControlMethod::stop ? WaitFor::stopped
                                               : WaitFor::restarted;
    client.job = std::move(job);
}

void ControlServer::Server::reload(ControlClient& client) {
    backend_.command_given("reload", client.peer());
    auto const done = backend_.reload();
    done ? reply(client, "{}") : fail_call(client, done.error());
}

void ControlServer::Server::wait(ControlClient& client, CallParameters const& parameters) {
    static constexpr std::array conditions{WaitFor::ready, WaitFor::up, WaitFor::down, WaitFor::done};
    WaitFor const what = conditions[static_cast<std::size_t>(parameters.condition)];
    if (concerns_unwanted(what) && !select(client, parameters)) return;
    if (client.is_oneway) return;
    client.job = WaitJob{*parameters.program, parameters.process, what, parameters.process.value_or(1), {}, 0};
}

/// Goes on from where it stood, so that a wait costs each process once, and a change that does not concern it next to
/// nothing.
void ControlServer::Server::continue_wait(ControlClient& client, WaitJob& job) {
    CallParameters named;
    named.program = job.program;
    auto const which = select(client, named);  // it may have left the configuration
    if (!which) return;
    ProgramStatus const program = backend_.program(which->program);
    bool const is_command = job.what == WaitFor::started || job.what == WaitFor::restarted;
    if (program.wanted == 0 && !concerns_unwanted(job.what)) {
        // Nothing runs now; a command was overtaken by that, a wait is for what comes after.
        if (is_command) return fail_call(client, {ErrorKind::refused, {}, "no process of it is to run any more", {}});
        job.seen = changes_;
        return;
    }
    if (job.process && *job.process > (concerns_unwanted(job.what) ? program.processes : program.wanted))
        return no_such_process(client, std::string(job.program), *job.process);  // `job` is gone
    std::uint32_t const first = job.process.value_or(1);
    std::uint32_t const all = concerns_unwanted(job.what) ? program.processes : program.wanted;
    std::uint32_t const last = job.process.value_or(all);
    for (; job.next <= last; ++job.next) {
        if (!has_work_left()) return;
        charge(1);
        std::size_t const offset = job.next - first;
        std::uint32_t const starts = offset < job.starts_before.size() ? job.starts_before[offset] : 0;
        ProcessStatus const process = backend_.process(which->program, job.next);
        WaitAnswer const answer = judge(job.what, process, starts);
        if (answer == WaitAnswer::not_yet) {
            job.seen = changes_;
            return;
        }
        if (answer == WaitAnswer::never) {
            json::Writer out;
            out.open('{').key("program").value(std::string_view(job.program));
            out.key("process").value(std::int64_t{job.next}).key("state").value(name_of(process.state)).close('}');
            return fail_call(client, launcher_error("NotReached"), out.text());
        }
    }
    client.job = {};
    reply(client, "{}");
}

void ControlServer::Server::logs(ControlClient& client, CallParameters const& parameters) {
    auto const which = select(client, parameters);
    if (!which || client.is_oneway) return;
    LogsJob job{*parameters.program, which->number, parameters.follows, {}, {}, 0};
    NewestLines newest{job, parameters.lines};
    if (auto const found = backend_.output_lines(*which, newest); !found) return fail_call(client, found.error());
    std::ranges::reverse(job.lines);
    job.next = client.wants_more ? 0 : first_that_fits(job, limits_.output_bytes / 2);
    client.job = std::move(job);
}

/// A part of them for each round. Without "more" it is the only one, and says what is missing before it.
void ControlServer::Server::continue_logs(ControlClient& client, LogsJob& job) {
    json::Writer out;
    out.open('{').key("lines").open('[');
    std::size_t const missing = client.wants_more ? 0 : job.next;
    for (; job.next < job.lines.size() && out.size() < limits_.output_bytes / 2; ++job.next)
        write_line(out, job.at(job.next));
    out.close(']');
    if (missing > 0) out.key("lost").value(static_cast<std::int64_t>(missing));
    bool const goes_on = job.next < job.lines.size() || job.follows;
    if (job.next == job.lines.size())  // `job` is gone
        client.job = job.follows ? Job{FollowJob{job.program, job.process}} : Job{};
    reply(client, out.close('}').text(), goes_on);
}

void ControlServer::Server::upgrade(ControlClient& client, CallParameters const& parameters) {
    backend_.command_given("upgrade " + parameters.path, client.peer());
    if (!client.is_oneway) client.job = UpgradeJob{};  // before it begins: the answer may come from inside
    if (auto const begun = backend_.upgrade(parameters.path); !begun) fail_call(client, begun.error());
}

void ControlServer::Server::answer_upgrade(Result<UpgradeVersions> const& answer) {
    for (auto const& client : clients_) {
        if (!std::holds_alternative<UpgradeJob>(client->job)) continue;
        serve(*client, [this, &client = *client, &answer] {
            if (!answer) {
                fail_call(client, answer.error());
            } else {
                json::Writer out;
                out.open('{').key("from").value(std::string_view(answer->from));
                out.key("to").value(std::string_view(answer->to)).close('}');
                if (!client.wants_more) client.job = {};
                reply(client, out.text(), client.wants_more);
            }
            flush(client);  // after an execve nobody would
        });
    }
}

// What the agent is there for.

void ControlServer::Server::stage(ControlClient& client, CallParameters const& parameters) {
    std::string command = "stage ";
    backend_.command_given(command.append(staging_kind_names[static_cast<std::size_t>(parameters.what)]),
                           client.peer());
    std::uint64_t const ticket = ++last_ticket_;
    if (!client.is_oneway) client.job = StageJob{ticket};  // before it begins: the answer may come from inside
    if (auto const begun = backend_.stage(parameters.what, ticket); !begun) fail_call(client, begun.error());
}

void ControlServer::Server::answer_stage(std::uint64_t ticket, Result<StagingAnswer> const& answer) {
    for (auto const& client : clients_) {
        auto const* const job = std::get_if<StageJob>(&client->job);
        if (!job || job->ticket != ticket) continue;
        return serve(*client, [this, &client = *client, &answer] {
            if (!answer) return fail_call(client, answer.error());
            json::Writer out;
            write_staging(out, *answer, limits_.output_bytes / 2);
            client.job = {};
            reply(client, out.text());
        });
    }
}

/// Of several changes the watcher is told the last one, as soon as it has taken what came before.
void ControlServer::Server::continue_configuration(ControlClient& client, ConfigurationJob& job) {
    charge(1);
    json::Writer out;
    write_configuration(out, backend_.active_configuration());
    job.seen = configuration_changes_;
    if (!client.wants_more) client.job = {};  // `job` is gone
    reply(client, out.text(), client.wants_more);
}

void ControlServer::Server::probes(ControlClient& client) {
    if (client.is_oneway) return;
    for (auto const& other : clients_) {
        if (std::holds_alternative<ProbesJob>(other->job)) other->end();
    }
    notice_prober();
    client.job = ProbesJob{};
    reply(client, "{}", true);
    is_prober_known_ = true;
    backend_.probes_wanted(true);
}

bool ControlServer::Server::has_lost_prober() const { return is_prober_known_ && !has_job(Job{ProbesJob{}}.index()); }

/// Not where that is found out: the launcher may be about to send it something.
void ControlServer::Server::notice_prober() {
    if (!has_lost_prober()) return;
    is_prober_known_ = false;
    backend_.probes_wanted(false);
}

void ControlServer::Server::send_to_prober(json::Writer const& parameters) {
    for (auto const& client : clients_) {
        if (!std::holds_alternative<ProbesJob>(client->job)) continue;
        serve(*client, [this, &client = *client, &parameters] {
            if (!client.has_room(parameters.size() + 64, limits_.output_bytes)) return client.end();
            append_varlink_reply(client.output(loop_.now()), parameters.text(), true);
        });
    }
}

// The outside.

Result<std::unique_ptr<ControlServer>> ControlServer::create(EventLoop& loop, ControlSettings settings,
                                                             ControlBackend& backend, ControlLimits const& limits) {
    ControlListener listener =
        TRY(settings.adopted        ? ControlListener::adopt(settings.path, *settings.adopted)
            : settings.path.empty() ? Result<ControlListener>{}
                                    : ControlListener::create(settings.path, settings.mode, settings.group));
    auto server = std::make_unique<Server>(loop, std::move(settings), backend, limits, std::move(listener));
    TRY(server->listen());
    return std::unique_ptr<ControlServer>(new ControlServer(std::move(server)));
}

ControlServer::ControlServer(std::unique_ptr<Server> server) : server_(std::move(server)) {}
ControlServer::~ControlServer() = default;

void ControlServer::publish(std::string_view record, bool is_of_note) noexcept {
    server_->enter([&] { server_->publish(record, is_of_note); });
}

bool ControlServer::wants_records() const { return server_->wants_records(); }

Duration ControlServer::agent_deaf_for() const { return server_->agent_deaf_for(); }

void ControlServer::publish_output(std::string_view program, OutputLine const& line) noexcept {
    server_->enter([&] { server_->publish_output(program, line); });
}

bool ControlServer::has_followers() const { return server_->has_followers(); }

void ControlServer::state_changed() noexcept { server_->state_changed(); }

void ControlServer::answer_upgrade(Result<UpgradeVersions> const& answer) noexcept {
    server_->enter([&] { server_->answer_upgrade(answer); });
}

void ControlServer::adopt(UniqueFd connection, ControlRole role) noexcept {
    server_->enter([&] { server_->adopt(std::move(connection), role); });
}

void ControlServer::answer_stage(std::uint64_t ticket, Result<StagingAnswer> const& answer) noexcept {
    server_->enter([&] { server_->answer_stage(ticket, answer); });
}

void ControlServer::send_probe(ProbeRequest const& request) noexcept {
    server_->enter([&] {
        json::Writer out;
        write_probe(out, request);
        server_->send_to_prober(out);
    });
}

void ControlServer::cancel_probe(std::uint64_t id) noexcept {
    server_->enter([&] {
        auto const number = static_cast<std::int64_t>(id);
        server_->send_to_prober(json::Writer{}.open('{').key("id").value(number).close('}'));
    });
}

void ControlServer::configuration_changed() noexcept { server_->configuration_changed(); }

std::optional<TimePoint> ControlServer::next_deadline() const { return server_->next_deadline(); }
void ControlServer::time_passed() noexcept {
    server_->enter([&] { server_->time_passed(); });
}
void ControlServer::end_round() noexcept {
    if (server_->is_idle()) return;
    server_->enter([&] { server_->end_round(); });
}

ControlSocket ControlServer::socket() const { return server_->listener().socket(); }

}  // namespace triton::launcher
