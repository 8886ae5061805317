#include "sidecar/agent/syslog_forwarder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/syslog.h"
#include "lib/base/read_file.h"
#include "lib/net/certificates.h"
#include "lib/net/transport.h"
#include "sidecar/agent/syslog_queue.h"

namespace triton::agent {

using net::Task;
using std::chrono::steady_clock;

namespace {

constexpr int most_messages_in_a_turn = 256;
constexpr int most_turns_at_the_end = 64;
constexpr std::size_t longest_message = 16 << 10;
constexpr std::size_t most_answered = 4 << 10;  // by a daemon on one connection, which is nothing, as a rule
constexpr Duration between_answers = std::chrono::seconds(1);  // further ones
constexpr std::size_t most_targets = 256;
constexpr std::size_t most_authorities = 4 << 20;  // bytes
constexpr Duration connect_limit = std::chrono::seconds(5);
constexpr Duration send_limit = std::chrono::seconds(30);
constexpr Duration shortest_pause = std::chrono::seconds(1);
constexpr Duration longest_pause = std::chrono::seconds(30);
constexpr Duration between_losses = std::chrono::seconds(10);
constexpr Duration time_to_finish = std::chrono::seconds(2);
constexpr Duration time_to_settle = std::chrono::seconds(1);    // in which a connection ends that is not served
constexpr Duration time_to_be_well = std::chrono::seconds(30);  // until a fault is told again

/// Whether the peer that has ended a connection in order has got all that was sent. What it got and did not read makes
/// an error of the end. Source: RFC 1122, 4.2.2.13; tcp(7), TCP_INFO.
bool has_got_all(int socket) {
    tcp_info info{};
    socklen_t size = sizeof info;
    return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state != TCP_CLOSE &&
           info.tcpi_unacked == 0;
}

struct Target;

/// A connection, and whether it has ended. What the daemon sends has no meaning in this protocol. When it is much, it
/// is read so slowly that it costs us nothing, and the rest waits where the daemon is.
struct Connection {
    std::unique_ptr<net::Transport> transport;
    bool is_proven = false;  // it has lived on after it was given something
    bool has_ended = false;
    std::optional<std::string> failure;  // unless it ended in order and the daemon has got all

    static Task<> watch(net::Loop& loop, std::shared_ptr<Connection> self, std::shared_ptr<Target> target);
};

/// Whether a fault was told so lately that it need not be told again.
bool is_told(std::optional<TimePoint> const& told, TimePoint now) { return told && now - *told < time_to_be_well; }

/// Begins TLS. Errors: what is wrong with TLS or with the certificate.
Task<Result<>> secure(net::Transport& transport, SSL_CTX* context, std::string const& host) {
    SSL* const tls = transport.prepare_tls(context);
    if (!tls || !net::expect_host(tls, host)) co_return fail("cannot check its certificate");
    auto const secured = co_await transport.connect_tls();
    if (secured) co_return secured;
    long const verdict = ::SSL_get_verify_result(tls);
    if (verdict != X509_V_OK)
        co_return fail("its certificate is no good: " + std::string(::X509_verify_cert_error_string(verdict)));
    co_return fail("TLS: " + secured.error().text());
}

struct Target {
    explicit Target(net::Loop& loop) : changed(loop), settling(loop) {}

    std::string address;
    config::SyslogTarget at;  // borrows from `address`
    SyslogQueue queue;
    net::Condition changed;
    net::Timer settling;
    std::shared_ptr<Connection> connection;
    Duration pause = shortest_pause;
    TimePoint used{};               // last
    std::optional<TimePoint> told;  // that it fails
    std::uint64_t dropped = 0;
    bool is_pausing = false;  // before the next connection
    bool is_failing = false;  // and this has been logged
    bool is_forgotten = false;
};

Task<> Connection::watch(net::Loop& loop, std::shared_ptr<Connection> self, std::shared_ptr<Target> target) {
    std::array<char, 512> dropped;
    for (std::size_t total = 0;;) {
        if (total > most_answered) co_await net::sleep_for(loop, between_answers);
        auto const size = co_await self->transport->receive(dropped);
        if (!size) self->failure = size.error().text();
        if (!size || *size == 0) break;
        total += *size;
    }
    if (!self->failure && !has_got_all(self->transport->fd())) self->failure = "it has ended the connection";
    self->has_ended = true;
    self->transport->close();
    target->changed.notify_all();
}

}  // namespace

class SyslogForwarder::State : public std::enable_shared_from_this<State> {
public:
    State(net::Loop& loop, log::Log& log, Settings settings, std::array<UniqueFd, 2> datagrams)
        : loop_(loop),
          log_(log),
          messages_(loop, std::move(settings.messages)),
          answers_fd_(std::move(settings.answers)),
          authority_(std::move(settings.authority)),
          datagrams_(std::move(datagrams)),
          losses_(loop),
          finishing_(loop) {}

