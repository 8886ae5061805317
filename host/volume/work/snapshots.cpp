// Snapshots of volumes: those that somebody asks for, and those that this program makes for a while.

#include <cerrno>
#include <ctime>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/volume/work/own_snapshots.h"
#include "host/volume/work/workbench.h"
#include "lib/json/text.h"

namespace triton::volume {

namespace {

Result<storage::SnapshotName> snapshot_name(std::string const& name) {
    if (name.starts_with(own_snapshot_prefix))
        return fail("a snapshot " + json::shown(name) + " would look like one of volumemgr's own");
    return storage::SnapshotName::parse(name);
}

}  // namespace

Result<storage::SnapshotName> clone_snapshot(VolumeKey const& clone) {
    return storage::SnapshotName::parse(std::string(clone_snapshot_prefix) + clone.id.text() + "." +
                                        std::to_string(clone.generation));
}

Result<storage::SnapshotName> published_snapshot(SnapshotKey const& key) {
    return storage::SnapshotName::parse("triton-object-" + key.text());
}

Result<UniqueFd> lock_file(std::string const& links, std::string const& name, std::string const& busy) {
    if (::mkdir(links.c_str(), 0700) != 0 && errno != EEXIST) return fail(errno, "make " + links);
    std::string const path = links + "/" + name;
    UniqueFd file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!file) return fail(errno, "open " + path);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
    if (errno == EWOULDBLOCK) return fail(ErrorKind::busy, busy);
    return fail(errno, "lock " + path);
}

namespace {

std::string sending_file(VolumeKey const& key) { return "send-" + key.text() + ".lock"; }

}  // namespace

Result<UniqueFd> lock_for_sending(std::string const& links, VolumeKey const& key) {
    return lock_file(links, sending_file(key), "volume " + key.text() + " is being sent by another process");
}

void forget_lock_for_sending(std::string const& links, VolumeKey const& key) {
    (void)::unlink((links + "/" + sending_file(key)).c_str());
}

/// On ZFS a clone needs its snapshot, and each question takes a process: there a snapshot stays until the next clone or
/// the next process that sends the volume.
Result<> Workbench::forget_own_snapshots(std::vector<VolumeRow> const& rows) {
    for (VolumeRow const& row : rows) {
        storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
        auto const pool = TRY(pool_of(row.is_in_vault));
        if (pool->kind() == storage::Backend::zfs) return {};
        auto const names = pool->snapshots(tree);
        if (!names) continue;  // a volume without its tree is another function's problem
        for (storage::SnapshotName const& name : *names) {
            if (name.text().starts_with(clone_snapshot_prefix)) TRY(unless_missing(pool->delete_snapshot(tree, name)));
            if (name.text() != send_snapshot) continue;
            auto const own = lock_for_sending(place_.links, row.key);
            if (!own) continue;
            TRY(unless_missing(pool->delete_snapshot(tree, name)));
            forget_lock_for_sending(place_.links, row.key);
        }
    }
    return {};
}

Result<> Workbench::take(VolumeRow const& row, storage::SnapshotName const& name) {
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    auto const pool = TRY(pool_of(row.is_in_vault));
    {
        // What a user has written before is in it.
        UniqueFd const directory = TRY(pool->open(tree));
        if (::syncfs(directory.get()) != 0) return fail(errno, "make " + tree.text() + " durable");
    }
    return pool->snapshot(tree, name);
}

/// The volume keeps the size that it has, which may be larger than that of then.
Result<> Workbench::give_back(VolumeRow const& row, storage::SnapshotName const& name, int cancel) {
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    auto const pool = TRY(pool_of(row.is_in_vault));
    TRY(pool->rollback(tree, name));
    bool const can_grow =
        row.format == Format::raw || row.format == Format::qcow2 || layout_of(row.format) == Layout::directory;
    return row.bytes > 0 && can_grow ? set_size(row, *pool, row.bytes, cancel) : Result<>();
}

Result<> Workbench::snapshot(VolumeRow const& row, std::string const& name) { return take(row, TRY(snapshot_name(name))); }

Result<> Workbench::rollback(VolumeRow const& row, std::string const& name) {
    return give_back(row, TRY(snapshot_name(name)), -1);
}

Result<> Workbench::delete_snapshot(VolumeRow const& row, std::string const& name) {
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    auto const pool = TRY(pool_of(row.is_in_vault));
    return pool->delete_snapshot(tree, TRY(snapshot_name(name)));
}

/// An attempt before may have been killed in its middle: all volumes are taken again, so that they are of about one
/// time.
Result<Answer> Workbench::take_snapshot(Order const& order) {
    storage::SnapshotName const name = TRY(published_snapshot(order.job.snapshot));
    TRY(delete_snapshot(order));
    Answer const answer{.taken = std::time(nullptr)};
    for (VolumeRow const& row : order.volumes)
        TRY(take(row, name));
    return answer;
}

Result<> Workbench::roll_back(Order const& order) {
    storage::SnapshotName const name = TRY(published_snapshot(order.job.snapshot));
    for (VolumeRow const& row : order.volumes)
        TRY(give_back(row, name, order.cancel));
    return {};
}

Result<> Workbench::delete_snapshot(Order const& order) {
    storage::SnapshotName const name = TRY(published_snapshot(order.job.snapshot));
    for (VolumeRow const& row : order.volumes) {
        auto const pool = TRY(pool_of(row.is_in_vault));
        TRY(unless_missing(pool->delete_snapshot(TRY(tree_of(row.key, row.is_in_vault)), name)));
    }
    return {};
}

Result<std::vector<storage::SnapshotFacts>> Workbench::snapshots(VolumeRow const& row) {
    auto const pool = TRY(pool_of(row.is_in_vault));
    auto all = TRY(pool->snapshot_facts(TRY(tree_of(row.key, row.is_in_vault))));
    std::erase_if(all,
                  [](storage::SnapshotFacts const& one) { return one.name.text().starts_with(own_snapshot_prefix); });
    return all;
}

}  // namespace triton::volume
