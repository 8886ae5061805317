#include <algorithm>
#include <cerrno>

#include <sys/resource.h>

#include "launcher/shell/shell.h"
#include "lib/base/duration.h"
#include "lib/base/read_file.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

// A burst of changes is one reload: it waits until nothing has happened for a moment, but not for ever.
constexpr Duration quiet_time = milliseconds(2);
constexpr Duration longest_burst = milliseconds(20);
constexpr Duration between_reloads = milliseconds(50);
constexpr Duration between_looks = std::chrono::seconds(10);
constexpr Duration time_for_labels = std::chrono::seconds(15);
// By then the children of a start have left our memory.
constexpr Duration time_to_settle = milliseconds(250);

std::int64_t microseconds_since_1970() {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::vector<SocketRequest> all_sockets(std::vector<std::shared_ptr<ProgramPlan const>> const& plans) {
    std::vector<SocketRequest> all;
    for (auto const& plan : plans)
        all.insert(all.end(), plan->sockets.begin(), plan->sockets.end());
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

// For all that is open beside what programs hold: control socket and clients, log, inotify, and the files of a moment.
constexpr std::uint64_t spare_descriptors = 64;

/// What we hold for a program from the first start of all its processes on.
std::uint64_t descriptors_of(ProgramPlan const& plan) {
    config::Program const& program = plan.settings;
    bool const is_captured = program.output.kind == config::OutputKind::captured;
    bool const has_one_pipe = program.output.file && program.output.format == config::OutputFormat::raw;
    bool const is_notified = plan.policy.readiness == Readiness::notified;
    std::uint64_t const each = (is_captured ? (has_one_pipe ? 2U : 4U) : 0U) + (is_notified ? 1U : 0U);
    return each * plan.policy.count + (is_captured && program.output.file ? 1U : 0U) + plan.sockets.size() +
           (program.landlock ? 1U : 0U);
}

/// A launcher that gave its last descriptor to a program could neither be asked nor given another configuration.
Result<> check_descriptors(std::vector<std::shared_ptr<ProgramPlan const>> const& plans) {
    std::uint64_t needed = 0;
    for (auto const& plan : plans)
        needed += descriptors_of(*plan);
    rlimit limit{};
    if (needed == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || needed + spare_descriptors <= limit.rlim_max)
        return {};
    return fail("programs: their pipes and sockets need " + std::to_string(needed) +
                " open files, and the launcher itself " + std::to_string(spare_descriptors) +
                ", but its hard limit (RLIMIT_NOFILE) is " + std::to_string(limit.rlim_max));
}

}  // namespace

Result<std::string> Shell::read_configuration() const {
    if (!options_.built_in.configuration.empty()) return options_.built_in.configuration;
    return read_file(options_.configuration_path, json::Limits{}.document_bytes);
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
        forget_rejection();
        if (active_->text != loaded->text) {
            // To us it is the same. Whoever compares documents wants to see this one.
            active_->text = std::move(loaded->text);
            remember_acceptance();
        }
        log_.write(log::LogLevel::debug, "configuration-unchanged",
                   options_.configuration_path + " says what it said before",
                   {{"path", std::string_view(options_.configuration_path)}});
        return true;
    }
    std::size_t const document = std::hash<std::string>{}(loaded->text);
    try {
        if (Result<> activated = activate(std::move(*loaded)); !activated) {
            reject({.errors = {activated.error().text()}, .document = document});
            return false;
        }
    } catch (std::bad_alloc const&) {
        reject({.errors = {"not enough memory for its processes"}, .document = document});
        return false;
    }
    forget_rejection();
    is_reloaded_ = true;
    tell_active();
    return true;
}

void Shell::forget_rejection() {
    missing_binaries_.clear();
    if (rejection_.empty()) return;
    rejection_.clear();
    ++configuration_sequence_;
    if (control_) control_->configuration_changed();
}

