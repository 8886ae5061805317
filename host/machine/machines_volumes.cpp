// What machines do with volumes.

#include "host/machine/lock_file.h"
#include "host/machine/machines.h"
#include "host/machine/volume_uses.h"

namespace triton::machine {

/// Replaces what the owner calls the volumes by their keys: a name may mean another volume later.
Result<> Machines::find_volumes(Machine& machine) {
    for (std::size_t i = 0; i < machine.filesystems.size(); ++i) {
        Filesystem& filesystem = machine.filesystems[i];
        if (!is_volume(filesystem)) continue;
        std::string const what = "filesystems[" + std::to_string(i) + "].source";
        if (!parts_.volumes) return fail(ErrorKind::unsupported, what + ": there are no volumes here");
        auto found = parts_.volumes->find(filesystem.source);
        if (!found) return fail(found.error().kind, what + ": " + found.error().text());
        filesystem.source = *std::move(found);
    }
    return {};
}

Result<> Machines::hold_volumes(Uuid const& uuid, std::vector<VolumeUse> const& uses, bool keeps_others) {
    if (!parts_.volumes) return {};
    return parts_.volumes->hold(uuid, [&uses] { return Result<std::vector<VolumeUse>>(uses); }, keeps_others);
}

Result<> Machines::release_volumes(Uuid const& uuid) {
    if (!parts_.volumes) return {};
    auto const wanted = [this, &uuid]() -> Result<std::vector<VolumeUse>> {
        return merged(volume_uses(TRY(store_.load(uuid))), TRY(attached_volumes(store_.layout(), uuid)));
    };
    return parts_.volumes->hold(uuid, wanted, false);
}

Result<> Machines::release_all_volumes(Uuid const& uuid) { return hold_volumes(uuid, {}, false); }

Result<> Machines::derive_volumes(Machine const& machine, MachinePaths& paths) {
    if (volume_uses(machine).empty()) return {};
    if (!parts_.volumes) return fail(ErrorKind::unsupported, "filesystems: there are no volumes here");
    paths.volume_links = volume_links(store_.layout(), machine.uuid);
    for (VolumeUse const& use : volume_uses(machine)) {
        auto const is_mapped = parts_.volumes->maps_owners(use.volume);
        if (!is_mapped && is_mapped.error().kind == ErrorKind::not_found) continue;  // its start waits for it
        if (!TRY(is_mapped)) paths.unmapped_volumes.insert(use.volume);
    }
    return {};
}

Result<std::vector<Uuid>> Machines::stray_volume_holders() {
    std::vector<Uuid> strays;
    if (!parts_.volumes) return strays;
    for (Uuid const& holder : TRY(parts_.volumes->holders()))
        if (!store_.exists(holder)) strays.push_back(holder);
    return strays;
}

Result<> Machines::recover_volumes(Uuid const& owner, Told const& told) {
    MachineLock const own = TRY(lock(owner, "recover"));
    LockFile const lock_file(store_, owner);
    if (store_.exists(owner)) return {};
    TRY(release_all_volumes(owner));
    told("volumes of VM " + owner.text() + ": released, there is no such VM");
    return {};
}

}  // namespace triton::machine
