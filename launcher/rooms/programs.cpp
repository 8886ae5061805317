#include "launcher/rooms/programs.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <sys/resource.h>

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

// By then the children of a start have left our memory.
constexpr Duration time_to_settle = milliseconds(250);
// What else is open: control socket and clients, log, inotify, and short-lived files.
constexpr std::uint64_t spare_descriptors = 64;

/// Raises our limit as far as the hard limit allows: pipes, groups and sockets of many processes are many descriptors.
/// Nobody here uses select(2), and the processes that we start get their own limit back.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

/// The descriptors that we hold for a program from the first start of all its processes on.
std::uint64_t descriptors_of(ProgramPlan const& plan) {
    config::Program const& program = plan.settings;
    bool const is_captured = plan.needs.output == StreamTarget::captured;
    config::Output const& output = program.output;
    bool const is_joined = output.error.empty() && output.has_file() && output.format == config::OutputFormat::raw;
    bool const has_one_pipe = is_joined || plan.needs.error != StreamTarget::captured;
    auto const files_of = [&](config::Output const& one) {
        return one.is_numbered() ? std::uint64_t{plan.policy.count} : one.has_file() ? 1U : 0U;
    };
    bool const has_syslog = output.syslog || (!output.error.empty() && output.error.front().syslog);
    std::uint64_t const error_files = output.error.empty() ? 0 : files_of(output.error.front());
    bool const is_notified = plan.policy.readiness == Readiness::notified;
    std::uint64_t const each = (is_captured ? (has_one_pipe ? 2U : 4U) : 0U) + (is_notified ? 1U : 0U);
    std::uint64_t const terminal = plan.needs.has_terminal ? 2 : 0;
    return (each + terminal) * plan.policy.count + (is_captured ? files_of(output) + error_files : 0) +
           (has_syslog ? 1U : 0U) + plan.sockets.size() + (program.landlock ? 1U : 0U) + (plan.is_reader ? 2U : 0U);
}

void add_missing(RareList<ProgramId>& to, std::vector<ProgramId> const& ids) {
    for (ProgramId const id : ids)
        if (std::ranges::find(to, id) == to.end()) to.push_back(id);
}

/// Where the programs are that others name: the check of the document has found that they are there.
class PlanIndex {
public:
    explicit PlanIndex(Plans const& plans) : plans_(plans) {}

    std::size_t operator[](std::string const& name) {
        if (by_name_.empty()) {  // most documents name none
            for (std::size_t i = 0; i < plans_.size(); ++i)
                by_name_.emplace(plans_[i]->settings->name, i);
        }
        return by_name_.at(name);
    }

private:
    Plans const& plans_;
    std::unordered_map<std::string_view, std::size_t> by_name_;
};

/// Adds what a program says about others that are to wait for it.
void add_before(std::vector<ProgramSpec>& specs, Plans const& plans, std::vector<ProgramId> const& ids,
                PlanIndex& index) {
    for (std::size_t i = 0; i < plans.size(); ++i)
        for (std::string const& name : plans[i]->settings->before)
            add_missing(specs[index[name]].policy.after, {ids[i]});
}

/// A launcher that gave its last descriptor to a program could neither be asked nor given another configuration.
Result<> check_descriptors(Plans const& plans) {
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

std::optional<process::ResourceLimit> own_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
    return process::ResourceLimit{RLIMIT_NOFILE, limit.rlim_cur, limit.rlim_max};
}

Programs::Programs(EventLoop& loop, log::Log& log, ProgramTable& table, Supervisor const& supervisor,
                   Children& children, Channels& channels, AgentHost& agent, EventSink& events, Owner& owner)
    : loop_(loop),
      log_(log),
      table_(table),
      supervisor_(supervisor),
      channels_(channels),
      agent_(agent),
      events_(events),
      owner_(owner),
      schedule_timer_(loop,
                      [this] {
                          if (schedules_) schedules_->time_passed(steady_clock::now());
                          arm();
                      }),
      settle_timer_(loop,
                    [this] {
                        tidy();
                        owner_.settled();
                    }),
      files_(loop, log, table, children, events) {}

/// The programs of a configuration (null: there is none yet), and those that we need ourselves.
Plans Programs::plans_for(Accepted const* accepted) const {
    Plans plans;
    if (accepted) plans = accepted->programs;
    if (agent_.plan() && agent_.is_needed(accepted)) plans.push_back(agent_.plan());
    return plans;
}

