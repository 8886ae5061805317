#pragma once

#include <vector>

#include "host/cri/wire/messages.h"

namespace triton::cri {

/// The records of a pod.
struct StoredPod {
    record::Pod pod;
    std::vector<record::Container> containers;
};

}  // namespace triton::cri
