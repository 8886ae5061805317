#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <unistd.h>

#include "host/network/documents.h"
#include "host/network/host.h"
#include "host/network/ports.h"
#include "lib/base/default_signals.h"
#include "lib/base/next_entry.h"
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

Paths paths_of(Uuid const& uuid) {
    std::string const directory = std::string(network::directory) + "/" + uuid.text() + "/";
    return {.ports = directory + std::string(network::ports_name),
            .raised = directory + std::string(network::raised_name),
            .inside = directory + std::string(network::inside_name),
            .connect = directory + std::string(network::connect_name)};
}

constexpr std::size_t most_bytes = 4 << 20;
// systemd-nspawn may change the owner of a whole tree before it makes links. This unit is stopped with the machine.
constexpr std::chrono::hours join_limit{24};

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

/// Gives the links the rules of an update that came after `ports` had been read.
Result<> guard_anew(Paths const& paths, std::vector<network::Port> ports, network::Host& host) {
    for (;;) {  // an operator decides how many updates there are
        std::vector<network::Port> now = TRY(network::read_ports(paths.raised));
        if (network::ports_text(now) == network::ports_text(ports)) return {};
        TRY(network::guard_ports(now, host));
        ports = std::move(now);
    }
}

/// Gives the links of a machine that is up their rules again.
Result<> guard(Paths const& paths, network::Host& host) {
    std::vector<network::Port> const ports = TRY(network::read_ports(paths.raised));
    TRY(network::guard_ports(ports, host));
    return guard_anew(paths, ports, host);
}

Result<> join(Paths const& paths, network::Host& host) {
    std::vector<network::Port> const ports = TRY(network::read_ports(paths.raised));
    TRY(network::join_ports(ports, std::chrono::steady_clock::now() + join_limit, host));
    return guard_anew(paths, ports, host);
}

/// For all machines: whoever replaces the host's firewall (`nft flush ruleset`) has removed their rules, too.
Result<> guard_all(network::Host& host) {
    std::string const top(network::directory);
    std::unique_ptr<DIR, int (*)(DIR*)> const all(::opendir(top.c_str()), ::closedir);
    if (!all && errno == ENOENT) return {};
    if (!all) return fail(errno, "open " + top);
    Result<> result;
    while (dirent const* const entry = TRY(next_entry(all.get(), top))) {
        auto const uuid = Uuid::parse(entry->d_name);
        if (!uuid) continue;
        auto guarded = guard(paths_of(*uuid), host);  // goes on after errors: each machine has its own rules
        if (guarded) continue;
        guarded = fail(guarded.error().kind, "VM " + uuid->text() + ": " + guarded.error().text());
        if (result) result = std::move(guarded);
    }
    return result;
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
/// are not ours are left alone. triton-machine-network guard: runs after nftables.service has changed its rules.
int run(int count, char** arguments) {
    std::string_view const name = count > 1 ? arguments[1] : "";
    bool const is_for_all = name == "guard" && count == 2;
    auto const* const verb = std::ranges::find(verbs, count == 3 ? name : "", &Verb::name);
    if (!is_for_all && verb == std::ranges::end(verbs))
        return say("usage: triton-machine-network up|join|down NAME, or triton-machine-network guard");
    auto const uuid = is_for_all ? std::nullopt : Uuid::parse(arguments[2]);
    if (!is_for_all && !uuid) return 0;
    auto host = network::RealHost::open();
    if (!host) return say(host.error().text());
    Result<> const done = is_for_all ? guard_all(*host) : verb->run(paths_of(*uuid), *host);
    return done ? 0 : say(done.error().text());
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) {
    triton::take_default_signals();
    return triton::program::run(argc, argv);
}
