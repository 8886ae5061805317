#include "host/storage/link_shelf.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "host/storage/random_name.h"
#include "host/storage/remove_tree.h"

namespace triton::storage {

LinkShelf::LinkShelf(int root) : root_(::fcntl(root, F_DUPFD_CLOEXEC, 3)) {}

Result<int> LinkShelf::shelf() {
    if (shelf_) return shelf_.get();
    name_ = ".triton-links-" + random_name();
    if (::mkdirat(root_.get(), name_.c_str(), 0700) != 0) return fail(errno, "make a directory for hard links");
    shelf_ = UniqueFd{::openat(root_.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    if (!shelf_) return fail(errno, "open the directory for hard links");
    return shelf_.get();
}

Result<bool> LinkShelf::link(struct stat const& old, int directory, std::string const& name) {
    if (old.st_nlink < 2) return false;
    auto const found = numbers_.find(old.st_ino);
    if (found == numbers_.end()) return false;
    return link(found->second, directory, name);
}

Result<> LinkShelf::keep(struct stat const& old, int directory, std::string const& name) {
    if (old.st_nlink < 2) return {};
    numbers_[old.st_ino] = next_;
    return keep(next_++, directory, name);
}

Result<bool> LinkShelf::link(std::uint64_t number, int directory, std::string const& name) {
    if (!shelf_) return false;
    std::string const kept = std::to_string(number);
    if (::linkat(shelf_.get(), kept.c_str(), directory, name.c_str(), 0) == 0) return true;
    if (errno == ENOENT) return false;
    // The file may have no more names: its last one takes the place of the one on the shelf.
    bool const is_last = errno == EMLINK;
    if (is_last && ::renameat2(shelf_.get(), kept.c_str(), directory, name.c_str(), RENAME_NOREPLACE) == 0) return true;
    return fail(errno, "link");
}

Result<> LinkShelf::keep(std::uint64_t number, int directory, std::string const& name) {
    int const there = TRY(shelf());
    if (::linkat(directory, name.c_str(), there, std::to_string(number).c_str(), 0) != 0) return fail(errno, "link");
    return {};
}

Result<> LinkShelf::remove() {
    if (!shelf_) return {};
    shelf_ = UniqueFd{};
    return remove_tree(root_.get(), name_);
}

}  // namespace triton::storage
