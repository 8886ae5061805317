#include <algorithm>
#include <utility>

#include <unistd.h>

#include "host/cri/container/name_service.h"
#include "host/cri/monitor/container_log.h"
#include "host/cri/sandbox/pods.h"
#include "host/cri/sandbox/user_namespace.h"
#include "host/cri/wire/canonical.h"
#include "host/cri/wire/typed.h"
#include "lib/http/grpc/status.h"
#include "lib/json/text.h"

namespace triton::cri {

namespace {

using http::grpc::Code;

constexpr std::size_t most_hostname_bytes = 64;

Result<> check_pod(v1::PodSandboxConfig const& config, std::string const& handler) {
    if (config.metadata().name().empty() || config.metadata().uid().empty())
        return fail(ErrorKind::invalid, "config.metadata needs a name and a uid");
    if (!handler.empty()) return fail(ErrorKind::invalid, "there is no runtime handler " + json::quoted(handler));
    TRY(check_cgroup_parent(config.linux().cgroup_parent()));
    auto const& options = config.linux().security_context().namespace_options();
    TRY(user_mapping_of(config));
    auto const& context = config.linux().security_context();
    if (context.has_run_as_group() && !context.has_run_as_user())
        return fail(ErrorKind::invalid, "run_as_group needs a run_as_user");
    bool const has_ipc = options.ipc() != v1::NODE;
    for (auto const& [name, value] : config.linux().sysctls())
        TRY(check_sysctl(name, value, !is_host_network(config), has_ipc));
    if (config.hostname().size() > most_hostname_bytes) return fail(ErrorKind::invalid, "the hostname is too long");
    TRY(resolver_text(config.dns_config()));
    return {};
}

std::string host_name() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

template <class Response>
std::string nothing(std::string const& /*id*/) {
    return Response().SerializeAsString();
}

}  // namespace

std::string key_of(v1::PodSandboxMetadata const& metadata) {
    std::string key;
    for (std::string const& part : {metadata.name(), metadata.namespace_(), metadata.uid()})
        key += json::quoted(part);
    return key + std::to_string(metadata.attempt());
}

void Pods::run_pod(CallPtr const& call, v1::RunPodSandboxRequest const& request) {
    auto const checked = check_pod(request.config(), request.runtime_handler());
    if (!checked) return call->finish(http::grpc::status_of(checked.error()));
    std::string const id = random_id();
    record::Pod record;
    record.set_id(id);
    *record.mutable_config() = request.config();
    record.set_handler(request.runtime_handler());
    record.set_created_at(monitor::wall_nanoseconds());
    bool const has_own_name = !is_host_network(request.config()) && !request.config().hostname().empty();
    record.set_hostname(has_own_name ? request.config().hostname() : host_name());
    auto const answer = ticket(call, [](std::string const& made) {
        v1::RunPodSandboxResponse response;
        response.set_pod_sandbox_id(made);
        return response.SerializeAsString();
    });
    std::string const key = key_of(request.config().metadata());
    pods_[id].record = std::move(record);
    step(core::RunPod{answer, id, key, canonical(request), !is_host_network(request.config())});
    if (!core_.pods().contains(id)) pods_.erase(id);  // it has joined another, or was refused
}

void Pods::list_pods(CallPtr const& call, v1::ListPodSandboxRequest const& request) {
    v1::ListPodSandboxResponse response;
    auto const& filter = request.filter();
    for (auto const& [id, pod] : core_.pods()) {
        auto const data = pods_.find(id);
        if (!pod.was_run || data == pods_.end() || !id.starts_with(filter.id())) continue;
        if (filter.has_state() && (filter.state().state() == v1::SANDBOX_READY) != pod.is_ready()) continue;
        if (!has_labels(data->second.record.config().labels(), filter.label_selector())) continue;
        *response.add_items() = pod_item(pod, data->second);
    }
    call->answer(response.SerializeAsString());
}

void Pods::show_pod(CallPtr const& call, v1::PodSandboxStatusRequest const& request) {
    auto const pod = core_.pods().find(request.pod_sandbox_id());
    auto const data = pods_.find(request.pod_sandbox_id());
    if (pod == core_.pods().end() || data == pods_.end())
        return call->finish({Code::not_found, "pod sandbox " + request.pod_sandbox_id() + " does not exist"});
    v1::PodSandboxStatusResponse response;
    *response.mutable_status() = pod_status(pod->second, data->second);
    response.set_timestamp(monitor::wall_nanoseconds());
    if (request.verbose()) (*response.mutable_info())["info"] = verbose_info(pod->second);
    for (std::string const& id : pod->second.containers)
        if (auto const one = containers_.find(id); one != containers_.end() && core_.containers().at(id).was_created)
            *response.add_containers_statuses() =
                container_status(core_.containers().at(id), one->second, data->second);
    call->answer(response.SerializeAsString());
}

void Pods::update_ranges(CallPtr const& call, v1::UpdateRuntimeConfigRequest const& request) {
    std::string const& ranges = request.runtime_config().network_config().pod_cidr();
    bool const is_list =
        ranges.size() < 1024 && ranges.find_first_not_of("0123456789abcdefABCDEF.:/,") == std::string::npos;
    if (!is_list) return call->finish({Code::invalid_argument, "pod_cidr is not a list of networks"});
    if (!ranges.empty()) ranges_ = ranges;
    call->answer(v1::UpdateRuntimeConfigResponse().SerializeAsString());
}

void Pods::add_pod_calls(Router& router) {
    router.on(
        method("RunPodSandbox"),
        typed<v1::RunPodSandboxRequest>([this](CallPtr const& call, auto const& request) { run_pod(call, request); }));
    router.on(method("StopPodSandbox"),
              typed<v1::StopPodSandboxRequest>([this](CallPtr const& call, auto const& request) {
                  step(core::StopPod{ticket(call, nothing<v1::StopPodSandboxResponse>), request.pod_sandbox_id()});
              }));
    router.on(method("RemovePodSandbox"),
              typed<v1::RemovePodSandboxRequest>([this](CallPtr const& call, auto const& request) {
                  step(core::RemovePod{ticket(call, nothing<v1::RemovePodSandboxResponse>), request.pod_sandbox_id()});
              }));
    router.on(method("PodSandboxStatus"),
              typed<v1::PodSandboxStatusRequest>(
                  [this](CallPtr const& call, auto const& request) { show_pod(call, request); }));
    router.on(method("UpdateRuntimeConfig"),
              typed<v1::UpdateRuntimeConfigRequest>(
                  [this](CallPtr const& call, auto const& request) { update_ranges(call, request); }));
    router.on(method("ListPodSandbox"),
              typed<v1::ListPodSandboxRequest>(
                  [this](CallPtr const& call, auto const& request) { list_pods(call, request); }));
}

}  // namespace triton::cri
