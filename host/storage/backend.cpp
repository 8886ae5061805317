#include <algorithm>
#include <array>
#include <utility>

#include "host/storage/pool.h"

namespace triton::storage {

namespace {

constexpr std::array<std::pair<Backend, std::string_view>, 4> backends{{
    {Backend::zfs, "zfs"},
    {Backend::btrfs, "btrfs"},
    {Backend::reflink, "reflink"},
    {Backend::directory, "directory"},
}};

}  // namespace

std::string_view name_of(Backend backend) { return backends[std::to_underlying(backend)].second; }

Result<Backend> parse_backend(std::string_view name) {
    auto const* const row = std::ranges::find(backends, name, &std::pair<Backend, std::string_view>::second);
    if (row != backends.end()) return row->first;
    return fail("unknown storage backend \"" + std::string(name) + "\" (known: zfs, btrfs, reflink, directory)");
}

Result<> Pool::tune(TreeName const& /*tree*/, Tuning const& tuning) {
    if (tuning == Tuning()) return {};
    return fail(ErrorKind::unsupported, "the pool is not of ZFS");
}

Result<> Pool::check_unused(TreeName const& /*tree*/, std::vector<SnapshotName> const& /*snapshots*/) { return {}; }

std::string Pool::dataset(TreeName const& /*tree*/) const { return {}; }

Result<std::optional<TreeName>> Pool::origin(TreeName const& /*tree*/) { return std::optional<TreeName>(); }

Result<std::string> Pool::snapshot_path(TreeName const& tree, SnapshotName const& /*name*/) {
    return fail(ErrorKind::unsupported, "lay containers over tree " + tree.text(),
                "overlayfs is not used with snapshots of " + std::string(name_of(kind())));
}

Result<> Pool::send_since_origin(TreeName const& tree, SnapshotName const& /*snapshot*/, int /*fd*/) {
    return fail(ErrorKind::unsupported, "send the changes of " + tree.text(),
                "only ZFS remembers what a tree was cloned from");
}

}  // namespace triton::storage
