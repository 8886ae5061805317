#pragma once

#include <string>
#include <vector>

#include "host/cri/sandbox/places.h"
#include "lib/base/result.h"

namespace triton::record {
class Pod;
class Container;
}  // namespace triton::record

namespace triton::cri {

/// Writes records. With the record of a pod its directory is there.
Result<> save(Places const& places, record::Pod const& pod, bool is_durable);
Result<> save(Places const& places, record::Container const& container);

struct StoredPod;

/// All records of this host. What cannot be read is put aside, with a sentence in `complaints`.
std::vector<StoredPod> load_records(Places const& places, std::vector<std::string>& complaints);

}  // namespace triton::cri
