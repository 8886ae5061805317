#include <utility>

#include <unistd.h>

#include "host/cri/cni/network_configuration.h"
#include "host/cri/cni/network_namespace.h"
#include "host/cri/cni/plugins.h"
#include "host/cri/container/name_service.h"
#include "host/cri/sandbox/pods.h"
#include "host/cri/sandbox/records_store.h"
#include "lib/base/size.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"

namespace triton::cri {

namespace {

constexpr std::uint64_t largest_burst = UINT32_MAX;
constexpr std::uint64_t largest_rate = 1'000'000'000'000'000;

NetworkedPod networked(HostFacts const& facts, record::Pod const& pod) {
    std::string const path = network_namespace_path(facts, pod.id());
    auto const& metadata = pod.config().metadata();
    return {.id = pod.id(),
            .network_namespace = has_network_namespace(path) ? path : "",
            .name = metadata.name(),
            .name_space = metadata.namespace_(),
            .uid = metadata.uid()};
}

char const* protocol_name(v1::Protocol protocol) {
    switch (protocol) {
        case v1::UDP: return "udp";
        case v1::SCTP: return "sctp";
        default: return "tcp";
    }
}

void add_ports(json::Writer& out, v1::PodSandboxConfig const& config) {
    out.key("portMappings").open('[');
    for (v1::PortMapping const& port : config.port_mappings()) {
        if (port.host_port() <= 0) continue;
        out.open('{').member("hostPort", port.host_port()).member("containerPort", port.container_port());
        out.member("protocol", protocol_name(port.protocol()));
        if (!port.host_ip().empty()) out.member("hostIP", port.host_ip());
        out.close('}');
    }
    out.close(']');
}

/// Bits per second, "10M". Errors: `invalid`.
Result<std::optional<std::uint64_t>> rate_of(v1::PodSandboxConfig const& config, std::string const& annotation) {
    auto const found = config.annotations().find(annotation);
    if (found == config.annotations().end()) return std::nullopt;
    auto const rate = parse_size(found->second);
    if (!rate || *rate < 1000 || *rate > largest_rate)
        return fail(ErrorKind::invalid, json::quoted(found->second) + " is not a rate for " + annotation);
    return rate;
}

Result<> add_bandwidth(json::Writer& out, v1::PodSandboxConfig const& config) {
    auto const in = TRY(rate_of(config, "kubernetes.io/ingress-bandwidth"));
    auto const from = TRY(rate_of(config, "kubernetes.io/egress-bandwidth"));
    if (!in && !from) return {};
    out.key("bandwidth").open('{');
    if (in) out.member("ingressRate", *in).member("ingressBurst", largest_burst);
    if (from) out.member("egressRate", *from).member("egressBurst", largest_burst);
    out.close('}');
    return {};
}

void add_names(json::Writer& out, v1::DNSConfig const& dns) {
    out.key("dns").open('{').key("servers").list(dns.servers()).key("searches").list(dns.searches());
    out.key("options").list(dns.options()).close('}');
}

/// A list of ranges for each address family: "10.0.0.0/24,fd00::/64".
void add_ranges(json::Writer& out, std::string_view ranges) {
    if (ranges.empty()) return;
    out.key("ipRanges").open('[');
    while (!ranges.empty()) {
        std::string_view const one = ranges.substr(0, ranges.find(','));
        ranges.remove_prefix(std::min(ranges.size(), one.size() + 1));
        out.open('[').open('{').member("subnet", one).close('}').close(']');
    }
    out.close(']');
}

Result<std::string> capabilities_of(v1::PodSandboxConfig const& config, std::string const& ranges) {
    json::Writer out;
    out.open('{');
    add_ports(out, config);
    TRY(add_bandwidth(out, config));
    if (config.has_dns_config()) add_names(out, config.dns_config());
    add_ranges(out, ranges);
    if (!config.linux().cgroup_parent().empty()) out.member("cgroupPath", config.linux().cgroup_parent());
    out.key("io.kubernetes.cri.pod-annotations").open('{');
    for (auto const& [name, value] : config.annotations())
        out.name(name).value(value);
    return std::move(out.close('}').close('}')).text();
}

}  // namespace

std::string network_namespace_path(HostFacts const& facts, std::string const& pod) {
    return facts.settings.root + "/run/netns/triton-" + pod;
}

Result<> make_pod_namespace(HostFacts const& facts, record::Pod const& pod, std::string const& existing) {
    std::map<std::string, std::string> sysctls{pod.config().linux().sysctls().begin(),
                                               pod.config().linux().sysctls().end()};
    // What programs without capabilities expect to be able to do.
    sysctls.try_emplace("net.ipv4.ip_unprivileged_port_start", "0");
    if (existing.empty()) sysctls.try_emplace("net.ipv4.ping_group_range", "0 2147483647");
    return make_network_namespace(network_namespace_path(facts, pod.id()), sysctls, existing);
}

Result<> add_pod_network(HostFacts const& facts, record::Pod& pod, std::string const& ranges) {
    NetworkFile const file = TRY(find_network(facts.settings.network_directory));
    Plugins const plugins(facts.settings.plugin_directories, facts.settings.plugin_limit);
    TRY(plugins.check(file.list));
    record::Network& network = *pod.mutable_network();
    network.set_configuration(file.text);
    network.set_capabilities(TRY(capabilities_of(pod.config(), ranges)));
    // An address that was given must be given back, whatever happens to us.
    TRY(save(facts.places, pod, true));
    std::string const result = TRY(plugins.add(file.list, networked(facts, pod), network.capabilities()));
    network.set_result(result);
    auto const addresses = TRY(addresses_of(result, pod_interface));
    if (addresses.empty())
        return fail(ErrorKind::unavailable, "add pod to network " + file.list.name, "it has got no address");
    for (std::string const& address : addresses)
        network.add_addresses(address);
    TRY(write_file(facts.places.run(pod.id()) + "/hosts", hosts_text(pod.hostname(), addresses), false,
                   readable_by_all));
    return save(facts.places, pod, false);
}

Result<> delete_pod_network(HostFacts const& facts, record::Pod const& pod) {
    record::Network const& network = pod.network();
    if (!network.configuration().empty()) {
        NetworkList const list = TRY(parse_network_list(network.configuration(), "the record of the pod"));
        Plugins const plugins(facts.settings.plugin_directories, facts.settings.plugin_limit);
        TRY(plugins.del(list, networked(facts, pod), network.capabilities(), network.result()));
    }
    return remove_network_namespace(network_namespace_path(facts, pod.id()));
}

Result<> check_pod_network(HostFacts const& facts, record::Pod const& pod) {
    record::Network const& network = pod.network();
    NetworkList const list = TRY(parse_network_list(network.configuration(), "the record of the pod"));
    Plugins const plugins(facts.settings.plugin_directories, facts.settings.plugin_limit);
    return plugins.check_pod(list, networked(facts, pod), network.capabilities(), network.result());
}

Result<> collect_networks(HostFacts const& facts) {
    NetworkFile const file = TRY(find_network(facts.settings.network_directory));
    std::vector<std::string> complaints;
    std::vector<std::string> holders;
    for (StoredPod const& stored : load_records(facts.places, complaints))
        if (!stored.pod.network().configuration().empty()) holders.push_back(stored.pod.id());
    Plugins const plugins(facts.settings.plugin_directories, facts.settings.plugin_limit);
    return plugins.collect(file.list, holders);
}

}  // namespace triton::cri
