#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "sidecar/kubernetes/event_correlator.h"

namespace triton::kubernetes {

// The parts of the API's objects that concern us. Everything read is bounded: objects up to 3 MB.

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// The used parts of an object.
struct Wanted {
    std::string annotation_prefix;
    std::string condition;  ///< a type; empty: none
};

/// A pod or a node.
struct ObjectView {
    std::string name;
    std::string uid;
    std::string resource_version;
    Pairs annotations;  ///< those with the prefix, which is left off
    Pairs labels;
    std::string node_name;          ///< spec.nodeName
    std::optional<bool> condition;  ///< nullopt: it has none of that type

    /// The value of an annotation; nullptr: there is none.
    [[nodiscard]] std::string const* annotation(std::string_view name) const;
};

/// A refusal: metav1.Status. Source: k8s.io/apimachinery/pkg/apis/meta/v1.
struct ApiStatus {
    int code = 0;
    std::string reason;   ///< "Forbidden"
    std::string message;  ///< printable, at most 1024 bytes
};

enum class WatchEventType : std::uint8_t { added, modified, deleted, bookmark, error };

struct WatchEvent {
    WatchEventType type{};
    ObjectView object;  ///< of a bookmark only the version
    ApiStatus status;   ///< of an error
};

/// Errors: no JSON object, no object of that kind, too big, too deep.
Result<ObjectView> parse_object(std::string_view body, Wanted const& wanted);
/// One line of a watch. Errors: the same, and a type that there is none of.
Result<WatchEvent> parse_watch_event(std::string_view line, Wanted const& wanted);
/// Whatever is in the body of a failure; `status` when it says nothing of use.
ApiStatus parse_status(std::string_view body, int status);

/// The JSON object of these names and values.
std::string json_object(Pairs const& pairs);

/// JSON merge patch (RFC 7386) of these annotations and nothing else.
std::string annotations_patch(std::string_view prefix, Pairs const& annotations);
/// Strategic merge patch of a pod's status: conditions are merged by their type.
std::string condition_patch(std::string_view type, bool is_true, std::int64_t unix_seconds);

/// Whom an Event is about, and who says it.
struct EventSource {
    std::string pod_name;
    std::string pod_namespace;
    std::string pod_uid;
    std::string node_name;
};
std::string event_name(EventSource const& source, EventRecord const& record);
/// An Event of core/v1: what `kubectl describe pod` lists by involvedObject, with count and last time.
std::string event_body(EventSource const& source, EventRecord const& record);
/// Merge patch of what changes when it happens again.
std::string event_patch(EventRecord const& record);

/// One part of a path or a value of a query: all but unreserved characters of RFC 3986 as %XX.
std::string percent_encoded(std::string_view text);

}  // namespace triton::kubernetes
