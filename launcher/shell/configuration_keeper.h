#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/plan/configuration_source.h"
#include "launcher/plan/launch_options.h"
#include "launcher/shell/programs.h"
#include "launcher/shell/rooms.h"
#include "lib/base/event_loop.h"
#include "lib/base/path_watcher.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// The room of the configuration: which one is active, why the latest was rejected, and when to look again. It watches
/// the files that a configuration depends on; a burst of changes is one reload.
class ConfigurationKeeper {
public:
    /// All outlive this. `source`: what a configuration is read with; the variables of the node are set in it.
    ConfigurationKeeper(LaunchOptions const& options, SourceOptions& source, char const* const* environment,
                        EventLoop& loop, log::Log& log, Supervisor const& supervisor, Programs& programs,
                        EventSink& events, ControlLine const& line);

    // The start.

    /// What has become of the first look.
    struct FirstLook {
        std::optional<Rejected> rejected;  ///< nullopt: its programs run
        bool may_be_good = false;          ///< it lacks what comes later, the labels of the node
    };
    /// Nothing is told of it yet.
    FirstLook look_first();
    void tell(FirstLook first);
    /// From now on changes are seen; what changed before it was watched is, too.
    void begin_to_watch();

    // Later.

    /// Reads and watches the files anew. Returns nothing: see rejection().
    void look_again();
    /// The same, when no more changes come for a moment.
    void ask_for_reload();
    /// The same programs, as something else has become of them than their configuration says. Errors: one line.
    Result<> activate_again();
    /// The node has told its variables.
    void know_node(std::vector<std::pair<std::string, std::string>> const& variables, bool have_changed);
    /// Nothing is loaded any more. The kernel frees watches after a grace period, and closing inotify waits for that:
    /// up to 20 ms at our end. Asked for when a stop begins, it passes while the processes stop.
    void forget_files();

    // What there is to tell.
    [[nodiscard]] Accepted const* active() const { return active_ ? &*active_ : nullptr; }
    [[nodiscard]] std::vector<std::string> const& rejection() const { return rejection_; }
    [[nodiscard]] ActiveConfiguration state() const;
    [[nodiscard]] std::uint64_t changes() const { return changes_; }
    /// Microseconds since 1970; nullopt: none is active.
    [[nodiscard]] std::optional<std::int64_t> accepted_at() const;
    /// Whether another one has become active since the last call.
    [[nodiscard]] bool take_news() { return std::exchange(has_news_, false); }

    // For an upgrade.
    void save(UpgradeState& state) const;
    /// The text that was active. The programs are restored by whoever restores programs.
    void restore(UpgradeState const& state);

private:
    [[nodiscard]] Result<std::string> read() const;
    [[nodiscard]] bool says_the_same(Accepted const& loaded) const;
    Result<> activate(Accepted loaded);
    bool load();
    void accept_text(std::string text);
    void note_acceptance();
    void tell_active() const;
    void reject(Rejected rejected);
    void forget_rejection();
    [[nodiscard]] bool may_labels_come(Rejected const& rejected) const;
    void wait_for_labels();
    [[nodiscard]] bool waits_for_pod() const;
    void tell_that_the_pod_is_unknown();
    Result<> watch_files();
    void poll(Error const& error);

    LaunchOptions const& options_;
    SourceOptions& source_;
    char const* const* environment_;
    EventLoop& loop_;
    log::Log& log_;
    Supervisor const& supervisor_;
    Programs& programs_;
    EventSink& events_;
    ControlLine const& line_;
    std::optional<Accepted> active_;
    std::uint64_t sequence_ = 0;
    std::uint64_t changes_ = 0;
    std::int64_t accepted_at_ = 0;        // microseconds since 1970
    std::vector<std::string> rejection_;  // the latest, so that the same one is told once
    std::size_t rejected_document_ = 0;   // its hash
    std::int64_t rejected_at_ = 0;        // microseconds since 1970
    std::vector<std::string> missing_binaries_;
    std::optional<PathWatcher> watcher_;
    EventLoop::Watch watch_;  // after what it watches, to be dropped before it
    EventLoop::Timer reload_timer_;
    TimePoint began_;
    TimePoint burst_began_{};
    TimePoint last_look_{};
    TimePoint next_look_{};            // at their rate, one each between_reloads
    bool is_node_known_ = false;       // the agent has told of it
    bool waits_for_labels_ = false;    // it is told that we do
    bool has_waited_for_pod_ = false;  // and that we did, in vain
    bool is_blind_ = false;            // changes of files go unseen
    bool has_forgotten_ = false;
    bool has_news_ = false;
};

}  // namespace triton::launcher
