#include "host/observe/file_poll.h"

#include <array>
#include <string_view>

#include <sys/stat.h>

#include "host/machine/machines.h"
#include "host/machine/unit_texts.h"

namespace triton::observe {

namespace {

/// Adds to an FNV-1a hash what tells two states of a file apart.
void mix(std::uint64_t& signature, std::string const& path) {
    struct stat status{};
    std::array<std::uint64_t, 4> facts{};
    if (::stat(path.c_str(), &status) == 0)
        facts = {static_cast<std::uint64_t>(status.st_ino), static_cast<std::uint64_t>(status.st_size),
                 static_cast<std::uint64_t>(status.st_mtim.tv_sec), static_cast<std::uint64_t>(status.st_mtim.tv_nsec)};
    for (std::uint64_t const fact : facts)
        signature = (signature ^ fact) * 0x100000001b3;
}

}  // namespace

std::uint64_t FilePoll::signature(std::string const& name) const {
    std::uint64_t signature = 0xcbf29ce484222325;
    mix(signature, store_.layout().machines() + "/" + name + ".json");
    auto const uuid = Uuid::parse(name);
    if (!uuid) return signature;
    std::string const tree = pool_.path(machine::tree_of(*uuid));
    for (std::string_view const file : {"/config/metadata.json", "/config/tags.json", "/config/routes.json",
                                        "/config/launch/config.json", "/../@snapshots"})
        mix(signature, tree + std::string(file));
    for (std::string const& directory : unit_controls_)  // a drop-in is replaced, so its directory changes
        mix(signature, directory + "/" + machine::unit_of(*uuid) + ".d");
    return signature;
}

std::vector<std::string> FilePoll::look() {
    std::map<std::string, std::uint64_t> now;
    std::vector<std::string> changed;
    auto const names = store_.names();
    if (!names) return changed;  // the next look may find them
    for (std::string const& name : *names) {
        std::uint64_t const found = signature(name);
        auto const before = known_.find(name);
        if (before == known_.end() || before->second != found) changed.push_back(name);
        now.emplace(name, found);
    }
    for (auto const& [name, before] : known_)
        if (!now.contains(name)) changed.push_back(name);
    known_ = std::move(now);
    return changed;
}

}  // namespace triton::observe