Programs::Specs Programs::specs_for(Plans const& plans, std::vector<ProgramId> const& ids) const {
    auto specs = std::make_shared<std::vector<ProgramSpec>>();
    specs->reserve(ids.size());
    PlanIndex index(plans);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        ProgramPlan const& plan = *plans[i];
        ProgramSpec spec{ids[i], plan.policy, true};
        if (agent_.pod().is_isolated && !plan.policy.auxiliary) spec.policy.count = 0;
        auto const ids_of = [&](std::vector<std::string> const& names, RareList<ProgramId>& to) {
            for (std::string const& name : names)
                to.push_back(ids[index[name]]);
        };
        ids_of(plan.settings->after, spec.policy.after);
        ids_of(plan.settings->requires_, spec.policy.requires_);
        ids_of(plan.settings->binds_to, spec.policy.binds_to);
        add_missing(spec.policy.requires_, spec.policy.binds_to);
        if (plan.needs.output == StreamTarget::program) {
            RareList<ProgramId> reader;
            ids_of({plan.needs.output_to}, reader);
            add_missing(spec.policy.after, reader);
        }
        auto const at = static_cast<std::size_t>(ids[i]);
        if (at < table_.size() && table_[ids[i]].plan && table_[ids[i]].name == plan.settings->name)
            spec.has_changed = !plan.starts_like(*table_[ids[i]].plan);
        specs->push_back(std::move(spec));
    }
    add_before(*specs, plans, ids, index);
    return specs;
}

Result<> Programs::activate(Accepted const* wanted, bool is_new, std::function<void()> const& taken) {
    tidy();  // frees the ids of programs that are gone
    bool const has_names = is_new && wanted->configuration.has_programs;
    bool const runs_servers = wanted && wanted->configuration.run_servers;
    if (is_new && wanted->needs_agent()) TRY(agent_.prepare());
    if (has_names) {
        raise_descriptor_limit();
        channels_.open_groups();
    }
    Plans plans = plans_for(wanted);
    TRY(check_descriptors(plans));
    if (has_names || agent_.plan()) channels_.open();
    std::vector<ProgramId> const ids = table_.choose_ids(plans);
    Specs const specs = specs_for(plans, ids);
    owner_.make_room(*specs);
    std::vector<ProgramTable::Entry> larger = table_.make_room(ids);
    Plans current = plans_;
    // It may have been prepared a moment ago, for this configuration.
    if (agent_.plan() && std::ranges::find(current, agent_.plan()) == current.end()) current.push_back(agent_.plan());
    // The same programs have all that they need, and nothing that has been taken from them meanwhile, as the name of a
    // socket, may keep an isolation from coming.
    if (is_new || plans != plans_) TRY(channels_.prepare(plans, ids, current));

    // From here on nothing fails.
    table_.replace(std::move(larger));
    for (ProgramTable::Entry& program : table_.entries())
        program.is_configured = false;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (table_[ids[i]].plan && table_[ids[i]].name != plans[i]->settings->name) owner_.given_away(ids[i]);
        take(table_[ids[i]], plans[i]);
    }
    if (has_names) owner_.expect_leftovers();
    if (taken) taken();
    plans_ = std::move(plans);
    table_.show(ids);
    files_.set(runs_servers ? ids : std::vector<ProgramId>());  // before programs start that may change them
    events_.dispatch(event::ConfigurationAccepted{specs});
    channels_.close_sockets_but(plans_);
    set_schedules(ids, runs_servers);
    settle_soon();
    return {};
}

void Programs::take(ProgramTable::Entry& program, std::shared_ptr<ProgramPlan const> plan) {
    program.plan = std::move(plan);
    program.name = program.plan->settings->name;
    program.is_configured = true;
    set_listening(program);
    channels_.apply_limits(program);
    program.remember_version();
}

void Programs::set_listening(ProgramTable::Entry& program) {
    program.listen = channels_.listening(*program.plan);
    if (program.plan == agent_.plan()) agent_.add_descriptors(program.listen);
}

// Schedules.

/// While nothing is to run, the schedules that there are keep their time, and what is due is dropped, as of a program
/// that is held. New ones begin afterwards.
void Programs::set_schedules(std::vector<ProgramId> const& ids, bool runs_servers) {
    for (std::size_t at = 0; schedules_ && at < table_.size(); ++at) {
        ProgramId const id{static_cast<std::uint32_t>(at)};
        if (!is_scheduled(id)) schedules_->remove(id);
    }
    runs_schedules_ = runs_servers && !agent_.pod().is_isolated;
    for (ProgramId const id : ids)
        if (runs_schedules_ && is_scheduled(id)) set_schedule(id);
    arm();
}

void Programs::set_schedule(ProgramId id) {
    if (!schedules_) {
        schedules_ = std::make_unique<Schedules>(loop_, [this](ProgramId due) {
            if (runs_schedules_) events_.dispatch(event::ScheduleDue{due});
        });
    }
    ProgramPlan const& plan = *table_[id].plan;
    Result<> const set = schedules_->set(id, *plan.settings->schedule, plan.zone, steady_clock::now());
    if (set) return;
    log_.write(log::LogLevel::error, "schedule-failed", set.error().text(),
               {{"error", std::string_view(set.error().text())}});
}

