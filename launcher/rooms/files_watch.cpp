#include "launcher/rooms/files_watch.h"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "launcher/rooms/agent_host.h"
#include "lib/base/new_calls.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

constexpr Duration between_looks = milliseconds(50);
constexpr Duration between_vain_looks = std::chrono::seconds(1);  // while a path does not stop changing
constexpr Duration between_attempts = std::chrono::seconds(10);

bool is_missing(std::string const& path) {
    if (PathWatcher::is_pattern(path)) return false;
    return check_access(AT_FDCWD, path.c_str(), F_OK) != 0 && errno == ENOENT;
}

Error no_answer() { return {ErrorKind::unavailable, "look at them", "a file system does not answer", {}}; }

}  // namespace

FilesWatch::FilesWatch(EventLoop& loop, log::Log& log, ProgramTable const& table, Children& children, EventSink& events)
    : log_(log),
      table_(table),
      events_(events),
      watcher_(loop, [this] { take_changes(); }),
      timer_(loop, [this] { time_passed(); }),
      scout_(children, files_key),
      aside_scout_(children, aside_key) {}

void FilesWatch::set(std::vector<ProgramId> const& ids) {
    bool const leads_elsewhere = collect(ids);
    if (paths_.empty()) return forget();
    if (leads_elsewhere) look();
    arm();
}

/// Returns whether there are other paths now.
bool FilesWatch::collect(std::vector<ProgramId> const& ids) {
    std::vector<Program> const before = std::exchange(programs_, {});
    std::vector<std::string> const paths_before = paths_;
    for (ProgramId const id : ids) {
        Program program{.id = id, .changed = {}};
        if (plan_of(program).watched_files.empty()) continue;
        if (auto const known = std::ranges::find(before, id, &Program::id); known != before.end()) program = *known;
        program.aside_until.reset();
        programs_.push_back(std::move(program));
    }
    aside_scout_.cancel();
    collect_paths();
    return paths_ != paths_before;
}

/// Those of programs that are not put aside. PathWatch counts in them from the next look on.
void FilesWatch::collect_paths() {
    paths_.clear();
    owners_.clear();
    for (std::size_t at = 0; at < programs_.size(); ++at) {
        if (programs_[at].aside_until) continue;
        for (std::string const& path : plan_of(programs_[at]).watched_files) {
            paths_.push_back(path);
            owners_.push_back(at);
        }
    }
}

void FilesWatch::forget() {
    programs_.clear();
    paths_.clear();
    owners_.clear();
    timer_.disarm();
    next_look_ = TimePoint::max();
    seen_.clear();
    before_.clear();
    scout_.cancel();
    aside_scout_.cancel();
    watcher_.forget();
}

void FilesWatch::save(UpgradeState& state) const {
    for (Program const& program : programs_)
        if (!program.changed.empty())
            state.file_changes.push_back({static_cast<std::uint32_t>(program.id), program.changed, program.quiet_at});
    for (auto const& [path, file] : seen_)
        state.watched_files.push_back({path, file.device, file.inode, file.seconds, file.nanoseconds});
    state.files_watch = watcher_.handed();
}

void FilesWatch::restore(std::vector<ProgramId> const& ids, UpgradeState const& state) {
    watcher_.adopt(state.files_watch);
    (void)collect(ids);
    if (paths_.empty()) return forget();
    TimePoint const now = steady_clock::now();
    for (UpgradeState::FileChange const& change : state.file_changes) {
        auto const known = std::ranges::find(programs_, ProgramId{change.program}, &Program::id);
        if (known == programs_.end()) continue;
        known->changed = change.path;
        // One that waits for a missing file looks anew: it may have come back meanwhile.
        known->quiet_at = std::min(change.quiet_at, quiet_after(*known, now));
    }
    for (UpgradeState::WatchedFile const& file : state.watched_files)
        before_[file.path] = {file.device, file.inode, file.seconds, file.nanoseconds};
    seen_ = before_;  // for a successor that comes before the look
    next_look_ = now;
    arm();
}

TimePoint FilesWatch::quiet_after(Program const& program, TimePoint now) const {
    Duration const quiet = plan_of(program).settings->files->quiet_time;
    return quiet < TimePoint::max() - now ? now + quiet : TimePoint::max();
}

