#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace triton::cri {

struct HostFacts;

/// Something on this host whose name says which pod or container it belongs to.
struct Belonging {
    enum class Kind : std::uint8_t {
        pod_files,          ///< /run/triton/cri/pods/POD
        pod_record,         ///< /var/lib/triton/cri/pods/POD or POD.d
        network_namespace,  ///< /run/netns/triton-POD
        container_files,    ///< /run/triton/cri/pods/POD/c/CONTAINER
        container_record,   ///< /var/lib/triton/cri/pods/POD.d/CONTAINER
        layer,              ///< /var/lib/triton/cri/containers/CONTAINER, with its images
        runtime_state,      ///< /run/triton/cri/runtime/CONTAINER
        control_group,      ///< of a container, below each hierarchy
    };
    Kind kind;
    std::string id;    ///< of the pod or container
    std::string path;  ///< of a control group: below each hierarchy

    bool operator==(Belonging const&) const = default;
};

/// "control group", for example.
std::string_view name_of(Belonging::Kind kind);
/// Whether `id` is that of a pod.
bool is_of_pod(Belonging::Kind kind);

/// All that there is. A pod and a container are known before the first of these is made, and until the last one is
/// removed: so what is listed now, and whose owner is not known later, is nobody's. `parents`: the control groups of
/// known pods; elsewhere a group may be another runtime's. `names`: files whose name is no id may be of a write that is
/// under way; before anything is served they are of one that was cut off. It blocks.
enum class Names : std::uint8_t { ids, all };
std::vector<Belonging> list_belongings(HostFacts const& facts, std::set<std::string> const& parents, Names names);

/// Removes what is nobody's, with its processes. It blocks.
Result<> remove_stray(HostFacts const& facts, Belonging const& stray);

}  // namespace triton::cri
