#include "launcher/rooms/pid_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
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
    return plan.settings->root_directory ? *plan.settings->root_directory : none;
}

ProcessId file_id(UpgradeState::PidFile const& entry) {
    return {ProgramId{entry.program}, ProcessNumber{entry.number}};
}

}  // namespace

/// What a copy has seen; it travels as it lies in memory.
struct PidFiles::Seen {
    enum class Kind : std::uint8_t { nothing, refused, content };
    struct Identity {
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
        std::int64_t changed = 0;
    };
    Kind kind = Kind::nothing;  ///< nothing: also when it is being written
    Identity file = {};
    uid_t owner = 0;
    std::array<char, 256> text = {};  ///< why it is refused, or its beginning; ends with a NUL byte

    static Seen of(Kind kind, std::string_view text) {
        Seen seen{.kind = kind};
        text.copy(seen.text.data(), seen.text.size() - 1);
        return seen;
    }
};

PidFiles::PidFiles(Sys& sys, EventLoop& loop, log::Log& log, ProgramTable const& table, Supervisor const& supervisor,
                   Children& children, Channels const& channels, EventSink& events)
    : sys_(sys),
      log_(log),
      table_(table),
      supervisor_(supervisor),
      children_(children),
      channels_(channels),
      events_(events),
      asker_(sys, children),
      watcher_(loop,
               [this] {
                   if (!watcher_->take_events()) return;
                   is_to_watch_ = true;
                   look_soon();
               }),
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
    if (auto const seen = ask({entries_.back()}); !seen.empty()) {
        entries_.back().device = seen.front().file.device;
        entries_.back().inode = seen.front().file.inode;
        entries_.back().changed = seen.front().file.changed;
    }
    is_to_watch_ = true;
    look_soon();  // that look first watches, then sees what has changed until then
}

std::uint64_t PidFiles::ended(ProcessId id) {
    auto const found = find(id);
    if (found == entries_.end()) return 0;
    std::uint64_t const mark = found->mark;
    auto const at = static_cast<std::size_t>(found - entries_.begin());
    if (at < next_) --next_;  // that one is not left out in this pass
    told_.erase(told_.begin() + (found - entries_.begin()));
    entries_.erase(found);
    if (entries_.empty()) watcher_.forget();
    if (is_watching_writes_) look_soon();  // that look may find that nobody is awaited any more
    return mark;
}

void PidFiles::restore(UpgradeState const& state) {
    watcher_.adopt(state.pid_files_watch);
    for (Entry const& entry : state.pid_files) {
        if (entry.program >= table_.size()) continue;
        // Of a program that has left nobody reads the file; the mark still says which processes are its own.
        if (path_of(entry).empty() && entry.mark == 0) continue;
        entries_.push_back(entry);
        told_.emplace_back();
    }
    if (entries_.empty()) return watcher_.forget();
    is_to_watch_ = true;
    look_soon();  // the file may have changed in between
}

// When to look.

/// Whether one of the programs has yet to say as which process it goes on.
bool PidFiles::is_one_awaited() const {
    return std::ranges::any_of(entries_, [this](Entry const& entry) {
        return entry.number <= supervisor_.size(ProgramId{entry.program}) &&
               supervisor_.view(file_id(entry)).is_main_awaited;
    });
}

