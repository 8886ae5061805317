#include "host/cri/sandbox/pod_service.h"

#include <utility>

#include "host/cri/sandbox/pods.h"

namespace triton::cri {

PodService::PodService(PodSettings settings, Surroundings around)
    : pods_(std::make_unique<Pods>(std::move(settings), std::move(around))) {}

PodService::~PodService() = default;

void PodService::add_to(Router& router) {
    pods_->add_pod_calls(router);
    pods_->add_container_calls(router);
    pods_->add_live_calls(router);
    pods_->add_measure_calls(router);
}

void PodService::recover() { pods_->recover(); }

void PodService::end_streams() { pods_->end_streams(); }

std::optional<Error> PodService::missing() const { return pods_->missing(); }

}  // namespace triton::cri
