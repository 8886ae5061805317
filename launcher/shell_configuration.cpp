#include <algorithm>
#include <cerrno>

#include <sys/resource.h>

#include "base/read_file.h"
#include "config/duration.h"
#include "launcher/shell.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

// A burst of changes is one reload: it waits until nothing has happened for a moment, but not for ever.
constexpr Duration quiet_time = milliseconds(2);
constexpr Duration longest_burst = milliseconds(20);
constexpr Duration between_reloads = milliseconds(50);
constexpr Duration between_looks = std::chrono::seconds(10);
// By then the children of a start have left our memory.
constexpr Duration time_to_settle = milliseconds(250);

std::vector<SocketRequest> all_sockets(Accepted const& accepted) {
    std::vector<SocketRequest> all;
    for (auto const& program : accepted.programs)
        all.insert(all.end(), program->sockets.begin(), program->sockets.end());
    return all;
}

/// Pipes, groups and sockets of many processes are many descriptors: as many as the hard limit allows. select(2) is
/// used by nobody here; what we start gets its own limit back.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Result<std::string> Shell::read_configuration() const {
    return read_file(options_.configuration_path, config::Limits{}.document_bytes);
}

bool Shell::says_the_same(Accepted const& loaded) const {
    return active_ && std::ranges::equal(active_->programs, loaded.programs,
                                         [](auto const& one, auto const& other) { return *one == *other; });
}

/// Returns whether a configuration was accepted or is still good.
bool Shell::load() {
    auto loaded = load_configuration(read_configuration(), source_, environment_);
    if (!loaded) {
        reject(std::move(loaded.error()));
        return false;
    }
    if (says_the_same(*loaded)) {
        rejection_.clear();
        missing_binaries_.clear();
        log_.write(LogLevel::debug, "configuration-unchanged",
                   options_.configuration_path + " says what it said before",
                   {{"path", std::string_view(options_.configuration_path)}});
        return true;
    }
    try {
        if (Result<> activated = activate(std::move(*loaded)); !activated) {
            reject({{std::move(activated.error().text)}, {}, {}});
            return false;
        }
    } catch (std::bad_alloc const&) {
        reject({{"not enough memory for its processes"}, {}, {}});
        return false;
    }
    rejection_.clear();
    missing_binaries_.clear();
    is_reloaded_ = true;
    tell_active();
    return true;
}

/// Programs keep their id as long as they keep their name; others get one that is free.
std::vector<ProgramId> Shell::choose_ids(Accepted const& accepted) const {
    std::vector<ProgramId> ids;
    std::vector<bool> is_taken(programs_.size(), false);
    for (std::size_t at = 0; at < programs_.size(); ++at)
        is_taken[at] = programs_[at].plan && !supervisor_.is_idle(ProgramId{static_cast<std::uint32_t>(at)});
    for (auto const& program : accepted.programs) {
        auto const known = std::ranges::find_if(
            programs_, [&](Runtime const& runtime) { return runtime.plan && runtime.name == program->settings.name; });
        auto const at = static_cast<std::size_t>(known - programs_.begin());
        if (known != programs_.end()) is_taken[at] = true;
        ids.push_back(ProgramId{known != programs_.end() ? static_cast<std::uint32_t>(at) : UINT32_MAX});
    }
    for (ProgramId& id : ids) {
        if (id != ProgramId{UINT32_MAX}) continue;
        auto const free = std::ranges::find(is_taken, false);
        auto const at = static_cast<std::size_t>(free - is_taken.begin());
        if (free == is_taken.end()) {
            is_taken.push_back(true);
        } else {
            *free = true;
        }
        id = ProgramId{static_cast<std::uint32_t>(at)};
    }
    return ids;
}

