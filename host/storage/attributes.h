#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "lib/base/result.h"

namespace triton::storage {

/// A file in a directory, for calls that work with and without opening it. Files and directories are open. What would
/// act when opened (devices, FIFOs), or cannot be opened (symbolic links, sockets), has -1.
struct Place {
    int directory;
    char const* name;
    int fd;
};

/// Extended attributes, including ACLs. Buffers are reused from file to file.
class ExtendedAttributes {
public:
    /// Calls `take(name, value)` for each. Errors: those of listxattr(2) and getxattr(2), and of `take`. On a file
    /// system without them there are none.
    Result<> read(Place const& place, std::function<Result<>(char const* name, std::string_view value)> const& take);

private:
    std::vector<char> names_;
    std::vector<char> value_;
};

/// Errors: those of setxattr(2), "set <name>".
Result<> set_extended_attribute(Place const& place, char const* name, std::string_view value);

/// Errors: those of removexattr(2), "remove <name>".
Result<> remove_extended_attribute(Place const& place, char const* name);

/// Sets owner, mode and times in an order that keeps setuid; only those that differ from `now`. Errors: those of the
/// system calls.
Result<> set_attributes(Place const& place, struct stat const& wanted, struct stat const& now);

}  // namespace triton::storage