/// Follows the paths to where they lead now.
void FilesWatch::look() {
    next_look_ = TimePoint::max();
    bool const has_come_back = std::exchange(has_come_back_, false);
    if ((blindness_ || has_come_back) && before_.empty())
        before_ = seen_;  // changes without an event show by comparison
    collect_paths();
    Result<> const watched = watcher_.watch(paths_);
    last_look_ = steady_clock::now();  // counted from the end of the look, which may have taken long
    if (watcher_) {
        if (!before_.empty()) {
            // The same changes may be told by both: patterns by the one alone, new directories by the other.
            for (std::size_t const which : watcher_->take_changes())
                note_change(which, last_look_);
        }
        for (std::size_t const which : watcher_->changed_since(std::exchange(before_, {})))
            note_change(which, last_look_);
        PathWatcher::Identities seen = watcher_->identities();
        for (Program const& program : programs_) {
            if (!program.aside_until) continue;
            for (std::string const& path : plan_of(program).watched_files)
                if (auto const known = seen_.find(path); known != seen_.end()) seen.insert(*known);
        }
        seen_ = std::move(seen);
    }
    if (watched) {
        blindness_.reset();
        return;
    }
    next_look_ = last_look_ + between_attempts;
    tell_blind(watched.error());
}

void FilesWatch::tell_blind(Error const& error) {
    bool const is_known = std::exchange(blindness_, error.kind) == error.kind;  // a remote file system can hang, too
    log::LogLevel const level = is_known ? log::LogLevel::debug : log::LogLevel::warning;
    log_.write(level, "watch-failed", "files of programs: " + error.text() + "; trying again",
               {{"error", std::string_view(error.text())}});
}

void FilesWatch::take_changes() {
    TimePoint const now = steady_clock::now();
    for (std::size_t const which : watcher_->take_changes())
        note_change(which, now);
    arm();
}

void FilesWatch::note_change(std::size_t which, TimePoint now) {
    if (which >= owners_.size()) return;
    Program& program = programs_[owners_[which]];
    if (program.changed.empty()) program.changed = paths_[which];
    program.quiet_at = quiet_after(program, now);
    Duration const pause = blindness_ ? between_vain_looks : between_looks;
    next_look_ = std::min(next_look_, std::max(now, last_look_ + pause));
}

void FilesWatch::time_passed() {
    TimePoint const now = steady_clock::now();
    if (next_look_at() <= now) begin_look();
    if (next_look_aside_at() <= now) begin_look_aside(now);
    arm();
}

void FilesWatch::begin_look() {
    progress_.begin();
    // The files of one that was put aside, at which a copy may still wait, are not asked for.
    bool const is_another = std::exchange(is_put_aside_, false);
    scout_.begin([this] { rehearse(); }, is_another ? FileScout::Why::change : FileScout::Why::again);
}

/// One at a time: of those whose time has come, the one that has waited for it the longest.
void FilesWatch::begin_look_aside(TimePoint now) {
    auto const is_due = [now](Program const& program) { return program.aside_until && *program.aside_until <= now; };
    Program const* next = nullptr;
    for (Program const& program : programs_)
        if (is_due(program) && (!next || *program.aside_until < *next->aside_until)) next = &program;
    if (!next) return;
    bool const is_another = std::exchange(tried_, next->id) != next->id;
    aside_scout_.begin([this, next] { rehearse(*next); }, is_another ? FileScout::Why::change : FileScout::Why::again);
}

/// Asks for what proceed() asks for. Nothing of it stays: it is done in a copy.
void FilesWatch::rehearse() const {
    for (Program const& program : programs_) {
        if (program.aside_until) continue;
        progress_.set(static_cast<std::uint32_t>(program.id));
        rehearse(program);
    }
}

void FilesWatch::rehearse(Program const& program) const {
    auto const& paths = plan_of(program).watched_files;
    (void)PathWatcher::deciding_directories(paths);
    for (std::string const& path : paths)
        (void)is_missing(path);
}

