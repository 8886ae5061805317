#pragma once

#include <optional>
#include <string>

#include "lib/json/reader.h"
#include "sidecar/kubernetes/reporter.h"

namespace triton::kubernetes {

// The launcher's Varlink replies for the Reporter. Missing or odd members count as absent.

/// A reply to WatchConfiguration.
heard::Configuration parse_configuration(json::Node const& reply);
/// A reply to Subscribe. nullopt: it carries no record.
std::optional<heard::Record> parse_record(json::Node const& reply);
/// The reply to GetStatus.
heard::Status parse_launcher_status(json::Node const& reply);

/// Parameters of the calls.
std::string set_pod_parameters(action::SetPod const& pod);
std::string set_reporter_parameters(action::SetReporter const& reporter);

}  // namespace triton::kubernetes
