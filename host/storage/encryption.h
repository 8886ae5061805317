#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace triton::storage {

/// How what is written below a directory is kept on disk.
struct Encryption {
    enum class State : std::uint8_t {
        none,      ///< in the clear, as far as can be told
        locked,    ///< encrypted, and the key is not there now
        unlocked,  ///< encrypted
    };
    State state = State::none;
    std::string reason = {};  ///< a clause: "it is in the clear", "the key of its fscrypt policy is not there"
};

/// Looks at a directory (borrowed): fscrypt of version 2; else dm-crypt below all of its file system. `sysfs`: for
/// tests. Errors: those of the system calls, but for what a file system does not have. Source: Linux,
/// Documentation/filesystems/fscrypt.rst; Documentation/ABI/testing/sysfs-block-dm.
Result<Encryption> look_at_encryption(int directory, std::string const& sysfs = "/sys");

/// Looks at a dataset of ZFS. Errors: those of zfs(8).
Result<Encryption> look_at_encryption_of_dataset(std::string const& dataset);

}  // namespace triton::storage
