#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "host/unpack/tree.h"

namespace triton::unpack {

struct Attribute {
    std::string name;
    std::string value;
};

/// One checked entry of an archive: numbers are in range, and the name cannot lead outside.
struct Entry {
    enum class Kind : std::uint8_t { file, directory, symbolic_link, hard_link, fifo, device };
    Kind kind = Kind::file;
    std::vector<std::string> name;    ///< empty: the root itself
    std::string link_target;          ///< of a symbolic link, unchanged
    std::vector<std::string> linked;  ///< of a hard link
    mode_t mode = 0;                  ///< permission bits, setuid, setgid, sticky
    uid_t user = 0;
    gid_t group = 0;
    std::uint64_t size = 0;                  ///< of a file, holes included
    std::optional<std::uint64_t> data = {};  ///< of a file whose holes are known: the bytes that the archive has of it
    Times times{};
    std::vector<Attribute> attributes;

    [[nodiscard]] std::string path() const { return join(name, name.size()); }
};

}  // namespace triton::unpack
