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

/// Where the files are that machines are made of.
struct WatchedPlaces {
    std::string root = {};                        ///< what stands before all paths; never watched above it
    std::string machines = {};                    ///< the directory of <uuid>.json
    std::string trees = {};                       ///< the directory where each machine's tree has a directory <uuid>
    std::vector<std::string> unit_controls = {};  ///< where systemd keeps what set-property changes
};

/// Sees by inotify(7) which machines may have changed. Watched are directories and never files, because files are
/// replaced by rename; and the directories above them, because those are replaced, too.
///
/// arm_host(), arm() and forget() reach into file systems, which may hang for ever; they are called by the one thread
/// that reads the files, right before: what changes later is noticed, and what has changed before is read. No lock is
/// held meanwhile, so that the other functions never wait for them.
class FileWatches {
public:
    struct Notices {
        std::function<void(std::string_view machine, info::Parts parts, std::string_view why)> machine;
        std::function<void(std::string_view why)> lost;  ///< anything may have changed
        /// A file of the machine has come, in its tree: it has changed if the file is_whole(), which may block.
        std::function<void(std::string_view machine, std::string path)> come;
    };

    /// Without inotify (its instances are used up) nothing is watched, and trouble() says so.
    explicit FileWatches(WatchedPlaces places);
    FileWatches(FileWatches const&) = delete;
    FileWatches& operator=(FileWatches const&) = delete;

    /// Borrowed; readable when there may be something to take. -1: there is no inotify.
    [[nodiscard]] int fd() const { return inotify_.get(); }

    /// Watches what is of the host.
    void arm_host();
    /// Watches the directories of a machine as they are now. `tree`: where its files are.
    void arm(Uuid const& machine, std::string const& tree);
    void forget(std::string_view machine);

    /// Whether a file that has come is not about to be written, whose close would tell: who links it has it whole.
    static bool is_whole(std::string const& path);

    /// Takes the events that there are, at most `most_events` of them. Returns whether there may be more.
    bool take_events(Notices const& notices);

    /// Why not everything is watched; empty: it is. Then the files have to be polled.
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
        std::string name = {};  // of the machine; of an ancestor the one entry that matters; of controls the path
        bool operator==(Interest const&) const = default;
    };

    void watch_ancestors(std::string const& directory);
    void watch_drop_ins(std::string const& directory);
    /// Returns the watch; -1: the directory is not there, or cannot be watched (that is trouble).
    int watch(std::string const& path, Interest interest);
    /// Returns whether nobody is interested in the watch any more.
    bool drop(int watch, Interest const& interest);
    /// Ends all interest of a machine in a watch.
    void drop_machine(std::string const& machine, int watch);
    void tell(inotify_event const& event, std::string_view name, Notices const& notices);
    void tell_of(Interest const& interest, inotify_event const& event, std::string_view name, Notices const& notices);

    WatchedPlaces places_;
    UniqueFd inotify_;
    std::unordered_map<std::string, std::vector<int>> watches_;  // of each machine; of the thread that arms
    mutable std::mutex mutex_;                                   // of all below
    std::unordered_map<int, std::vector<Interest>> interests_;
    std::unordered_map<std::string, std::string> trees_;  // path of each machine's tree
    std::set<std::string, std::less<>> unwatched_;        // machines, or paths of the host
    std::string trouble_;
    std::uint64_t events_ = 0;
    std::uint64_t losses_ = 0;
};

}  // namespace triton::observe
