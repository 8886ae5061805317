#include "host/observe/file_watches.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/machine/unit_texts.h"

namespace triton::observe {

using info::Part;

namespace {

constexpr std::uint32_t mask = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ATTRIB |
                               IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
constexpr std::uint32_t of_itself = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED;
constexpr int most_reads = 16;  // in one round: a steady writer must not keep us here
constexpr std::string_view json_ending = ".json";
constexpr std::string_view drop_in_ending = ".d";

std::string parent_of(std::string const& path) {
    std::size_t const slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}
std::string name_in(std::string const& path) { return path.substr(path.rfind('/') + 1); }

/// The machine that a directory of drop-ins belongs to: "systemd-nspawn@<uuid>.service.d"
std::optional<Uuid> owner_of_drop_ins(std::string_view name) {
    if (!name.ends_with(drop_in_ending)) return std::nullopt;
    return machine::uuid_of_unit(name.substr(0, name.size() - drop_in_ending.size()));
}

bool is_config_file(std::string_view name) {
    return name == "metadata.json" || name == "tags.json" || name == "routes.json";
}

}  // namespace

FileWatches::FileWatches(WatchedPlaces places)
    : places_(std::move(places)), inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    if (!inotify_) {
        trouble_ = fail(errno, "watch files").error().text();
        unwatched_.insert("");
    }
}

// --- watching ---

int FileWatches::watch(std::string const& path, Interest interest) {
    if (!inotify_) return -1;
    // An event before the interest is known gets lost, but the files are read only after that.
    int const watch = ::inotify_add_watch(inotify_.get(), path.c_str(), mask);
    int const err = errno;
    std::string const& owner = interest.kind >= Kind::holder ? interest.name : path;
    std::scoped_lock const lock(mutex_);
    if (watch < 0) {
        // ENOENT and ENOTDIR: the watch on the directory above tells when it appears.
        if (err == ENOENT || err == ENOTDIR) return -1;
        unwatched_.insert(owner);
        trouble_ = err == ENOSPC ? "fs.inotify.max_user_watches is reached" : fail(err, "watch " + path).error().text();
        return -1;
    }
    auto& interests = interests_[watch];
    if (std::ranges::find(interests, interest) == interests.end()) interests.push_back(std::move(interest));
    return watch;
}

void FileWatches::watch_ancestors(std::string const& directory) {
    std::string const end = places_.root.empty() ? "/" : places_.root;
    for (std::string path = directory; path != end && path.size() > 1;) {
        std::string const name = name_in(path);
        path = parent_of(path);
        (void)watch(path, {Kind::ancestor, name});
    }
}

void FileWatches::watch_drop_ins(std::string const& directory) {
    std::unique_ptr<DIR, int (*)(DIR*)> const opened(::opendir(directory.c_str()), ::closedir);
    while (dirent const* const entry = opened ? ::readdir(opened.get()) : nullptr)
        if (auto const owner = owner_of_drop_ins(entry->d_name))
            (void)watch(directory + "/" + entry->d_name, {Kind::drop_ins, owner->text()});
}

void FileWatches::arm_host() {
    {
        std::scoped_lock const lock(mutex_);
        std::erase_if(unwatched_, [](std::string const& name) { return name.starts_with("/"); });
        if (unwatched_.empty()) trouble_.clear();
    }
    // From the top down, so that nothing is missed between a directory and what is in it.
    std::vector<std::pair<std::string, Kind>> places{{places_.machines, Kind::machines}, {places_.trees, Kind::trees}};
    for (std::string const& controls : places_.unit_controls)
        places.emplace_back(controls, Kind::controls);
    for (auto const& [path, kind] : places) {
        watch_ancestors(path);
        (void)watch(path, {kind, kind == Kind::controls ? path : std::string()});
        if (kind == Kind::controls) watch_drop_ins(path);
    }
}

bool FileWatches::drop(int watch, Interest const& interest) {
    std::scoped_lock const lock(mutex_);
    auto const found = interests_.find(watch);
    if (found == interests_.end()) return false;
    std::erase(found->second, interest);
    if (!found->second.empty()) return false;
    interests_.erase(found);
    return true;
}

void FileWatches::drop_machine(std::string const& machine, int watch) {
    bool is_unused = false;
    for (Kind const kind : {Kind::holder, Kind::tree, Kind::config, Kind::launch, Kind::snapshots})
        is_unused = drop(watch, {kind, machine}) || is_unused;
    if (is_unused) (void)::inotify_rm_watch(inotify_.get(), watch);  // may already be gone with its directory
}

void FileWatches::arm(Uuid const& machine, std::string const& tree) {
    std::string const& name = machine.text();
    {
        std::scoped_lock const lock(mutex_);
        if (unwatched_.erase(name) > 0 && unwatched_.empty()) trouble_.clear();
        trees_[name] = tree;
    }
    std::vector<std::pair<std::string, Kind>> directories{
        {tree, Kind::tree}, {tree + "/config", Kind::config}, {tree + "/config/launch", Kind::launch}};
    if (std::string holder = parent_of(tree); holder != places_.trees) {
        directories.insert(directories.begin(), {holder, Kind::holder});
        directories.emplace_back(holder + "/@snapshots", Kind::snapshots);
    }
    std::vector<int> now;
    for (auto const& [path, kind] : directories)
        now.push_back(watch(path, {kind, name}));
    for (int const before : std::exchange(watches_[name], now))
        if (before >= 0 && std::ranges::find(now, before) == now.end()) drop_machine(name, before);
}

