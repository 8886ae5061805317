#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::unpack {

/// Splits a name in an archive into components, without "." and empty ones.
/// Errors: `corrupt`: "entry \"a/../b\" leads outside"; `refused` when it is too deep.
Result<std::vector<std::string>> split_name(std::string_view name, std::uint32_t most_depth);

/// Returns "a/b", for example.
std::string join(std::vector<std::string> const& components, std::size_t count);

/// When a file was last changed and read.
struct Times {
    timespec accessed;
    timespec modified;
};

/// The target of an archive: a directory in which entries are made, and never outside. What is a directory in the
/// archive may be a symbolic link of a lower layer: it is followed and stays inside, whatever its text (openat2(2) with
/// RESOLVE_IN_ROOT).
///
/// Entries of an archive come directory by directory, so the directories of the last entry are kept open: for most
/// entries, the descriptor is already there.
class Tree {
public:
    /// The root is open for reading, and borrowed.
    explicit Tree(int root) : root_(root) {}

    /// An open directory, borrowed until the next call. Missing components are made; anything in the way that is not a
    /// directory is replaced by one. Errors: those of mkdirat(2), openat2(2).
    Result<int> make_directory(std::vector<std::string> const& components, std::size_t count);
    /// The same for a directory that must exist. Errors: `not_found`.
    Result<int> find_directory(std::vector<std::string> const& components, std::size_t count);

    /// Whether files made in the directory that was last returned get another group than ours.
    [[nodiscard]] bool gives_group() const { return open_.empty() ? root_gives_group_ : open_.back().gives_group; }
    void set_gives_group(bool gives) { (open_.empty() ? root_gives_group_ : open_.back().gives_group) = gives; }

    /// Says that what has a name will be removed or replaced: directories below it are closed.
    void forget(std::vector<std::string> const& components, std::size_t count);
    void forget_all() { open_.clear(); }

    /// Sets the times that a directory is to have in the end. An existing one keeps its own unless this is called.
    void set_times(std::string path, Times const& times) { times_.insert_or_assign(std::move(path), times); }
    void forget_times(std::string const& path);
    /// Errors: those of utimensat(2).
    Result<> restore_times();

    [[nodiscard]] int root() const { return root_; }

private:
    struct Open {
        std::string name;
        UniqueFd directory;
        bool gives_group;  // its mode has setgid: files made in it get its group
    };
    Result<Open> enter(int parent, std::vector<std::string> const& components, std::size_t at, bool may_make);
    Result<int> walk(std::vector<std::string> const& components, std::size_t count, bool may_make);

    int root_;
    bool root_gives_group_ = true;  // as long as it is not known
    std::vector<Open> open_;
    std::map<std::string, Times> times_;
};

/// Calls openat2(2), close-on-exec. Returns the descriptor, or -1 with errno.
int open_beneath(int directory, char const* path, std::uint64_t flags, std::uint64_t mode, std::uint64_t resolve);

/// Removes what is there, with everything below; a missing one is fine. Links are not followed. Bounded by
/// `most_depth`.
/// Errors: those of unlinkat(2), "remove <name>".
Result<> remove_all(int parent, std::string const& name, unsigned most_depth);

}  // namespace triton::unpack
