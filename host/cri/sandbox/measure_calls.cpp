#include <memory>
#include <utility>
#include <vector>

#include "host/cri/cni/network_namespace.h"
#include "host/cri/cni/plugins.h"
#include "host/cri/monitor/container_log.h"
#include "host/cri/sandbox/pods.h"
#include "host/cri/sandbox/stats.h"
#include "host/cri/wire/typed.h"
#include "lib/http/grpc/status.h"

namespace triton::cri {

using http::grpc::Code;

/// A container whose usage is asked for.
struct Pods::Measured {
    v1::ContainerStats stats = {};  // with its attributes
    std::string id = {};
    std::string group = {};
    std::string upper = {};
    CpuSample sample = {};
};
struct Pods::MeasuredPod {
    v1::PodSandboxStats stats = {};
    std::string id = {};
    std::string group = {};              // empty: it has none
    std::string network_namespace = {};  // empty: the host's
    CpuSample sample = {};
    std::vector<Measured> containers = {};
};

namespace {

void set(v1::UInt64Value* (v1::MemoryUsage::*member)(), v1::MemoryUsage& memory, std::optional<std::uint64_t> value) {
    if (value) (memory.*member)()->set_value(*value);
}

void fill(v1::PsiData& data, Pressure::Line const& line) {
    data.set_total(line.total_microseconds);
    data.set_avg10(line.last_10_seconds);
    data.set_avg60(line.last_60_seconds);
    data.set_avg300(line.last_300_seconds);
}

void fill(v1::PsiStats& psi, Pressure const& pressure) {
    fill(*psi.mutable_some(), pressure.some);
    fill(*psi.mutable_full(), pressure.full);
}

/// What a container and a pod have in common.
template <class Stats>
void fill_group(Stats& stats, GroupUsage const& usage) {
    auto& cpu = *stats.mutable_cpu();
    cpu.set_timestamp(usage.at);
    if (usage.cpu_nanoseconds) cpu.mutable_usage_core_nano_seconds()->set_value(*usage.cpu_nanoseconds);
    if (usage.cpu_nanocores) cpu.mutable_usage_nano_cores()->set_value(*usage.cpu_nanocores);
    if (usage.cpu_pressure) fill(*cpu.mutable_psi(), *usage.cpu_pressure);
    auto& memory = *stats.mutable_memory();
    memory.set_timestamp(usage.at);
    set(&v1::MemoryUsage::mutable_usage_bytes, memory, usage.memory);
    set(&v1::MemoryUsage::mutable_working_set_bytes, memory, usage.working_set);
    set(&v1::MemoryUsage::mutable_available_bytes, memory, usage.available);
    set(&v1::MemoryUsage::mutable_rss_bytes, memory, usage.rss);
    set(&v1::MemoryUsage::mutable_page_faults, memory, usage.page_faults);
    set(&v1::MemoryUsage::mutable_major_page_faults, memory, usage.major_page_faults);
    if (usage.memory_pressure) fill(*memory.mutable_psi(), *usage.memory_pressure);
    if (!usage.io_pressure) return;
    stats.mutable_io()->set_timestamp(usage.at);
    fill(*stats.mutable_io()->mutable_psi(), *usage.io_pressure);
}

/// Reads it, and makes it the sample before of the next time.
GroupUsage sample_group(Cgroups const& cgroups, std::string const& group, CpuSample& sample) {
    GroupUsage usage = read_usage(cgroups, group);
    usage.at = monitor::wall_nanoseconds();
    usage.cpu_nanocores = nanocores(sample, usage);
    sample = {usage.at, usage.cpu_nanoseconds.value_or(0)};
    return usage;
}

void fill_layer(v1::FilesystemUsage& layer, std::int64_t at, LayerUsage const& usage, std::string const& mountpoint) {
    layer.set_timestamp(at);
    layer.mutable_fs_id()->set_mountpoint(mountpoint);
    layer.mutable_used_bytes()->set_value(usage.bytes);
    layer.mutable_inodes_used()->set_value(usage.inodes);
}

void fill_network(v1::NetworkUsage& network, std::int64_t at, std::vector<InterfaceUsage> const& interfaces) {
    network.set_timestamp(at);
    for (InterfaceUsage const& one : interfaces) {
        v1::NetworkInterfaceUsage& usage =
            one.name == pod_interface ? *network.mutable_default_interface() : *network.add_interfaces();
        usage.set_name(one.name);
        usage.mutable_rx_bytes()->set_value(one.received);
        usage.mutable_rx_errors()->set_value(one.receive_errors);
        usage.mutable_tx_bytes()->set_value(one.sent);
        usage.mutable_tx_errors()->set_value(one.send_errors);
    }
}

template <class Attributes>
void fill_attributes(Attributes& attributes, std::string const& id, auto const& config) {
    attributes.set_id(id);
    *attributes.mutable_metadata() = config.metadata();
    *attributes.mutable_labels() = config.labels();
    *attributes.mutable_annotations() = config.annotations();
}

void measure_one(HostFacts const& facts, auto& one) {
    GroupUsage const usage = sample_group(facts.cgroups, one.group, one.sample);
    fill_group(one.stats, usage);
    if (usage.swap) {
        one.stats.mutable_swap()->set_timestamp(usage.at);
        one.stats.mutable_swap()->mutable_swap_usage_bytes()->set_value(*usage.swap);
    }
    fill_layer(*one.stats.mutable_writable_layer(), usage.at, measure_layer(one.upper), facts.places.layers());
}

void measure_pod(HostFacts const& facts, auto& pod) {
    v1::LinuxPodSandboxStats& stats = *pod.stats.mutable_linux();
    if (!pod.group.empty()) {
        GroupUsage const usage = sample_group(facts.cgroups, pod.group, pod.sample);
        fill_group(stats, usage);
        if (usage.processes) {
            stats.mutable_process()->set_timestamp(usage.at);
            stats.mutable_process()->mutable_process_count()->set_value(*usage.processes);
        }
    }
    if (!pod.network_namespace.empty())
        if (auto const text = read_network_counters(pod.network_namespace))
            fill_network(*stats.mutable_network(), monitor::wall_nanoseconds(), parse_interfaces(*text));
    for (auto& one : pod.containers) {
        measure_one(facts, one);
        *stats.add_containers() = one.stats;
    }
}

}  // namespace

Pods::Measured Pods::to_measure(core::Container const& container, ContainerData const& data) {
    Measured one{.id = container.id,
                 .group = data.record.cgroup(),
                 .upper = facts_.places.layer(container.id) + "/upper",
                 .sample = data.sample};
    fill_attributes(*one.stats.mutable_attributes(), container.id, data.record.config());
    return one;
}

Pods::MeasuredPod Pods::to_measure(core::Pod const& pod, PodData const& data) {
    auto const& config = data.record.config();
    MeasuredPod one{.id = pod.id,
                    .group = facts_.cgroups.pod_path(config.linux().cgroup_parent()),
                    .network_namespace = is_host_network(config) ? "" : network_namespace_path(facts_, pod.id),
                    .sample = data.sample};
    fill_attributes(*one.stats.mutable_attributes(), pod.id, config);
    for (std::string const& id : pod.containers)
        if (auto const found = containers_.find(id);
            found != containers_.end() && core_.containers().at(id).phase == core::Phase::running)
            one.containers.push_back(to_measure(core_.containers().at(id), found->second));
    return one;
}

void Pods::measure(CallPtr const& call, v1::ContainerStatsFilter const& filter, bool is_one) {
    std::vector<Measured> wanted;
    for (auto const& [id, container] : core_.containers()) {
        auto const data = containers_.find(id);
        if (container.phase != core::Phase::running || data == containers_.end() || !id.starts_with(filter.id()))
            continue;
        if (!filter.pod_sandbox_id().empty() && !container.pod.starts_with(filter.pod_sandbox_id())) continue;
        if (!has_labels(data->second.record.config().labels(), filter.label_selector())) continue;
        wanted.push_back(to_measure(container, data->second));
    }
    if (is_one && wanted.size() != 1)
        return call->finish({Code::not_found, "container " + filter.id() + " does not run"});
    auto const queued = workers_.run([this, call = CallPtr(call), wanted = std::move(wanted), is_one]() mutable {
        auto const found = std::make_shared<std::vector<Measured>>(std::move(wanted));
        for (Measured& one : *found)
            measure_one(facts_, one);
        around_.post([this, call = std::exchange(call, nullptr), found, is_one] {
            v1::ListContainerStatsResponse list;
            for (Measured& one : *found) {
                if (auto const data = containers_.find(one.id); data != containers_.end())
                    data->second.sample = one.sample;
                *list.add_stats() = std::move(one.stats);
            }
            if (!is_one) return call->answer(list.SerializeAsString());
            v1::ContainerStatsResponse response;
            *response.mutable_stats() = list.stats(0);
            call->answer(response.SerializeAsString());
        });
    });
    if (!queued) call->finish(http::grpc::status_of(queued.error()));
}

void Pods::measure_pods(CallPtr const& call, v1::PodSandboxStatsFilter const& filter, bool is_one) {
    std::vector<MeasuredPod> wanted;
    for (auto const& [id, pod] : core_.pods()) {
        auto const data = pods_.find(id);
        if (!pod.was_run || !pod.is_ready() || data == pods_.end() || !id.starts_with(filter.id())) continue;
        if (!has_labels(data->second.record.config().labels(), filter.label_selector())) continue;
        wanted.push_back(to_measure(pod, data->second));
    }
    if (is_one && wanted.size() != 1)
        return call->finish({Code::not_found, "pod sandbox " + filter.id() + " does not run"});
    auto const queued = workers_.run([this, call = CallPtr(call), wanted = std::move(wanted), is_one]() mutable {
        auto const found = std::make_shared<std::vector<MeasuredPod>>(std::move(wanted));
        for (MeasuredPod& one : *found)
            measure_pod(facts_, one);
        around_.post([this, call = std::exchange(call, nullptr), found, is_one] {
            v1::ListPodSandboxStatsResponse list;
            for (MeasuredPod& one : *found) {
                if (auto const data = pods_.find(one.id); data != pods_.end()) data->second.sample = one.sample;
                for (Measured const& container : one.containers)
                    if (auto const data = containers_.find(container.id); data != containers_.end())
                        data->second.sample = container.sample;
                *list.add_stats() = std::move(one.stats);
            }
            if (!is_one) return call->answer(list.SerializeAsString());
            v1::PodSandboxStatsResponse response;
            *response.mutable_stats() = list.stats(0);
            call->answer(response.SerializeAsString());
        });
    });
    if (!queued) call->finish(http::grpc::status_of(queued.error()));
}

void Pods::add_measure_calls(Router& router) {
    router.on(method("ContainerStats"),
              typed<v1::ContainerStatsRequest>([this](CallPtr const& call, auto const& request) {
                  v1::ContainerStatsFilter filter;
                  filter.set_id(request.container_id());
                  measure(call, filter, true);
              }));
    router.on(method("ListContainerStats"),
              typed<v1::ListContainerStatsRequest>(
                  [this](CallPtr const& call, auto const& request) { measure(call, request.filter(), false); }));
    router.on(method("PodSandboxStats"),
              typed<v1::PodSandboxStatsRequest>([this](CallPtr const& call, auto const& request) {
                  v1::PodSandboxStatsFilter filter;
                  filter.set_id(request.pod_sandbox_id());
                  measure_pods(call, filter, true);
              }));
    router.on(method("ListPodSandboxStats"),
              typed<v1::ListPodSandboxStatsRequest>(
                  [this](CallPtr const& call, auto const& request) { measure_pods(call, request.filter(), false); }));
}

}  // namespace triton::cri
