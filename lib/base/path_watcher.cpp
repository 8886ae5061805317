#include "lib/base/path_watcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/far_files.h"
#include "lib/base/name_pattern.h"

namespace triton {

namespace {

constexpr std::uint32_t of_itself = IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
constexpr std::uint32_t of_all_names =
    of_itself | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE | IN_ATTRIB;
// Of a file that is watched itself. Not IN_ATTRIB: a hard link that is made to it elsewhere is no change.
constexpr std::uint32_t of_file = IN_CLOSE_WRITE | IN_DELETE_SELF;
// In place of the name of an entry, which is never one of these.
constexpr std::string_view file_itself = ".";
constexpr std::string_view any_entry = "/";
constexpr int most_links = 40;  // as in the kernel, path_resolution(7)
// The number of walks is up to those that may swap a link on the way; the number of paths is up to the configuration.
constexpr std::size_t most_walks = 100;
constexpr std::size_t most_walked_paths = 2000;  // in all walks, beyond the least number
constexpr std::size_t least_walks = 3;
constexpr std::size_t most_comparisons = 20'000;  // of events or links with names, a few milliseconds
// The numbers of names and of links among them are up to those that may write to the directories of patterns.
constexpr std::size_t most_entries = 10'000;
constexpr std::size_t most_followed_links = 256;
constexpr std::size_t most_examined_files = 256;

void push_components(std::deque<std::string>& components, std::string_view path) {
    std::vector<std::string> parts;
    while (!path.empty()) {
        std::size_t const slash = path.find('/');
        std::string_view const part = path.substr(0, slash);
        if (!part.empty() && part != ".") parts.emplace_back(part);
        path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
    }
    components.insert(components.begin(), parts.begin(), parts.end());
}

std::optional<std::string> read_link(std::string const& path) {
    std::array<char, PATH_MAX> target;
    ssize_t const length = ::readlink(path.c_str(), target.data(), target.size());
    if (length <= 0) return std::nullopt;
    return std::string(target.data(), static_cast<std::size_t>(length));
}

/// Whether a file may be written through another path, of which its directory has no event: it is the root of a mount,
/// as a file that a container runtime mounts, or it has another hard link. True also where the kernel does not know
/// (before Linux 5.8).
bool has_other_paths(std::string const& path, struct stat const& status) {
    if (!S_ISREG(status.st_mode)) return false;
    if (status.st_nlink > 1) return true;
    struct statx found{};
    if (::statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &found) != 0) return true;
    if ((found.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0) return true;
    return (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

bool is_directory(std::string const& path) {
    struct stat status;
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool has_other_paths(std::string const& path) {
    struct stat status;
    return ::stat(path.c_str(), &status) == 0 && has_other_paths(path, status);
}

/// Whether a watched name, or the pattern in its place, matches this one.
bool means(std::string const& name, char const* found) {
    return name == found || name == any_entry || (PathWatcher::is_pattern(name) && matches_pattern(name, found));
}

std::string parent_of(std::string const& directory) {
    std::size_t const slash = directory.rfind('/');
    return slash == 0 || slash == std::string::npos ? "/" : directory.substr(0, slash);
}

std::string in_directory(std::string const& directory, std::string const& name) {
    return directory == "/" ? "/" + name : directory + "/" + name;
}

/// Finds what the patterns of one walk match and what the events of its directory do not tell all of: symbolic links
/// (in a mounted Secret each file is one), and files with other paths, of the first few. Each directory is read once.
class MatchingLinks {
public:
    std::vector<std::string> find(std::string const& directory, std::string const& pattern) {
        std::vector<std::string> found;
        for (Entry const& entry : entries_of(directory)) {
            std::string const& name = entry.name;
            if (comparisons_left_ == 0) cut(directory, "there are too many names");
            if (comparisons_left_ == 0) break;
            --comparisons_left_;
            if (!matches_pattern(pattern, name)) continue;
            if (entry.is_file && (files_left_ == 0 || (--files_left_, !has_other_paths(in_directory(directory, name)))))
                continue;
            if (found_ == most_followed_links)
                cut(directory, "there are more than " + std::to_string(most_followed_links));
            if (found_ == most_followed_links) break;
            ++found_;
            found.push_back(in_directory(directory, name));
        }
        return found;
    }
    [[nodiscard]] std::size_t number() const { return found_; }
    /// Errors: a limit left some out.
    [[nodiscard]] Result<> const& outcome() const { return outcome_; }

private:
    struct Entry {
        std::string name;
        bool is_file;
    };
    std::vector<Entry> const& entries_of(std::string const& directory) {
        auto const [known, is_new] = read_.try_emplace(directory);
        if (!is_new) return known->second;
        std::unique_ptr<DIR, Close> const opened{::opendir(directory.c_str())};
        while (dirent const* const entry = opened ? ::readdir(opened.get()) : nullptr) {
            if (entries_left_ == 0) cut(directory, "there are too many names");
            if (entries_left_ == 0) break;
            --entries_left_;
            bool const is_file = entry->d_type == DT_REG;
            if (is_file || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN)
                known->second.push_back({entry->d_name, is_file});
        }
        return known->second;
    }
    void cut(std::string const& directory, std::string reason) {
        if (outcome_)
            outcome_ = fail(ErrorKind::refused, "follow all links in " + directory + " that patterns match",
                            std::move(reason));
    }
    struct Close {
        void operator()(DIR* opened) const { ::closedir(opened); }
    };

    std::unordered_map<std::string, std::vector<Entry>> read_;  // by directory
    std::size_t files_left_ = most_examined_files;
    std::size_t entries_left_ = most_entries;
    std::size_t comparisons_left_ = most_comparisons;
    std::size_t found_ = 0;
    Result<> outcome_;
};

}  // namespace

Result<PathWatcher> PathWatcher::create() {
    UniqueFd inotify{::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    int const err = errno;
    if (!inotify) return fail(err, "watch for changes (inotify)");
    return PathWatcher{std::move(inotify)};
}

PathWatcher PathWatcher::adopt(Handed const& handed) {
    PathWatcher watcher{UniqueFd{handed.inotify}};
    for (int const watch : handed.watches)
        watcher.names_[watch];
    return watcher;
}

PathWatcher::Handed PathWatcher::handed() const {
    Handed handed{inotify_.get(), {}};
    for (auto const& [watch, names] : names_)
        handed.watches.push_back(watch);
    std::ranges::sort(handed.watches);
    return handed;
}

/// Walks the path as the kernel would, and notes in which directory which name decides where it leads: links, the file
/// itself, and the first name that does not exist. Directories on the way matter only by their own disappearance; of
/// one at the end all entries matter.
PathWatcher::Search PathWatcher::collect(std::string const& path, std::size_t which, Wanted& wanted) {
    if (path.empty()) return {};
    std::deque<std::string> left;
    push_components(left, path);
    std::string directory = "/";
    if (path[0] != '/') {
        std::array<char, PATH_MAX> current;
        if (!::getcwd(current.data(), current.size())) return {};
        push_components(left, current.data());
    }
    for (int links = 0; !left.empty();) {
        std::string const name = left.front();
        left.pop_front();
        if (name == "..") {
            directory = parent_of(directory);
            continue;
        }
        std::string const here = in_directory(directory, name);
        if (auto const target = read_link(here)) {
            wanted[directory].push_back({name, which});
            if (++links > most_links) return {};
            push_components(left, *target);
            if (target->front() == '/') directory = "/";
            continue;
        }
        struct stat status;
        bool const exists = ::stat(here.c_str(), &status) == 0;
        if (left.empty() || !exists || !S_ISDIR(status.st_mode)) {
            wanted[directory].push_back({name, which});
            if (!left.empty()) return {};
            if (exists && has_other_paths(here, status)) wanted[here].push_back({std::string(file_itself), which});
            if (is_pattern(name)) return {directory, name};
            if (!exists || !S_ISDIR(status.st_mode)) return {};
            directory = here;
            break;
        }
        wanted[directory].push_back({{}, which});
        directory = here;
    }
    wanted[directory].push_back({std::string(any_entry), which});
    return {directory, "*"};
}

/// Many links of one directory lead through the same names.
void PathWatcher::drop_repeated(Wanted& wanted) {
    for (auto& [directory, names] : wanted) {
        std::ranges::sort(names);
        auto const repeated = std::ranges::unique(names);
        names.erase(repeated.begin(), repeated.end());
    }
}

std::vector<std::string> PathWatcher::deciding_directories(std::vector<std::string> const& paths) {
    Wanted wanted;
    for (std::size_t which = 0; which < paths.size(); ++which)
        collect(paths[which], which, wanted);
    std::vector<std::string> found;
    for (auto const& [directory, names] : wanted) {
        if (has_names(names)) found.push_back(directory);
    }
    return found;
}

bool PathWatcher::is_pattern(std::string_view path) {
    return path.find_first_of("*?[", path.rfind('/') + 1) != path.npos;
}

/// Identifies a file by its ctime, too: nobody can set that back, unlike the times of its content.
PathWatcher::Identity PathWatcher::identity_of(std::string const& path) {
    struct stat status;
    if (::stat(path.c_str(), &status) != 0) return {};
    return {status.st_dev, status.st_ino, status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
}

bool PathWatcher::has_names(std::vector<Name> const& names) {
    return std::ranges::any_of(names, [](Name const& name) { return !name.text.empty() && name.text != file_itself; });
}

/// Watches all directories on the way to the paths. What appears between the look and its watch causes no event, so the
/// walk is repeated until it leads to the same places, with the same watches. Places are not enough:
/// inotify_add_watch() may look up a directory that is replaced before it gets its watch, and then another one has its
/// name.
Result<> PathWatcher::watch(std::vector<std::string> const& paths, Writes writes) {
    std::uint32_t const of_names = of_all_names | (writes == Writes::each ? IN_MODIFY : 0U);
    if (paths_ != paths) {
        paths_ = paths;
        auto const before = std::exchange(told_, {});
        for (std::string const& path : paths) {
            if (is_pattern(path)) continue;
            auto const known = before.find(path);  // its change may be among those that were lost
            told_[path] = known == before.end() ? identity_of(path) : known->second;
        }
    }
    Wanted watched;
    std::size_t walked = 0;
    for (std::size_t walks = 0; walks < most_walks && (walks < least_walks || walked < most_walked_paths); ++walks) {
        Wanted wanted;
        MatchingLinks links;
        for (std::size_t which = 0; which < paths.size(); ++which) {
            Search const search = collect(paths[which], which, wanted);
            if (search.pattern.empty()) continue;
            for (std::string const& link : links.find(search.directory, search.pattern))
                collect(link, which, wanted);
        }
        drop_repeated(wanted);
        walked += paths.size() + links.number();
        auto const before = names_;
        bool const were_all_there = TRY(watch(wanted, of_names));
        if (were_all_there && wanted == watched && names_ == before)
            return links.outcome() ? check_all_is_seen(paths) : links.outcome();
        watched = std::move(wanted);
    }
    return fail("what leads to " + paths.front() + " does not stop changing");
}

/// Errors: a path is on a file system that others change without a word to this kernel.
Result<> PathWatcher::check_all_is_seen(std::vector<std::string> const& paths) {
    for (std::string const& path : paths) {
        std::size_t const slash = path.rfind('/');
        std::string const directory = slash == path.npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
        if (is_far_path(path) || is_far_path(directory))
            return fail(ErrorKind::unsupported, "see what other machines change in " + path,
                        "its file system is remote");
    }
    return {};
}

Result<bool> PathWatcher::watch(Wanted const& wanted, std::uint32_t of_names) {
    std::unordered_map<int, std::vector<Name>> names;
    Result<bool> were_all_there = true;
    for (auto const& [directory, mine] : wanted) {
        // One directory may have two names (bind mounts): the narrower wish must not replace the wider one.
        bool const is_file = mine.front().text == file_itself;
        std::uint32_t const mask = is_file           ? of_file | (of_names & IN_MODIFY)
                                   : has_names(mine) ? of_names
                                                     : of_itself | IN_MASK_ADD;
        int const watch = ::inotify_add_watch(inotify_.get(), directory.c_str(), mask);
        int const err = errno;
        bool const is_gone = watch < 0 && (err == ENOENT || err == ENOTDIR);
        if (is_gone && were_all_there) were_all_there = false;
        // A directory that may not be read: its parent tells when that changes.
        if (watch < 0 && !is_gone && err != EACCES) were_all_there = fail(err, "watch " + directory);
        if (watch >= 0) names[watch].insert(names[watch].end(), mine.begin(), mine.end());
    }
    for (auto& [watch, of_directory] : names)
        std::ranges::sort(of_directory);  // two names of one directory may come in any order
    for (auto const& [watch, old] : names_) {
        if (!names.contains(watch)) (void)::inotify_rm_watch(inotify_.get(), watch);  // EINVAL: gone with its directory
    }
    names_ = std::move(names);
    return were_all_there;
}

void PathWatcher::forget() {
    for (auto const& [watch, names] : names_)
        (void)::inotify_rm_watch(inotify_.get(), watch);  // EINVAL: gone already
    names_.clear();
    paths_.clear();
    told_.clear();
}

/// Finds out which files have changed after a flood in one directory made the queue lose events of others.
void PathWatcher::find_lost_changes(std::vector<bool>& has_changed) const {
    for (std::size_t path = 0; path < paths_.size(); ++path)
        if (is_pattern(paths_[path]) || is_directory(paths_[path]) ||
            identity_of(paths_[path]) != told_.at(paths_[path]))
            has_changed[path] = true;
}

PathWatcher::Identities PathWatcher::identities() const {
    Identities all;
    for (std::string const& path : paths_)
        if (!is_pattern(path)) all[path] = identity_of(path);
    return all;
}

std::vector<std::size_t> PathWatcher::changed_since(Identities const& before) const {
    std::vector<std::size_t> which;
    for (std::size_t path = 0; path < paths_.size(); ++path) {
        auto const known = before.find(paths_[path]);
        if (known != before.end() && identity_of(paths_[path]) != known->second) which.push_back(path);
    }
    return which;
}

bool PathWatcher::has_events() const {
    pollfd ready{inotify_.get(), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
}

std::vector<std::size_t> PathWatcher::take_changes() {
    std::vector<bool> has_changed(paths_.size(), false);
    bool has_lost = false;
    alignas(inotify_event) std::array<char, 1024> buffer;  // so small that its events stay within the limit
    for (std::size_t comparisons = 0; comparisons < most_comparisons;) {
        ssize_t const size = ::read(inotify_.get(), buffer.data(), buffer.size());
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) break;
        for (char const* at = buffer.data(); at < buffer.data() + size;) {
            auto const* const event = reinterpret_cast<inotify_event const*>(at);
            at += sizeof(inotify_event) + event->len;
            ++comparisons;
            if (event->mask & IN_Q_OVERFLOW) has_lost = true;
            auto const watch = names_.find(event->wd);
            if (watch == names_.end() || (event->mask & IN_IGNORED)) continue;
            bool const is_gone = (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) != 0;
            comparisons += watch->second.size();
            for (Name const& name : watch->second) {
                if (has_changed[name.path]) continue;
                bool const concerns = event->len == 0 ? is_gone || name.text == file_itself
                                                      : !name.text.empty() && means(name.text, event->name);
                if (concerns) has_changed[name.path] = true;
            }
        }
    }
    if (has_lost) find_lost_changes(has_changed);
    std::vector<std::size_t> which;
    for (std::size_t path = 0; path < has_changed.size(); ++path) {
        if (!has_changed[path]) continue;
        which.push_back(path);
        if (!is_pattern(paths_[path])) told_[paths_[path]] = identity_of(paths_[path]);
    }
    return which;
}

}  // namespace triton
