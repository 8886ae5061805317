#include "programs/triton-machine-metadata/place.h"

#include <cerrno>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/machine/metadata_links.h"
#include "host/metadata/seed.h"
#include "host/storage/remove_tree.h"
#include "lib/base/unique_fd.h"
#include "lib/files/copy_file.h"

namespace triton::program {

namespace {

using machine::MetadataPlaces;

/// A directory that is being filled. Nobody else can enter those above it.
class Filling {
public:
    Filling(std::string path, uid_t owner) : path_(std::move(path)), owner_(owner) {}

    Result<> make_directory(std::string const& name, mode_t mode) {
        std::string const path = path_ + "/" + name;
        if (::mkdir(path.c_str(), mode) != 0) return fail(errno, "create " + path);
        return give(path);
    }
    Result<> make_file(std::string const& name, std::string_view text, mode_t mode) {
        std::string const path = path_ + "/" + name;
        TRY(machine::replace_file(path, text, mode));
        return give(path);
    }
    Result<> make_link(std::string const& name, std::string const& target) {
        std::string const path = path_ + "/" + name;
        if (::symlink(target.c_str(), path.c_str()) != 0) return fail(errno, "create " + path);
        return give(path);
    }

private:
    Result<> give(std::string const& path) {
        if (::lchown(path.c_str(), owner_, owner_) != 0) return fail(errno, "give " + path + " to the machine");
        return {};
    }

    std::string path_;
    uid_t owner_;
};

Result<> fill(Filling& filling, machine::Machine const& machine) {
    // systemd makes the socket in it, for everybody; who may enter decides.
    TRY(filling.make_directory(".zonecontrol", 0700));
    for (char const* const directory : {"usr", "usr/sbin", "usr/lib"})
        TRY(filling.make_directory(directory, 0755));
    TRY(filling.make_file(std::string(MetadataPlaces::program), "", 0755));
    for (std::string_view const command : MetadataPlaces::command_names)
        TRY(filling.make_link(std::string(MetadataPlaces::commands) + "/" + std::string(command), "../lib/mdata"));
    TRY(filling.make_directory(std::string(MetadataPlaces::seed), 0700));
    for (metadata::SeedFile const& file : metadata::seed_of(machine))
        TRY(filling.make_file(std::string(MetadataPlaces::seed) + "/" + std::string(file.name), file.text, 0600));
    return {};
}

}  // namespace

Result<> make_metadata_place(machine::Machines& machines, Uuid const& uuid) {
    auto const machine = machines.read(uuid);
    if (!machine && machine.error().kind == ErrorKind::not_found) return {};  // not one of vmadm's
    if (!machine) return std::unexpected(machine.error());
    machine::Layout const& layout = machines.store().layout();
    TRY(remove_metadata_place(layout, uuid));  // of a run whose end nobody noticed
    std::string const above = layout.metadata();
    TRY(files::make_directories(above));
    if (::chmod(above.c_str(), 0700) != 0) return fail(errno, "change the mode of " + above);
    std::string const place = above + "/" + uuid.text();
    if (::mkdir(place.c_str(), 0755) != 0) return fail(errno, "create " + place);
    Filling filling(place, static_cast<uid_t>(machine->first_uid.value_or(0)));
    return fill(filling, *machine);
}

Result<> remove_metadata_place(machine::Layout const& layout, Uuid const& uuid) {
    UniqueFd const above{::open(layout.metadata().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!above && errno == ENOENT) return {};
    if (!above) return fail(errno, "open " + layout.metadata());
    return storage::remove_tree(above.get(), uuid.text());
}

}  // namespace triton::program
