#include "host/parts/held_volumes.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/image/site.h"
#include "host/storage/owner_mapping.h"
#include "host/volume/work/vault.h"
#include "host/volume/work/workbench.h"
#include "lib/json/text.h"

namespace triton::parts {

namespace {

Result<volume::Use> use_of(machine::VolumeUse const& use) {
    auto const key = volume::VolumeKey::parse(use.volume);
    if (!key) return fail(json::shown(use.volume) + " is no key of a volume");
    return volume::Use{*key, use.is_read_only};
}

/// What the names of a machine's snapshots begin with: 14 digits of its uuid leave room for the longest name.
std::string own_prefix(Uuid const& machine) {
    std::string const digits = machine.digits();
    return digits.substr(digits.size() - 14) + ".";
}

Result<storage::SnapshotName> own_name(Uuid const& machine, std::string_view name) {
    return storage::SnapshotName::parse(own_prefix(machine) + std::string(name));
}

std::unexpected<Error> no_volume(std::string_view word) {
    return fail(ErrorKind::not_found, "there is no volume " + json::shown(word) + "; volumeadm list shows all");
}

}  // namespace

Result<volume::Uses*> HeldVolumes::open() {
    if (uses_) return &*uses_;
    image::Site const site = TRY(image::read_site({.root = root_}));
    std::string const path = site.content + "/content.db";
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return nullptr;
    database_.emplace(TRY(content::Database::open(path)));
    uses_ = TRY(volume::Uses::open(*database_));
    return &*uses_;
}

Result<std::string> HeldVolumes::find(std::string_view word) {
    volume::Uses* const uses = TRY(open());
    if (!uses) return no_volume(word);
    return TRY(uses->find(word)).text();
}

Result<> HeldVolumes::hold(Uuid const& holder, Wanted const& wanted, bool keeps_others) {
    volume::Uses* const uses = TRY(open());
    if (!uses) {
        auto const needed = TRY(wanted());
        return needed.empty() ? Result<>() : no_volume(needed.front().volume);
    }
    auto const as_keys = [&wanted]() -> Result<std::vector<volume::Use>> {
        std::vector<volume::Use> all;
        for (machine::VolumeUse const& one : TRY(wanted()))
            all.push_back(TRY(use_of(one)));
        return all;
    };
    volume::Uses::Rules const rules{
        .maps_owners = [this](volume::KnownVolume const& one) { return maps_owners_of(one); },
        .keeps_others = keeps_others};
    if (TRY(uses->hold(holder.text(), as_keys, rules))) tell_manager();
    return {};
}

Result<bool> HeldVolumes::maps_owners(std::string const& volume) { return maps_owners_of(TRY(look_at(volume))); }

/// A pool that is not there yet is one that does: a machine does not start before it is.
Result<bool> HeldVolumes::maps_owners_of(volume::KnownVolume const& volume) {
    image::Site const site = TRY(image::read_site({.root = root_}));
    if (volume.is_in_vault && !site.vault) return true;
    std::string const& path = volume.is_in_vault ? site.vault->path : site.storage.path;
    if (auto const known = mapping_.find(path); known != mapping_.end()) return known->second;
    UniqueFd const pool{::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!pool && errno == ENOENT) return true;
    if (!pool) return fail(errno, "open " + path);
    return mapping_[path] = TRY(storage::maps_owners(pool.get()));
}

Result<std::vector<Uuid>> HeldVolumes::holders() {
    std::vector<Uuid> holders;
    volume::Uses* const uses = TRY(open());
    if (!uses) return holders;
    for (std::string const& user : TRY(uses->users()))
        if (auto const uuid = Uuid::parse(user)) holders.push_back(*uuid);
    return holders;
}

Result<volume::KnownVolume> HeldVolumes::look_at(std::string const& key) {
    auto const parsed = volume::VolumeKey::parse(key);
    volume::Uses* const uses = TRY(open());
    auto known = uses && parsed ? TRY(uses->look_at(*parsed)) : std::nullopt;
    if (!known) return no_volume(key);
    return *std::move(known);
}

Result<HeldVolumes::Tree> HeldVolumes::tree_of(std::string const& key) {
    volume::KnownVolume const known = TRY(look_at(key));
    if (!known.row || known.row->stage != volume::VolumeRow::Stage::made)
        return fail(ErrorKind::refused, "volume " + key + " is being made or removed");
    if (!pool_) pool_ = TRY(storage::open_pool(TRY(image::read_site({.root = root_})).storage));
    if (known.row->is_in_vault && !vault_) vault_ = TRY(volume::open_vault(TRY(volume::read_place(root_)).site));
    storage::Pool* const pool = known.row->is_in_vault ? vault_.get() : pool_.get();
    return Tree{pool, TRY(volume::tree_of(known.key, known.row->is_in_vault))};
}

Result<> HeldVolumes::snapshot(std::string const& volume, Uuid const& machine, std::string_view name) {
    storage::SnapshotName const snapshot = TRY(own_name(machine, name));
    Tree const tree = TRY(tree_of(volume));
    {
        // What the machine has written before is in it.
        UniqueFd const directory = TRY(tree.pool->open(tree.name));
        if (::syncfs(directory.get()) != 0) return fail(errno, "make " + tree.name.text() + " durable");
    }
    TRY(unless_missing(tree.pool->delete_snapshot(tree.name, snapshot)));
    return tree.pool->snapshot(tree.name, snapshot);
}

Result<> HeldVolumes::delete_snapshot(std::string const& volume, Uuid const& machine, std::string_view name) {
    auto const tree = tree_of(volume);
    if (!tree && (tree.error().kind == ErrorKind::not_found || tree.error().kind == ErrorKind::refused)) return {};
    if (!tree) return std::unexpected(tree.error());
    return unless_missing(tree->pool->delete_snapshot(tree->name, TRY(own_name(machine, name))));
}

namespace {

/// The snapshots of a tree after one of them, oldest first. Errors: `not_found`.
Result<std::vector<storage::SnapshotName>> later_than(storage::Pool& pool, storage::TreeName const& tree,
                                                      storage::SnapshotName const& snapshot) {
    auto all = TRY(pool.snapshots(tree));
    auto const found = std::ranges::find(all, snapshot);
    if (found == all.end()) return fail(ErrorKind::not_found, tree.text() + " has no snapshot " + snapshot.text());
    all.erase(all.begin(), found + 1);
    return all;
}

}  // namespace

Result<> HeldVolumes::check_rollback(std::string const& volume, Uuid const& machine, std::string_view name) {
    storage::SnapshotName const snapshot = TRY(own_name(machine, name));
    Tree const tree = TRY(tree_of(volume));
    for (volume::ReferenceConfig const& user :
         TRY(volume::references_to(*database_, *volume::VolumeKey::parse(volume))))
        if (user.key.user != machine.text())
            return fail(ErrorKind::refused, "volume " + volume + " is also used by " + volume::shown_user(user) +
                                                ", under whose hands a rollback would change it");
    auto const later = TRY(later_than(*tree.pool, tree.name, snapshot));
    if (tree.pool->kind() != storage::Backend::zfs) return {};
    for (storage::SnapshotName const& one : later)
        if (!one.text().starts_with(own_prefix(machine)))
            return fail(ErrorKind::refused, "volume " + volume + " has a later snapshot " + one.text() +
                                                ", which ZFS would remove: volumeadm delete-snapshot removes it");
    return tree.pool->check_unused(tree.name, later);
}

Result<> HeldVolumes::rollback(std::string const& volume, Uuid const& machine, std::string_view name) {
    storage::SnapshotName const snapshot = TRY(own_name(machine, name));
    Tree const tree = TRY(tree_of(volume));
    auto const later = TRY(later_than(*tree.pool, tree.name, snapshot));
    if (tree.pool->kind() == storage::Backend::zfs)
        for (auto one = later.rbegin(); one != later.rend(); ++one)
            if (one->text().starts_with(own_prefix(machine))) TRY(tree.pool->delete_snapshot(tree.name, *one));
    return tree.pool->rollback(tree.name, snapshot);
}

/// It follows this file if it runs. Otherwise it reads the rows when it starts, so nothing depends on this.
void HeldVolumes::tell_manager() const {
    auto const place = volume::read_place(root_);
    if (!place || (::mkdir(place->links.c_str(), 0700) != 0 && errno != EEXIST)) return;
    std::string const path = place->links + "/" + std::string(volume::uses_file_name);
    UniqueFd const file{::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (file) (void)!::pwrite(file.get(), "x", 1, 0);
}

}  // namespace triton::parts
