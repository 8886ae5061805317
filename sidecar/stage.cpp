#include "sidecar/stage.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <span>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/environment_file.h"
#include "config/limits.h"
#include "config/substitution.h"
#include "lib/base/clock.h"
#include "lib/base/new_calls.h"
#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"
#include "lib/files/copy_file.h"
#include "lib/files/pending_file.h"
#include "sidecar/plan.h"
#include "sidecar/substitute.h"
#include "sidecar/summary.h"

namespace triton::sidecar {

Result<std::string> read_version(std::string const& path) {
    std::string const text = TRY(read_file(path, 4096));
    constexpr std::string_view blanks = " \t\r\n";
    std::size_t const begin = text.find_first_not_of(blanks);
    if (begin == text.npos) return fail("the version file " + path + " is empty");
    return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

namespace {

// Writers often make several changes in a row; a ConfigMap's swap is two.
constexpr int quiet_ms = 2;
constexpr int most_quiet_waits = 50;
constexpr std::uint64_t large_file = 64 << 20;
constexpr std::size_t most_waiting = 2048;  // for their names; each is open meanwhile
constexpr std::uint64_t most_waiting_bytes = 16 << 20;
constexpr rlim_t own_descriptors = 64;
constexpr std::size_t many_files = 16;  // from here on waiting for data of others is worth it
constexpr std::string_view emptiness = " is empty (--require-not-empty)";
constexpr Duration progress_interval = milliseconds(100);

/// The signals that end the program, and SIGHUP, as a descriptor.
class Signals {
public:
    static Result<Signals> create(StageMode mode) {
        sigset_t set;
        sigemptyset(&set);
        for (int const signo : {SIGTERM, SIGINT, SIGQUIT})
            sigaddset(&set, signo);
        if (::getpid() == 1) sigaddset(&set, SIGPWR);  // from lxc-stop; else it ends us anyway
        if (mode == StageMode::sidecar) sigaddset(&set, SIGHUP);
        (void)::sigprocmask(SIG_BLOCK, &set, nullptr);  // cannot fail with these arguments
        Signals signals;
        signals.fd_ = UniqueFd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
        int const err = errno;
        if (!signals.fd_) return fail(err, "create a signalfd");
        return signals;
    }

    [[nodiscard]] int fd() const { return fd_.get(); }

    /// Returns the first signal that ends the program, or 0, without waiting.
    int arrived() {
        signalfd_siginfo info;
        while (signo_ == 0 && ::read(fd_.get(), &info, sizeof info) == sizeof info) {
            if (info.ssi_signo == SIGHUP) {
                has_hung_up_ = true;
            } else {
                signo_ = static_cast<int>(info.ssi_signo);
            }
        }
        return signo_;
    }

    /// Whether SIGHUP has arrived since the last call.
    bool take_hang_up() { return std::exchange(has_hung_up_, false); }

private:
    UniqueFd fd_;
    int signo_ = 0;
    bool has_hung_up_ = false;
};

std::string_view parent_of(std::string_view path) {
    std::size_t const slash = path.rfind('/');
    return slash == path.npos ? std::string_view(".") : path.substr(0, slash);
}

/// Why nothing can be made in a directory, even one that does not exist yet. This tells what shows without trying: a
/// file in place of a directory, no right to write.
std::optional<std::string> find_obstacle(std::string directory) {
    struct stat status;
    for (;; directory = parent_of(directory)) {
        if (directory.empty()) directory = "/";
        if (::stat(directory.c_str(), &status) != 0) {
            int const err = errno;
            if (err == ENOENT && directory != "/" && directory != ".") continue;
            return "cannot write to " + directory + ": " + errno_text(err);
        }
        if (!S_ISDIR(status.st_mode)) return directory + " is not a directory";
        if (check_access(AT_FDCWD, directory.c_str(), W_OK | X_OK) == 0) return std::nullopt;
        return "cannot write to " + directory + ": " + errno_text(errno);
    }
}

/// Whether a directory is empty, as that of a fresh volume: then nobody needs to look for each of ten thousand files in
/// it.
bool is_empty_directory(std::string const& path) {
    DIR* const stream = ::opendir(path.c_str());
    if (!stream) return errno == ENOENT;
    int entries = 0;
    while (entries < 3 && ::readdir(stream))
        ++entries;
    ::closedir(stream);
    return entries < 3;  // "." and "..", which some file systems leave out
}

/// How many files may wait: as many as may be open. For that the soft limit is raised as far as the hard one allows. We
/// start no program that would inherit it.
std::size_t most_waiting_files() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 1;
    rlim_t const wanted = std::min<rlim_t>(files.rlim_max, most_waiting + own_descriptors);
    if (files.rlim_cur < wanted) {
        files.rlim_cur = wanted;
        if (::setrlimit(RLIMIT_NOFILE, &files) != 0) (void)::getrlimit(RLIMIT_NOFILE, &files);
    }
    rlim_t const left = files.rlim_cur > 2 * own_descriptors ? files.rlim_cur - own_descriptors : files.rlim_cur / 2;
    return std::clamp<std::size_t>(left, 1, most_waiting);
}

/// One round: plan, check, substitute, copy.
class Staging {
public:
    Staging(StageOptions const& options, StageSurroundings const& around, Signals& signals)
        : options_(options), around_(around), signals_(signals), version_(read_version(options.version_file)) {}

    Round run() && {
        StagePlan const planned = plan(options_, version_);
        round_.errors = planned.errors;
        round_.is_main_container_same = planned.is_main_container_same;
        binary_directory_ = planned.binary_directory;
        prepare(planned);
        if (round_.errors.empty() && !round_.was_stopped && !jobs_.empty()) act();
        return std::move(round_);
    }

private:
    struct Job {
        PlannedCopy const* copy;             // borrowed from the plan
        std::optional<std::string> content;  // substituted; without it the source is copied
        mode_t mode = 0;
        bool is_new = false;
    };

    /// A file that is complete except for its name.
    struct Waiting {
        std::string path;
        files::Prepared prepared;
    };

    /// Finds all problems that can be known in advance.
    void prepare(StagePlan const& planned) {
        bool const substitutes = std::ranges::any_of(
            planned.copies, [](PlannedCopy const& copy) { return copy.kind != CopyKind::verbatim; });
        if (substitutes) read_variables();
        for (std::string const& source : planned.unplaced) {
            if (auto looked = files::look_at_source(source); !looked) add_error(looked.error().text());
        }
        for (PlannedCopy const& copy : planned.copies) {
            if (signals_.arrived() != 0) {
                round_.was_stopped = true;
                return;
            }
            Result<Job> job = prepare_one(copy);
            bool const is_new = check_target(path_in(options_.output_directory, copy.target));
            if (job) {
                job->is_new = is_new;
                jobs_.push_back(std::move(*job));
            } else {
                add_error(job.error().text());
            }
        }
    }

    /// Returns true when it is known that nothing is there.
    bool check_target(std::string const& path) {
        std::string_view directory = parent_of(path);
        if (directory.empty()) directory = "/";
        if (directory != checked_directory_) {
            checked_directory_ = directory;
            is_directory_empty_ = is_empty_directory(checked_directory_);
            if (auto obstacle = find_obstacle(checked_directory_)) add_error(std::move(*obstacle));
        }
        struct stat status;
        if (!is_directory_empty_ && ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode))
            add_error(path + " is a directory, not a file");
        return is_directory_empty_;
    }

    /// Adds an error once: many files may have the same obstacle.
    void add_error(std::string text) {
        if (std::ranges::find(round_.errors, text) == round_.errors.end()) round_.errors.push_back(std::move(text));
    }

    Result<Job> prepare_one(PlannedCopy const& copy) {
        struct stat const status = TRY(files::look_at_source(copy.source));
        if (copy.must_not_be_empty && status.st_size == 0) return fail(copy.source + std::string(emptiness));
        Job job{&copy, std::nullopt, status.st_mode};
        if (copy.kind != CopyKind::verbatim) job.content = TRY(substituted(copy));
        return job;
    }

    void read_variables() {
        std::vector<config::EnvironmentVariable> values;
        if (!options_.environment_file.empty()) {
            config::Limits const limits;
            auto const text = read_file(options_.environment_file, limits.document.document_bytes);
            if (!text) return add_error("additional environment file: " + text.error().text());
            config::EnvironmentFile file = config::parse_environment_file(*text, limits);
            for (json::Problem const& problem : file.problems)
                add_error(options_.environment_file + ": " + problem.text());
            values = std::move(file.values);
        }
        variables_ = config::Variables(std::move(values), around_.environment);
    }

    Result<std::string> substituted(PlannedCopy const& copy) {
        auto const source = TRY(files::open_source(copy.source));
        auto const text = read_open_file(source.file.get(), source.path, json::Limits{}.document_bytes);
        if (!text) return std::unexpected(text.error());
        if (copy.must_not_be_empty && text->empty()) return fail(copy.source + std::string(emptiness));
        auto result =
            copy.kind == CopyKind::substituted
                ? substitute_template(*text, variables_)
                : substitute_monitor_conf(*text, monitor_variables(variables_, options_.substitute_variables,
                                                                   options_.public_ip_family, main_binary_directory()));
        if (result) return std::move(*result);
        // All but the last problem are added here, since an Error holds one.
        for (json::Problem const& problem : std::span(result.error()).first(result.error().size() - 1))
            add_error(copy.source + ": " + problem.text());
        return fail(copy.source + ": " + result.error().back().text());
    }

    /// Where the main container has the binaries of this container's version, or will have them.
    [[nodiscard]] std::optional<std::string> main_binary_directory() const {
        if (version_ && *version_ == options_.main_container_version) return options_.binary_directory;
        if (binary_directory_.empty()) return std::nullopt;
        if (binary_directory_ == ".") return options_.main_container_conf_directory;
        return path_in(options_.main_container_conf_directory, binary_directory_);
    }

    void act() {
        auto output = files::make_directories(options_.output_directory);
        if (!output) return add_error(output.error().text());
        for (Job const& job : jobs_) {
            Result<> done = stage_one(output->get(), job);
            clear_progress();
            if (!done) add_error(done.error().text());
            if (!done || round_.was_stopped) break;
            if (waiting_.size() >= most_waiting_ || waiting_bytes_ >= most_waiting_bytes) {
                if (!publish_waiting()) break;
            }
        }
        (void)publish_waiting();  // it has reported its errors
        // Done after an error, too: files in place stay.
        for (auto const& [path, directory] : directories_) {
            if (::fsync(directory.get()) != 0) {
                int const err = errno;
                add_error(fail(err, "write directory " + path).error().text());
            }
        }
    }

    /// The directory of a target. Each is opened once, for one fsync.
    Result<int> target_directory(int output, std::string_view path) {
        auto const known = std::ranges::find(directories_, path, &OpenDirectory::path);
        if (known != directories_.end()) return known->directory.get();
        auto const found = TRY(files::make_directories_beneath(output, path));
        UniqueFd directory{::openat(found.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        int const err = errno;
        if (!directory) return fail(err, "open directory " + path_in(options_.output_directory, path));
        files::remove_abandoned(directory.get());
        directories_.push_back({std::string(path), std::move(directory)});
        return directories_.back().directory.get();
    }

    Result<> stage_one(int output, Job const& job) {
        std::string_view const relative = job.copy->target;
        int const directory = TRY(target_directory(output, parent_of(relative)));
        files::Target const target{directory, std::string(relative.substr(relative.rfind('/') + 1)),
                                   path_in(options_.output_directory, relative), job.is_new};
        files::CopySettings settings;
        settings.with_hash = options_.as_json;
        started_ = std::chrono::steady_clock::now();
        settings.keep_going = [this, &target](std::uint64_t done, std::uint64_t all) {
            show_progress(target.name, done, all);
            return (done > 0 && done == all) || signals_.arrived() == 0;  // when it is done, the next one asks
        };
        files::Prepared prepared = TRY(job.content ? files::prepare_file(*job.content, job.mode, target, settings)
                                                   : prepare_source(job, target, settings));
        if (prepared.staged.outcome == files::Outcome::stopped) {
            round_.was_stopped = true;
            return {};
        }
        // It was not empty when it was looked at, but somebody may have emptied it since.
        if (job.copy->must_not_be_empty && !job.content && prepared.staged.bytes == 0)
            return fail(job.copy->source + std::string(emptiness));
        if (prepared.pending) waiting_bytes_ += prepared.staged.bytes;
        waiting_.push_back({target.shown, std::move(prepared)});
        return {};
    }

    static Result<files::Prepared> prepare_source(Job const& job, files::Target const& target,
                                                  files::CopySettings const& settings) {
        auto const source = TRY(files::open_source(job.copy->source));
        return files::prepare_copy(source, target, settings);
    }

    /// Makes waiting files durable, then puts them in place in the order of the plan, up to the first failure.
    bool publish_waiting() {
        std::vector<files::PendingFile*> pending;
        for (Waiting& waiting : waiting_) {
            if (waiting.prepared.pending) pending.push_back(&*waiting.prepared.pending);
        }
        bool const is_durable = pending.size() >= many_files && files::make_durable_together(pending);
        waiting_bytes_ = 0;
        for (Waiting& waiting : std::exchange(waiting_, {})) {
            Result<files::Staged> staged = files::publish(std::move(waiting.prepared), is_durable);
            if (!staged) {
                add_error(staged.error().text());
                return false;
            }
            round_.files.push_back({std::move(waiting.path), std::move(*staged)});
        }
        return true;
    }

    void show_progress(std::string_view name, std::uint64_t done, std::uint64_t all) {
        if (!around_.progress || all < large_file || done == 0) return;
        TimePoint const now = std::chrono::steady_clock::now();
        if (has_progress_ && now - shown_ < progress_interval && done < all) return;
        around_.progress("\r\x1b[K" + progress_text(name, done, all, now - started_));
        has_progress_ = true;
        shown_ = now;
    }

    void clear_progress() {
        if (std::exchange(has_progress_, false)) around_.progress("\r\x1b[K");
    }

    struct OpenDirectory {
        std::string path;
        UniqueFd directory;
    };

    StageOptions const& options_;
    StageSurroundings const& around_;
    Signals& signals_;
    Result<std::string> version_;
    config::Variables variables_{{}, nullptr};
    std::string binary_directory_;  // from the plan
    std::string checked_directory_;
    bool is_directory_empty_ = false;
    std::vector<Job> jobs_;
    std::vector<OpenDirectory> directories_;
    std::vector<Waiting> waiting_;  // in the order of the plan
    std::uint64_t waiting_bytes_ = 0;
    std::size_t most_waiting_ = most_waiting_files();
    Round round_;
    TimePoint started_;
    TimePoint shown_;
    bool has_progress_ = false;
};

/// Reports a round. Returns its exit code.
int report(Round const& round, StageOptions const& options, StageSurroundings const& around, Signals& signals) {
    auto const log = [&around](StageLevel level, std::string_view event, std::string const& message) {
        if (around.log) around.log(level, event, message);
    };
    for (StagedFile const& file : round.files) {
        std::string const size = " (" + std::to_string(file.staged.bytes) + " bytes)";
        if (file.staged.outcome == files::Outcome::copied) {
            log(StageLevel::info, "file-copied", "copied " + file.path + size);
        } else {
            log(StageLevel::info, "file-reused", "left " + file.path + " as it is" + size);
        }
    }
    for (std::string const& error : round.errors)
        log(StageLevel::error, "staging-failed", error);
    if (round.is_main_container_same && round.errors.empty()) {
        bool const skips_all = options.same_version == SameVersion::skips_all;
        log(StageLevel::info, "staging-skipped",
            (skips_all ? "nothing copied: " : "binaries left out: ") + std::string("the main container has version ") +
                options.main_container_version + " itself");
    }
    if (options.as_json && !round.was_stopped && around.print)
        around.print(json_summary(round), [&signals] { return signals.arrived() == 0; });
    return round.errors.empty() ? 0 : 1;
}

/// Waits for a change of a source, SIGHUP or a stop. Returns whether there is something to copy.
bool wait_for_change(ChangeWatch* watch, Signals& signals, StageSurroundings const& around) {
    std::array<pollfd, 2> polled{{{signals.fd(), POLLIN, 0}, {watch ? watch->fd() : -1, POLLIN, 0}}};
    bool has_changed = false;
    for (int waits = 0; signals.arrived() == 0 && waits < most_quiet_waits;) {
        if (signals.take_hang_up()) {
            if (around.hang_up) around.hang_up();
            has_changed = true;
        }
        int const ready = ::poll(polled.data(), polled.size(), has_changed ? quiet_ms : -1);
        if (has_changed && ready == 0) break;
        if (watch && polled[1].revents != 0 && watch->take_events()) has_changed = true;
        if (has_changed) ++waits;
    }
    return signals.arrived() == 0 && has_changed;
}

std::vector<std::string> watched_paths(StageOptions const& options) {
    StagePlan const planned = plan(options, read_version(options.version_file));
    std::vector<std::string> paths{options.version_file};
    if (!options.environment_file.empty()) paths.push_back(options.environment_file);
    for (PlannedCopy const& copy : planned.copies)
        paths.push_back(copy.source);
    return paths;
}

Result<std::unique_ptr<ChangeWatch>> make_watch(StageOptions const& options, StageSurroundings const& around) {
    if (options.mode != StageMode::sidecar || !options.watch) return nullptr;
    if (!around.make_watch) return fail("--watch: this system cannot watch files");
    return around.make_watch();
}

/// Watches what the next round reads. Called before the round, so that changes during it are not missed.
void renew_watch(ChangeWatch* watch, StageOptions const& options, StageSurroundings const& around) {
    if (!watch) return;
    auto const result = watch->watch(watched_paths(options));
    if (!result && around.log) around.log(StageLevel::error, "watch-failed", result.error().text());
}

Result<int> run(StageOptions const& options, StageSurroundings const& around) {
    auto signals = TRY(Signals::create(options.mode));
    auto const watch = TRY(make_watch(options, around));
    bool const stays = options.mode == StageMode::sidecar && !options.is_once;
    if (stays) (void)::signal(SIGCHLD, SIG_IGN);
    for (bool is_first = true;; is_first = false) {
        renew_watch(watch.get(), options, around);
        Round const round = Staging(options, around, signals).run();
        int const code = report(round, options, around, signals);
        if (round.was_stopped && !stays) return 128 + signals.arrived();
        if (!stays || (is_first && code != 0)) return code;
        if (is_first && !round.was_stopped && around.staged) around.staged();
        if (!wait_for_change(watch.get(), signals, around)) break;
    }
    if (around.log)
        around.log(StageLevel::info, "stop-requested", "stopped by signal " + std::to_string(signals.arrived()));
    return 0;
}

}  // namespace

int stage(StageOptions const& options, StageSurroundings const& around) {
    Result<int> const code = run(options, around);
    if (code) return *code;
    if (around.log) around.log(StageLevel::error, "staging-failed", code.error().text());
    return 1;
}

}  // namespace triton::sidecar
