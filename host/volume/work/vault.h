#pragma once

#include <memory>
#include <string>

#include "host/image/site.h"
#include "host/storage/pool.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::volume {

/// The vault: a second pool, whose directory the administrator has encrypted. Nothing is believed that was not looked
/// at: a vault that is not mounted is a directory in the clear.
struct VaultState {
    bool is_unlocked = false;
    std::string reason = {};  ///< why it is not: "the vault /vault is locked: ..."
};
VaultState look_at_vault(image::Site const& site);

/// Opens its pool, after a look. Errors: `unavailable` with the reason of the look; those of storage::open_pool().
/// A pool that stays open keeps its file system from being unmounted, so it is closed after each use.
Result<std::unique_ptr<storage::Pool>> open_vault(image::Site const& site);

/// Whether a new tree of the vault is encrypted itself. Errors: `unavailable`: it is not.
Result<> prove_encrypted(storage::Pool const& pool, storage::TreeName const& tree, UniqueFd const& directory);

/// The pool of a volume, for one operation.
class PoolInUse {
public:
    explicit PoolInUse(storage::Pool& pool) : pool_(&pool) {}
    explicit PoolInUse(std::unique_ptr<storage::Pool> own) : own_(std::move(own)), pool_(own_.get()) {}
    storage::Pool* operator->() const { return pool_; }
    storage::Pool& operator*() const { return *pool_; }

private:
    std::unique_ptr<storage::Pool> own_;
    storage::Pool* pool_;
};

}  // namespace triton::volume
