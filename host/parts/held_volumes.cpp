#include "host/parts/held_volumes.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/image/site.h"
#include "host/storage/owner_mapping.h"
#include "host/volume/work/workbench.h"
#include "lib/json/text.h"

namespace triton::parts {

namespace {

Result<volume::Use> use_of(machine::VolumeUse const& use) {
    auto const key = volume::VolumeKey::parse(use.volume);
    if (!key) return fail(json::shown(use.volume) + " is no key of a volume");
    return volume::Use{*key, use.is_read_only};
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
    volume::Uses::Rules const rules{.maps_owners = [this] { return maps_owners(); }, .keeps_others = keeps_others};
    if (TRY(uses->hold(holder.text(), as_keys, rules))) tell_manager();
    return {};
}

Result<bool> HeldVolumes::maps_owners() {
    image::Site const site = TRY(image::read_site({.root = root_}));
    UniqueFd const pool{::open(site.storage.path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!pool && errno == ENOENT) return true;
    if (!pool) return fail(errno, "open " + site.storage.path);
    return storage::maps_owners(pool.get());
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

/// It follows this file if it runs. Otherwise it reads the rows when it starts, so nothing depends on this.
void HeldVolumes::tell_manager() const {
    auto const place = volume::read_place(root_);
    if (!place || (::mkdir(place->links.c_str(), 0700) != 0 && errno != EEXIST)) return;
    std::string const path = place->links + "/" + std::string(volume::uses_file_name);
    UniqueFd const file{::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (file) (void)!::pwrite(file.get(), "x", 1, 0);
}

}  // namespace triton::parts
