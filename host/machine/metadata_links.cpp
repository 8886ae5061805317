#include "host/machine/metadata_links.h"

#include <cerrno>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"
#include "lib/files/confined_path.h"

namespace triton::machine {

namespace {

/// Makes links that belong to whom the root directory belongs to. The image may have anything in their places.
class Links {
public:
    static std::optional<Links> open(std::string const& root) {
        Links links;
        links.top_ = UniqueFd{::open(root.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
        if (!links.top_ || ::fstat(links.top_.get(), &links.owner_) != 0) return std::nullopt;
        return links;
    }
    [[nodiscard]] bool has(std::string const& directory) const { return static_cast<bool>(find(directory)); }
    void make_directory(std::string const& parent, std::string const& name) const {
        UniqueFd const directory = find(parent);
        if (directory && ::mkdirat(directory.get(), name.c_str(), 0755) == 0) give(directory.get(), name);
    }
    void make(std::string const& parent, std::string const& name, std::string const& target) const {
        UniqueFd const directory = find(parent);
        if (directory && ::symlinkat(target.c_str(), directory.get(), name.c_str()) == 0) give(directory.get(), name);
    }

private:
    [[nodiscard]] UniqueFd find(std::string const& directory) const {
        auto found = files::open_beneath(top_.get(), directory, O_RDONLY | O_DIRECTORY);
        return found ? std::move(*found) : UniqueFd();
    }
    void give(int directory, std::string const& name) const {
        (void)::fchownat(directory, name.c_str(), owner_.st_uid, owner_.st_gid, AT_SYMLINK_NOFOLLOW);
    }

    UniqueFd top_;
    struct stat owner_{};
};

}  // namespace

void make_metadata_links(std::string const& root) {
    auto const links = Links::open(root);
    if (!links) return;
    links->make(".", "native", std::string(metadata_inside));
    for (std::string_view const name : MetadataPlaces::command_names) {
        std::string const command(name);
        links->make("usr/sbin", command, "/native/" + std::string(MetadataPlaces::commands) + "/" + command);
    }
    if (!links->has("etc/cloud")) return;
    std::string parent = "var/lib";
    for (char const* const name : {"cloud", "seed"}) {
        links->make_directory(parent, name);
        parent.append("/").append(name);
    }
    links->make(parent, "nocloud", std::string(metadata_inside) + "/" + std::string(MetadataPlaces::seed));
}

}  // namespace triton::machine