void FileWatches::forget(std::string_view machine) {
    std::string const name(machine);
    auto const watches = watches_.extract(name);
    for (int const watch : watches.empty() ? std::vector<int>() : watches.mapped())
        if (watch >= 0) drop_machine(name, watch);
    std::scoped_lock const lock(mutex_);
    trees_.erase(name);
    if (unwatched_.erase(name) > 0 && unwatched_.empty()) trouble_.clear();
}

// --- events ---

bool FileWatches::take_events(Notices const& notices) {
    alignas(inotify_event) std::array<char, 16384> buffer;
    for (int i = 0; i < most_reads; ++i) {
        ssize_t const got = ::read(inotify_.get(), buffer.data(), buffer.size());
        if (got <= 0) return false;
        for (ssize_t at = 0; at < got;) {
            auto const& event = *reinterpret_cast<inotify_event const*>(buffer.data() + at);
            tell(event, event.len > 0 ? std::string_view(event.name) : std::string_view(), notices);
            at += static_cast<ssize_t>(sizeof(inotify_event) + event.len);
        }
    }
    return true;
}

void FileWatches::tell(inotify_event const& event, std::string_view name, Notices const& notices) {
    std::vector<Interest> interests;
    {
        std::scoped_lock const lock(mutex_);
        ++events_;
        if (event.mask & IN_Q_OVERFLOW) ++losses_;
        if (auto const found = interests_.find(event.wd); found != interests_.end()) {
            interests = found->second;
            if (event.mask & IN_IGNORED) interests_.erase(found);
        }
    }
    if (event.mask & IN_Q_OVERFLOW) notices.lost("inotify overflow");
    for (Interest const& interest : interests)
        tell_of(interest, event, name, notices);
}

bool FileWatches::is_whole(std::string const& path) {
    struct stat status{};
    return ::lstat(path.c_str(), &status) != 0 || status.st_size > 0;  // the first: the file is already gone
}

void FileWatches::tell_of(Interest const& interest, inotify_event const& event, std::string_view name,
                          Notices const& notices) {
    bool const is_itself = (event.mask & of_itself) != 0;
    auto const stored_if = [&](bool is_ours) {
        if (is_itself || is_ours) notices.machine(interest.name, Part::stored, "file");
    };
    bool const has_come = (event.mask & IN_CREATE) && !(event.mask & IN_ISDIR);
    // For a file in a directory of the machine's tree.
    auto const file_if = [&](bool is_ours, std::string_view directory) {
        if (is_itself || !is_ours || !has_come) return stored_if(is_ours);
        std::string tree;
        {
            std::scoped_lock const lock(mutex_);
            if (auto const known = trees_.find(interest.name); known != trees_.end()) tree = known->second;
        }
        notices.come(interest.name, tree + std::string(directory) + std::string(name));
    };
    switch (interest.kind) {
        case Kind::ancestor:
            if (is_itself || (name == interest.name && !(event.mask & IN_ATTRIB)))
                notices.lost("a directory was replaced");
            return;
        case Kind::machines:
            if (is_itself) return notices.lost("a directory was replaced");
            if (name.starts_with(".") || !name.ends_with(json_ending)) return;
            if (has_come && !is_whole(places_.machines + "/" + std::string(name))) return;
            return notices.machine(name.substr(0, name.size() - json_ending.size()), Part::stored, "file");
        case Kind::trees:
            if (is_itself) return notices.lost("a directory was replaced");
            if (auto const uuid = Uuid::parse(name); uuid && !(event.mask & IN_ATTRIB))
                notices.machine(uuid->text(), Part::stored | Part::snapshots, "file");
            return;
        case Kind::controls: {
            auto const owner = owner_of_drop_ins(name);
            if (!owner) return;
            (void)watch(interest.name + "/" + std::string(name), {Kind::drop_ins, owner->text()});
            return notices.machine(owner->text(), Part::unit | Part::stored, "limits");
        }
        case Kind::drop_ins: return notices.machine(interest.name, Part::unit | Part::stored, "limits");
        case Kind::holder:
            if (name == "@snapshots") notices.machine(interest.name, Part::stored | Part::snapshots, "file");
            return stored_if(name == "@tree");
        case Kind::tree: return stored_if(name == "config");
        case Kind::config: return file_if(name == "launch" || is_config_file(name), "/config/");
        case Kind::launch: return file_if(name == machine::launch_file_name, "/config/launch/");
        case Kind::snapshots:
            return notices.machine(interest.name,
                                   is_itself ? Part::stored | Part::snapshots : info::Parts(Part::snapshots), "file");
    }
}

std::string FileWatches::trouble() const {
    std::scoped_lock const lock(mutex_);
    return trouble_;
}
std::uint64_t FileWatches::events() const {
    std::scoped_lock const lock(mutex_);
    return events_;
}
std::uint64_t FileWatches::losses() const {
    std::scoped_lock const lock(mutex_);
    return losses_;
}

}  // namespace triton::observe