std::optional<Duration> Programs::next_run_in(ProgramId id) const {
    return runs_schedules_ && schedules_ ? schedules_->next_run_in(id, steady_clock::now()) : std::nullopt;
}

// What is left behind.

void Programs::settle_soon() { settle_timer_.arm(steady_clock::now() + time_to_settle); }

/// Drops what belongs to programs and numbers that no longer exist.
void Programs::tidy() {
    for (std::size_t at = 0; at < table_.size(); ++at)
        tidy(ProgramId{static_cast<std::uint32_t>(at)});
    table_.show(table_.ids_of(plans_));
}

void Programs::tidy(ProgramId id) {
    ProgramTable::Entry& program = table_[id];
    if (!program.plan || program.name.empty()) return;
    std::uint32_t const count = program.is_configured ? program.plan->policy.count : 0;
    for (std::uint32_t number = count + 1; number <= supervisor_.size(id); ++number) {
        // What is still there is kept, also a hook that writes to the same pipe; its end calls this again.
        ProcessId const process{id, ProcessNumber{number}};
        if (supervisor_.is_idle(process)) channels_.close(process);
    }
    if (program.is_configured || !supervisor_.is_idle(id)) return;
    channels_.forget(id);
    program = {};
}

// For an upgrade.

std::string Programs::has_yet_to_clean_up() const {
    using enum ProcessState;
    for (std::size_t at = 0; at < table_.size(); ++at) {
        ProgramId const id{static_cast<std::uint32_t>(at)};
        ProgramTable::Entry const& program = table_[id];
        if (!program.plan || program.is_configured) continue;
        ProgramPolicy const& policy = supervisor_.policy(id);
        for (std::uint32_t number = 1; number <= supervisor_.size(id); ++number) {
            ProcessState const state = supervisor_.state({id, ProcessNumber{number}});
            if ((policy.has_on_stop && state == done) || (policy.has_pre_stop && state == draining))
                return program.name;
        }
    }
    return {};
}

void Programs::save(UpgradeState& state) const {
    if (schedules_) state.schedules = schedules_->next_runs();
    files_.save(state);
}

/// A plan for a program whose configuration is gone or can no longer be read: it can be stopped, not started.
std::shared_ptr<ProgramPlan const> Programs::plan_without_start(UpgradeState::Program const& program,
                                                                ProgramPolicy const& policy) {
    auto plan = std::make_shared<ProgramPlan>();
    plan->settings->name = program.name;
    plan->settings->output = program.output;
    plan->policy = policy;
    decide_needs(*plan);
    return plan;
}

void Programs::restore(UpgradeState const& state, Accepted const* active) {
    if (active && active->configuration.has_programs) {
        channels_.open();
        owner_.expect_leftovers();
    }
    table_.entries().resize(state.programs.size());
    channels_.restore_sockets(state);
    channels_.restore_writers(state);
    agent_.restore(state, active);
    plans_ = plans_for(active);
    for (std::size_t at = 0; at < table_.size(); ++at) {
        if (!state.programs[at].is_used) continue;
        ProgramId const id{static_cast<std::uint32_t>(at)};
        ProgramTable::Entry& program = table_[id];
        ProgramRecord const& record = state.supervisor.programs[at];
        program.name = state.programs[at].name;
        auto const named =
            std::ranges::find(plans_, program.name, [](auto const& plan) { return plan->settings->name; });
        program.is_configured = record.is_configured && named != plans_.end();
        program.plan = program.is_configured ? *named : plan_without_start(state.programs[at], record.policy);
        set_listening(program);
        if (program.name.empty()) continue;
        channels_.open();
        owner_.expect_leftovers();
        if (program.is_captured()) channels_.capture_again(id);
    }
    table_.restore_versions(state);
    channels_.restore_instances(state);
}

void Programs::restore_schedules(UpgradeState const& state, Accepted const* active) {
    std::vector<ProgramId> const ids = table_.ids_of(plans_);
    // What keeps its time while nothing is to run does so in any version.
    for (Schedules::NextRun const& next : state.schedules) {
        if (static_cast<std::size_t>(next.program) >= table_.size() || !is_scheduled(next.program)) continue;
        set_schedule(next.program);
        schedules_->import_next_run(next);
    }
    if (active) set_schedules(ids, active->configuration.run_servers);
    files_.restore(active && active->configuration.run_servers ? ids : std::vector<ProgramId>(), state);
    table_.show(ids);
}

}  // namespace triton::launcher
