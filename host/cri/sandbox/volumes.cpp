#include "host/cri/sandbox/volumes.h"

#include <cerrno>
#include <climits>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/cri/container/mounts.h"
#include "host/cri/monitor/message.h"
#include "host/cri/sandbox/images_in_use.h"
#include "host/cri/sandbox/places.h"
#include "host/cri/sandbox/user_namespace.h"
#include "host/cri/wire/messages.h"
#include "lib/files/confined_path.h"

namespace triton::cri {

namespace {

/// Where a path of an image is on the host: no link of the image leads out.
Result<std::string> path_in_image(std::string const& tree, std::string const& path) {
    if (path.empty()) return tree;
    UniqueFd const file = TRY(files::open_confined(tree, path, O_PATH | O_CLOEXEC));
    std::string found(PATH_MAX, '\0');
    ssize_t const size =
        ::readlink(("/proc/self/fd/" + std::to_string(file.get())).c_str(), found.data(), found.size());
    if (size <= 0) return fail(errno, "find " + path + " in the image");
    found.resize(static_cast<std::size_t>(size));
    return found;
}

struct FoundImage {
    std::string id;
    std::string path;
};

Result<FoundImage> find_image(v1::Mount const& mount, image::Settings const& images, std::string const& container) {
    auto const find = [&]() -> Result<FoundImage> {
        HeldImage const image = TRY(hold_image(images, mount.image().image(), container));
        return FoundImage{image.id, TRY(path_in_image(image.tree, mount.image_sub_path()))};
    };
    auto found = find();
    if (!found)  // kubelet looks at the beginning of the text, and only of that code
        return fail(ErrorKind::internal, "ImageVolumeMountFailed: " + found.error().text());
    return found;
}

bool is_image(v1::Mount const& mount) { return mount.has_image() && !mount.image().image().empty(); }

Result<> check_mapping(v1::Mount const& mount, monitor::UserMapping const& users) {
    v1::UserNamespace asked;
    *asked.mutable_uids() = mount.uidmappings();
    *asked.mutable_gids() = mount.gidmappings();
    if (TRY(user_mapping_of(asked)) == users) return {};
    return fail(ErrorKind::unsupported, "the owners of " + mount.container_path() + " are not mapped as the pod's are");
}

/// A mount needs something of its kind to be mounted on.
Result<> make_place(std::string const& source, std::string const& place) {
    struct stat status{};
    if (::stat(source.c_str(), &status) != 0) return fail(errno, "find " + source);
    if (S_ISDIR(status.st_mode)) return make_directories(place);
    return write_file(place, "", false);
}

}  // namespace

Result<ContainerVolumes> find_volumes(v1::ContainerConfig const& config, monitor::UserMapping const& users,
                                      image::Settings const& images, std::string const& container,
                                      std::string const& bundle) {
    ContainerVolumes volumes;
    for (int i = 0; i < config.mounts_size(); ++i) {
        v1::Mount const& mount = config.mounts(i);
        bool const has_mapping = mount.uidmappings_size() > 0 || mount.gidmappings_size() > 0;
        if (has_mapping) TRY(check_mapping(mount, users));
        std::string source;
        if (is_image(mount)) {
            FoundImage found = TRY(find_image(mount, images, container));
            volumes.images[i] = std::move(found.id);
            source = volumes.sources[i] = std::move(found.path);
        }
        if (!users.is_set()) continue;
        if (source.empty()) source = TRY(host_source(mount));
        std::string place = monitor::mapped_volume(bundle, volumes.mapped.size());
        TRY(make_place(source, place));
        bool const is_mapped = is_image(mount) || has_mapping;
        char const kind = is_mapped ? monitor::volume_mapped : monitor::volume_as_it_is;
        volumes.mapped.push_back(kind + source);
        volumes.sources[i] = std::move(place);
    }
    return volumes;
}

}  // namespace triton::cri
