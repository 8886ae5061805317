#include <algorithm>

#include "host/cri/container/stop_signals.h"
#include "host/cri/core/why.h"
#include "host/cri/sandbox/pods.h"
#include "lib/json/writer.h"

namespace triton::cri {

namespace {

v1::PodSandboxState state_of(core::Pod const& pod) { return pod.is_ready() ? v1::SANDBOX_READY : v1::SANDBOX_NOTREADY; }

}  // namespace

std::string log_path(v1::PodSandboxConfig const& pod, v1::ContainerConfig const& container) {
    if (pod.log_directory().empty() || container.log_path().empty()) return {};
    return pod.log_directory() + "/" + container.log_path();
}

bool has_labels(google::protobuf::Map<std::string, std::string> const& labels,
                google::protobuf::Map<std::string, std::string> const& wanted) {
    return std::ranges::all_of(wanted, [&](auto const& pair) {
        auto const found = labels.find(pair.first);
        return found != labels.end() && found->second == pair.second;
    });
}

v1::PodSandbox pod_item(core::Pod const& pod, PodData const& data) {
    v1::PodSandbox item;
    auto const& config = data.record.config();
    item.set_id(pod.id);
    *item.mutable_metadata() = config.metadata();
    item.set_state(state_of(pod));
    item.set_created_at(data.record.created_at());
    *item.mutable_labels() = config.labels();
    *item.mutable_annotations() = config.annotations();
    item.set_runtime_handler(data.record.handler());
    return item;
}

v1::PodSandboxStatus pod_status(core::Pod const& pod, PodData const& data) {
    v1::PodSandboxStatus status;
    auto const& config = data.record.config();
    status.set_id(pod.id);
    *status.mutable_metadata() = config.metadata();
    status.set_state(state_of(pod));
    status.set_created_at(data.record.created_at());
    *status.mutable_labels() = config.labels();
    *status.mutable_annotations() = config.annotations();
    status.set_runtime_handler(data.record.handler());
    auto* const options = status.mutable_linux()->mutable_namespaces()->mutable_options();
    *options = config.linux().security_context().namespace_options();
    auto& network = *status.mutable_network();
    for (int i = 0; i < data.record.network().addresses_size(); ++i) {
        std::string const& address = data.record.network().addresses(i);
        if (i == 0)
            network.set_ip(address);
        else
            network.add_additional_ips()->set_ip(address);
    }
    return status;
}

v1::ContainerState container_state(core::Container const& container) {
    switch (container.phase) {
        case core::Phase::absent:
        case core::Phase::created: return v1::CONTAINER_CREATED;
        case core::Phase::running: return v1::CONTAINER_RUNNING;
        case core::Phase::exited: return v1::CONTAINER_EXITED;
    }
    return v1::CONTAINER_UNKNOWN;
}

v1::Container container_item(core::Container const& container, ContainerData const& data) {
    v1::Container item;
    auto const& config = data.record.config();
    item.set_id(container.id);
    item.set_pod_sandbox_id(container.pod);
    *item.mutable_metadata() = config.metadata();
    *item.mutable_image() = config.image();
    item.set_image_ref(data.record.image_ref());
    item.set_image_id(data.record.image_id());
    item.set_state(container_state(container));
    item.set_created_at(data.record.created_at());
    *item.mutable_labels() = config.labels();
    *item.mutable_annotations() = config.annotations();
    return item;
}

v1::ContainerStatus container_status(core::Container const& container, ContainerData const& data,
                                     PodData const& /*pod*/) {
    v1::ContainerStatus status;
    auto const& config = data.record.config();
    status.set_id(container.id);
    *status.mutable_metadata() = config.metadata();
    status.set_state(container_state(container));
    status.set_created_at(data.record.created_at());
    if (container.phase == core::Phase::running || container.phase == core::Phase::exited)
        status.set_started_at(data.record.started_at());
    if (container.phase == core::Phase::exited) {
        status.set_finished_at(data.record.finished_at());
        status.set_exit_code(data.record.exit_code());
        status.set_reason(data.record.reason());
    }
    *status.mutable_image() = config.image();
    status.set_image_ref(data.record.image_ref());
    status.set_image_id(data.record.image_id());
    *status.mutable_labels() = config.labels();
    *status.mutable_annotations() = config.annotations();
    *status.mutable_mounts() = config.mounts();
    for (auto const& [mount, id] : data.record.volume_images())
        if (mount < status.mounts_size()) status.mutable_mounts(mount)->mutable_image()->set_image_ref(id);
    status.set_log_path(data.record.log_path());
    *status.mutable_resources()->mutable_linux() = resources_of(data.record);
    auto* const user = status.mutable_user()->mutable_linux();
    user->set_uid(data.record.user());
    user->set_gid(data.record.group());
    for (std::int64_t const group : data.record.groups())
        user->add_supplemental_groups(group);
    status.set_stop_signal(static_cast<v1::Signal>(value_of_signal(data.record.stop_signal())));
    return status;
}

std::string Pods::verbose_info(core::Pod const& pod) const {
    auto const link = pods_.at(pod.id).link;
    json::Writer out;
    out.open('{').member("pid", link ? link->pid() : 0).member("state", core::state_word(pod));
    out.member("directory", facts_.places.run(pod.id)).key("why").list(core::why(core_, pod));
    return std::move(out.close('}')).text();
}

std::string Pods::verbose_info(core::Container const& container) const {
    ContainerData const& data = containers_.at(container.id);
    json::Writer out;
    out.open('{').member("sandboxID", container.pod).member("pid", data.pid);
    out.member("state", core::state_word(container)).member("cgroup", data.record.cgroup());
    out.member("directory", facts_.places.bundle(container.pod, container.id));
    out.key("why").list(core::why(core_, container));
    return std::move(out.close('}')).text();
}

}  // namespace triton::cri
