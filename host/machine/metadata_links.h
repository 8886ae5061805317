#pragma once

#include <array>
#include <string>
#include <string_view>

namespace triton::machine {

/// Where a machine finds what it may ask of its metadata: one directory of the host, bound below its /run so that
/// nothing of it stays in its tree.
inline constexpr std::string_view metadata_inside = "/run/triton/metadata";

/// Where a directory of the host has that for one machine: see Layout::metadata().
struct MetadataPlaces {
    static constexpr std::string_view socket = ".zonecontrol/metadata.sock";
    static constexpr std::string_view commands = "usr/sbin";
    static constexpr std::array<std::string_view, 4> command_names{"mdata-get", "mdata-list", "mdata-put",
                                                                   "mdata-delete"};
    static constexpr std::string_view program =
        "usr/lib/mdata";  ///< the mount point of the program behind the commands
    static constexpr std::string_view seed = "seed";
};

/// Links from where people and images look to `metadata_inside`, in the tree of a machine that is stopped: /native, as
/// machines of SmartOS have it, /usr/sbin/mdata-get and its siblings, and, if the image has cloud-init, the directory
/// of its data source NoCloud. What is there already stays, and a link that cannot be made is left out: all of it is a
/// convenience.
void make_metadata_links(std::string const& root);

}  // namespace triton::machine
