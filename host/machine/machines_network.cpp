#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "host/machine/etc_file.h"
#include "host/machine/lock_file.h"
#include "host/machine/machines.h"
#include "host/machine/metadata_links.h"
#include "host/storage/remove_tree.h"
#include "lib/base/next_entry.h"

/// The part of Machines that deals with networks.
namespace triton::machine {

namespace {

std::string file_of(std::string const& directory, std::string_view name) { return directory + "/" + std::string(name); }

/// All ports that a machine may have on the host: those of its next start, and those of the one before.
Result<std::vector<network::Port>> all_ports(std::string const& directory) {
    auto ports = TRY(network::read_ports(file_of(directory, network::ports_name)));
    for (network::Port& port : TRY(network::read_ports(file_of(directory, network::raised_name))))
        ports.push_back(std::move(port));
    return ports;
}

/// What systemd-nspawn is to make, as a line of its file.
std::string systemd_link(network::Port const& port, network::Interface const& interface) {
    switch (port.tag.attachment) {
        case network::Attachment::bridge: return "VirtualEthernetExtra=" + port.host_link() + ":" + interface.name;
        case network::Attachment::macvlan: return "MACVLAN=" + port.macvlan_base();
    }
    std::unreachable();
}

}  // namespace

std::string Machines::network_path(Uuid const& uuid) const { return store_.layout().networks() + "/" + uuid.text(); }

Result<NetworkPlan> Machines::plan_network(Machine const& machine) {
    if (!parts_.networks || machine.nics.empty()) return NetworkPlan();
    return network_plan(machine, TRY(parts_.networks->tags()));
}

Result<> Machines::check_network(Machine const& machine) {
    (void)TRY(plan_network(machine));
    return {};
}

Result<> Machines::check_links(Machine const& machine) {
    NetworkPlan const plan = TRY(plan_network(machine));
    if (plan.ports.empty()) return {};
    return parts_.networks->check(plan.ports);
}

Result<> Machines::derive_network(Machine const& machine, MachinePaths& paths) {
    if (!parts_.networks) return {};
    NetworkPlan const plan = TRY(plan_network(machine));
    std::string const directory = network_path(machine.uuid);
    TRY(replace_file(file_of(directory, network::ports_name), network::ports_text(plan.ports), 0600));
    if (plan.ports.empty()) return remove_file(file_of(directory, network::inside_name));
    paths.first_program = TRY(parts_.networks->first_program());
    paths.network = file_of(directory, network::connect_name);
    for (std::size_t i = 0; i < plan.ports.size(); ++i)
        paths.links.push_back(systemd_link(plan.ports[i], plan.inside.interfaces[i]));
    return replace_file(file_of(directory, network::inside_name), network::inside_text(plan.inside), 0600);
}

Result<> Machines::underive_network(Uuid const& uuid) {
    std::string const directory = network_path(uuid);
    if (parts_.networks) {
        auto const ports = TRY(all_ports(directory));
        TRY(parts_.networks->lower(ports));
    }
    // Whatever is there: a command that was killed while it replaced a file has left another one.
    UniqueFd const all{::open(store_.layout().networks().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!all && errno == ENOENT) return {};
    if (!all) return fail(errno, "open " + store_.layout().networks());
    return storage::remove_tree(all.get(), uuid.text());
}

std::vector<Nic> Machines::raised_nics(Uuid const& uuid) const {
    std::vector<Nic> nics;
    // One that cannot be read tells nothing, and must not hinder other machines.
    auto const ports = network::read_ports(file_of(network_path(uuid), network::raised_name));
    if (!ports) return nics;
    for (network::Port const& port : *ports)
        nics.push_back({.mac = port.mac, .nic_tag = port.tag.name, .vlan_id = port.vlan, .ips = port.addresses});
    return nics;
}

Result<> Machines::guard_network(Machine const& machine) {
    if (!parts_.networks) return {};
    std::string const file = file_of(network_path(machine.uuid), network::raised_name);
    auto raised = TRY(network::read_ports(file));
    auto const changed = guarded(raised, machine);
    if (changed.empty()) return {};
    for (network::Port const& port : changed)
        std::ranges::find(raised, port.mac, &network::Port::mac)->rules = port.rules;
    // Written first: a link that is not there yet is joined with these rules.
    if (!TRY(network::save_again(file, network::ports_text(raised), 0600))) return {};  // it has just been stopped
    return parts_.networks->guard(changed);
}

Result<std::vector<Uuid>> Machines::stray_networks() {
    std::vector<Uuid> strays;
    std::unique_ptr<DIR, int (*)(DIR*)> const all(::opendir(store_.layout().networks().c_str()), ::closedir);
    if (!all && errno == ENOENT) return strays;
    if (!all) return fail(errno, "open " + store_.layout().networks());
    while (dirent const* const entry = TRY(next_entry(all.get(), store_.layout().networks()))) {
        auto const uuid = Uuid::parse(entry->d_name);
        if (uuid && !store_.exists(*uuid)) strays.push_back(*uuid);
    }
    return strays;
}

Result<> Machines::recover_network(Uuid const& owner, Told const& told) {
    MachineLock const own = TRY(lock(owner, "recover"));
    LockFile const lock_file(store_, owner);
    if (store_.exists(owner)) return {};
    TRY(underive(owner));
    told("network of VM " + owner.text() + ": removed, there is no such VM");
    return {};
}

/// The image's own init may set the host name that it finds in /etc.
void Machines::write_into_tree(Machine const& machine, std::string const& tree) {
    if (machine.hostname) write_etc(tree, "hostname", *machine.hostname + "\n");
    make_metadata_links(tree + "/root");
}

void Machines::write_resolvers(Machine const& machine, std::string const& tree) {
    std::string const text = resolvers_text(machine);
    if (!text.empty()) write_etc(tree, "resolv.conf", text);
}

/// Writes a file in /etc. A machine whose /etc leads elsewhere must not stop its owner's commands: it keeps what it
/// has.
void Machines::write_etc(std::string const& tree, std::string const& name, std::string_view text) {
    if (auto const written = write_etc_file(tree + "/root", name, text); !written)
        notice("note: " + name + ": " + written.error().text());
}

}  // namespace triton::machine
