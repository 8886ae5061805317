#include "host/machine/lock_file.h"

#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <unistd.h>

namespace triton::machine {

namespace {

/// The directories where files of machines are replaced, and where a killed command may leave temporary ones.
std::array<std::string, 4> directories_of_files(Layout const& layout) {
    return {layout.machines(), layout.archive(), layout.state() + "/journal", layout.nspawn()};
}

/// The names in a directory. One that is missing has none. What cannot be read now stays for the next `vmadm recover`.
std::vector<std::string> names_in(std::string const& path) {
    std::vector<std::string> names;
    std::error_code failed;  // the increment of a loop over a range would throw
    for (std::filesystem::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed))
        names.push_back(at->path().filename().string());
    return names;
}

/// The machine that such a temporary file belongs to: ".<uuid>.json.<random>.tmp"
std::optional<Uuid> owner_of_half_file(std::string_view name) {
    constexpr std::size_t uuid_length = 36;
    if (!name.starts_with(".") || !name.ends_with(".tmp") || name.size() < 1 + uuid_length) return std::nullopt;
    return Uuid::parse(name.substr(1, uuid_length));
}

/// Removes a machine's temporary files. The caller has locked the machine, so nobody is still writing them.
void forget_half_files(Layout const& layout, Uuid const& uuid) {
    for (std::string const& directory : directories_of_files(layout))
        for (std::string const& name : names_in(directory))
            if (owner_of_half_file(name) == uuid) (void)::unlink((directory + "/" + name).c_str());
}

}  // namespace

LockFile::~LockFile() {
    if (store_.exists(uuid_)) return;
    forget_half_files(store_.layout(), uuid_);
    store_.forget_lock(uuid_);
}

void forget_strays(Store const& store) {
    std::set<Uuid> owners;
    for (std::string const& name : names_in(store.layout().state() + "/locks")) {
        auto const uuid = Uuid::parse(name);
        if (uuid && !store.exists(*uuid)) owners.insert(*uuid);
    }
    for (std::string const& directory : directories_of_files(store.layout()))
        for (std::string const& name : names_in(directory))
            if (auto const owner = owner_of_half_file(name)) owners.insert(*owner);
    for (Uuid const& uuid : owners) {
        auto const own = store.lock(uuid, "vmadm recover", milliseconds(0));
        if (!own) continue;
        LockFile const lock_file(store, uuid);
        forget_half_files(store.layout(), uuid);
    }
}

}  // namespace triton::machine
