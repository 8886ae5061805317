#include "launcher/rooms/upgrader.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/children/own_program.h"
#include "launcher/plan/configuration_source.h"
#include "launcher/plan/version.h"
#include "launcher/rooms/agent_host.h"
#include "launcher/upgrade/compiled_filters.h"
#include "lib/base/far_files.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

/// What a version that can take over answers to `upgrade-check`, before its version line.
constexpr std::string_view fit = "fit to take over: ";
// And after it, when it goes on with descriptors of inotify: older ones would refuse what they do not know.
constexpr std::string_view takes_watches = "takes watches";
// Likewise with past ends and results of checks: without them an older one can take over all the same.
constexpr std::string_view takes_history = "takes history";
// Likewise with the marks of processes, for which an older one asks the processes.
constexpr std::string_view takes_marks = "takes marks";
constexpr milliseconds time_to_check{10000};
constexpr milliseconds time_to_drain{500};
// How long an upgrade may be held up by children that are on their way to execve, or by output that nobody takes.
constexpr Duration time_to_get_ready = std::chrono::seconds(5);
constexpr Duration between_tries = milliseconds(2);
constexpr std::size_t most_told = 100;  // of what would be lost: the answer has to fit into a pipe

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    for_each_line(text, [&](std::string_view line) {
        if (!line.empty()) lines.emplace_back(line);
    });
    return lines;
}

/// Reads a pipe whose writers have ended. Whatever did not fit into the pipe is lost.
std::string take_all(int fd) {
    std::string text(65536, '\0');
    ssize_t const size = ::read(fd, text.data(), text.size());
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return text;
}

/// The environment with one more entry, NAME=value, in place of others of that name: our environment may still have
/// the entry of the upgrade that this version began with.
std::vector<char const*> with_entry(char const* const* environment, std::string const& entry) {
    std::string_view const name = std::string_view(entry).substr(0, entry.find('=') + 1);
    std::vector<char const*> entries;
    for (; *environment; ++environment) {
        if (!std::string_view(*environment).starts_with(name)) entries.push_back(*environment);
    }
    entries.push_back(entry.c_str());
    entries.push_back(nullptr);
    return entries;
}

/// Want of memory is a reason like another.
Result<> with_memory(std::function<Result<>()> const& act) {
    try {
        return act();
    } catch (std::bad_alloc const&) {
        return fail(ErrorKind::unavailable, {}, "not enough memory");
    }
}

}  // namespace

void set_close_on_exec(std::vector<int> const& descriptors, bool is_set) {
    for (int const fd : descriptors)
        (void)::fcntl(fd, F_SETFD, is_set ? FD_CLOEXEC : 0);
}

Upgrader::Upgrader(LaunchOptions const& options, char const* const* environment, Sys& sys, EventLoop& loop,
                   log::Log& log, Console& console, Supervisor const& supervisor, Children& children,
                   ControlLine const& line, Owner& owner)
    : options_(options),
      environment_(environment),
      sys_(sys),
      log_(log),
      console_(console),
      supervisor_(supervisor),
      children_(children),
      line_(line),
      owner_(owner),
      path_probe_(sys, children, Duration::zero()),
      try_timer_(loop, [this] { try_now(); }) {}

Result<> Upgrader::begin(std::string const& path) {
    if (supervisor_.phase() != SupervisorPhase::running) return fail(ErrorKind::refused, "the launcher is stopping");
    if (attempt_) return fail(ErrorKind::refused, "an upgrade is under way");
    log_.write(log::LogLevel::info, "upgrade-started", "upgrade to " + path + " begins",
               {{"path", std::string_view(path)}});
    attempt_.emplace(Attempt{});
    attempt_->path = path;
    attempt_->may_hang = may_any_file_hang();
    if (!may_touch([&path] { (void)open_successor(path); })) {
        give_up({ErrorKind::unavailable, "look at " + path, "its file system does not answer", {}, 0});
    } else if (auto program = open_successor(path)) {
        attempt_->program = std::move(*program);
        if (Result<> const begun = with_memory([this] { return check_successor(); }); !begun) give_up(begun.error());
    } else {
        give_up(program.error());
    }
    return {};
}