/// Whether the groups can have the limits that are asked of them.
Result<> Shell::check_cgroups(Accepted const& accepted) const {
    for (auto const& plan : accepted.programs) {
        if (!plan->settings.cgroup) continue;
        std::string const place = "programs." + plan->settings.name + ".cgroup: ";
        if (!cgroups_) return fail(place + cgroup_error_);
        if (Result<> const possible = cgroups_->check(*plan->settings.cgroup); !possible)
            return fail(place + possible.error().text);
    }
    return {};
}

/// Within one configuration alone: a file may go from one program to another.
Result<> Shell::check_files(Accepted const& accepted) {
    auto const& programs = accepted.configuration.programs;
    for (auto program = programs.begin(); program != programs.end(); ++program) {
        if (!program->output.file) continue;
        auto const other = std::ranges::find_if(programs.begin(), program, [&](config::Program const& before) {
            return before.output.file == program->output.file;
        });
        if (other == program) continue;
        return fail("programs." + program->name + ".output: cannot log to " + *program->output.file + ": program " +
                    other->name + " does already");
    }
    return {};
}

/// Everything that may be refused. What was opened for nothing is closed again, and what was changed is put back.
Result<> Shell::open_what_is_shared(Accepted const& accepted, std::vector<ProgramId> const& ids) {
    TRY(check_cgroups(accepted));
    TRY(check_files(accepted));
    TRY(sockets_.open(all_sockets(accepted)));
    for (std::size_t i = 0; i < ids.size(); ++i) {
        config::Program const& program = accepted.programs[i]->settings;
        if (program.output.kind != config::OutputKind::captured) continue;
        Result<> const opened = output_->configure(static_cast<std::uint32_t>(ids[i]), program.name, program.output);
        if (opened) continue;
        for (std::size_t before = 0; before < i; ++before)
            restore_output(ids[before]);
        sockets_.keep_only(active_ ? all_sockets(*active_) : std::vector<SocketRequest>{});
        return fail("programs." + program.name + ".output: " + opened.error().text);
    }
    return {};
}

void Shell::restore_output(ProgramId id) {
    auto const at = static_cast<std::size_t>(id);
    if (at < programs_.size() && programs_[at].is_captured) {
        // It was open a moment ago.
        (void)output_->configure(static_cast<std::uint32_t>(at), programs_[at].name,
                                 programs_[at].plan->settings.output);
    } else {
        output_->forget(static_cast<std::uint32_t>(at));
    }
}

/// Before the first process of a named program: the tree has to be empty but for us.
void Shell::open_cgroups() {
    if (std::exchange(has_looked_for_cgroups_, true)) return;
    if (options_.cgroup == CgroupMode::none) {
        cgroup_error_ = "control groups are turned off (--cgroup none)";
        return;
    }
    auto tree = CgroupTree::create();
    if (tree) {
        cgroups_ = std::move(*tree);
        return;
    }
    cgroup_error_ = tree.error().text;
    log_.write(LogLevel::debug, "cgroup-unavailable", "no control groups for processes: " + cgroup_error_,
               {{"error", std::string_view(cgroup_error_)}});
}

