#include <fcntl.h>
#include <unistd.h>

#include "host/volume/work/workbench.h"
#include "lib/json/text.h"

namespace triton::volume {

namespace {

constexpr std::string_view own_prefix = "triton-";

Result<storage::SnapshotName> snapshot_name(std::string const& name) {
    if (name.starts_with(own_prefix))
        return fail("a snapshot " + json::shown(name) + " would look like one of volumemgr's own");
    return storage::SnapshotName::parse(name);
}

}  // namespace

Result<> Workbench::snapshot(VolumeRow const& row, std::string const& name) {
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    storage::SnapshotName const snapshot = TRY(snapshot_name(name));
    auto const pool = TRY(pool_of(row.is_in_vault));
    {
        // What a user has written before is in it.
        UniqueFd const directory = TRY(pool->open(tree));
        if (::syncfs(directory.get()) != 0) return fail(errno, "make " + tree.text() + " durable");
    }
    return pool->snapshot(tree, snapshot);
}

Result<> Workbench::rollback(VolumeRow const& row, std::string const& name) {
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    auto const pool = TRY(pool_of(row.is_in_vault));
    return pool->rollback(tree, TRY(snapshot_name(name)));
}

Result<> Workbench::delete_snapshot(VolumeRow const& row, std::string const& name) {
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    auto const pool = TRY(pool_of(row.is_in_vault));
    return pool->delete_snapshot(tree, TRY(snapshot_name(name)));
}

Result<std::vector<storage::SnapshotFacts>> Workbench::snapshots(VolumeRow const& row) {
    auto const pool = TRY(pool_of(row.is_in_vault));
    auto all = TRY(pool->snapshot_facts(TRY(tree_of(row.key, row.is_in_vault))));
    std::erase_if(all, [](storage::SnapshotFacts const& one) { return one.name.text().starts_with(own_prefix); });
    return all;
}

}  // namespace triton::volume
