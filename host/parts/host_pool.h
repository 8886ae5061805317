#pragma once

#include <memory>

#include "host/machine/store.h"
#include "host/storage/pool.h"

namespace triton::parts {

/// Opens the pool that the host's configuration names. Errors: those of image::read_site() and storage::open_pool().
Result<std::unique_ptr<storage::Pool>> open_host_pool(machine::Layout const& layout);

}  // namespace triton::parts
