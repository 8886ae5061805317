#include "host/cri/sandbox/stream_calls.h"

#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include "host/cri/container/oci_spec.h"
#include "host/cri/sandbox/places.h"
#include "host/cri/wire/messages.h"
#include "host/cri/wire/typed.h"
#include "lib/base/read_file.h"
#include "lib/http/grpc/status.h"

namespace triton::cri {

namespace {

constexpr std::size_t largest_container_spec = 32U << 20U;
constexpr int most_ports = 100;
constexpr std::int32_t highest_port = 65'535;

/// The texts are those of other runtimes, which clients may know.
Result<> check_streams(std::string const& id, bool is_terminal, bool has_input, bool has_output, bool has_errors) {
    if (id.empty()) return fail(ErrorKind::invalid, "missing required container_id");
    if (is_terminal && has_errors) return fail(ErrorKind::invalid, "tty and stderr cannot both be true");
    if (!has_input && !has_output && !has_errors)
        return fail(ErrorKind::invalid, "one of `stdin`, `stdout`, or `stderr` must be set");
    return {};
}

Result<> check_command(v1::ExecRequest const& request) {
    TRY(check_streams(request.container_id(), request.tty(), request.stdin(), request.stdout(), request.stderr()));
    if (request.cmd().empty() || request.cmd(0).empty()) return fail(ErrorKind::invalid, "there is no command");
    return {};
}

Result<> check_ports(v1::PortForwardRequest const& request) {
    if (request.pod_sandbox_id().empty()) return fail(ErrorKind::invalid, "missing required pod_sandbox_id");
    if (request.port_size() > most_ports) return fail(ErrorKind::invalid, "too many ports");
    for (std::int32_t const port : request.port())
        if (port < 1 || port > highest_port)
            return fail(ErrorKind::invalid, "port " + std::to_string(port) + " is none");
    return {};
}

template <class Request>
std::int64_t bits_of(Request const& request) {
    return monitor::bits({{request.stdin(), monitor::stream_input},
                          {request.stdout(), monitor::stream_output},
                          {request.stderr(), monitor::stream_errors},
                          {request.tty(), monitor::stream_terminal}});
}

}  // namespace

StreamCalls::StreamCalls(StreamServer::Settings settings, Surroundings around)
    : around_(std::move(around)),
      server_(std::move(settings),
              {.loop = around_.loop,
               .open = [this](Ticket const& ticket, StreamServer::Opened const& opened) { open(ticket, opened); },
               .warn = around_.warn}),
      workers_(2) {}

Result<StreamCalls::Target> StreamCalls::find(Ticket const& ticket) {
    return ticket.kind == monitor::Kind::forward ? around_.pod(ticket.id) : around_.container(ticket.id);
}

template <class Response>
void StreamCalls::answer(CallPtr const& call, Result<> const& valid, Ticket ticket) {
    auto const url = [&]() -> Result<std::string> {
        TRY(valid);
        TRY(find(ticket));
        return server_.issue(std::move(ticket));
    }();
    if (!url) return call->finish(http::grpc::status_of(url.error()));
    Response response;
    response.set_url(*url);
    call->answer(response.SerializeAsString());
}

void StreamCalls::add_to(Router& router) {
    router.on(method("Exec"), typed<v1::ExecRequest>([this](CallPtr const& call, auto const& request) {
                  answer<v1::ExecResponse>(call, check_command(request),
                                           {.kind = monitor::Kind::execute_streams,
                                            .id = request.container_id(),
                                            .command = {request.cmd().begin(), request.cmd().end()},
                                            .streams = bits_of(request)});
              }));
    router.on(method("Attach"), typed<v1::AttachRequest>([this](CallPtr const& call, auto const& request) {
                  answer<v1::AttachResponse>(
                      call,
                      check_streams(request.container_id(), request.tty(), request.stdin(), request.stdout(),
                                    request.stderr()),
                      {.kind = monitor::Kind::attach, .id = request.container_id(), .streams = bits_of(request)});
              }));
    router.on(method("PortForward"), typed<v1::PortForwardRequest>([this](CallPtr const& call, auto const& request) {
                  answer<v1::PortForwardResponse>(call, check_ports(request),
                                                  {.kind = monitor::Kind::forward,
                                                   .id = request.pod_sandbox_id(),
                                                   .ports = {request.port().begin(), request.port().end()}});
              }));
}

/// The client has come, with a token that is good.
void StreamCalls::open(Ticket const& ticket, StreamServer::Opened const& opened) {
    auto const target = find(ticket);
    if (!target) return opened(std::unexpected(target.error()));
    if (ticket.kind == monitor::Kind::execute_streams) return open_command(ticket, *target, opened);
    ask_monitor(ticket, target->network, opened);
}

void StreamCalls::open_command(Ticket const& ticket, Target const& target, StreamServer::Opened const& opened) {
    std::string const file = target.bundle + "/stream-" + std::to_string(next_++) + ".json";
    bool const is_terminal = (ticket.streams & monitor::stream_terminal) != 0;
    auto const queued = workers_.run([this, ticket, opened, file, is_terminal, bundle = target.bundle] {
        auto const write = [&]() -> Result<> {
            std::string const spec = TRY(read_file(bundle + "/config.json", largest_container_spec));
            return write_file(file, TRY(make_process(spec, ticket.command, is_terminal)), false);
        };
        auto const written = std::make_shared<Result<>>(write());
        around_.post([this, ticket, opened, file, written] {
            if (!*written) return opened(std::unexpected(written->error()));
            ask_monitor(ticket, file, opened);
        });
    });
    if (!queued) opened(std::unexpected(queued.error()));
}

void StreamCalls::ask_monitor(Ticket const& ticket, std::string const& text, StreamServer::Opened const& opened) {
    auto const target = find(ticket);
    int ends[2];
    if (!target) return opened(std::unexpected(target.error()));
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return opened(fail(errno, "make the socket of a session"));
    auto const own = std::make_shared<UniqueFd>(ends[0]);
    UniqueFd const theirs{ends[1]};
    monitor::Message message{.kind = ticket.kind, .container = ticket.id};
    message.numbers[0] = ticket.streams;
    message.texts = {text};
    target->link->ask(std::move(message),
                      [own, opened](Result<std::int64_t> const& done) {
                          opened(done ? Result<UniqueFd>(std::move(*own)) : std::unexpected(done.error()));
                      },
                      {theirs.get()});
}

}  // namespace triton::cri
