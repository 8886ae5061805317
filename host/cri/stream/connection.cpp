#include "host/cri/stream/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/cri/stream/command_session.h"
#include "host/cri/stream/descriptor_ends.h"
#include "host/cri/stream/forward_session.h"
#include "host/cri/stream/request_head.h"
#include "host/cri/stream/spdy_wires.h"
#include "host/cri/stream/websocket_wires.h"

namespace triton::cri::stream {

namespace {

constexpr std::size_t read_bytes = 64 * 1024;
constexpr std::string_view head_end = "\r\n\r\n";

CommandStreams streams_of(std::int64_t bits) {
    return {.has_input = (bits & monitor::stream_input) != 0,
            .has_output = (bits & monitor::stream_output) != 0,
            .has_errors = (bits & monitor::stream_errors) != 0,
            .is_terminal = (bits & monitor::stream_terminal) != 0};
}

std::vector<std::uint16_t> parse_ports(std::string_view text) {
    std::vector<std::uint16_t> ports;
    while (!text.empty()) {
        std::uint16_t port = 0;
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
        if (error == std::errc{}) ports.push_back(port);
        std::size_t const comma = text.find(',');
        text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    }
    return ports;
}

ForwardSession::Wires forward_wires(Upgrade const& upgrade, std::vector<std::uint16_t> const& ports,
                                    ForwardEvents& events) {
    ForwardSession::Wires wires;
    if (upgrade.is_websocket && !upgrade.is_tunnel) {
        wires.ports = std::make_unique<WebSocketForwardWire>(events, ports, upgrade.is_base64);
        return wires;
    }
    wires.ports = std::make_unique<SpdyForwardWire>(events);
    if (upgrade.is_tunnel) wires.outer = std::make_unique<WebSocketTunnel>(*wires.ports);
    return wires;
}

}  // namespace

Connection::Connection(EventLoop& loop, UniqueFd socket, Redeem redeem)
    : loop_(loop),
      socket_(std::move(socket)),
      writer_(copy_of(socket_)),
      redeem_(std::move(redeem)),
      since_(steady_now()),
      active_(since_) {
    int const on = 1;
    (void)::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch_input(true);
    if (!writer_) finish();
}

void Connection::enter(Phase phase) {
    phase_ = phase;
    since_ = steady_now();
}

void Connection::finish() {
    enter(Phase::done);
    readable_ = {};
    writable_ = {};
    socket_ = {};
    writer_ = {};
}

void Connection::watch_input(bool is_wanted) {
    if (!is_wanted) {
        readable_ = {};
    } else if (!readable_ && socket_) {
        auto watch = loop_.on_readable(socket_.get(), [this] { read(); });
        if (!watch) return finish();
        readable_ = *std::move(watch);
    }
}

void Connection::read() {
    static std::array<char, read_bytes> buffer;
    ssize_t const size = ::read(socket_.get(), buffer.data(), buffer.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) return finish();
    active_ = steady_now();
    receive({buffer.data(), static_cast<std::size_t>(size)});
}

void Connection::receive(std::string_view bytes) {
    switch (phase_) {
        case Phase::head: input_ += bytes; return receive_head();
        case Phase::session: session_->receive(bytes); return pump();
        case Phase::redeeming:
        case Phase::last_output:
        case Phase::lingering:
        case Phase::done: return;  // is thrown away
    }
}

void Connection::receive_head() {
    std::size_t const end = input_.find(head_end);
    if (end == std::string::npos || end > most_head_bytes) {
        if (input_.size() > most_head_bytes)
            answer(plain_answer(431, "Request Header Fields Too Large", "it is too long"));
        return;
    }
    auto const head = parse_request_head(std::string_view(input_).substr(0, end + head_end.size()));
    if (!head) return answer(plain_answer(400, "Bad Request", head.error().text()));
    auto negotiated = negotiate(*head);
    if (auto* const refusal = std::get_if<Refusal>(&negotiated)) return answer(std::move(refusal->answer));
    upgrade_ = std::get<Upgrade>(std::move(negotiated));
    input_.erase(0, end + head_end.size());
    enter(Phase::redeeming);
    watch_input(false);
    redeem_(upgrade_);
}

void Connection::answer(std::string text) {
    output_ = std::move(text);
    enter(Phase::last_output);
    watch_input(true);
    pump();
}

void Connection::redeemed(monitor::Received received) {
    if (phase_ != Phase::redeeming) return;
    auto const& numbers = received.message.numbers;
    if (numbers[0] == 0) return answer(plain_answer(404, "Not Found", "there is nothing of that name"));
    if (numbers[2] != 0 || received.descriptors.size() != 1) {
        std::string const why = received.message.texts.empty() ? "it has failed" : received.message.texts.front();
        return answer(plain_answer(500, "Internal Server Error", why));
    }
    begin(std::move(received));
}

void Connection::begin(monitor::Received received) {
    output_ = upgrade_.answer;
    session_ = make_session(std::move(received));
    session_->output().insert(0, std::exchange(output_, {}));
    enter(Phase::session);
    session_->start();
    if (!input_.empty()) session_->receive(std::exchange(input_, {}));
    pump();
}

std::unique_ptr<Session> Connection::make_session(monitor::Received received) {
    SessionParts parts{.loop = loop_, .socket = std::move(received.descriptors.front()), .changed = [this] { pump(); }};
    auto const& texts = received.message.texts;
    if (upgrade_.purpose == Purpose::forward)
        return std::make_unique<ForwardSession>(
            std::move(parts), texts.empty() ? "" : texts.front(), [&](ForwardEvents& events) {
                return forward_wires(upgrade_, parse_ports(texts.size() > 1 ? texts[1] : ""), events);
            });
    CommandStreams const streams = streams_of(received.message.numbers[1]);
    return std::make_unique<CommandSession>(
        std::move(parts), upgrade_.purpose == Purpose::execute, streams,
        [&](CommandEvents& events) -> std::unique_ptr<CommandWire> {
            if (upgrade_.is_websocket)
                return std::make_unique<WebSocketCommandWire>(events, streams, upgrade_.version, upgrade_.is_base64);
            return std::make_unique<SpdyCommandWire>(events, streams, upgrade_.version);
        });
}

/// Sends what there is, and lets those wait who have to.
void Connection::pump() {
    if (phase_ == Phase::done || std::exchange(is_pumping_, true)) return;
    std::string& output = session_ ? session_->output() : output_;
    bool const is_open = flush(output);
    is_pumping_ = false;
    if (!is_open) return finish();
    if (phase_ == Phase::session) {
        session_->hold_output(output.size() > (writable_ ? most_pending / 2 : most_pending));
        if (session_->is_over()) {
            enter(Phase::last_output);
            watch_input(true);
        } else {
            watch_input(!session_->is_blocked() && output.size() <= most_pending);
        }
    }
    if (phase_ == Phase::last_output && output.empty()) {
        ::shutdown(socket_.get(), SHUT_WR);
        enter(Phase::lingering);
    }
}

/// Returns whether the connection continues.
bool Connection::flush(std::string& output) {
    std::size_t written = 0;
    while (written < output.size()) {
        ssize_t const size = ::write(writer_.get(), output.data() + written, output.size() - written);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno != EAGAIN) return false;
        if (size <= 0) break;
        written += static_cast<std::size_t>(size);
        active_ = steady_now();
    }
    output.erase(0, written);
    if (output.empty()) {
        writable_ = {};
    } else if (!writable_) {
        auto watch = loop_.on_writable(writer_.get(), [this] { pump(); });
        if (!watch) return false;
        writable_ = *std::move(watch);
    }
    return true;
}

/// Also while nothing is read from it.
bool Connection::has_peer_gone() const {
    tcp_info info{};
    socklen_t size = sizeof info;
    return ::getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state != TCP_ESTABLISHED;
}

void Connection::check_limits() {
    TimePoint const now = steady_now();
    switch (phase_) {
        case Phase::head:
        case Phase::redeeming:
            if (now - since_ > head_limit) finish();
            return;
        case Phase::session:
            session_->check_limits();
            if (now - active_ > idle_limit || (!readable_ && has_peer_gone())) return finish();
            return pump();
        case Phase::last_output:
            if (now - std::max(active_, since_) > last_output_limit) finish();
            return;
        case Phase::lingering:
            if (now - since_ > linger_limit) finish();
            return;
        case Phase::done: return;
    }
}

}  // namespace triton::cri::stream
