#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "lib/base/result.h"

namespace triton::storage {

/// Something in a directory, for what can be done with and without opening it: files and directories are open, and what
/// would do something when it is opened (devices, FIFOs) or cannot be (symbolic links, sockets) has -1.
struct Place {
    int directory;
    char const* name;
    int fd;
};

/// Extended attributes, ACLs among them. Buffers are kept between files.
class ExtendedAttributes {
public:
    /// Calls `take(name, value)` for each. Errors: those of listxattr(2) and getxattr(2), and of `take`. A file system
    /// that knows none has none.
    Result<> read(Place const& place, std::function<Result<>(char const* name, std::string_view value)> const& take);

private:
    std::vector<char> names_;
    std::vector<char> value_;
};

/// Errors: those of setxattr(2), "set <name>".
Result<> set_extended_attribute(Place const& place, char const* name, std::string_view value);

/// Errors: those of removexattr(2), "remove <name>".
Result<> remove_extended_attribute(Place const& place, char const* name);

/// Gives it owner, mode and times, in the order that keeps setuid; only what differs from `now`. Errors: those of the
/// system calls.
Result<> set_attributes(Place const& place, struct stat const& wanted, struct stat const& now);

}  // namespace triton::storage
