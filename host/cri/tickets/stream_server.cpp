#include "host/cri/tickets/stream_server.h"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/role/process.h"
#include "lib/base/loopback.h"

namespace triton::cri {

namespace {

constexpr int most_at_once = 16;  // of its requests: others get their turn

class RoleStream : public StreamServer::Process {
public:
    explicit RoleStream(role::RoleProcess process) : process_(std::move(process)) {}
    [[nodiscard]] int channel() override { return process_.channel().fd(); }
    Result<> finish() override { return process_.finish(steady_now()); }

private:
    role::RoleProcess process_;
};

std::string_view path_of(monitor::Kind kind) {
    if (kind == monitor::Kind::execute_streams) return "exec";
    return kind == monitor::Kind::attach ? "attach" : "portforward";
}

std::string joined_ports(Ticket const& ticket) {
    std::string text;
    for (std::int32_t const port : ticket.ports)
        text += (text.empty() ? "" : ",") + std::to_string(port);
    return text;
}

}  // namespace

Result<std::unique_ptr<StreamServer::Process>> StreamServer::start_role(std::string const& directory) {
    return std::make_unique<RoleStream>(TRY(role::RoleProcess::start(role::Role::stream, {.directory = directory})));
}

StreamServer::StreamServer(Settings settings, Surroundings around)
    : settings_(std::move(settings)), around_(std::move(around)), timer_(around_.loop), delay_(settings_.first_delay) {}

void StreamServer::start() {
    auto const started = try_to_start();
    if (started) {
        was_warned_ = false;
        return;
    }
    if (!std::exchange(was_warned_, true)) around_.warn("exec, attach and port-forward: " + started.error().text());
    start_later();
}

void StreamServer::start_later() {
    timer_.call_at(steady_now() + delay_, [this] { start(); });
    delay_ = std::min(2 * delay_, settings_.longest_delay);
}

Result<> StreamServer::try_to_start() {
    UniqueFd const listener = TRY(net::open_listening_socket(settings_.address));
    ::fcntl(listener.get(), F_SETFL, O_NONBLOCK);
    process_ = TRY(around_.start_process());
    started_ = steady_now();
    ++generation_;
    UniqueFd channel{::fcntl(process_->channel(), F_DUPFD_CLOEXEC, 0)};
    if (!channel) return fail(errno, "duplicate a descriptor");
    TRY(monitor::send_message(channel.get(), {.kind = monitor::Kind::serve}, {listener.get()}));
    channel_ = std::make_unique<net::Descriptor>(around_.loop, std::move(channel));
    address_ = net::local_address(listener.get());
    hear();
    return {};
}

void StreamServer::hear() {
    channel_->call_when_readable([this, generation = generation_](bool is_open) {
        if (!is_open || generation != generation_ || !channel_) return;
        for (int i = 0; i < most_at_once; ++i) {
            auto const received = monitor::receive_message(channel_->fd());
            if (!received && received.error().kind == ErrorKind::busy) return hear();
            if (!received || received->message.kind != monitor::Kind::redeem || received->message.texts.size() != 1)
                return lose(received ? "it has sent what it must not" : "it has ended");
            handle(received->message);
        }
        hear();
    });
}

void StreamServer::lose(std::string const& why) {
    auto const ended = process_->finish();
    around_.warn("exec, attach and port-forward: triton-cri-stream is started again: " +
                 (ended ? why : ended.error().text()));
    if (steady_now() - started_ > settings_.longest_delay) delay_ = settings_.first_delay;
    address_.clear();
    channel_->close();
    // The callback of its descriptor may be what runs now.
    net::post(around_.loop, [old = std::make_shared<std::unique_ptr<net::Descriptor>>(std::move(channel_))] {});
    process_.reset();
    ++generation_;
    start_later();
}

Result<std::string> StreamServer::issue(Ticket ticket) {
    if (address_.empty()) return fail(ErrorKind::unavailable, "the server of streams does not run");
    std::string const path(path_of(ticket.kind));
    std::string const token = TRY(tickets_.issue(std::move(ticket), steady_now()));
    return "http://" + address_ + "/" + path + "/" + token;
}

void StreamServer::handle(monitor::Message const& request) {
    auto const kind = static_cast<monitor::Kind>(request.numbers[0]);
    auto const ticket = tickets_.redeem(request.texts.front(), kind, steady_now());
    if (!ticket) {
        (void)monitor::send_message(channel_->fd(), {.kind = monitor::Kind::redeemed, .sequence = request.sequence});
        return;
    }
    around_.open(*ticket, [this, generation = generation_, sequence = request.sequence,
                           ticket = *ticket](Result<UniqueFd> const& socket) {
        if (generation == generation_) answer(sequence, ticket, socket);
    });
}

void StreamServer::answer(std::uint64_t sequence, Ticket const& ticket, Result<UniqueFd> const& socket) {
    monitor::Message message{.kind = monitor::Kind::redeemed, .sequence = sequence};
    message.numbers[0] = static_cast<std::int64_t>(ticket.kind);
    message.numbers[1] = ticket.streams;
    message.numbers[2] = socket ? 0 : static_cast<std::int64_t>(socket.error().kind) + 1;
    message.texts = {socket ? ticket.id : socket.error().text(), joined_ports(ticket)};
    (void)monitor::send_message(channel_->fd(), message, socket ? std::vector<int>{socket->get()} : std::vector<int>{});
}

Result<net::ListenAddress> parse_stream_address(std::string const& text) {
    auto address = TRY(net::parse_listen_address(text));
    bool const is_v6 = address.host.find(':') != std::string::npos;
    if (!is_loopback_host(is_v6 ? "[" + address.host + "]" : address.host))
        return fail(ErrorKind::invalid,
                    "stream_address " + text + " is not of a loopback interface: streams have no TLS");
    return address;
}

}  // namespace triton::cri
