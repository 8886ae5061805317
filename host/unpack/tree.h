#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "host/unpack/pace.h"
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

/// The extended attribute with the access control list that is passed on to what is made in a directory.
inline constexpr std::string_view default_acl_name = "system.posix_acl_default";

/// The target of an archive: a directory in which entries are made, and never outside. What is a directory in the
/// archive may be a symbolic link of a lower layer: it is followed and stays inside, whatever its text (openat2(2) with
/// RESOLVE_IN_ROOT).
///
/// Entries of an archive come directory by directory, so the directories of the last entry are kept open: for most
/// entries, the descriptor is already there.
///
/// What is made in a directory would change its times, and get its default access control list. So both are set in the
/// end, and the list is taken from a directory when it is opened.
class Tree {
public:
    /// The root is open for reading, and borrowed; `pace` outlives this.
    Tree(int root, Pace& pace) : root_(root), pace_(pace) {}

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

    /// Sets what a directory is to have in the end. An existing one keeps its own unless these are called.
    void set_times(std::string path, Times const& times) { ends_[std::move(path)].times = times; }
    /// Errors: `refused` when the different lists would take too much memory.
    Result<> set_default_acl(std::string path, std::string acl);
    /// Drops both for a directory and all below it.
    void forget_ends(std::string const& path);
    /// Sets what has been kept, once. Returns the number of lists that the file system cannot store.
    /// Errors: those of utimensat(2), setxattr(2).
    Result<std::uint64_t> end();

    [[nodiscard]] int root() const { return root_; }

private:
    struct Open {
        std::string name;
        UniqueFd directory;
        bool gives_group;  // its mode has setgid: files made in it get its group
    };
    struct End {
        std::optional<Times> times;
        std::string const* default_acl = nullptr;  // in acls_
    };
    Result<> keep(int directory, struct stat const& status, std::string const& path);
    Result<> take_default_acl(int directory, std::string const& path);
    Result<Open> enter(int parent, std::vector<std::string> const& components, std::size_t at, bool may_make);
    Result<int> walk(std::vector<std::string> const& components, std::size_t count, bool may_make);

    int root_;
    Pace& pace_;
    bool root_gives_group_ = true;  // as long as it is not known
    bool has_taken_root_ = false;   // its default access control list
    bool is_ending_ = false;        // what directories have is set now, and kept no longer
    std::vector<Open> open_;
    std::map<std::string, End> ends_;
    std::set<std::string> acls_;   // most directories that have a list have the same
    std::uint64_t acl_bytes_ = 0;  // of all of them
};

/// Calls openat2(2), close-on-exec. Returns the descriptor, or -1 with errno.
int open_beneath(int directory, char const* path, std::uint64_t flags, std::uint64_t mode, std::uint64_t resolve);

/// Whether the error of a call for an extended attribute means that the file system cannot store it, which is then left
/// out: tmpfs and ZFS differ in what they support.
bool is_left_out(int error);

/// Removes what is there, with everything below; a missing one is fine. Links are not followed. Bounded by
/// `most_depth`. `pace` is told that the work goes on, if there is one.
/// Errors: those of unlinkat(2), "remove <name>".
Result<> remove_all(int parent, std::string const& name, unsigned most_depth, Pace* pace = nullptr);

}  // namespace triton::unpack