/// All memory that so many processes may need is taken before anything changes, so that it fails whole or not at all.
Result<> Shell::activate(Accepted accepted) {
    bool const has_names = accepted.configuration.has_programs;
    if (has_names) {
        raise_descriptor_limit();
        open_cgroups();
        if (!output_) open_channels();
    }
    std::vector<ProgramId> const ids = choose_ids(accepted);
    TRY(open_what_is_shared(accepted, ids));

    auto const specs = std::make_shared<std::vector<ProgramSpec>>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
        ProgramPlan const& plan = *accepted.programs[i];
        ProgramSpec spec{ids[i], plan.policy, true};
        auto const ids_of = [&](std::vector<std::string> const& names, std::vector<ProgramId>& to) {
            for (std::string const& name : names) {
                auto const named = std::ranges::find(accepted.configuration.programs, name, &config::Program::name);
                to.push_back(ids[static_cast<std::size_t>(named - accepted.configuration.programs.begin())]);
            }
        };
        ids_of(plan.settings.after, spec.policy.after);
        ids_of(plan.settings.requires_, spec.policy.requires_);
        auto const at = static_cast<std::size_t>(ids[i]);
        if (at < programs_.size() && programs_[at].plan && programs_[at].is_configured)
            spec.has_changed = !plan.starts_like(*programs_[at].plan);
        specs->push_back(std::move(spec));
    }
    std::uint32_t const count = accepted.process_count();
    supervisor_.reserve(*specs);
    std::size_t const most = supervisor_.most_actions(*specs);
    actions_.reserve(most);
    reports_.reserve(most);
    events_.reserve(events_.size() + count + 16);
    spare_nodes_.reserve(processes_.size() + count);
    processes_.reserve(processes_.size() + count);
    std::size_t const highest = ids.empty() ? 0 : static_cast<std::size_t>(std::ranges::max(ids)) + 1;
    std::vector<Runtime> programs;
    programs.reserve(std::max(programs_.size(), highest));
    shown_.reserve(programs.capacity() + ids.size());

    // From here on nothing fails.
    std::ranges::move(programs_, std::back_inserter(programs));
    programs_ = std::move(programs);
    if (programs_.size() < highest) programs_.resize(highest);
    for (Runtime& program : programs_)
        program.is_configured = false;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        Runtime& program = programs_[static_cast<std::size_t>(ids[i])];
        program.plan = accepted.programs[i];
        program.name = program.plan->settings.name;
        program.is_configured = true;
        program.is_captured = program.plan->settings.output.kind == config::OutputKind::captured;
        program.listen.clear();
        for (SocketRequest const& socket : program.plan->sockets)
            program.listen.push_back(sockets_.fd(socket.address));
        apply_limits(program);
    }
    has_tree_killers_ = has_tree_killers_ || has_names;
    active_ = std::move(accepted);
    list_programs(ids);
    dispatch(event::ConfigurationAccepted{specs});
    sockets_.keep_only(all_sockets(*active_));
    set_schedules(ids);
    settle_soon();
    return {};
}

/// What runs gets the new limits too; what cannot be set is tried again, and told, at its next start.
void Shell::apply_limits(Runtime& program) {
    for (Runtime::Instance& instance : program.instances) {
        if (instance.cgroup)
            (void)instance.cgroup->set_limits(program.plan->settings.cgroup.value_or(config::Cgroup{}));
    }
}

void Shell::list_programs(std::vector<ProgramId> const& ids) {
    shown_ = ids;
    for (std::size_t at = 0; at < programs_.size(); ++at) {
        ProgramId const id{static_cast<std::uint32_t>(at)};
        if (programs_[at].plan && !programs_[at].is_configured && !supervisor_.is_idle(id)) shown_.push_back(id);
    }
}

void Shell::set_schedules(std::vector<ProgramId> const& ids) {
    for (std::size_t at = 0; schedules_ && at < programs_.size(); ++at) {
        bool const has_one = programs_[at].is_configured && programs_[at].plan->settings.schedule;
        if (!has_one) schedules_->remove(ProgramId{static_cast<std::uint32_t>(at)});
    }
    if (!active_->configuration.run_servers) {
        schedules_.reset();
        return;
    }
    for (ProgramId const id : ids) {
        auto const& schedule = programs_[static_cast<std::size_t>(id)].plan->settings.schedule;
        if (!schedule) continue;
        if (!schedules_) {
            schedules_ = std::make_unique<Schedules>(*loop_, [this](ProgramId due) {
                dispatch(event::ScheduleDue{due});
                if (!is_dispatching_) end_round();
            });
        }
        Result<> const set = schedules_->set(id, *schedule, steady_clock::now());
        if (set) continue;
        log_.write(LogLevel::error, "schedule-failed", set.error().text,
                   {{"error", std::string_view(set.error().text)}});
    }
}