void FilesWatch::scouted(Children::Outcome const& outcome) {
    FileScout::Way const way = scout_.ended(outcome);
    if (way == FileScout::Way::unknown || programs_.empty()) return;
    if (way == FileScout::Way::clear) return proceed();
    if (outcome.how == process::CommandRunner::How::timed_out) {
        auto const held_up = std::ranges::find(programs_, progress_.number(), [](Program const& program) {
            return std::optional(static_cast<std::uint32_t>(program.id));
        });
        if (held_up != programs_.end()) {
            put_aside(*held_up);
            return arm();
        }
    }
    bool const hangs = way == FileScout::Way::hangs;
    not_before_ = steady_clock::now() + (hangs ? between_attempts : between_vain_looks);
    if (hangs) tell_blind(no_answer());
    arm();
}

/// The others are looked at without it, and at once: what was due has waited for long.
void FilesWatch::put_aside(Program& program) {
    TimePoint const now = steady_clock::now();
    program.aside_until = now + between_attempts;
    is_put_aside_ = true;
    next_look_ = now;
    Error const error = no_answer();
    std::string const& name = plan_of(program).settings->name;
    log_.write(log::LogLevel::warning, "watch-failed", "files of " + name + ": " + error.text() + "; trying again",
               {{"program", std::string_view(name)}, {"error", std::string_view(error.text())}});
}

void FilesWatch::scouted_aside(Children::Outcome const& outcome) {
    FileScout::Way const way = aside_scout_.ended(outcome);
    auto const program = std::ranges::find(programs_, tried_, &Program::id);
    if (way == FileScout::Way::unknown || program == programs_.end() || !program->aside_until) return;
    TimePoint const now = steady_clock::now();
    if (way == FileScout::Way::clear) {
        program->aside_until.reset();
        has_come_back_ = true;
        next_look_ = now;
    } else {
        program->aside_until = now + (way == FileScout::Way::hangs ? between_attempts : between_vain_looks);
    }
    arm();
}

void FilesWatch::proceed() {
    TimePoint const now = steady_clock::now();
    if (next_look_ <= now) look();
    for (std::size_t at = 0; at < programs_.size(); ++at)
        if (!programs_[at].aside_until && programs_[at].quiet_at <= now) act(programs_[at]);
    arm();
}

void FilesWatch::act(Program& program) {
    ProgramPlan const& plan = plan_of(program);
    program.quiet_at = TimePoint::max();
    auto const missing = std::ranges::find_if(plan.watched_files, is_missing);
    if (missing != plan.watched_files.end()) {
        log_.write(log::LogLevel::debug, "files-missing", plan.settings->name + " waits for " + *missing,
                   {{"program", std::string_view(plan.settings->name)}, {"path", std::string_view(*missing)}});
        return;  // it counts as a change when it comes back
    }
    bool const restarts = plan.settings->files->action == config::FilesAction::restart;
    std::string const changed = std::exchange(program.changed, {});
    log_.write(log::LogLevel::info, "files-changed",
               changed + " has changed: " + (restarts ? "restarting " : "telling ") + plan.settings->name,
               {{"program", std::string_view(plan.settings->name)},
                {"path", std::string_view(changed)},
                {"action", std::string_view(restarts ? "restart" : "signal")}});
    events_.dispatch(event::Command{restarts ? event::Verb::renew : event::Verb::reload, program.id});
}

TimePoint FilesWatch::next_look_at() const {
    if (scout_.is_busy()) return TimePoint::max();
    TimePoint next = next_look_;
    for (Program const& program : programs_)
        if (!program.aside_until) next = std::min(next, program.quiet_at);
    return std::max(next, not_before_);
}

TimePoint FilesWatch::next_look_aside_at() const {
    TimePoint next = TimePoint::max();
    if (aside_scout_.is_busy()) return next;
    for (Program const& program : programs_)
        next = std::min(next, program.aside_until.value_or(TimePoint::max()));
    return next;
}

void FilesWatch::arm() {
    TimePoint const next = std::min(next_look_at(), next_look_aside_at());
    if (next == TimePoint::max()) return timer_.disarm();
    timer_.arm(next);
}

}  // namespace triton::launcher
