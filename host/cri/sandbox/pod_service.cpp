#include "host/cri/sandbox/pod_service.h"

#include <utility>

#include "host/cri/sandbox/node_calls.h"
#include "host/cri/sandbox/pods.h"
#include "host/cri/sandbox/stray_search.h"
#include "host/cri/sandbox/stream_calls.h"

namespace triton::cri {

PodService::PodService(PodSettings const& settings, Surroundings const& around)
    : pods_(std::make_unique<Pods>(settings, around)),
      streams_(std::make_unique<StreamCalls>(
          StreamServer::Settings{.address = settings.stream_address},
          StreamCalls::Surroundings{.loop = around.loop,
                                    .post = around.post,
                                    .warn = around.warn,
                                    .container = [this](std::string const& id) { return pods_->running_container(id); },
                                    .pod = [this](std::string const& id) { return pods_->ready_pod(id); }})),
      node_(std::make_unique<NodeCalls>(*pods_, around.post)),
      strays_(std::make_unique<StraySearch>(*pods_, around, settings.stray_pause)) {}

PodService::~PodService() = default;

void PodService::add_to(Router& router) {
    pods_->add_pod_calls(router);
    pods_->add_container_calls(router);
    pods_->add_live_calls(router);
    pods_->add_measure_calls(router);
    streams_->add_to(router);
    node_->add_to(router);
}

void PodService::recover() {
    pods_->recover();
    strays_->begin();
}

void PodService::start_streams() { streams_->start(); }

void PodService::end_streams() { pods_->end_streams(); }

std::optional<Error> PodService::missing() const { return pods_->missing(); }

}  // namespace triton::cri
