#include "launcher/rooms/pid_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/files/confined_path.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

// The processes that write a file, or start and end orphans, decide how often there is something to see.
constexpr Duration between_pid_looks = milliseconds(10);
constexpr Duration between_pid_attempts = std::chrono::seconds(1);  // to watch a path that cannot be watched

/// Notes what tells a file from another one, and from itself after a change.
void take_identity(UpgradeState::PidFile& entry, struct stat const& status) {
    entry.device = status.st_dev;
    entry.inode = status.st_ino;
    entry.changed = status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec;
}

bool is_same_file(UpgradeState::PidFile const& entry, struct stat const& status) {
    UpgradeState::PidFile now;
    take_identity(now, status);
    return entry.inode != 0 && now.device == entry.device && now.inode == entry.inode && now.changed == entry.changed;
}

/// Finds a file without opening it: opening a device may make it act. Links are not followed, and do not lead out of
/// the root directory. Errors: those of open_confined(); `not_found` when there is nothing.
Result<UniqueFd> find_file(std::string const& root_directory, std::string const& path, struct stat& status) {
    UniqueFd found = TRY(files::open_confined(root_directory, path, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (::fstat(found.get(), &status) != 0) return fail(errno, "look at " + path);
    return found;
}

/// nullopt: the first line is not a pid.
std::optional<pid_t> parse_pid(std::string_view text) {
    std::string_view line = text.substr(0, text.find('\n'));
    while (line.starts_with(' ') || line.starts_with('\t'))
        line.remove_prefix(1);
    while (line.ends_with(' ') || line.ends_with('\t') || line.ends_with('\r'))
        line.remove_suffix(1);
    pid_t pid = 0;
    auto const [end, error] = std::from_chars(line.data(), line.data() + line.size(), pid);
    bool const is_whole = error == std::errc{} && end == line.data() + line.size();
    return is_whole && pid > 0 ? std::optional(pid) : std::nullopt;
}

std::string const& root_of(ProgramPlan const& plan) {
    static std::string const none;
    return plan.settings.root_directory ? *plan.settings.root_directory : none;
}

ProcessId file_id(UpgradeState::PidFile const& entry) {
    return {ProgramId{entry.program}, ProcessNumber{entry.number}};
}

}  // namespace

PidFiles::PidFiles(Sys& sys, EventLoop& loop, log::Log& log, ProgramTable const& table, Supervisor const& supervisor,
                   Children& children, Channels const& channels, EventSink& events)
    : sys_(sys),
      loop_(loop),
      log_(log),
      table_(table),
      supervisor_(supervisor),
      children_(children),
      channels_(channels),
      events_(events),
      timer_(loop, [this] { look(); }) {}

std::vector<PidFiles::Entry>::iterator PidFiles::find(ProcessId id) {
    return std::ranges::find(entries_, id, [](Entry const& entry) { return file_id(entry); });
}

std::string PidFiles::path_of(Entry const& entry) const {
    auto const& plan = table_[ProgramId{entry.program}].plan;
    return plan && plan->pid_file ? plan->pid_file->arguments(ProcessNumber{entry.number}).front() : std::string();
}

void PidFiles::starting(ProcessId id, std::uint64_t mark) {
    (void)ended(id);
    entries_.push_back({.program = static_cast<std::uint32_t>(id.program),
                        .number = static_cast<std::uint32_t>(id.number),
                        .mark = mark});
    told_.emplace_back();
    Entry& entry = entries_.back();
    struct stat status{};
    if (find_file(root_of(*table_[id.program].plan), path_of(entry), status)) take_identity(entry, status);
    is_to_watch_ = true;
    look_soon();  // that look first watches, then sees what has changed until then
}

std::uint64_t PidFiles::ended(ProcessId id) {
    auto const found = find(id);
    if (found == entries_.end()) return 0;
    std::uint64_t const mark = found->mark;
    told_.erase(told_.begin() + (found - entries_.begin()));
    entries_.erase(found);
    if (entries_.empty() && watcher_) watcher_->forget();
    return mark;
}

void PidFiles::restore(UpgradeState const& state) {
    for (Entry const& entry : state.pid_files) {
        if (entry.program >= table_.size()) continue;
        // Of a program that has left nobody reads the file; the mark still says which processes are its own.
        if (path_of(entry).empty() && entry.mark == 0) continue;
        entries_.push_back(entry);
        told_.emplace_back();
    }
    if (entries_.empty()) return;
    is_to_watch_ = true;
    look_soon();  // the file may have changed in between
}

// When to look.

void PidFiles::watch() {
    std::vector<std::string> paths;
    for (Entry const& entry : entries_) {
        auto const& plan = table_[ProgramId{entry.program}].plan;
        if (std::string const path = path_of(entry); plan && !path.empty()) paths.push_back(root_of(*plan) + path);
    }
    Result<> const watched = [&]() -> Result<> {
        if (!watcher_) {
            PathWatcher watcher = TRY(PathWatcher::create());
            watch_ = TRY(loop_.on_readable(
                watcher.fd(),
                [this] {
                    if (!watcher_->take_events()) return;
                    is_to_watch_ = true;
                    look_soon();
                }));
            watcher_ = std::move(watcher);
        }
        return watcher_->watch(paths);
    }();
    if (watched) {
        is_blind_ = false;
        return;
    }
    is_to_watch_ = true;
    timer_.arm(steady_clock::now() + between_pid_attempts);
    log::LogLevel const level = std::exchange(is_blind_, true) ? log::LogLevel::debug : log::LogLevel::warning;
    log_.write(level, "watch-failed", "pid files: " + watched.error().text() + "; trying again",
               {{"error", std::string_view(watched.error().text())}});
}

void PidFiles::look_soon() {
    TimePoint const when = std::max(steady_clock::now(), last_look_ + between_pid_looks);
    if (!timer_.is_armed() || *timer_.when() > when) timer_.arm(when);
}

/// Looks at some of the files in each round: programs may have many processes.
void PidFiles::look() {
    last_look_ = steady_clock::now();
    if (entries_.empty()) return;
    if (next_ == 0 && std::exchange(is_to_watch_, false)) watch();
    std::size_t const end = std::min(next_ + most_per_round, entries_.size());
    std::vector<Entry> const some(entries_.begin() + static_cast<std::ptrdiff_t>(std::min(next_, end)),
                                  entries_.begin() + static_cast<std::ptrdiff_t>(end));
    next_ = end < entries_.size() ? end : 0;
    if (next_ != 0) look_soon();
    for (Entry const& entry : some)
        look_at(entry);
}

void PidFiles::look_at(Entry const& entry) {
    ProcessId const id = file_id(entry);
    if (!supervisor_.takes_main(id)) return;
    auto const pid = read(entry);
    auto const before = supervisor_.view(id).pid;
    if (!pid || pid == before) return;
    children_.follow(id, before, *pid);
    events_.dispatch(event::MainFound{id, *pid});
}

std::optional<Pid> PidFiles::successor(ProcessId id) {
    auto const found = find(id);
    if (found == entries_.end()) return std::nullopt;
    auto const pid = read(*found);
    if (pid) look_soon();  // the process before may be reported as an orphan now
    return pid;
}

// What it says.

/// The process that a file names; nullopt: none that could be used, or none yet.
std::optional<Pid> PidFiles::read(Entry const& entry) {
    auto const& plan = table_[ProgramId{entry.program}].plan;
    std::string const path = path_of(entry);
    if (!plan || path.empty()) return std::nullopt;
    struct stat status{};
    auto const found = find_file(root_of(*plan), path, status);
    if (!found) {
        if (found.error().kind == ErrorKind::not_found) return std::nullopt;
        return refuse(entry, found.error().text());
    }
    if (is_same_file(entry, status)) return std::nullopt;  // the file is of an earlier run
    if (S_ISLNK(status.st_mode)) return refuse(entry, "it is a symbolic link");
    if (!S_ISREG(status.st_mode)) return refuse(entry, "it is not a file");
    if (status.st_size > static_cast<off_t>(longest_file)) return refuse(entry, "it is longer than 4096 bytes");
    if (status.st_size == 0) return std::nullopt;  // it is being written
    std::string const opened_by = "/proc/self/fd/" + std::to_string(found->get());
    UniqueFd const file{::open(opened_by.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
    int const err = errno;
    if (!file) return refuse(entry, "it cannot be opened: " + errno_text(err));
    std::array<char, 64> text;
    ssize_t const size = ::read(file.get(), text.data(), text.size());
    if (size == 0) return std::nullopt;
    if (size < 0) return refuse(entry, "it cannot be read: " + errno_text(errno));
    auto const pid = parse_pid({text.data(), static_cast<std::size_t>(size)});
    if (!pid) return refuse(entry, "its first line is not a pid");
    // The pid is the same as before: that process runs, or has just ended.
    if (supervisor_.view(file_id(entry)).pid == Pid{*pid})
        return children_.find(*pid) == file_id(entry) ? std::optional(Pid{*pid}) : std::nullopt;
    if (std::string why = fault_of(entry, *pid); !why.empty())
        return refuse(entry, "it names " + std::to_string(*pid) + ", " + why);
    if (sys_.parent_of(*pid) != sys_.own_pid()) return std::nullopt;  // its parent has yet to end
    return Pid{*pid};
}

/// Why this process cannot be the program's; empty: it is one of the program's own.
std::string PidFiles::fault_of(Entry const& entry, pid_t pid) const {
    if (pid == sys_.own_pid()) return "which is the launcher";
    if (pid == 1) return "which is PID 1";
    if (auto const owner = children_.find(pid)) {
        return owner->program == ProgramId{entry.program} ? "which is another process of the program"
                                                          : "which is a process of another program";
    }
    if (children_.is_command(pid)) return "which is a helper command";
    if (sys_.parent_of(pid) == 0) return "which does not run";
    return is_started_by(entry, pid) ? "" : "which the program has not started";
}

bool PidFiles::is_started_by(Entry const& entry, pid_t pid) const {
    if (entry.mark != 0) return sys_.mark_of(pid) == entry.mark;
    return channels_.is_in_group(file_id(entry), pid);
}

std::optional<Pid> PidFiles::refuse(Entry const& entry, std::string why) {
    std::size_t const at = static_cast<std::size_t>(find(file_id(entry)) - entries_.begin());
    if (at >= told_.size() || told_[at].why == why || told_[at].count == most_refusals) return std::nullopt;
    std::string const path = path_of(entry);
    std::string_view const name = table_.name(entry.program);
    log_.write(log::LogLevel::warning, "pid-file-refused",
               "the pid file " + path + " of " + std::string(name) + " is not followed: " + why,
               {{"program", name},
                {"process", static_cast<std::int64_t>(entry.number)},
                {"path", std::string_view(path)},
                {"error", std::string_view(why)}});
    ++told_[at].count;
    told_[at].why = std::move(why);
    return std::nullopt;
}

}  // namespace triton::launcher
