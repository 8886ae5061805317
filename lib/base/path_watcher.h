#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton {

/// Sees when a path may lead to something else: the file is written and closed, replaced, removed or made; a symbolic
/// link on the way is swapped (Kubernetes does that for a mounted ConfigMap with `..data`); a directory on the way is
/// removed, renamed or made again. Of a path to a directory: an entry of it changes so, not one below that. By
/// inotify(7), on the directories that matter, for the names that matter, and on files themselves that may be written
/// through another path: mount points, and those with several hard links.
class PathWatcher {
public:
    /// What tells a file from another, and from itself after a change. All zero: there is none.
    struct Identity {
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
        std::int64_t seconds = 0;  ///< of its last change
        std::int64_t nanoseconds = 0;
        bool operator==(Identity const&) const = default;
    };
    using Identities = std::unordered_map<std::string, Identity>;  ///< by path

    /// What goes on in another version of this program, under the same descriptor.
    struct Handed {
        int inotify = -1;
        std::vector<int> watches;  ///< that the descriptor has
        bool operator==(Handed const&) const = default;
    };

    /// Errors: those of inotify_init1(2); EMFILE when the user's inotify instances are used up.
    static Result<PathWatcher> create();
    /// Goes on with a descriptor that it owns from now on. Events before the first watch() concern nothing.
    static PathWatcher adopt(Handed const& handed);
    /// The descriptor stays ours.
    [[nodiscard]] Handed handed() const;

    /// Borrowed; readable when there may be something to see.
    [[nodiscard]] int fd() const { return inotify_.get(); }

    /// Watches for these paths from now on, as the file system is now. Call it again after each change. The last
    /// part of one may be a pattern of names (glob(7)): symbolic links among these are followed, up to 256 in all.
    /// Errors: those of inotify_add_watch(2), more links than that, and `unsupported` for remote file systems (NFS, 9p,
    /// virtiofs, FUSE ..), where changes of other machines cause no event: the rest is watched all the same;
    /// directories that change all the time.
    Result<> watch(std::vector<std::string> const& paths) { return watch(paths, Writes::closed); }
    /// The same; `each`: sees a file that is written and stays open, too, at the cost of an event for each write to any
    /// file in its directory.
    enum class Writes { closed, each };
    Result<> watch(std::vector<std::string> const& paths, Writes writes);

    /// Watches nothing any more.
    void forget();

    /// Takes events, as many as are quick to judge: writers of a directory choose how many there are, and
    /// may make them faster than they are read. fd() stays readable while some are left. Returns whether one of them
    /// concerns a path.
    bool take_events() { return !take_changes().empty(); }
    /// The same; returns which paths, by their indexes in the watched ones, each once. If events were lost: the
    /// patterns, the directories, and paths whose file or time of change differs from the latest report.
    std::vector<std::size_t> take_changes();
    /// To what each path leads now, patterns aside.
    [[nodiscard]] Identities identities() const;
    /// Which paths lead to something else than then, by their indexes; those that were not among these do not.
    [[nodiscard]] std::vector<std::size_t> changed_since(Identities const& before) const;
    /// Whether the last component of a path is a pattern, glob(7).
    [[nodiscard]] static bool is_pattern(std::string_view path);
    /// Whether there are events to be taken.
    [[nodiscard]] bool has_events() const;

    /// The directories that decide where these paths lead, in the file system's current state: those of the
    /// links on the way and of the files, or of the first name that does not exist. Without links in them.
    static std::vector<std::string> deciding_directories(std::vector<std::string> const& paths);

private:
    explicit PathWatcher(UniqueFd inotify) : inotify_(std::move(inotify)) {}

    /// A name that matters inside a directory; empty: only the directory itself does.
    struct Name {
        std::string text;
        std::size_t path = 0;  // for which it does
        auto operator<=>(Name const&) const = default;
    };
    using Wanted = std::unordered_map<std::string, std::vector<Name>>;  // by directory
    /// Where more is to be searched for.
    struct Search {
        std::string directory;
        std::string pattern;  ///< of names; empty: nowhere
    };
    static Search collect(std::string const& path, std::size_t which, Wanted& wanted);
    static Result<> check_all_is_seen(std::vector<std::string> const& paths);
    static void drop_repeated(Wanted& wanted);
    static bool has_names(std::vector<Name> const& names);
    /// Returns whether all of it was there to be watched.
    Result<bool> watch(Wanted const& wanted, std::uint32_t of_names);
    static Identity identity_of(std::string const& path);
    void find_lost_changes(std::vector<bool>& has_changed) const;

    UniqueFd inotify_;
    std::unordered_map<int, std::vector<Name>> names_;  // by watch descriptor
    std::vector<std::string> paths_;                    // that are watched for
    Identities told_;                                   // of each except patterns, at its latest report
};

}  // namespace triton
