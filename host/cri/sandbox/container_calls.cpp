#include <algorithm>
#include <utility>

#include "host/cri/monitor/container_log.h"
#include "host/cri/sandbox/pods.h"
#include "host/cri/wire/canonical.h"
#include "host/cri/wire/typed.h"
#include "lib/http/grpc/status.h"
#include "lib/json/text.h"

namespace triton::cri {

namespace {

using http::grpc::Code;

constexpr std::int64_t longest_grace_seconds = 366 * 24 * 3600;

Result<> check_container(v1::ContainerConfig const& config) {
    if (config.metadata().name().empty()) return fail(ErrorKind::invalid, "config.metadata needs a name");
    if (config.image().image().empty()) return fail(ErrorKind::invalid, "config.image needs an image");
    if (config.cdi_devices_size() > 0) return fail(ErrorKind::unsupported, "devices of CDI are not supported");
    bool const is_below = ("/" + config.log_path() + "/").find("/../") == std::string::npos;
    if (!is_below)
        return fail(ErrorKind::invalid, "log_path leads out of the log directory: " + json::quoted(config.log_path()));
    return {};
}

template <class Response>
std::string no_content(std::string const& /*id*/) {
    return Response().SerializeAsString();
}

}  // namespace

std::string container_key(v1::ContainerMetadata const& metadata) {
    return json::quoted(metadata.name()) + std::to_string(metadata.attempt());
}

void Pods::create(CallPtr const& call, v1::CreateContainerRequest const& request) {
    auto const checked = check_container(request.config());
    if (!checked) return call->finish(http::grpc::status_of(checked.error()));
    std::string const id = random_id();
    record::Container record;
    record.set_id(id);
    record.set_pod(request.pod_sandbox_id());
    *record.mutable_config() = request.config();
    record.set_created_at(monitor::wall_nanoseconds());
    if (auto const pod = pods_.find(request.pod_sandbox_id()); pod != pods_.end())
        record.set_log_path(log_path(pod->second.record.config(), request.config()));
    auto const answer = ticket(call, [](std::string const& made) {
        v1::CreateContainerResponse response;
        response.set_container_id(made);
        return response.SerializeAsString();
    });
    containers_[id].record = std::move(record);
    step(core::CreateContainer{answer, request.pod_sandbox_id(), id, container_key(request.config().metadata()),
                               canonical(request.config())});
    if (!core_.containers().contains(id)) containers_.erase(id);
}

void Pods::list_containers(CallPtr const& call, v1::ListContainersRequest const& request) {
    v1::ListContainersResponse response;
    auto const& filter = request.filter();
    for (auto const& [id, container] : core_.containers()) {
        auto const data = containers_.find(id);
        if (!container.was_created || data == containers_.end() || !id.starts_with(filter.id())) continue;
        if (filter.has_state() && filter.state().state() != container_state(container)) continue;
        if (!filter.pod_sandbox_id().empty() && !container.pod.starts_with(filter.pod_sandbox_id())) continue;
        if (!has_labels(data->second.record.config().labels(), filter.label_selector())) continue;
        *response.add_containers() = container_item(container, data->second);
    }
    call->answer(response.SerializeAsString());
}

void Pods::show_container(CallPtr const& call, v1::ContainerStatusRequest const& request) {
    auto const container = core_.containers().find(request.container_id());
    auto const data = containers_.find(request.container_id());
    if (container == core_.containers().end() || data == containers_.end() || !container->second.was_created)
        return call->finish({Code::not_found, "container " + request.container_id() + " does not exist"});
    v1::ContainerStatusResponse response;
    *response.mutable_status() = container_status(container->second, data->second, pods_.at(container->second.pod));
    if (request.verbose()) (*response.mutable_info())["info"] = verbose_info(container->second);
    call->answer(response.SerializeAsString());
}

void Pods::update(CallPtr const& call, v1::UpdateContainerResourcesRequest const& request) {
    std::string const& id = request.container_id();
    auto const waiting = ticket(call, no_content<v1::UpdateContainerResourcesResponse>);
    if (auto const found = containers_.find(id); found != containers_.end())
        found->second.changes.push_back({waiting, request.linux()});
    step(core::UpdateContainer{waiting, id});
}

void Pods::reopen_log(CallPtr const& call, v1::ReopenContainerLogRequest const& request) {
    auto const container = core_.containers().find(request.container_id());
    if (container == core_.containers().end())
        return call->finish({Code::not_found, "container " + request.container_id() + " does not exist"});
    auto const link = link_of(container->second.pod);
    if (container->second.phase != core::Phase::running || !link)
        return call->finish({Code::failed_precondition, "container " + request.container_id() + " does not run"});
    link->ask({.kind = monitor::Kind::reopen, .container = request.container_id()},
              [call](Result<std::int64_t> const& done) {
                  if (!done) return call->finish(http::grpc::status_of(done.error()));
                  call->answer(v1::ReopenContainerLogResponse().SerializeAsString());
              });
}

void Pods::add_container_calls(Router& router) {
    router.on(
        method("CreateContainer"),
        typed<v1::CreateContainerRequest>([this](CallPtr const& call, auto const& request) { create(call, request); }));
    router.on(
        method("StartContainer"), typed<v1::StartContainerRequest>([this](CallPtr const& call, auto const& request) {
            step(core::StartContainer{ticket(call, no_content<v1::StartContainerResponse>), request.container_id()});
        }));
    router.on(method("StopContainer"),
              typed<v1::StopContainerRequest>([this](CallPtr const& call, auto const& request) {
                  auto const seconds = std::clamp<std::int64_t>(request.timeout(), 0, longest_grace_seconds);
                  step(core::StopContainer{ticket(call, no_content<v1::StopContainerResponse>), request.container_id(),
                                           std::chrono::seconds(seconds)});
              }));
    router.on(
        method("RemoveContainer"), typed<v1::RemoveContainerRequest>([this](CallPtr const& call, auto const& request) {
            step(core::RemoveContainer{ticket(call, no_content<v1::RemoveContainerResponse>), request.container_id()});
        }));
    router.on(method("ListContainers"),
              typed<v1::ListContainersRequest>(
                  [this](CallPtr const& call, auto const& request) { list_containers(call, request); }));
    router.on(method("ContainerStatus"),
              typed<v1::ContainerStatusRequest>(
                  [this](CallPtr const& call, auto const& request) { show_container(call, request); }));
    router.on(method("UpdateContainerResources"),
              typed<v1::UpdateContainerResourcesRequest>(
                  [this](CallPtr const& call, auto const& request) { update(call, request); }));
    router.on(method("ReopenContainerLog"),
              typed<v1::ReopenContainerLogRequest>(
                  [this](CallPtr const& call, auto const& request) { reopen_log(call, request); }));
}

}  // namespace triton::cri
