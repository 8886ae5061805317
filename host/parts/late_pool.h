#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "host/machine/store.h"
#include "host/storage/pool.h"

namespace triton::parts {

/// The host's pool for a program that only looks. It neither makes the pool nor decides its kind: it opens the pool,
/// as the configuration names it by then, once that exists. Until then every operation fails with `not_found`.
/// `patience`: as of storage::Settings; none: its default.
std::unique_ptr<storage::Pool> late_host_pool(machine::Layout layout,
                                              std::optional<std::chrono::milliseconds> patience = {});

}  // namespace triton::parts