    void start() { net::spawn(loop_, read(shared_from_this())); }

    void finish(std::function<void()> finished) {
        take_all();
        finished_ = std::move(finished);
        finishing_.call_at(steady_clock::now() + time_to_finish, [this] { end(); });
        end_if_finished();
    }

    void stop() {
        is_stopped_ = true;
        messages_.close();
        losses_.cancel();
        finishing_.cancel();
        for (auto const& [address, target] : targets_) {
            if (target->connection) target->connection->transport->close();
            target->settling.cancel();
            target->changed.notify_all();
        }
    }

private:
    using TargetPointer = std::shared_ptr<Target>;

    static Task<> read(std::shared_ptr<State> self) {
        while (!self->is_stopped_) {
            bool const is_open = co_await self->messages_.wait_readable();  // inside && GCC 12 generates wrong code
            if (!is_open || !self->take_some()) break;                      // the launcher has ended
            co_await net::yield(self->loop_);
        }
    }

    void take_all() {
        for (int i = 0; i < most_turns_at_the_end; ++i)
            if (!take_some() || is_drained_) return;
    }

    /// Returns whether more may come.
    bool take_some() {
        std::array<char, longest_message> buffer;
        is_drained_ = false;
        for (int i = 0; i < most_messages_in_a_turn; ++i) {
            ssize_t const size = ::recv(messages_.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
            int const err = errno;
            if (size < 0 && err == EINTR) continue;
            if (size < 0) {
                is_drained_ = true;
                tell();
                return err == EAGAIN;
            }
            if (size == 0) return false;
            take({buffer.data(), static_cast<std::size_t>(size)});
        }
        tell();
        return true;
    }

    void take(std::string_view message) {
        auto const order = parse_syslog_order(message);
        if (order && !std::exchange(has_begun_, true)) answers_.begin(order->number);
        Target* const target = order ? find(order->address) : nullptr;
        if (!target) return answers_.lost(1);
        target->used = steady_clock::now();
        if (target->at.transport == config::SyslogTransport::udp) return send_datagram(*target, order->text);
        bool has_room = target->queue.push(order->text);
        if (!has_room) {
            answers_.sent(target->queue.settle());  // what has most likely arrived makes room
            has_room = target->queue.push(order->text);
        }
        if (!has_room) return drop(*target);
        target->changed.notify_all();
    }

    Target* find(std::string_view address) {
        auto const known = targets_.find(address);
        if (known != targets_.end()) return known->second.get();
        if (targets_.size() == most_targets && !forget_one()) {
            tell_no_room(address);
            return nullptr;
        }
        auto const target = std::make_shared<Target>(loop_);
        target->address = address;
        auto const at = config::parse_syslog_address(target->address);
        if (!at || at->transport == config::SyslogTransport::local) return nullptr;
        target->at = *at;
        targets_.emplace(target->address, target);
        if (at->transport != config::SyslogTransport::udp) net::spawn(loop_, serve(shared_from_this(), target));
        return target.get();
    }

    /// Forgets the target that was not used for longest, and for which nothing waits: addresses come and go with the
    /// launcher's configurations. One that has failed lately is kept, so that this is not told with each message.
    /// Returns whether there was one.
    bool forget_one() {
        auto oldest = targets_.end();
        TimePoint const now = steady_clock::now();
        for (auto one = targets_.begin(); one != targets_.end(); ++one) {
            Target const& target = *one->second;
            bool const is_needed = !target.queue.is_empty() || is_told(target.told, now);
            if (is_needed || (oldest != targets_.end() && oldest->second->used <= target.used)) continue;
            oldest = one;
        }
        if (oldest == targets_.end()) return false;
        Target& target = *oldest->second;
        target.is_forgotten = true;
        disconnect(target);
        target.changed.notify_all();
        targets_.erase(oldest);
        return true;
    }

    void drop(Target& target) {
        ++target.dropped;
        answers_.lost(1);
    }

    // --- UDP

    void send_datagram(Target& target, std::string_view text) {
        int err = 0;
        for (net::Address const& to : net::addresses_of(target.at.host)) {
            err = send_to(to, target.at.port, text);
            if (err == 0) break;
        }
        if (err != 0) {
            tell_failure(target, errno_text(err));
            return drop(target);
        }
        works(target);
        answers_.sent(1);
    }

    int send_to(net::Address const& to, std::uint16_t port, std::string_view text) {
        sockaddr_in v4{};
        sockaddr_in6 v6{};
        sockaddr const* address = nullptr;
        socklen_t size = 0;
        if (to.is_v4()) {
            v4.sin_family = AF_INET;
            v4.sin_port = htons(port);
            v4.sin_addr.s_addr = htonl(to.to_v4().to_uint());
            address = reinterpret_cast<sockaddr const*>(&v4);
            size = sizeof v4;
        } else {
            auto const bytes = to.to_v6().to_bytes();
            v6.sin6_family = AF_INET6;
            v6.sin6_port = htons(port);
            v6.sin6_scope_id = static_cast<std::uint32_t>(to.to_v6().scope_id());
            std::memcpy(&v6.sin6_addr, bytes.data(), bytes.size());
            address = reinterpret_cast<sockaddr const*>(&v6);
            size = sizeof v6;
        }
        int const socket = datagrams_[to.is_v4() ? 0 : 1].get();
        if (socket < 0) return EAFNOSUPPORT;
        ssize_t const sent = ::sendto(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL, address, size);
        return sent < 0 ? errno : 0;
    }

    // --- TCP and TLS

    static Task<> serve(std::shared_ptr<State> self, TargetPointer target) {
        while (!self->is_stopped_ && !target->is_forgotten) {
            try {
                co_await self->serve_once(target);
            } catch (std::exception const& error) {
                self->tell_failure(*target, error.what());
                disconnect(*target);
            }
        }
    }

    /// What was handed over waits again.
    static void disconnect(Target& target) {
        target.settling.cancel();
        target.queue.take_back();
        if (auto const old = std::exchange(target.connection, nullptr)) old->transport->close();
    }

    Task<> serve_once(TargetPointer const& to) {
        Target& target = *to;
        if (target.connection && target.connection->has_ended) {
            std::optional<std::string> const why = end_connection(target);
            if (why) co_await pause(target, *why);
            co_return;
        }
        if (target.queue.waiting() == 0) {
            end_if_finished();
            if (!is_stopped_) co_await target.changed.wait();
            co_return;
        }
        if (!target.connection) {
            auto connected = co_await connect(to);
            if (!connected) {
                std::string const why = connected.error().text();
                co_await pause(target, why);
                co_return;
            }
            target.connection = std::move(*connected);
        }
        SyslogQueue::Batch const batch = target.queue.batch();
        auto const connection = target.connection;
        connection->transport->expires_after(send_limit);
        auto const sent = co_await connection->transport->send(batch.bytes);
        if (!sent) {
            disconnect(target);
            std::string const why = sent.error().text();
            co_await pause(target, why);
            co_return;
        }
        connection->transport->expires_never();
        // The kernel takes what the daemon may never read: one that does not let us in tells so only after the first
        // batches. So those are kept until the connection is proven, and of later ones the last.
        if (connection->is_proven) settle(target);
        target.queue.hand_over(batch.count);
        if (connection->is_proven || target.settling.due() == TimePoint::max())
            target.settling.call_at(steady_clock::now() + time_to_settle, [this, &target] { prove(target); });
        if (target.queue.waiting() == 0) tell_dropped(target);
    }

    void prove(Target& target) {
        if (!target.connection || target.connection->has_ended) return;
        target.connection->is_proven = true;
        settle(target);
    }

    void settle(Target& target) {
        target.pause = shortest_pause;
        works(target);
        answers_.sent(target.queue.settle());
        tell();
    }

    /// Returns why what was handed over must be sent again, if it must be.
    std::optional<std::string> end_connection(Target& target) {
        auto const connection = target.connection;
        bool const is_unsettled = target.queue.handed_over() > 0;
        if (is_unsettled && !connection->failure) settle(target);
        disconnect(target);
        return is_unsettled ? connection->failure : std::nullopt;
    }

    Task<> pause(Target& target, std::string const& why) {
        if (is_stopped_) co_return;
        tell_failure(target, why);
        target.is_pausing = true;
        end_if_finished();
        Duration const pause = std::exchange(target.pause, std::min(2 * target.pause, longest_pause));
        co_await net::sleep_for(loop_, pause);
        target.is_pausing = false;
    }

    Task<Result<std::shared_ptr<Connection>>> connect(TargetPointer const& to) {
        Target const& target = *to;
        net::Certificates::Context context;
        bool const has_tls = target.at.transport == config::SyslogTransport::tls;
        if (has_tls) {
            auto made = client_context();
            if (!made) co_return std::unexpected(std::move(made).error());
            context = std::move(*made);
        }
        std::string const host(target.at.host);
        Error why{ErrorKind::unavailable, {}, "it has no address", {}, 0};
        for (net::Address const& address : net::addresses_of(target.at.host)) {
            auto const connection = std::make_shared<Connection>();
            connection->transport = net::Transport::to_connect(loop_);
            net::Transport& transport = *connection->transport;
            transport.expires_after(connect_limit);
            auto done = co_await transport.connect(address, target.at.port);
            if (done && has_tls) done = co_await secure(transport, context.get(), host);
            if (is_stopped_) co_return fail("stopping");
            if (done) {
                transport.expires_never();
                transport.watch_over_peer();
                net::spawn(loop_, Connection::watch(loop_, connection, to));
                co_return connection;
            }
            why = std::move(done.error());
        }
        co_return std::unexpected(std::move(why));
    }

    [[nodiscard]] Result<net::Certificates::Context> client_context() const {
        auto const authorities = TRY(read_file(authority_, most_authorities));
        auto context = net::client_context(authorities);
        if (!context) return fail(authority_ + ": " + context.error().text());
        return context;
    }

    // --- what is told

    void works(Target& target) {
        if (!std::exchange(target.is_failing, false)) return;
        log_.write(log::LogLevel::info, "syslog-connected", "messages are sent to " + target.address + " again",
                   {{"address", std::string_view(target.address)}});
    }

    /// A fault that comes back soon is not told again: it could be with each message.
    void tell_failure(Target& target, std::string const& why) {
        TimePoint const now = steady_clock::now();
        if (target.is_failing || is_told(target.told, now)) return;
        target.is_failing = true;
        target.told = now;
        std::string const text = "cannot send to " + target.address + ": " + why;
        log_.write(log::LogLevel::error, "syslog-failed", text, {{"address", std::string_view(target.address)}});
    }

    void tell_no_room(std::string_view address) {
        TimePoint const now = steady_clock::now();
        if (is_told(no_room_told_, now)) return;
        no_room_told_ = now;
        std::string const text = "cannot send to " + std::string(address) + ": there are " +
                                 std::to_string(most_targets) + " other addresses";
        log_.write(log::LogLevel::error, "syslog-failed", text, {{"address", address}});
    }

    void tell_dropped(Target& target) {
        if (target.dropped == 0) return;
        std::uint64_t const count = std::exchange(target.dropped, 0);
        log_.write(log::LogLevel::warning, "syslog-dropped",
                   std::to_string(count) + " messages for " + target.address + " dropped: it was too slow",
                   {{"address", std::string_view(target.address)}, {"messages", static_cast<std::int64_t>(count)}});
    }

    /// Answers the launcher. Losses are told only now and then, since each answer with some is a line in its log.
    void tell() {
        bool const with_lost = answers_.has_lost() && steady_clock::now() >= next_losses_;
        if (with_lost) next_losses_ = steady_clock::now() + between_losses;
        unwritten_ += answers_.take(with_lost);
        if (!unwritten_.empty()) {
            ssize_t const size = ::write(answers_fd_.get(), unwritten_.data(), unwritten_.size());
            if (size > 0) unwritten_.erase(0, static_cast<std::size_t>(size));
        }
        if (!unwritten_.empty() || answers_.has_lost())
            losses_.call_at(std::max(next_losses_, steady_clock::now() + std::chrono::milliseconds(100)),
                            [this] { tell(); });
    }

    void end_if_finished() {
        if (!finished_) return;
        bool const is_finished = std::ranges::all_of(
            targets_, [](auto const& entry) { return entry.second->queue.waiting() == 0 || entry.second->is_pausing; });
        if (is_finished) end();
    }

    void end() {
        next_losses_ = {};
        for (auto const& [address, target] : targets_) {
            answers_.sent(target->queue.settle());
            answers_.lost(target->queue.waiting());
            target->queue = {};
        }
        tell();
        finishing_.cancel();
        if (auto const finished = std::exchange(finished_, nullptr)) finished();
    }

    net::Loop& loop_;
    log::Log& log_;
    net::Descriptor messages_;
    UniqueFd answers_fd_;
    std::string authority_;
    std::array<UniqueFd, 2> datagrams_;  // of IPv4 and IPv6
    std::map<std::string, TargetPointer, std::less<>> targets_;
    SyslogAnswers answers_;
    std::string unwritten_;
    TimePoint next_losses_{};
    std::optional<TimePoint> no_room_told_;
    net::Timer losses_;
    net::Timer finishing_;
    std::function<void()> finished_;
    bool has_begun_ = false;
    bool is_drained_ = false;
    bool is_stopped_ = false;
};

SyslogForwarder::SyslogForwarder(std::shared_ptr<State> state) : state_(std::move(state)) {}

SyslogForwarder::~SyslogForwarder() { state_->stop(); }

Result<std::unique_ptr<SyslogForwarder>> SyslogForwarder::create(net::Loop& loop, log::Log& log, Settings settings) {
    // Without this family on the machine, its socket stays empty.
    std::array<UniqueFd, 2> datagrams{
        {UniqueFd{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP)},
         UniqueFd{::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP)}}};
    return std::unique_ptr<SyslogForwarder>(
        new SyslogForwarder(std::make_shared<State>(loop, log, std::move(settings), std::move(datagrams))));
}

void SyslogForwarder::start() { state_->start(); }

void SyslogForwarder::finish(std::function<void()> finished) { state_->finish(std::move(finished)); }

}  // namespace triton::agent