/// Whether the file can be looked at without waiting for its file system.
bool Upgrader::may_touch(std::function<void()> const& look) {
    return !attempt_->may_hang || path_probe_.is_answered(attempt_->path, look);
}

/// Errors: those of open(2); `unavailable` without /proc, by which a descriptor is executed.
Result<Upgrader::Successor> Upgrader::open_successor(std::string const& path) {
    Successor program{UniqueFd{::open(path.c_str(), O_PATH | O_CLOEXEC)}, {}, false};
    struct stat status;
    if (!program.file || ::fstat(program.file.get(), &status) != 0)
        return fail(ErrorKind::internal, "execute " + path, errno_text(errno));
    if (::access(program.path().c_str(), F_OK) != 0)
        return fail(ErrorKind::unavailable, "execute " + path, "/proc is not mounted");
    program.changed = status.st_ctim;
    if (!S_ISREG(status.st_mode)) return program;  // execve will say what is wrong with it
    UniqueFd const content{::open(program.path().c_str(), O_RDONLY | O_CLOEXEC)};
    char start[2];
    program.is_script = content && ::read(content.get(), start, 2) == 2 && start[0] == '#' && start[1] == '!';
    return program;
}

/// Errors: the file has been written to, or has lost its name, since it was opened; its file system does not answer.
Result<> Upgrader::check_unchanged() {
    struct stat status;
    std::string const& path = attempt_->path;
    if (!may_touch([&path] {
            struct stat there;
            (void)::stat(path.c_str(), &there);
        }))
        return fail(ErrorKind::unavailable, "look at " + path, "its file system does not answer");
    timespec const& before = attempt_->program.changed;
    bool const is_same = ::fstat(attempt_->program.file.get(), &status) == 0 &&
                         status.st_ctim.tv_sec == before.tv_sec && status.st_ctim.tv_nsec == before.tv_nsec;
    if (is_same) return {};
    return fail(path + " has changed since it was asked");
}