/// What named programs may speak through: their output and their readiness.
void Shell::open_channels() {
    // While a configuration is tried its programs are not in the table yet.
    auto const program_of = [this](std::uint32_t program) {
        return program < programs_.size() ? std::string_view(programs_[program].name) : std::string_view();
    };
    output_ = std::make_unique<OutputCapture>(
        *loop_, console_,
        OutputCapture::Callbacks{
            .dropped =
                [this, program_of](std::uint32_t program, std::uint64_t lines) {
                    log_.write(LogLevel::warning, "output-dropped",
                               std::to_string(lines) + " lines of " + std::string(program_of(program)) +
                                   " dropped: the reader was too slow",
                               {{"program", program_of(program)}, {"lines", static_cast<std::int64_t>(lines)}});
                },
            .failed =
                [this, program_of](std::uint32_t program, Error const& error) {
                    log_.write(LogLevel::error, "output-failed",
                               "output of " + std::string(program_of(program)) + ": " + error.text,
                               {{"program", program_of(program)}, {"error", std::string_view(error.text)}});
                }});
    output_->follow([this](std::uint32_t program, LogChunk const& chunk) { tell_output(program, chunk); });
    notify_ = std::make_unique<NotifyReceiver>(
        *loop_, notify_directory(),
        NotifyReceiver::Callbacks{
            .is_allowed = [this](NotifyKey key, NotifySender sender) { return may_notify(key, sender); },
            .notified = [this](NotifyKey key, Notification const& what) { notified(key, what); },
            .pipe_ready =
                [this](NotifyKey key, bool is_ready) {
                    if (!is_ready) return;
                    dispatch(event::Ready{{ProgramId{key.program}, ProcessNumber{key.process}}});
                    if (!is_dispatching_) end_round();
                }});
}

/// Beside the control socket: it is ours, and where there is no such place names in the file system are not needed.
std::string Shell::notify_directory() const {
    std::size_t const slash = options_.control_socket.rfind('/');
    return slash == std::string::npos || slash == 0 ? "" : options_.control_socket.substr(0, slash) + "/notify";
}

/// Lets go of what belongs to programs and numbers that are no more.
void Shell::tidy() {
    for (std::size_t at = 0; at < programs_.size(); ++at) {
        Runtime& program = programs_[at];
        ProgramId const id{static_cast<std::uint32_t>(at)};
        if (!program.plan || program.name.empty()) continue;
        std::uint32_t const count = program.is_configured ? program.plan->policy.count : 0;
        for (std::uint32_t number = count + 1; number <= supervisor_.size(id); ++number) {
            // While it lives, its end will ask for the next time.
            if (supervisor_.view({id, ProcessNumber{number}}).pid) continue;
            notify_->close({static_cast<std::uint32_t>(at), number});
            if (program.is_captured) output_->remove({static_cast<std::uint32_t>(at), number});
            if (number <= program.instances.size()) program.instances[number - 1] = {};
        }
        if (program.is_configured || !supervisor_.is_idle(id)) continue;
        output_->forget(static_cast<std::uint32_t>(at));
        program = Runtime{};
    }
    if (active_) list_programs(configured_ids());
}

std::vector<ProgramId> Shell::configured_ids() const {
    std::vector<ProgramId> ids;
    for (auto const& wanted : active_->programs) {
        auto const at = std::ranges::find(programs_, wanted, &Runtime::plan);
        if (at != programs_.end()) ids.push_back(ProgramId{static_cast<std::uint32_t>(at - programs_.begin())});
    }
    return ids;
}

void Shell::settle_soon() { settle_at_ = steady_clock::now() + time_to_settle; }

