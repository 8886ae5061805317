#include "host/cri/stream/forward_session.h"

#include <algorithm>
#include <utility>

namespace triton::cri::stream {

ForwardSession::ForwardSession(SessionParts parts, std::string pod, MakeWires const& make_wires)
    : parts_(std::move(parts)), pod_(std::move(pod)), wires_(make_wires(*this)) {}

void ForwardSession::start() {
    auto watch = parts_.loop.on_readable(parts_.socket.get(), [this] { hear(); });
    is_over_ = !watch;
    if (!watch) return;
    watch_ = *std::move(watch);
    (void)monitor::send_message(parts_.socket.get(), {.kind = monitor::Kind::begin});
    outer().start();
}

void ForwardSession::receive(std::string_view bytes) {
    if (!is_over_ && !outer().receive(bytes)) is_over_ = true;
}

bool ForwardSession::is_blocked() const {
    return std::ranges::any_of(connections_, [](auto const& one) {
        Connection const& connection = one.second;
        return (connection.sink ? connection.sink->pending() : connection.early.size()) > most_pending;
    });
}

void ForwardSession::hold_output(bool is_held) {
    if (std::exchange(is_held_, is_held) == is_held) return;
    for (auto const& [key, connection] : connections_)
        if (connection.source) is_held ? connection.source->pause() : connection.source->resume();
}

void ForwardSession::check_limits() {
    ended_.clear();
    TimePoint const now = steady_now();
    wires_.ports->expire_halves(now - halves_limit);
    std::vector<std::pair<std::uint32_t, std::string>> late;
    for (auto const& [key, connection] : connections_) {
        bool const is_stalled = connection.sink && connection.sink->pending() > most_pending &&
                                now - connection.sink->progress() > stall_limit;
        if (is_stalled) late.emplace_back(key, "the program behind the port does not read");
        if (connection.pod_finished < now - half_closed_limit) late.emplace_back(key, "");
    }
    for (auto const& [key, why] : late)
        end(key, why);
    parts_.changed();
}

bool ForwardSession::opened(std::uint32_t key, std::uint16_t port) {
    if (connections_.size() >= most_connections) return false;
    Connection connection;
    connection.port = port;
    connections_.insert_or_assign(key, std::move(connection));
    monitor::Message message{.kind = monitor::Kind::connect, .sequence = key};
    message.numbers[0] = port;
    (void)monitor::send_message(parts_.socket.get(), message);  // a peer that has gone is seen by hear()
    return true;
}

void ForwardSession::received(std::uint32_t key, std::string_view bytes) {
    auto const found = connections_.find(key);
    if (found == connections_.end()) return;
    if (found->second.sink)
        found->second.sink->write(bytes);
    else
        found->second.early += bytes;
    settle(key);
}

void ForwardSession::finished(std::uint32_t key) {
    auto const found = connections_.find(key);
    if (found == connections_.end()) return;
    found->second.is_client_finished = true;
    if (found->second.sink) found->second.sink->finish();
    settle(key);
}

void ForwardSession::was_reset(std::uint32_t key) {
    auto node = connections_.extract(key);
    if (!node) return;
    Connection& connection = node.mapped();
    if (connection.source) connection.source->close();
    if (connection.sink) connection.sink->close();
    ended_.push_back(std::move(connection));
}

void ForwardSession::hear() {
    auto received = monitor::receive_message(parts_.socket.get());
    if (!received && received.error().kind == ErrorKind::busy) return;
    if (!received) {  // the pod has ended
        watch_ = {};
        is_over_ = true;
        outer().close();
        return parts_.changed();
    }
    monitor::Message const& message = received->message;
    auto const key = static_cast<std::uint32_t>(message.sequence);
    if (message.kind == monitor::Kind::ended) {
        watch_ = {};
        is_over_ = true;
        outer().close();
    } else if (message.kind == monitor::Kind::connected && connections_.contains(key)) {
        if (received->descriptors.empty())
            end(key, message.texts.empty() ? "it has failed" : message.texts.front());
        else
            connected(key, std::move(received->descriptors.front()));
    }
    parts_.changed();
}

void ForwardSession::connected(std::uint32_t key, UniqueFd socket) {
    Connection& connection = connections_.at(key);
    if (connection.sink) return;
    auto const changed = [this, key] {
        settle(key);
        parts_.changed();
    };
    connection.source = std::make_unique<Source>(parts_.loop, copy_of(socket),
                                                 Source::Events{.received =
                                                                    [this, key](std::string_view bytes) {
                                                                        wires_.ports->send(key, bytes);
                                                                        parts_.changed();
                                                                    },
                                                                .ended = [this, key] { pod_finished(key); }});
    connection.sink = std::make_unique<Sink>(parts_.loop, std::move(socket), changed);
    if (!is_held_) connection.source->resume();
    connection.sink->write(std::exchange(connection.early, {}));
    if (connection.is_client_finished) connection.sink->finish();
    settle(key);
}

void ForwardSession::pod_finished(std::uint32_t key) {
    auto const found = connections_.find(key);
    if (found == connections_.end()) return;
    found->second.pod_finished = steady_now();
    wires_.ports->finish(key);
    settle(key);
    parts_.changed();
}

void ForwardSession::settle(std::uint32_t key) {
    auto const found = connections_.find(key);
    if (found == connections_.end() || !found->second.source || found->second.source->is_open()) return;
    bool const takes_nothing = !found->second.sink->is_open() || found->second.sink->is_finished();
    if (takes_nothing) end(key, "");
}

void ForwardSession::end(std::uint32_t key, std::string const& error) {
    auto const found = connections_.find(key);
    if (found == connections_.end()) return;
    std::string const text = error.empty() ? ""
                                           : "error forwarding port " + std::to_string(found->second.port) +
                                                 " to pod " + pod_ + ": " + error;
    was_reset(key);
    wires_.ports->end(key, text);
}

}  // namespace triton::cri::stream