/// Programs keep their id as long as they keep their name; others get one that is free.
std::vector<ProgramId> Shell::choose_ids(Plans const& plans) const {
    std::vector<ProgramId> ids;
    std::vector<bool> is_taken(programs_.size(), false);
    for (std::size_t at = 0; at < programs_.size(); ++at)
        is_taken[at] = programs_[at].plan && !supervisor_.is_idle(ProgramId{static_cast<std::uint32_t>(at)});
    for (auto const& plan : plans) {
        auto const known = std::ranges::find_if(
            programs_, [&](Runtime const& runtime) { return runtime.plan && runtime.name == plan->settings.name; });
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
Result<> Shell::check_cgroups(Plans const& plans) const {
    for (auto const& plan : plans) {
        if (!plan->settings.cgroup) continue;
        std::string const place = "programs." + plan->settings.name + ".cgroup: ";
        if (!cgroups_) return fail(place + cgroup_error_);
        if (Result<> const possible = cgroups_->check(*plan->settings.cgroup); !possible)
            return fail(place + possible.error().text());
    }
    return {};
}

/// Within one configuration alone: a file may go from one program to another.
Result<> Shell::check_files(Plans const& plans) {
    for (auto plan = plans.begin(); plan != plans.end(); ++plan) {
        auto const& file = (*plan)->settings.output.file;
        if (!file) continue;
        auto const other = std::ranges::find_if(
            plans.begin(), plan, [&](auto const& before) { return before->settings.output.file == file; });
        if (other == plan) continue;
        return fail("programs." + (*plan)->settings.name + ".output: cannot log to " + *file + ": program " +
                    (*other)->settings.name + " does already");
    }
    return {};
}

/// Everything that may be refused. What was opened for nothing is closed again, and what was changed is put back.
Result<> Shell::open_what_is_shared(Plans const& plans, std::vector<ProgramId> const& ids) {
    TRY(check_cgroups(plans));
    TRY(check_files(plans));
    TRY(sockets_.open(all_sockets(plans)));
    for (std::size_t i = 0; i < ids.size(); ++i) {
        config::Program const& program = plans[i]->settings;
        if (program.output.kind != config::OutputKind::captured) continue;
        Result<> const opened = output_->configure(static_cast<std::uint32_t>(ids[i]), program.name, program.output);
        if (opened) continue;
        for (std::size_t before = 0; before < i; ++before)
            restore_output(ids[before]);
        sockets_.keep_only(all_sockets(plans_));
        return fail("programs." + program.name + ".output: " + opened.error().text());
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
    auto tree = process::CgroupTree::create();
    if (tree) {
        cgroups_ = std::move(*tree);
        return;
    }
    cgroup_error_ = tree.error().text();
    log_.write(log::LogLevel::debug, "cgroup-unavailable", "no control groups for processes: " + cgroup_error_,
               {{"error", std::string_view(cgroup_error_)}});
}

/// The programs of a configuration (null: there is none yet), and those of our own that it needs.
Shell::Plans Shell::plans_for(Accepted const* accepted) const {
    Plans plans;
    if (accepted) plans = accepted->programs;
    bool const needs_agent = options_.agent.is_wanted || (accepted && accepted->needs_agent());
    if (agent_plan_ && needs_agent) plans.push_back(agent_plan_);
    return plans;
}

Shell::Specs Shell::specs_for(Plans const& plans, std::vector<ProgramId> const& ids) const {
    auto specs = std::make_shared<std::vector<ProgramSpec>>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
        ProgramPlan const& plan = *plans[i];
        ProgramSpec spec{ids[i], plan.policy, true};
        if (pod_.is_isolated && !plan.policy.auxiliary) spec.policy.count = 0;
        auto const ids_of = [&](std::vector<std::string> const& names, std::vector<ProgramId>& to) {
            for (std::string const& name : names) {
                auto const named = std::ranges::find(plans, name, [](auto const& one) { return one->settings.name; });
                to.push_back(ids[static_cast<std::size_t>(named - plans.begin())]);
            }
        };
        ids_of(plan.settings.after, spec.policy.after);
        ids_of(plan.settings.requires_, spec.policy.requires_);
        auto const at = static_cast<std::size_t>(ids[i]);
        if (at < programs_.size() && programs_[at].plan && programs_[at].is_configured)
            spec.has_changed = !plan.starts_like(*programs_[at].plan);
        specs->push_back(std::move(spec));
    }
    return specs;
}

/// So that a restart allocates nothing.
void Shell::make_room_for(std::vector<ProgramSpec> const& specs) {
    std::size_t count = 0;
    for (ProgramSpec const& spec : specs)
        count += spec.policy.count;
    supervisor_.reserve(specs);
    std::size_t const most = supervisor_.most_actions(specs);
    actions_.reserve(most);
    reports_.reserve(most);
    events_.reserve(events_.size() + count + 16);
    spare_nodes_.reserve(processes_.size() + count);
    processes_.reserve(processes_.size() + count);
}

/// All memory that so many processes may need is taken before anything changes, so that it fails whole or not at all.
/// nullopt: the one that is active, if there is one, and what is our own, again.
Result<> Shell::activate(std::optional<Accepted> accepted) {
    bool const has_names = accepted && accepted->configuration.has_programs;
    if (accepted && accepted->needs_agent()) TRY(prepare_agent());
    if (has_names) {
        raise_descriptor_limit();
        open_cgroups();
    }
    std::optional<Accepted> const& wanted = accepted ? accepted : active_;
    Plans plans = plans_for(wanted ? &*wanted : nullptr);
    TRY(check_descriptors(plans));
    if (!output_ && (has_names || agent_plan_)) open_channels();
    std::vector<ProgramId> const ids = choose_ids(plans);
    TRY(open_what_is_shared(plans, ids));

    Specs const specs = specs_for(plans, ids);
    make_room_for(*specs);
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
    for (std::size_t i = 0; i < ids.size(); ++i)
        take(programs_[static_cast<std::size_t>(ids[i])], plans[i]);
    has_tree_killers_ = has_tree_killers_ || has_names;
    if (accepted) {
        active_ = std::move(accepted);
        remember_acceptance();
    }
    plans_ = std::move(plans);
    list_programs(ids);
    dispatch(event::ConfigurationAccepted{specs});
    sockets_.keep_only(all_sockets(plans_));
    set_schedules(ids);
    settle_soon();
    return {};
}

void Shell::take(Runtime& program, std::shared_ptr<ProgramPlan const> plan) {
    program.plan = std::move(plan);
    program.name = program.plan->settings.name;
    program.is_configured = true;
    program.is_captured = program.plan->settings.output.kind == config::OutputKind::captured;
    program.listen.clear();
    for (SocketRequest const& socket : program.plan->sockets)
        program.listen.push_back(sockets_.fd(socket.address));
    if (is_agent(*program.plan)) hand_over_to_agent(program);
    apply_limits(program);
    remember_version(program);
}

/// Processes that go on keep what they were started with; the next ones get this.
void Shell::remember_version(Runtime& program) {
    std::string const version = program.plan->settings.version.value_or("");
    if (program.versions.empty() && version.empty()) return;
    if (program.versions.empty() || program.versions.back() != version) program.versions.push_back(version);
    program.runs.resize(std::max<std::size_t>(program.runs.size(), program.plan->policy.count));
    if (program.versions.size() <= most_versions) return;
    // Nobody restarts, and the document changes for ever: the oldest is as good as the one after it.
    program.versions.erase(program.versions.begin());
    for (std::uint8_t& run : program.runs)
        run = run == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(run - 1);
}

void Shell::remember_acceptance() {
    ++configuration_sequence_;
    ++configuration_changes_;
    configuration_time_ = microseconds_since_1970();
    if (control_) control_->configuration_changed();
}

/// What runs gets the new limits too; what cannot be set is tried again, and told, at its next start.
void Shell::apply_limits(Runtime& program) {
    for (Runtime::Instance& instance : program.instances) {
        if (instance.cgroup)
            (void)instance.cgroup->set_limits(program.plan->settings.cgroup.value_or(process::CgroupLimits{}));
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
    if (!active_ || !active_->configuration.run_servers || pod_.is_isolated) {
        schedules_.reset();
        return arm_schedules();
    }
    for (ProgramId const id : ids) {
        auto const& schedule = programs_[static_cast<std::size_t>(id)].plan->settings.schedule;
        if (!schedule) continue;
        if (!schedules_) {
            schedules_ =
                std::make_unique<Schedules>(loop_, [this](ProgramId due) { dispatch(event::ScheduleDue{due}); });
        }
        Result<> const set = schedules_->set(id, *schedule, steady_clock::now());
        if (set) continue;
        log_.write(log::LogLevel::error, "schedule-failed", set.error().text(),
                   {{"error", std::string_view(set.error().text())}});
    }
    arm_schedules();
}

/// What named programs may speak through: their output and their readiness.
void Shell::open_channels() {
    // While a configuration is tried its programs are not in the table yet.
    auto const program_of = [this](std::uint32_t program) {
        return program < programs_.size() ? std::string_view(programs_[program].name) : std::string_view();
    };
    output_ = std::make_unique<OutputCapture>(
        loop_, console_,
        OutputCapture::Callbacks{
            .dropped =
                [this, program_of](std::uint32_t program, std::uint64_t lines) {
                    log_.write(log::LogLevel::warning, "output-dropped",
                               std::to_string(lines) + " lines of " + std::string(program_of(program)) +
                                   " dropped: the reader was too slow",
                               {{"program", program_of(program)}, {"lines", static_cast<std::int64_t>(lines)}});
                },
            .failed =
                [this, program_of](std::uint32_t program, Error const& error) {
                    log_.write(log::LogLevel::error, "output-failed",
                               "output of " + std::string(program_of(program)) + ": " + error.text(),
                               {{"program", program_of(program)}, {"error", std::string_view(error.text())}});
                }});
    output_->follow([this](std::uint32_t program, LogChunk const& chunk) { tell_output(program, chunk); });
    notify_ = std::make_unique<NotifyReceiver>(
        loop_, notify_directory(),
        NotifyReceiver::Callbacks{
            .is_allowed = [this](NotifyKey key, NotifySender sender) { return may_notify(key, sender); },
            .notified = [this](NotifyKey key, Notification const& what) { notified(key, what); },
            .pipe_ready =
                [this](NotifyKey key, bool is_ready) {
                    if (!is_ready) return;
                    dispatch(event::Ready{{ProgramId{key.program}, ProcessNumber{key.process}}});
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
    list_programs(configured_ids());
}

std::vector<ProgramId> Shell::configured_ids() const {
    std::vector<ProgramId> ids;
    for (auto const& wanted : plans_) {
        auto const at = std::ranges::find(programs_, wanted, &Runtime::plan);
        if (at != programs_.end()) ids.push_back(ProgramId{static_cast<std::uint32_t>(at - programs_.begin())});
    }
    return ids;
}

void Shell::settle_soon() { settle_timer_.arm(steady_clock::now() + time_to_settle); }

void Shell::tell_active() {
    if (!options_.built_in.configuration.empty()) return;  // nobody has written it
    std::string_view const path = options_.configuration_path;
    if (!active_->warnings.empty()) {
        log_.write(log::LogLevel::warning, "configuration-warning",
                   "the configuration " + std::string(path) + " has oddities:",
                   {{"path", path}, {"warnings", std::span<std::string const>(active_->warnings)}});
    }
    std::uint32_t const count = active_->process_count();
    if (active_->configuration.has_programs) {
        std::vector<std::string> names;
        for (auto const& program : active_->programs)
            names.push_back(program->settings.name);
        log_.write(log::LogLevel::info, "configuration-loaded",
                   "configuration " + std::string(path) + " loaded: " + std::to_string(names.size()) +
                       (names.size() == 1 ? " program, " : " programs, ") + count_text(count),
                   {{"version", std::string_view(active_->configuration.version)},
                    {"programs", std::span<std::string const>(names)},
                    {"processes", std::int64_t{count}},
                    {"path", path}});
        return;
    }
    std::string_view const binary = active_->programs.front()->start->program();
    log_.write(log::LogLevel::info, "configuration-loaded",
               "configuration " + std::string(path) + " loaded: version " + active_->configuration.version + ", " +
                   count_text(count) + " of " + std::string(binary),
               {{"version", std::string_view(active_->configuration.version)},
                {"processes", std::int64_t{count}},
                {"binary", binary},
                {"path", path}});
}

/// At a start the labels of the node come later than we do. That they are missing is no fault of the configuration.
bool Shell::may_labels_come(Rejected const& rejected) const {
    return rejected.misses_node_label && options_.agent.watches_node && !is_pod_known_ &&
           steady_clock::now() < began_ + time_for_labels;
}

void Shell::wait_for_labels() {
    reload_timer_.arm(began_ + time_for_labels);
    if (std::exchange(waits_for_labels_, true)) return;
    log_.write(log::LogLevel::info, "waiting-for-labels",
               "waiting for the labels of the node, which " + options_.configuration_path + " needs",
               {{"path", std::string_view(options_.configuration_path)}});
}

void Shell::reject(Rejected rejected) {
    missing_binaries_ = std::move(rejected.missing_binaries);
    if (may_labels_come(rejected)) return wait_for_labels();
    if (rejected.errors == rejection_ && rejected.document == rejected_text_) return;
    rejection_ = std::move(rejected.errors);
    rejected_text_ = rejected.document;
    rejection_time_ = microseconds_since_1970();
    ++configuration_sequence_;
    if (control_) control_->configuration_changed();
    std::string_view const path = options_.configuration_path;
    std::string const what = active_ ? "; the running one stays:" : ":";
    std::vector<log::LogField> fields{{"path", path}, {"errors", std::span<std::string const>(rejection_)}};
    // A key that nobody knows may be why another one is missing.
    if (!rejected.warnings.empty()) fields.push_back({"warnings", std::span<std::string const>(rejected.warnings)});
    log_.write(log::LogLevel::error, "configuration-rejected",
               "configuration " + std::string(path) + " rejected" + what, fields);
}

/// Errors: of inotify, whose instances and watches a node may have used up.
Result<> Shell::watch_files() {
    if (!path_watcher_) {
        PathWatcher watcher = TRY(PathWatcher::create());
        file_watch_ = TRY(loop_.on_readable(watcher.fd(), [this] { files_changed(); }));
        path_watcher_ = std::move(watcher);
    }
    std::vector<std::string> paths = missing_binaries_;
    if (options_.built_in.configuration.empty()) paths.push_back(options_.configuration_path);
    if (!options_.source.environment_file.empty()) paths.push_back(options_.source.environment_file);
    return path_watcher_->watch(paths);
}

/// Watches first and reads then, so that nothing that changes in between is missed. A rejection adds paths to watch,
/// and what they wait for may have come before they were watched: hence the second look.
void Shell::look_again() {
    reload_timer_.disarm();
    last_reload_ = steady_clock::now();
    if (supervisor_.phase() != SupervisorPhase::running) return;
    Result<> watched = watch_files();
    if (!load() && !missing_binaries_.empty()) {
        watched = watch_files();
        (void)load();
    }
    bool const has_waited_in_vain = waits_for_labels_ && !active_ && !rejection_.empty();
    if (has_waited_in_vain && options_.exit_on_bad_configuration) dispatch(event::StopAsked{.exit_code = 1});
    if (!watched) {
        // The one thing that is ever polled: a configuration that nobody can watch.
        reload_timer_.arm(last_reload_ + between_looks);
        log::LogLevel const level = std::exchange(is_blind_, true) ? log::LogLevel::debug : log::LogLevel::warning;
        log_.write(level, "watch-failed",
                   watched.error().text() + "; looking every " + format_duration(between_looks) + " instead",
                   {{"error", std::string_view(watched.error().text())}});
    } else {
        is_blind_ = false;
    }
    settle_soon();
}

void Shell::ask_for_reload() {
    TimePoint const now = steady_clock::now();
    if (!reload_timer_.is_armed()) burst_began_ = now;
    TimePoint const when = std::min(now + quiet_time, burst_began_ + longest_burst);
    reload_timer_.arm(std::max(when, last_reload_ + between_reloads));
}

void Shell::files_changed() {
    if (path_watcher_->take_events()) ask_for_reload();
}

ProgramName Shell::name_of(ProgramId id) const {
    Runtime const& program = programs_[static_cast<std::size_t>(id)];
    bool const has_numbers = !program.plan || program.plan->policy.count > 1 || supervisor_.size(id) > 1;
    return {program.name, has_numbers, program.plan ? program.plan->start.get() : nullptr};
}

}  // namespace triton::launcher
