#pragma once

#include <expected>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/plan/configuration_source.h"
#include "launcher/plan/launch_options.h"
#include "launcher/rooms/configuration_ledger.h"
#include "launcher/rooms/document_judge.h"
#include "launcher/rooms/file_asker.h"
#include "launcher/rooms/file_scout.h"
#include "launcher/rooms/programs.h"
#include "launcher/rooms/reload_watch.h"
#include "launcher/rooms/rooms.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// The room of the configuration: reads it, makes a good one the active one and rejects a bad one. The ledger remembers
/// which is which; the reload watch says when to look again. At a start it may have to wait for the agent's news of
/// the pod and its node.
class ConfigurationKeeper {
public:
    /// All outlive this. `source`: what a configuration is read with; the variables of the node are set in it.
    ConfigurationKeeper(LaunchOptions const& options, SourceOptions& source, char const* const* environment, Sys& sys,
                        EventLoop& loop, log::Log& log, Supervisor const& supervisor, Children& children,
                        Programs& programs, EventSink& events, ControlLine const& line);

    // The start.

    /// The outcome of the first look.
    struct FirstLook {
        std::optional<Rejected> rejected;  ///< nullopt: its programs run
        bool may_be_good = false;          ///< it lacks something that comes later, or a helper process must judge it
    };
    /// Reports nothing yet. A configuration that takes long, or whose files hang, is left to the first of the later
    /// looks.
    FirstLook look_first();
    void tell(FirstLook first);
    /// Whether a bad first configuration is waited out. Unless it is asked for, not where its directory is missing.
    [[nodiscard]] bool waits_for_a_good_one() const {
        return !options_.exit_on_bad_configuration && (has_directory_ || options_.waits_for_directory);
    }
    /// The log says that nothing runs before there is a good configuration.
    void tell_waiting() const;
    /// From now on changes are seen, including those from before the watch.
    void begin_to_watch() { watch_.read_now(); }

    // Later.

    /// Reads and watches the files anew. What came of it is in the ledger, at once or when is_looking() ends.
    void look_again();
    /// The same for somebody who asks for it, and is told even when nothing has changed since the start.
    void reload() {
        first_texts_.reset();
        is_retry_ = false;
        look_again();
    }
    /// Whether a helper process looks at the configuration, or will in a moment. Afterwards
    /// ControlLine::answer_reload() is called.
    [[nodiscard]] bool is_looking() const { return (has_helper() && !is_ahead_) || is_put_off_; }
    /// The child of scout_key has ended.
    void scouted(Children::Outcome const& outcome);
    /// The child of judge_key has ended.
    void judged(Children::Outcome const& outcome);
    /// The outcome of the latest look. Errors: it was rejected, with the reasons as details.
    [[nodiscard]] Result<> outcome() const;
    void stop_looking();
    /// Looks again, if stop_looking() has stopped something.
    void go_on_looking();
    /// The same, when no more changes come for a moment.
    void ask_for_reload() { watch_.ask(); }
    /// The same programs, as something else has become of them than their configuration says. Errors: one line.
    Result<> activate_again();
    /// The variables of the node are known.
    void know_node(std::vector<std::pair<std::string, std::string>> const& variables, bool have_changed);
    /// Reading ends: see ReloadWatch::forget().
    void forget_files();

    // What there is to tell.
    [[nodiscard]] ConfigurationLedger const& ledger() const { return ledger_; }
    [[nodiscard]] Accepted const* active() const { return ledger_.active(); }
    /// Whether another one has become active since the last call.
    [[nodiscard]] bool take_news() { return std::exchange(has_news_, false); }

    // For an upgrade.
    void save(UpgradeState& state) const;
    /// The text that was active. The programs are restored elsewhere.
    void restore(UpgradeState const& state);

private:
    Result<std::vector<config::Layer>> read();
    void check_directory(Error& error);
    Result<> activate(Accepted loaded);
    [[nodiscard]] bool has_helper() const { return scout_.is_busy() || judge_.is_busy(); }
    void put_off(Duration pause);
    FirstLook defer();
    void scout_ahead();
    void scout(FileScout::Why why);
    void scout_once_more();
    void rehearse(LoadKind kind);
    [[nodiscard]] bool is_as_seen(SourceTexts const& texts) const;
    void look();
    bool begin_load();
    void take(std::expected<Accepted, Rejected> loaded);
    void end_look();
    void close_look();
    void answer_unlooked() const;
    void end_helpers();
    void follow(DocumentJudge::Judged& judged);
    void tell_active() const;
    void tell_oddities() const;
    void reject(Rejected rejected);
    void forget_rejection();
    [[nodiscard]] bool may_labels_come(Rejected const& rejected) const;
    void wait_for_labels();
    [[nodiscard]] bool waits_for_pod() const;
    [[nodiscard]] bool has_waited_in_vain() const;
    void tell_that_the_pod_is_unknown();
    Result<> watch_files();

    LaunchOptions const& options_;
    SourceOptions& source_;
    char const* const* environment_;
    log::Log& log_;
    Supervisor const& supervisor_;
    Programs& programs_;
    EventSink& events_;
    ControlLine const& line_;
    ConfigurationLedger ledger_;
    FileAsker asker_;  // of the first look
    FileScout scout_;
    SeenFiles seen_;  // by the latest copy that went first
    DocumentJudge judge_;
    ReloadWatch watch_;
    std::vector<std::string> missing_binaries_;
    std::vector<std::string> watched_binaries_;  // that were missing when the latest look began
    std::vector<std::string> included_;          // what Document::watched was at the latest reading
    std::vector<std::string> watched_includes_;  // and when the latest look began
    std::optional<SourceTexts> first_texts_;     // of a first look that was good, until the next one
    TimePoint began_;
    std::size_t read_texts_ = 0;       // those of the latest reading, as of SeenFiles::texts()
    unsigned times_overtaken_ = 0;     // in a row
    bool is_overtaken_ = false;        // a file has changed between the copy that went first and the reading
    bool has_directory_ = true;        // of the configuration, at the latest reading
    bool is_node_known_ = false;       // the agent has reported it
    bool waits_for_labels_ = false;    // it was reported that we do
    bool has_waited_for_pod_ = false;  // and that we did, in vain
    bool has_news_ = false;
    bool is_first_deferred_ = false;  // the first look has left it to a later one
    bool is_second_load_ = false;     // of one look
    bool looks_afterwards_ = false;   // asked for while a helper looks
    bool could_not_judge_ = false;    // no helper could be started
    bool is_put_off_ = false;         // the next look follows by itself
    bool is_retry_ = false;           // the latest look has met a file system that hangs, and nothing is new
    bool is_ahead_ = false;           // of the look that it is for: the copy that goes first
    bool is_way_clear_ = false;       // as it has found out, for the next look
};

}  // namespace triton::launcher