void PidFiles::watch() {
    std::vector<std::string> paths;
    for (Entry const& entry : entries_) {
        auto const& plan = table_[ProgramId{entry.program}].plan;
        if (std::string const path = path_of(entry); plan && !path.empty()) paths.push_back(root_of(*plan) + path);
    }
    auto const walked = asker_.ask([&] {
        (void)PathWatcher::deciding_directories(paths);
        return std::string();
    });
    Result<> const watched = [&]() -> Result<> {
        if (!walked) return fail(ErrorKind::unavailable, "look at them", "a file system does not answer");
        // A daemon may keep its file open, as pidfile(3) of libbsd does.
        is_watching_writes_ = is_one_awaited();
        return watcher_.watch(paths, is_watching_writes_ ? PathWatcher::Writes::each : PathWatcher::Writes::closed);
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
    is_to_look_again_ = next_ != 0;
    arm_look();
}

void PidFiles::arm_look() {
    TimePoint const when = std::max(steady_clock::now(), last_look_ + between_pid_looks);
    if (!timer_.is_armed() || *timer_.when() > when) timer_.arm(when);
}

/// Looks at some of the files in each round: programs may have many processes.
void PidFiles::look() {
    last_look_ = steady_clock::now();
    if (entries_.empty()) return;
    if (next_ == 0) {
        bool const is_less = is_watching_writes_ && !is_one_awaited();
        if (std::exchange(is_to_watch_, false) || is_less) watch();
    }
    std::size_t const begin = next_ < entries_.size() ? next_ : 0;  // there may be fewer by now
    std::size_t const end = std::min(begin + most_per_round, entries_.size());
    std::vector<Entry> const some(entries_.begin() + static_cast<std::ptrdiff_t>(begin),
                                  entries_.begin() + static_cast<std::ptrdiff_t>(end));
    auto const seen = ask(some);
    if (seen.empty()) return timer_.arm(std::max(asker_.recovers_at(), last_look_ + between_pid_attempts));
    next_ = end < entries_.size() ? end : 0;
    if (next_ != 0 || std::exchange(is_to_look_again_, false)) {
        arm_look();
    } else if (is_to_watch_ && !timer_.is_armed()) {  // what could not be watched is tried again
        timer_.arm(last_look_ + between_pid_attempts);
    }
    for (std::size_t at = 0; at < some.size(); ++at)
        look_at(some[at], seen[at]);
}

void PidFiles::look_at(Entry const& entry, Seen const& seen) {
    ProcessId const id = file_id(entry);
    if (!supervisor_.takes_main(id)) return;
    auto const pid = judge(entry, seen);
    auto const before = supervisor_.view(id).pid;
    if (!pid || pid == before) return;
    children_.follow(id, before, *pid);
    events_.dispatch(event::MainFound{id, *pid});
    if (is_watching_writes_) look_soon();  // as in ended()
}

std::optional<Pid> PidFiles::successor(ProcessId id) {
    auto const found = find(id);
    if (found == entries_.end()) return std::nullopt;
    auto const seen = ask({*found});
    auto const pid = seen.empty() ? std::nullopt : judge(*found, seen.front());
    if (pid) look_soon();  // the process before may be reported as an orphan now
    return pid;
}

// What it says.

PidFiles::Seen PidFiles::see(std::string const& root_directory, std::string const& path) {
    struct stat status{};
    auto const found = find_file(root_directory, path, status);
    if (!found) {
        bool const is_missing = found.error().kind == ErrorKind::not_found;
        return Seen::of(is_missing ? Seen::Kind::nothing : Seen::Kind::refused, found.error().text());
    }
    auto const with_identity = [&](Seen::Kind kind, std::string_view text) {
        Seen seen = Seen::of(kind, text);
        seen.owner = status.st_uid;
        seen.file = {status.st_dev, status.st_ino, status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec};
        return seen;
    };
    auto const refused = [&](std::string const& why) { return with_identity(Seen::Kind::refused, why); };
    if (S_ISLNK(status.st_mode)) return refused("it is a symbolic link");
    if (!S_ISREG(status.st_mode)) return refused("it is not a file");
    if (status.st_size > static_cast<off_t>(longest_file)) return refused("it is longer than 4096 bytes");
    if (status.st_size == 0) return with_identity(Seen::Kind::nothing, "");
    std::string const opened_by = "/proc/self/fd/" + std::to_string(found->get());
    UniqueFd const file{::open(opened_by.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
    int const err = errno;
    if (!file) return refused("it cannot be opened: " + errno_text(err));
    std::array<char, 64> text;
    ssize_t const size = ::read(file.get(), text.data(), text.size());
    if (size < 0) return refused("it cannot be read: " + errno_text(errno));
    return with_identity(size == 0 ? Seen::Kind::nothing : Seen::Kind::content,
                         {text.data(), static_cast<std::size_t>(size)});
}

/// Empty: the file system does not answer, or a copy has failed.
std::vector<PidFiles::Seen> PidFiles::ask(std::vector<Entry> const& entries) {
    auto const answer = asker_.ask([&] {
        std::string bytes;
        for (Entry const& entry : entries) {
            auto const& plan = table_[ProgramId{entry.program}].plan;
            std::string const path = path_of(entry);
            Seen const seen = plan && !path.empty() ? see(root_of(*plan), path) : Seen{};
            bytes.append(reinterpret_cast<char const*>(&seen), sizeof seen);
        }
        return bytes;
    });
    std::vector<Seen> all;
    if (!answer || answer->size() != entries.size() * sizeof(Seen)) return all;
    all.resize(entries.size());
    std::memcpy(all.data(), answer->data(), answer->size());
    return all;
}

/// The process that a file names; nullopt: none that could be used, or none yet.
std::optional<Pid> PidFiles::judge(Entry const& entry, Seen const& seen) {
    bool const is_of_before = entry.inode != 0 && entry.device == seen.file.device && entry.inode == seen.file.inode &&
                              entry.changed == seen.file.changed;
    if (is_of_before || seen.kind == Seen::Kind::nothing) return std::nullopt;
    std::string_view const text{seen.text.data()};
    if (seen.kind == Seen::Kind::refused) return refuse(entry, std::string(text));
    auto const pid = parse_pid(text);
    if (!pid) return refuse(entry, "its first line is not a pid");
    // The pid is the same as before: that process runs, or has just ended.
    if (supervisor_.view(file_id(entry)).pid == Pid{*pid})
        return children_.find(*pid) == file_id(entry) ? std::optional(Pid{*pid}) : std::nullopt;
    if (std::string why = fault_of(entry, *pid, seen.owner); !why.empty())
        return refuse(entry, "it names " + std::to_string(*pid) + ", " + why);
    if (sys_.parent_of(*pid) != sys_.own_pid()) return std::nullopt;  // its parent has yet to end
    return Pid{*pid};
}

/// Why this process cannot be the program's; empty: it is one of the program's own.
std::string PidFiles::fault_of(Entry const& entry, pid_t pid, uid_t owner) const {
    if (pid == sys_.own_pid()) return "which is the launcher";
    if (pid == 1) return "which is PID 1";
    if (auto const owner = children_.find(pid)) {
        return owner->program == ProgramId{entry.program} ? "which is another process of the program"
                                                          : "which is a process of another program";
    }
    if (children_.is_command(pid)) return "which is a helper command";
    if (sys_.parent_of(pid) == 0) return "which does not run";
    switch (origin_of(entry, pid)) {
        case Origin::program: return "";
        case Origin::stranger: return "which the program has not started";
        case Origin::likely_program: break;
    }
    if (owner == 0 || owner == ::geteuid() || owner == user_of(entry)) return "";
    return "which may be another program's, and the file is that of user " + std::to_string(owner);
}

uid_t PidFiles::user_of(Entry const& entry) const {
    auto const& plan = table_[ProgramId{entry.program}].plan;
    return plan ? plan->user() : ::geteuid();
}

/// Where the mark is only one limit (a version before this one has started the program, or a launcher above this one
/// has left no room for the other), every process with an earlier mark can have taken it: then it also has to be of the
/// program's user.
PidFiles::Origin PidFiles::origin_of(Entry const& entry, pid_t pid) const {
    if (entry.mark == 0) return channels_.is_in_group(file_id(entry), pid) ? Origin::program : Origin::stranger;
    Marks const marks = sys_.marks_of(pid);
    if (marks.are(entry.mark)) return Origin::program;
    bool const is_likely = marks.falling == entry.mark && !marks.is_rising_set && sys_.user_of(pid) == user_of(entry);
    return is_likely ? Origin::likely_program : Origin::stranger;
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
