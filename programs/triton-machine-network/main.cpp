#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>

#include <unistd.h>

#include "host/network/documents.h"
#include "host/network/host.h"
#include "host/network/ports.h"
#include "lib/base/default_signals.h"
#include "lib/base/read_file.h"
#include "lib/base/uuid.h"
#include "lib/base/write_all.h"

namespace triton::program {

namespace {

/// The places of one machine's documents.
struct Paths {
    std::string ports;
    std::string raised;
    std::string inside;
    std::string connect;
};

constexpr std::size_t most_bytes = 4 << 20;
constexpr std::chrono::seconds join_limit{120};  // systemd-nspawn may have much to do before it makes links

Result<> lower(Paths const& paths, network::Host& host) {
    std::vector<network::Port> ports = TRY(network::read_ports(paths.ports));
    for (network::Port& port : TRY(network::read_ports(paths.raised)))
        ports.push_back(std::move(port));
    TRY(network::lower_ports(ports, host));
    if (::unlink(paths.raised.c_str()) != 0 && errno != ENOENT) return fail(errno, "remove " + paths.raised);
    return {};
}

/// Prepares what must exist before the machine starts.
Result<> prepare(Paths const& paths, network::Host& host) {
    TRY(lower(paths, host));
    std::vector<network::Port> const ports = TRY(network::read_ports(paths.ports));
    if (ports.empty()) return {};
    std::string const text = TRY(read_file(paths.inside, most_bytes));
    network::Inside inside = TRY(network::parse_inside(text, paths.inside));
    // written in advance: `down` removes these ports, whatever the properties say by then
    TRY(network::save(paths.raised, network::ports_text(ports), 0600));
    TRY(network::prepare_ports(ports, inside, host));
    // readable by all, because inside the machine's user namespace nobody owns it
    return network::save(paths.connect, network::inside_text(inside), 0644);
}

Result<> join(Paths const& paths, network::Host& host) {
    std::vector<network::Port> const ports = TRY(network::read_ports(paths.raised));
    TRY(network::join_ports(ports, std::chrono::steady_clock::now() + join_limit, host));
    // An update that found no link yet has left its rules there.
    std::vector<network::Port> const now = TRY(network::read_ports(paths.raised));
    if (network::ports_text(now) == network::ports_text(ports)) return {};
    return network::guard_ports(now, host);
}

int say(std::string const& text) {
    (void)write_all(STDERR_FILENO, "triton-machine-network: " + text + "\n");  // nobody to tell
    return 1;
}

struct Verb {
    std::string_view name;
    Result<> (*run)(Paths const& paths, network::Host& host);
};
constexpr Verb verbs[] = {{"up", prepare}, {"join", join}, {"down", lower}};

/// triton-machine-network up|join|down NAME: runs before, during and after systemd-nspawn@NAME.service. Machines that
/// are not ours are left alone.
int run(int count, char** arguments) {
    std::string_view const name = count == 3 ? arguments[1] : "";
    auto const* const verb = std::ranges::find(verbs, name, &Verb::name);
    if (verb == std::ranges::end(verbs)) return say("usage: triton-machine-network up|join|down NAME");
    auto const uuid = Uuid::parse(arguments[2]);
    if (!uuid) return 0;
    std::string const directory = std::string(network::directory) + "/" + uuid->text() + "/";
    Paths const paths{.ports = directory + std::string(network::ports_name),
                      .raised = directory + std::string(network::raised_name),
                      .inside = directory + std::string(network::inside_name),
                      .connect = directory + std::string(network::connect_name)};
    auto host = network::RealHost::open();
    if (!host) return say(host.error().text());
    Result<> const done = verb->run(paths, *host);
    return done ? 0 : say(done.error().text());
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) {
    triton::take_default_signals();
    return triton::program::run(argc, argv);
}
