#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include <sys/stat.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

/// Keeps hard links together while a tree is made. The first name of a file with several is also put on a shelf, a
/// hidden directory in the new tree, and the other names are linked from there. So no path is needed, which might be
/// longer than PATH_MAX. When a file has all the names that the file system allows (65,000 on ext4), it leaves the
/// shelf. The shelf must be removed before the tree is used.
class LinkShelf {
public:
    /// The shelf is in the root of the new tree, which is borrowed and must stay open. Makes nothing yet.
    explicit LinkShelf(int root);

    /// If a file of the old tree was kept, gives its copy one more name. Returns whether it did.
    Result<bool> link(struct stat const& old, int directory, std::string const& name);
    /// Keeps the copy of a file that has other names.
    Result<> keep(struct stat const& old, int directory, std::string const& name);

    /// The same, with the numbers that a stream gives to files.
    Result<bool> link(std::uint64_t number, int directory, std::string const& name);
    Result<> keep(std::uint64_t number, int directory, std::string const& name);

    /// Removes the shelf, if there is one.
    Result<> remove();

private:
    Result<int> shelf();

    UniqueFd root_;
    UniqueFd shelf_;
    std::string name_;
    std::uint64_t next_ = 0;
    std::unordered_map<std::uint64_t, std::uint64_t> numbers_;  // inode in the old tree -> number; same file system
};

}  // namespace triton::storage
