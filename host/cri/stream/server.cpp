#include "host/cri/stream/server.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace triton::cri::stream {

namespace {

constexpr Duration check_interval = std::chrono::seconds(1);
constexpr int most_accepted_at_once = 16;

monitor::Kind kind_of(Purpose purpose) {
    switch (purpose) {
        case Purpose::execute: return monitor::Kind::execute_streams;
        case Purpose::attach: return monitor::Kind::attach;
        case Purpose::forward: return monitor::Kind::forward;
    }
    std::unreachable();
}

}  // namespace

Result<std::unique_ptr<Server>> Server::create(UniqueFd daemon) {
    auto loop = TRY(EventLoop::create());
    std::unique_ptr<Server> server(new Server(std::move(loop), std::move(daemon)));
    Server* const self = server.get();
    server->from_daemon_ = TRY(server->loop_->on_readable(server->daemon_.get(), [self] { self->hear(); }));
    server->loop_->set_round_end([self] { self->remove_done(); });
    return server;
}

Server::Server(std::unique_ptr<EventLoop> loop, UniqueFd daemon)
    : loop_(std::move(loop)), daemon_(std::move(daemon)), timer_(*loop_, [this] { check_limits(); }) {}

void Server::hear() {
    auto received = monitor::receive_message(daemon_.get());
    if (!received && received.error().kind == ErrorKind::busy) return;
    if (!received) {  // the daemon has ended: another one listens itself
        from_daemon_ = {};
        to_accept_ = {};
        daemon_ = {};
        listener_ = {};
        for (auto const& [key, connection] : connections_)
            if (connection->is_stranger()) connection->drop();
        return remove_done();
    }
    if (received->message.kind == monitor::Kind::serve && received->descriptors.size() == 1)
        return listen(std::move(received->descriptors.front()));
    auto const found = connections_.find(received->message.sequence);
    if (received->message.kind == monitor::Kind::redeemed && found != connections_.end())
        found->second->redeemed(*std::move(received));
}

void Server::listen(UniqueFd socket) {
    to_accept_ = {};
    listener_ = std::move(socket);
    watch_listener();
}

void Server::watch_listener() {
    auto watch = loop_->on_readable(listener_.get(), [this] { accept(); });
    if (watch) to_accept_ = *std::move(watch);
}

void Server::accept() {
    for (int i = 0; i < most_accepted_at_once; ++i) {
        UniqueFd socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
        if (!socket && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            to_accept_ = {};  // until check_limits()
            return timer_.arm(steady_now() + check_interval);
        }
        if (!socket) return;
        auto const is_stranger = [](auto const& one) { return one.second->is_stranger(); };
        if (std::ranges::count_if(connections_, is_stranger) >= static_cast<std::ptrdiff_t>(most_strangers))
            std::ranges::find_if(connections_, is_stranger)->second->drop();
        remove_done();
        if (connections_.size() >= most_connections) continue;  // closes it
        std::uint64_t const key = next_++;
        connections_.emplace(
            key, std::make_unique<Connection>(*loop_, std::move(socket),
                                              [this, key](Upgrade const& upgrade) { redeem(key, upgrade); }));
        if (!timer_.is_armed()) timer_.arm(loop_->now() + check_interval);
    }
}

void Server::redeem(std::uint64_t key, Upgrade const& upgrade) {
    monitor::Message message{.kind = monitor::Kind::redeem, .sequence = key};
    message.numbers[0] = static_cast<std::int64_t>(kind_of(upgrade.purpose));
    message.texts.push_back(upgrade.token);
    // A daemon that does not read is one that hangs: the client's limit of time ends it.
    (void)monitor::send_message(daemon_.get(), message);
}

void Server::check_limits() {
    for (auto const& [key, connection] : connections_)
        connection->check_limits();
    remove_done();
    if (listener_ && !to_accept_) watch_listener();
    if (!connections_.empty()) timer_.arm(steady_now() + check_interval);
}

/// Not from inside of a connection's own calls, but at the end of a round.
void Server::remove_done() {
    std::erase_if(connections_, [](auto const& one) { return one.second->is_done(); });
    if (!daemon_ && connections_.empty()) loop_->stop();
}

}  // namespace triton::cri::stream
