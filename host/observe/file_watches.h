#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <sys/inotify.h>

#include "host/info/agenda.h"
#include "host/machine/uuid.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::observe {

/// Where the files of machines are.
struct WatchedPlaces {
    std::string root = {};                        ///< comes before all paths; nothing above it is watched
    std::string machines = {};                    ///< the directory of <uuid>.json
    std::string trees = {};                       ///< the directory where each machine's tree has a directory <uuid>
    std::vector<std::string> unit_controls = {};  ///< where systemd keeps the changes of set-property
};

/// Learns by inotify(7) which machines may have changed. Directories are watched and never files, because files are
/// replaced by rename. So are the directories above them, because those may be replaced, too.
///
/// arm_host(), arm() and forget() access file systems, which may hang for ever. The one thread that reads the files
/// calls them just before: later changes are noticed, and earlier ones are read. No lock is held meanwhile, so the
/// other functions never wait for them.
class FileWatches {
public:
    struct Notices {
        std::function<void(std::string_view machine, info::Parts parts, std::string_view why)> machine;
        std::function<void(std::string_view why)> lost;  ///< anything may have changed
        /// A file in the machine's tree has appeared. It counts as a change if the file is_whole(), a question that may
        /// block.
        std::function<void(std::string_view machine, std::string path)> come;
    };

    /// Without inotify (if its instances are used up) nothing is watched, and trouble() says so.
    explicit FileWatches(WatchedPlaces places);
    FileWatches(FileWatches const&) = delete;
    FileWatches& operator=(FileWatches const&) = delete;

    /// Borrowed; readable when there may be something to take. -1: there is no inotify.
    [[nodiscard]] int fd() const { return inotify_.get(); }

    /// Watches the directories of the host.
    void arm_host();
    /// Watches the directories of a machine as they are now. `tree`: where its files are.
    void arm(Uuid const& machine, std::string const& tree);
    void forget(std::string_view machine);

    /// Whether a file that has appeared is complete, as one that was linked is. Otherwise somebody is about to write
    /// it, and its close will be reported.
    static bool is_whole(std::string const& path);

    /// Takes at most `most_events` of the waiting events. Returns whether there may be more.
    bool take_events(Notices const& notices);

    /// Why not everything is watched; empty: everything is. Otherwise the files have to be polled.
    [[nodiscard]] std::string trouble() const;
    [[nodiscard]] std::uint64_t events() const;
    [[nodiscard]] std::uint64_t losses() const;

private:
    enum class Kind : std::uint8_t {
        ancestor,  // of a directory of the host
        machines,
        trees,
        controls,  // unit_controls
        drop_ins,  // of one unit, in a directory of controls
        holder,    // of a machine's tree and its snapshots
        tree,
        config,
        launch,
        snapshots,
    };
    struct Interest {
        Kind kind = Kind::ancestor;
        std::string name = {};  // of the machine; for an ancestor the one entry that matters; for controls the path
        bool operator==(Interest const&) const = default;
    };

    void watch_ancestors(std::string const& directory);
    void watch_drop_ins(std::string const& directory);
    /// Returns the watch; -1: the directory does not exist, or cannot be watched (which is trouble).
    int watch(std::string const& path, Interest interest);
    /// Returns whether nobody is interested in the watch any more.
    bool drop(int watch, Interest const& interest);
    /// Ends all interest of a machine in a watch.
    void drop_machine(std::string const& machine, int watch);
    void tell(inotify_event const& event, std::string_view name, Notices const& notices);
    void tell_of(Interest const& interest, inotify_event const& event, std::string_view name, Notices const& notices);

    WatchedPlaces places_;
    UniqueFd inotify_;
    std::unordered_map<std::string, std::vector<int>> watches_;  // by machine; only for the thread that arms
    mutable std::mutex mutex_;                                   // for everything below
    std::unordered_map<int, std::vector<Interest>> interests_;
    std::unordered_map<std::string, std::string> trees_;  // path of each machine's tree
    std::set<std::string, std::less<>> unwatched_;        // machines, or paths of the host
    std::string trouble_;
    std::uint64_t events_ = 0;
    std::uint64_t losses_ = 0;
};

}  // namespace triton::observe
