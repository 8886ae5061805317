#include "programs/vminfod/listeners.h"

#include "host/systemd/daemon.h"
#include "lib/daemon/unix_listener.h"
#include "lib/net/listen_address.h"

namespace triton::program {

namespace {

constexpr char readers_group[] = "triton-info";

/// The address of a TCP socket without its port; empty when it is not on the loopback interface.
std::string loopback_host(int socket) {
    std::string const address = net::local_address(socket);
    return parse_loopback_address(address) ? address.substr(0, address.rfind(':')) : "";
}

}  // namespace

Result<Listeners> open_listeners(DaemonOptions const& options, InfoConfiguration const& configuration) {
    Listeners listeners;
    bool has_unix = false;
    bool has_tcp = false;
    for (systemd::HandedSocket& handed : TRY(systemd::take_sockets())) {
        (handed.is_unix ? has_unix : has_tcp) = true;
        if (!handed.is_unix) listeners.tcp_host = loopback_host(handed.fd.get());
        listeners.open.push_back({std::move(handed.fd), handed.is_unix ? Entrance::unix_socket : Entrance::tcp,
                                  handed.is_unix ? "a Unix socket of systemd" : "a TCP socket of systemd"});
    }
    if (!has_unix) {
        std::string const path = options.socket.empty() ? options.root + "/run/triton/vminfod.socket" : options.socket;
        listeners.open.push_back({TRY(daemon::listen_on_unix_socket(path, readers_group)), Entrance::unix_socket, path});
    }
    // The configuration below another root is of another host, whose ports are not ours to take.
    std::string const configured = options.root.empty() ? configuration.listen.value_or("none") : "none";
    std::string const address = !options.listen.empty() ? options.listen : configured;
    if (has_tcp || address == "none") return listeners;
    auto const parsed = TRY(parse_loopback_address(address));
    auto socket = net::open_listening_socket(parsed);
    if (!socket && !options.listen.empty()) return std::unexpected(std::move(socket).error());
    if (!socket) {
        listeners.missing = socket.error().text();
        return listeners;
    }
    listeners.tcp_host = loopback_host(socket->get());
    std::string shown = net::local_address(socket->get());
    listeners.open.push_back({*std::move(socket), Entrance::tcp, std::move(shown)});
    return listeners;
}

}  // namespace triton::program
