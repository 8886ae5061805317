#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include <sys/stat.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

/// Keeps hard links together while a tree is made. The first name of a file with several is also put on a shelf, which
/// is a hidden directory in the new tree, and the other names are linked from there: no path is needed, which might be
/// longer than PATH_MAX. The shelf has to be removed before the tree is used.
class LinkShelf {
public:
    /// In the root of the new tree, which is borrowed and has to be open as long as the shelf. Makes nothing yet.
    explicit LinkShelf(int root);

    /// If a file of the old tree has been kept, its copy gets one more name. Returns whether it did.
    Result<bool> link(struct stat const& old, int directory, std::string const& name);
    /// Keeps the copy of a file if that has other names.
    Result<> keep(struct stat const& old, int directory, std::string const& name);

    /// The same with numbers that a stream gives to files.
    Result<bool> link(std::uint64_t number, int directory, std::string const& name);
    Result<> keep(std::uint64_t number, int directory, std::string const& name);

    /// Removes the shelf, if there is one.
    Result<> remove();

private:
    Result<int> shelf();

    UniqueFd root_;
    UniqueFd shelf_;
    std::string name_;
    std::unordered_map<std::uint64_t, std::uint64_t> numbers_;  // inode of the old tree -> number; same file system
};

}  // namespace triton::storage