/// Runs `PATH upgrade-check OUR-ARGUMENTS` with the state as its standard input.
Result<> Upgrader::check_successor() {
    UniqueFd const state = TRY(seal_upgrade_state(write_upgrade_state(state_for_successor())));
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail(errno, "make a pipe");
    attempt_->answer = UniqueFd{ends[0]};
    UniqueFd const theirs{ends[1]};
    // On our end only: the writer's end may still be open in what it started.
    if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return fail(errno, "make a pipe");

    std::vector<std::string> words{"upgrade-check"};
    for (char const* const* word = options_.arguments + 1; *word; ++word)
        words.emplace_back(*word);
    std::vector<int> inherited;
    if (attempt_->program.is_script) inherited.push_back(attempt_->program.file.get());
    attempt_->filters = UniqueFd{::memfd_create("triton-launch-filters", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (attempt_->filters) inherited.push_back(attempt_->filters.get());
    std::string const variable = std::string(filters_variable) + "=" + std::to_string(attempt_->filters.get());
    auto const plan = TRY(own_program(with_entry(environment_, variable).data(), words, attempt_->program.path()));
    set_close_on_exec(inherited, false);
    children_.run_command(upgrade_key, time_to_check, [&]() -> Result<pid_t> {
        return children_.spawn_command(plan, ProcessNumber{1},
                                       {.in = state.get(), .out = theirs.get(), .err = theirs.get()});
    });
    set_close_on_exec(inherited, true);
    return {};
}

/// Whether the check has left something that the new version can read. Nobody can change it from now on.
bool Upgrader::has_left_filters() const {
    struct stat status;
    int const fd = attempt_->filters.get();
    return ::fstat(fd, &status) == 0 && status.st_size > 0 && seal(fd).has_value();
}

void Upgrader::answered(Children::Outcome const& outcome) {
    if (!attempt_) return;
    std::string const text = take_all(attempt_->answer.get());
    attempt_->answer = {};
    std::vector<std::string> lines = lines_of(text);
    if (supervisor_.phase() != SupervisorPhase::running)
        return give_up({ErrorKind::refused, {}, "the launcher is stopping", {}});
    if (outcome.is_ok() && !lines.empty() && lines.front().starts_with(fit)) {
        attempt_->version = lines.front().substr(fit.size());
        attempt_->takes_watches = std::ranges::find(lines, takes_watches) != lines.end();
        attempt_->takes_history = std::ranges::find(lines, takes_history) != lines.end();
        attempt_->takes_marks = std::ranges::find(lines, takes_marks) != lines.end();
        attempt_->is_checked = true;
        attempt_->give_up_at = steady_clock::now() + time_to_get_ready;
        return try_timer_.arm(steady_clock::now());
    }
    if (outcome.not_executed)
        return refuse("cannot execute " + attempt_->path + ": " + errno_text(outcome.not_executed->code));
    std::string reason = attempt_->path + " cannot take over";
    if (outcome.how == process::CommandRunner::How::timed_out) reason += ": it did not answer in time";
    if (outcome.how == process::CommandRunner::How::not_started) reason += ": " + outcome.error.text();
    if (lines.empty() && outcome.how == process::CommandRunner::How::exited)
        reason += ": it is not a launcher that can be upgraded to";
    refuse(std::move(reason), std::move(lines));
}

/// Reports an attempt that has failed.
void Upgrader::refuse(std::string reason, std::vector<std::string> details) {
    give_up({ErrorKind::internal, {}, std::move(reason), std::move(details)});
}

void Upgrader::give_up(Error error) {
    attempt_.reset();
    try_timer_.disarm();
    log_.write(log::LogLevel::error, "upgrade-failed", "upgrade failed: " + error.text(),
               {{"error", std::string_view(error.text())}, {"details", std::span<std::string const>(error.details)}});
    line_.answer_upgrade(std::unexpected(std::move(error)));
}

/// Tries until nothing stands in the way: no child shares our memory, or is on its way to its program, no output waits
/// here, and nothing that only we know is to be run.
void Upgrader::try_now() {
    if (!attempt_ || !attempt_->is_checked) return;
    if (supervisor_.phase() != SupervisorPhase::running)
        return give_up({ErrorKind::refused, {}, "the launcher is stopping", {}});
    owner_.bring_up_to_date();
    if (supervisor_.phase() != SupervisorPhase::running)  // the end of a critical program has just been seen
        return give_up({ErrorKind::refused, {}, "the launcher is stopping", {}});
    std::string const leaving = owner_.has_yet_to_clean_up();
    bool const is_clear =
        !children_.is_memory_shared() && !console_.is_blocked() && !is_start_under_way() && leaving.empty();
    TimePoint const now = steady_clock::now();
    if (!is_clear && now < attempt_->give_up_at) return try_timer_.arm(now + between_tries);
    if (console_.is_blocked()) return refuse("standard output is blocked: lines would be lost");
    if (is_start_under_way())
        return refuse("a process has not executed its program yet: whether it does would be lost");
    if (!leaving.empty())
        return refuse(leaving + " has left the configuration, and its onStop or preStop would be lost");
    if (Result<> const same = check_unchanged(); !same) return refuse(same.error().text());
    owner_.stop_output();
    Result<> const failed = with_memory([this] { return become_successor(); });
    owner_.resume_output();
    give_up(failed.error());
}

/// Whether a child is on its way to its program. Only who has started it hears whether it gets there.
bool Upgrader::is_start_under_way() const {
    for (std::uint32_t program = 0; program < supervisor_.program_count(); ++program) {
        for (std::uint32_t number = 1; number <= supervisor_.size(ProgramId{program}); ++number) {
            ProcessState const state = supervisor_.state({ProgramId{program}, ProcessNumber{number}});
            if (state == ProcessState::starting || state == ProcessState::executing) return true;
        }
    }
    return false;
}

UpgradeState Upgrader::state_for_successor() const {
    UpgradeState state = owner_.state();
    if (!attempt_->takes_watches) state.configuration_watch = state.files_watch = state.pid_files_watch = std::nullopt;
    if (!attempt_->takes_history) state.history = {};
    if (!attempt_->takes_marks) state.marks = {};
    return state;
}

/// Returns only with an error; then everything is as it was.
Result<> Upgrader::become_successor() {
    UpgradeState state = state_for_successor();
    if (attempt_->program.is_script) state.script = attempt_->program.file.get();
    if (has_left_filters()) state.filters = attempt_->filters.get();
    log_.flush();
    console_.drain(time_to_drain);
    if (console_.has_pending() || log_.has_pending()) return fail("lines would be lost: the log is blocked");
    std::string const text = write_upgrade_state(state);
    // It is not what the new version was asked about: that was a moment ago. Once it is executed there is no way back.
    if (auto const again = read_upgrade_state(text); !again)
        return fail(ErrorKind::internal, "hand over", again.error().error);
    auto const sealed = seal_upgrade_state(text);
    int err = sealed ? 0 : sealed.error().code;
    if (sealed) {
        line_.answer_upgrade(UpgradeVersions{std::string(version()), attempt_->version});
        owner_.about_to_leave();
        log_.flush();
        err = execute(state.descriptors(), sealed->get());
    }
    return fail(ErrorKind::internal, "execute " + attempt_->path, errno_text(err));
}

/// Returns only if that has failed, with an errno.
int Upgrader::execute(std::vector<int> descriptors, int sealed) {
    descriptors.push_back(sealed);
    std::string const variable = std::string(upgrade_variable) + "=" + std::to_string(sealed);
    std::vector<char const*> const environment = with_entry(environment_, variable);
    set_close_on_exec(descriptors, false);
    int const err = sys_.execute(attempt_->program.path().c_str(), options_.arguments, environment.data());
    set_close_on_exec(descriptors, true);
    return err;
}

// The other side: the new version.

UpgradeCheck check_upgrade(std::string_view text, LaunchOptions const& options, char const* const* environment) {
    auto const state = read_upgrade_state(text);
    UpgradeCheck result;
    if (!state) {
        result.exit_code = 1;
        if (!state.error().error.empty()) {
            result.output = "the state cannot be read: " + state.error().error + "\n";
            return result;
        }
        auto const& lost = state.error().lost;
        for (std::string const& place : std::span(lost).first(std::min(lost.size(), most_told)))
            result.output += "would be lost: " + place + "\n";
        if (lost.size() > most_told)
            result.output += "and " + std::to_string(lost.size() - most_told) + " more would be lost\n";
        return result;
    }
    if (state->has_configuration) {
        SourceOptions source = options.source;
        source.descriptor_limit = state->descriptor_limit;
        source.variables = state->pod.variables;
        auto const loaded = load_configuration(state->configuration, source, environment);
        std::vector<std::string> problems = loaded ? loaded->warnings : loaded.error().errors;
        // Problems that the running version warns of, too, are not new losses.
        if (loaded)
            std::erase_if(problems, [&](auto const& one) {
                return std::ranges::find(state->warnings, one) != state->warnings.end();
            });
        for (std::string const& problem : problems)
            result.output += (loaded ? "would be lost: " : "the active configuration is refused: ") + problem + "\n";
        if (!problems.empty()) {
            result.exit_code = 1;
            return result;
        }
        if (auto const compiler = own_compiler()) result.filters = write_compiled_filters(loaded->programs, *compiler);
    }
    result.output = std::string(fit) + std::string(version()) + "\n";
    for (std::string_view const more : {takes_watches, takes_history, takes_marks})
        result.output.append(more).append("\n");
    return result;
}

}  // namespace triton::launcher
