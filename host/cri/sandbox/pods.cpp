#include "host/cri/sandbox/pods.h"

#include <charconv>
#include <cstdlib>
#include <utility>

#include <linux/capability.h>
#include <unistd.h>

#include "host/cri/monitor/container_log.h"
#include "host/cri/sandbox/records_store.h"
#include "lib/base/read_file.h"
#include "lib/http/grpc/call.h"
#include "lib/http/grpc/status.h"
#include "lib/process/start_plan.h"

namespace triton::cri {

namespace {

constexpr std::size_t worker_threads = 16;
constexpr auto collection_pause = std::chrono::hours(1);
constexpr char program_path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What we may not go below: without CAP_SYS_RESOURCE, ours.
std::int64_t find_lowest_oom_score(process::OwnCapabilities const& own) {
    if ((own.effective & (process::CapabilitySet{1} << CAP_SYS_RESOURCE)) != 0) return -1000;
    auto const text = read_file("/proc/self/oom_score_adj", 16);
    std::int64_t score = 0;
    if (text) std::from_chars(text->data(), text->data() + text->size(), score);
    return score;
}

HostFacts facts_of(PodSettings settings) {
    // One that is not found yet keeps its name: missing() reports it.
    if (auto found = process::find_program(settings.runtime, {program_path}, {})) settings.runtime = *std::move(found);
    auto const own = process::OwnCapabilities::read();
    HostFacts facts{.settings = settings,
                    .places = Places(settings.root),
                    .cgroups = Cgroups(settings.cgroups, settings.is_systemd),
                    .is_unified = false,
                    .capabilities = own.bounding & own.permitted,
                    .lowest_oom_score = find_lowest_oom_score(own)};
    facts.is_unified = facts.cgroups.is_unified();
    return facts;
}

}  // namespace

Pods::Pods(PodSettings settings, PodService::Surroundings around)
    : around_(std::move(around)),
      facts_(facts_of(std::move(settings))),
      collection_(around_.loop),
      workers_(worker_threads),
      keeper_(1) {}

std::optional<Error> Pods::missing() const {
    for (std::string const& program : {facts_.settings.runtime, facts_.settings.monitor}) {
        if (::access(program.c_str(), X_OK) == 0) continue;
        return fail(errno, "use " + program).error();
    }
    return std::nullopt;
}

void Pods::step(core::Event const& event) { perform(core_.step(event)); }

void Pods::perform(std::vector<core::Effect> const& effects) {
    for (core::Effect const& effect : effects)
        std::visit([this](auto const& one) { perform(one); }, effect);
}

core::Ticket Pods::ticket(CallPtr const& call, Reply reply) {
    tickets_.emplace(next_ticket_, [call, reply = std::move(reply)](core::Answer const& answer) {
        if (answer.error) return call->finish(http::grpc::status_of(*answer.error));
        call->answer(reply(answer.id));
    });
    return core::Ticket{next_ticket_++};
}

void Pods::perform(core::Answer const& effect) {
    if (auto const node = tickets_.extract(static_cast<std::uint64_t>(effect.ticket))) node.mapped()(effect);
}

void Pods::perform(core::Arm const& effect) {
    auto& timer = timers_[effect.id];
    if (!timer) timer = std::make_unique<net::Timer>(around_.loop);
    timer->call_at(steady_now() + effect.after, [this, id = effect.id] { step(core::Expired{id}); });
}

void Pods::done(std::string const& id, Result<> const& result) {
    work_began_.erase(id);
    step(core::Done{id, result ? std::nullopt : std::optional(result.error())});
}

void Pods::run(std::string const& id, std::function<Result<>()> work, std::function<void()> then) {
    auto const queued = workers_.run([this, id, work = std::move(work), then = std::move(then)]() mutable {
        auto const result = std::make_shared<Result<>>(work());
        around_.post([this, id, result, then = std::exchange(then, nullptr), work = std::exchange(work, nullptr)] {
            if (*result && then) return then();
            done(id, *result);
        });
    });
    if (!queued) around_.post([this, id, error = queued.error()] { done(id, std::unexpected(error)); });
}

void Pods::perform(core::Work const& work) {
    std::string const& id = work.id;
    work_began_[id] = steady_now();
    switch (work.task) {
        case core::Task::make_pod: return begin_pod(id);
        case core::Task::add_network: return add_network(id);
        case core::Task::delete_network: return delete_network(id);
        case core::Task::check_network: return check_network(id);
        case core::Task::end_monitor: return end_monitor(id);
        case core::Task::remove_pod:
            return after_records([this, id] { run(id, [this, id] { return remove_pod_files(facts_, id); }); });
        case core::Task::create_container: return begin_container(id);
        case core::Task::start_container: return start_container(id);
        case core::Task::remove_container: return end_container(id);
        case core::Task::update_container: return change_limits(id);
    }
}

/// Calls it when all records are written that were to be until now: one that is written late would come back.
void Pods::after_records(std::function<void()> call) {
    auto const queued = keeper_.run([this, call] { around_.post(call); });
    if (!queued) call();
}

// --- Pods

void Pods::begin_pod(std::string const& id) {
    auto const socket = std::make_shared<UniqueFd>();
    run(
        id,
        [this, record = pods_.at(id).record, socket]() -> Result<> {
            *socket = TRY(make_pod(facts_, record));
            return {};
        },
        [this, id, socket] {
            attach(id, std::move(*socket));
            done(id, {});
        });
}

/// What was begun is kept, whether it has succeeded or not.
void Pods::add_network(std::string const& id) {
    auto const record = std::make_shared<record::Pod>(pods_.at(id).record);
    auto const result = std::make_shared<Result<>>();
    run(
        id,
        [this, record, result, ranges = ranges_]() -> Result<> {
            std::shared_lock const others(networks_);
            *result = add_pod_network(facts_, *record, ranges);
            return {};
        },
        [this, id, record, result] {
            *pods_.at(id).record.mutable_network() = record->network();
            done(id, *result);
        });
}

void Pods::delete_network(std::string const& id) {
    run(id, [this, record = pods_.at(id).record] {
        std::shared_lock const others(networks_);
        return delete_pod_network(facts_, record);
    });
}

/// Nobody asks for it: that a network is broken is for the log.
void Pods::check_network(std::string const& id) {
    run(id, [this, record = pods_.at(id).record]() -> Result<> {
        if (auto const checked = check_pod_network(facts_, record); !checked)
            around_.post([this, text = checked.error().text(), id = record.id()] {
                around_.warn("the network of pod " + id + " is not as it was: " + text);
            });
        return {};
    });
}

void Pods::collect_networks() {
    collection_.call_at(steady_now() + collection_pause, [this] { collect_networks(); });
    auto const queued = workers_.run([this] {
        std::unique_lock const alone(networks_);
        if (auto const done = cri::collect_networks(facts_); !done && done.error().kind != ErrorKind::not_found)
            around_.post([this, text = done.error().text()] { around_.warn(text); });
    });
    if (!queued) around_.warn(queued.error().text());
}

void Pods::attach(std::string const& pod, UniqueFd socket) {
    auto const link = std::make_shared<MonitorLink>(
        around_.loop, std::move(socket),
        MonitorLink::Events{.exited = [this](MonitoredContainer const& one) { exited(one); },
                            .lost =
                                [this, pod] {
                                    if (auto const found = pods_.find(pod); found != pods_.end())
                                        found->second.link = {};
                                    step(core::MonitorLost{pod});
                                }});
    pods_.at(pod).link = link;
    link->start();
}

PodData const* Pods::find_pod(std::string const& id) const {
    auto const found = pods_.find(id);
    return found == pods_.end() ? nullptr : &found->second;
}

ContainerData const* Pods::find_container(std::string const& id) const {
    auto const found = containers_.find(id);
    return found == containers_.end() ? nullptr : &found->second;
}

std::optional<Duration> Pods::work_time(std::string const& id) const {
    auto const found = work_began_.find(id);
    return found == work_began_.end() ? std::nullopt : std::optional(steady_now() - found->second);
}

void Pods::try_again(std::string const& id) { step(core::Expired{id}); }

std::shared_ptr<MonitorLink> Pods::link_of(std::string const& pod) {
    auto const found = pods_.find(pod);
    return found == pods_.end() ? nullptr : found->second.link;
}

Result<StreamCalls::Target> Pods::running_container(std::string const& id) {
    auto const container = core_.containers().find(id);
    if (container == core_.containers().end()) return fail(ErrorKind::not_found, "container " + id + " does not exist");
    std::string const& pod = container->second.pod;
    auto link = link_of(pod);
    if (container->second.phase != core::Phase::running || !link)
        return fail(ErrorKind::refused, "container " + id + " does not run");
    return StreamCalls::Target{.link = std::move(link), .bundle = facts_.places.bundle(pod, id)};
}

Result<StreamCalls::Target> Pods::ready_pod(std::string const& id) {
    auto const pod = core_.pods().find(id);
    auto const data = pods_.find(id);
    if (pod == core_.pods().end() || data == pods_.end())
        return fail(ErrorKind::not_found, "pod sandbox " + id + " does not exist");
    auto link = link_of(id);
    if (!link) return fail(ErrorKind::refused, "pod sandbox " + id + " is not ready");
    bool const is_of_host = is_host_network(data->second.record.config());
    return StreamCalls::Target{.link = std::move(link),
                               .network = is_of_host ? "" : network_namespace_path(facts_, id)};
}

/// Whatever it answers: when it has not ended, its processes are killed.
void Pods::end_monitor(std::string const& id) {
    auto const finish = [this, id](Result<std::int64_t> const& /*ended*/) {
        if (auto const link = link_of(id)) link->close();
        if (auto const found = pods_.find(id); found != pods_.end()) found->second.link = {};
        run(id, [this, id]() -> Result<> {
            remove_pod_processes(facts_, id);
            return {};
        });
    };
    if (auto const link = link_of(id))
        link->ask({.kind = monitor::Kind::end}, finish);
    else
        around_.post([finish] { finish(0); });
}

// --- Containers

void Pods::begin_container(std::string const& id) {
    ContainerData const& data = containers_.at(id);
    std::string const pod = data.record.pod();
    auto const link = link_of(pod);
    std::map<std::string, int> targets;
    for (auto const& [other, one] : containers_)
        if (one.record.pod() == pod && one.pid > 0) targets[other] = one.pid;
    auto const prepared = std::make_shared<PreparedContainer>();
    run(
        id,
        [this, prepared, record = data.record, pod_record = pods_.at(pod).record, monitor = link ? link->pid() : 0,
         targets]() -> Result<> {
            *prepared = TRY(prepare_container(facts_, pod_record, record, monitor, targets));
            return save(facts_.places, prepared->record);
        },
        [this, id, pod, prepared] {
            auto const found = containers_.find(id);
            auto const current = link_of(pod);
            if (found == containers_.end() || !current)
                return done(id, fail(ErrorKind::unavailable, "the monitor of the pod has ended"));
            found->second.record = prepared->record;
            found->second.image_tree = prepared->image_tree;
            current->ask(create_message(facts_, *prepared), [this, id](Result<std::int64_t> const& pid) {
                if (auto const made = containers_.find(id); pid && made != containers_.end())
                    made->second.pid = static_cast<int>(*pid);
                done(id, pid ? Result<>() : std::unexpected(pid.error()));
            });
        });
}

void Pods::start_container(std::string const& id) {
    ContainerData& data = containers_.at(id);
    auto const answered = [this, id](Result<std::int64_t> const& result) {
        done(id, result ? Result<>() : std::unexpected(result.error()));
    };
    data.record.set_started_at(monitor::wall_nanoseconds());
    if (auto const link = link_of(data.record.pod()))
        link->ask({.kind = monitor::Kind::start, .container = id}, answered);
    else
        around_.post([answered] { answered(fail(ErrorKind::unavailable, "the monitor of the pod has ended")); });
}

void Pods::end_container(std::string const& id) {
    timers_.erase(id);
    auto const record = containers_.at(id).record;
    auto const finish = [this, id, record](Result<std::int64_t> const& destroyed) {
        // Without its monitor the container is no runtime's any more: its group and files are what is left.
        if (!destroyed && destroyed.error().kind != ErrorKind::unavailable)
            return done(id, std::unexpected(destroyed.error()));
        after_records(
            [this, id, record] { run(id, [this, record] { return remove_container_files(facts_, record); }); });
    };
    if (auto const link = link_of(record.pod()))
        link->ask({.kind = monitor::Kind::destroy, .container = id}, finish);
    else
        around_.post([finish] { finish(0); });
}

void Pods::change_limits(std::string const& id) {
    auto& waiting = containers_.at(id).changes;
    core::Ticket const next = core_.containers().at(id).updating.front();
    while (waiting.front().ticket != next)  // those before it were refused
        waiting.pop_front();
    auto const result = std::make_shared<v1::LinuxContainerResources>();
    run(
        id,
        [this, result, record = containers_.at(id).record, wanted = waiting.front().resources]() -> Result<> {
            *result = TRY(cri::change_limits(facts_, record, wanted));
            return {};
        },
        [this, id, result] {
            if (auto const found = containers_.find(id); found != containers_.end()) {
                *found->second.record.mutable_resources() = *result;
                save_container(id);
            }
            done(id, {});
        });
}

void Pods::perform(core::SendStop const& effect) {
    auto const found = containers_.find(effect.container);
    if (found == containers_.end()) return;
    auto const link = link_of(found->second.record.pod());
    monitor::Message message{.kind = monitor::Kind::signal, .container = effect.container};
    message.numbers[0] = found->second.record.stop_signal();
    if (link) link->ask(std::move(message), [](Result<std::int64_t> const& /*one that has ended needs none*/) {});
}

void Pods::perform(core::Kill const& effect) {
    auto const found = containers_.find(effect.container);
    if (found == containers_.end()) return;
    monitor::Message message{.kind = monitor::Kind::signal, .container = effect.container};
    message.numbers[0] = SIGKILL;
    if (auto const link = link_of(found->second.record.pod()))
        link->ask(std::move(message), [](Result<std::int64_t> const& /*its end is told*/) {});
    auto const queued = workers_.run([this, group = found->second.record.cgroup()] {
        if (auto const killed = facts_.cgroups.kill(group); !killed)
            around_.post([this, text = killed.error().text()] { around_.warn(text); });
    });
    if (!queued) around_.warn(queued.error().text());
}

void Pods::exited(MonitoredContainer const& one) {
    auto const found = containers_.find(one.id);
    if (found == containers_.end()) return;
    found->second.record.set_finished_at(one.exited_at);
    found->second.pid = 0;
    // What it has started lives on where its namespace is others', too.
    if (found->second.record.config().linux().security_context().namespace_options().pid() != v1::CONTAINER)
        perform(core::Kill{one.id});
    step(core::Exited{one.id, one.exit_code, one.is_out_of_memory});
}

void Pods::perform(core::Changed const& effect) {
    using What = core::Changed::What;
    if (effect.what == What::deleted) {
        tell(effect);
        timers_.erase(effect.id);
        containers_.erase(effect.id);
        pods_.erase(effect.id);
        return;
    }
    if (pods_.contains(effect.id))
        save_pod(effect.id);
    else
        save_container(effect.id);
    tell(effect);
}

void Pods::save_pod(std::string const& id) {
    auto const pod = core_.pods().find(id);
    if (pod == core_.pods().end()) return;
    record::Pod& record = pods_.at(id).record;
    record.set_was_run(pod->second.was_run);
    record.set_is_stopped(pod->second.wish != core::Wish::up);
    auto const queued = keeper_.run([this, record] {
        if (auto const saved = save(facts_.places, record, false); !saved)
            around_.post([this, text = saved.error().text()] { around_.warn(text); });
    });
    if (!queued) around_.warn(queued.error().text());
}

void Pods::save_container(std::string const& id) {
    auto const found = core_.containers().find(id);
    auto const data = containers_.find(id);
    if (found == core_.containers().end() || data == containers_.end()) return;
    core::Container const& container = found->second;
    record::Container& record = data->second.record;
    record.set_was_created(container.was_created);
    record.set_is_exited(container.phase == core::Phase::exited);
    if (container.phase == core::Phase::exited) {
        if (record.finished_at() == 0) record.set_finished_at(monitor::wall_nanoseconds());
        record.set_exit_code(container.exit_code);
        std::string reason = container.reason;
        if (container.is_out_of_memory) reason = "OOMKilled";
        if (reason.empty()) reason = container.exit_code == 0 ? "Completed" : "Error";
        record.set_reason(reason);
    }
    auto const queued = keeper_.run([this, copy = record] {
        // One that was removed meanwhile has no directory any more.
        if (auto const saved = unless_missing(save(facts_.places, copy)); !saved)
            around_.post([this, text = saved.error().text()] { around_.warn(text); });
    });
    if (!queued) around_.warn(queued.error().text());
}

}  // namespace triton::cri
