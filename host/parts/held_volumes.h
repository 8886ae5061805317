#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/content/database.h"
#include "host/machine/host.h"
#include "host/machine/store.h"
#include "host/storage/pool.h"
#include "host/volume/keep/uses.h"

namespace triton::parts {

/// The volumes of this host, as rows of content.db: no volume manager is needed. The database is opened when it is
/// first needed; where there is none, there are no volumes.
class HeldVolumes final : public machine::Volumes {
public:
    explicit HeldVolumes(machine::Layout const& layout) : root_(layout.root) {}
    Result<std::string> find(std::string_view word) override;
    Result<> hold(Uuid const& holder, Wanted const& wanted, bool keeps_others) override;
    Result<bool> maps_owners(std::string const& volume) override;
    Result<std::vector<Uuid>> holders() override;
    Result<> snapshot(std::string const& volume, Uuid const& machine, std::string_view name) override;
    Result<> delete_snapshot(std::string const& volume, Uuid const& machine, std::string_view name) override;
    Result<> check_rollback(std::string const& volume, Uuid const& machine, std::string_view name) override;
    Result<> rollback(std::string const& volume, Uuid const& machine, std::string_view name) override;

    /// For those who wait for a volume. Errors: `not_found` when there is none of that key.
    Result<volume::KnownVolume> look_at(std::string const& key);

private:
    /// nullptr: there is no database.
    Result<volume::Uses*> open();
    Result<bool> maps_owners_of(volume::KnownVolume const& volume);
    void tell_manager() const;
    /// A volume that is made, in its pool. Errors: `not_found`; `refused` when it is not complete.
    struct Tree {
        storage::Pool* pool;
        storage::TreeName name;
    };
    Result<Tree> tree_of(std::string const& key);

    std::string root_;
    std::optional<content::Database> database_;
    std::optional<volume::Uses> uses_;
    std::unique_ptr<storage::Pool> pool_;
    std::unique_ptr<storage::Pool> vault_;
    std::map<std::string, bool> mapping_;  // pools, by path: whether their file systems map owners
};

}  // namespace triton::parts