void Shell::tell_active() {
    std::string_view const path = options_.configuration_path;
    if (!active_->warnings.empty()) {
        log_.write(LogLevel::warning, "configuration-warning",
                   "the configuration " + std::string(path) + " has oddities:",
                   {{"path", path}, {"warnings", std::span<std::string const>(active_->warnings)}});
    }
    std::uint32_t const count = active_->process_count();
    if (active_->configuration.has_programs) {
        std::vector<std::string> names;
        for (auto const& program : active_->programs)
            names.push_back(program->settings.name);
        log_.write(LogLevel::info, "configuration-loaded",
                   "configuration " + std::string(path) + " loaded: " + std::to_string(names.size()) +
                       (names.size() == 1 ? " program, " : " programs, ") + count_text(count),
                   {{"version", std::string_view(active_->configuration.version)},
                    {"programs", std::span<std::string const>(names)},
                    {"processes", std::int64_t{count}},
                    {"path", path}});
        return;
    }
    std::string_view const binary = active_->programs.front()->start->program();
    log_.write(LogLevel::info, "configuration-loaded",
               "configuration " + std::string(path) + " loaded: version " + active_->configuration.version + ", " +
                   count_text(count) + " of " + std::string(binary),
               {{"version", std::string_view(active_->configuration.version)},
                {"processes", std::int64_t{count}},
                {"binary", binary},
                {"path", path}});
}

void Shell::reject(Rejected rejected) {
    missing_binaries_ = std::move(rejected.missing_binaries);
    if (rejected.errors == rejection_) return;
    rejection_ = std::move(rejected.errors);
    std::string_view const path = options_.configuration_path;
    std::string const what = active_ ? "; the running one stays:" : ":";
    log_.write(LogLevel::error, "configuration-rejected", "configuration " + std::string(path) + " rejected" + what,
               {{"path", path}, {"errors", std::span<std::string const>(rejection_)}});
}

/// Errors: of inotify, whose instances and watches a node may have used up.
Result<> Shell::watch_files() {
    if (!path_watcher_) {
        PathWatcher watcher = TRY(PathWatcher::create());
        file_watch_ = TRY(loop_->on_readable(watcher.fd(), [this] { files_changed(); }));
        path_watcher_ = std::move(watcher);
    }
    std::vector<std::string> paths = missing_binaries_;
    paths.push_back(options_.configuration_path);
    if (!options_.source.environment_file.empty()) paths.push_back(options_.source.environment_file);
    return path_watcher_->watch(paths);
}

/// Watches first and reads then, so that nothing that changes in between is missed. A rejection adds paths to watch,
/// and what they wait for may have come before they were watched: hence the second look.
void Shell::look_again() {
    reload_at_.reset();
    last_reload_ = steady_clock::now();
    if (supervisor_.phase() != SupervisorPhase::running) return;
    Result<> watched = watch_files();
    if (!load() && !missing_binaries_.empty()) {
        watched = watch_files();
        (void)load();
    }
    if (!watched) {
        // The one thing that is ever polled: a configuration that nobody can watch.
        reload_at_ = last_reload_ + between_looks;
        LogLevel const level = std::exchange(is_blind_, true) ? LogLevel::debug : LogLevel::warning;
        log_.write(level, "watch-failed",
                   watched.error().text + "; looking every " + config::format_duration(between_looks) + " instead",
                   {{"error", std::string_view(watched.error().text)}});
    } else {
        is_blind_ = false;
    }
    settle_soon();
}

void Shell::ask_for_reload() {
    TimePoint const now = steady_clock::now();
    if (!reload_at_) burst_began_ = now;
    TimePoint const when = std::min(now + quiet_time, burst_began_ + longest_burst);
    reload_at_ = std::max(when, last_reload_ + between_reloads);
}

void Shell::files_changed() {
    if (path_watcher_->take_events()) ask_for_reload();
    end_round();
}

ProgramName Shell::name_of(ProgramId id) const {
    Runtime const& program = programs_[static_cast<std::size_t>(id)];
    bool const has_numbers = !program.plan || program.plan->policy.count > 1 || supervisor_.size(id) > 1;
    return {program.name, has_numbers, program.plan ? program.plan->start.get() : nullptr};
}

}  // namespace triton::launcher
