#include <algorithm>
#include <utility>

#include <unistd.h>

#include "host/cri/monitor/container_log.h"
#include "host/cri/sandbox/exec_sync.h"
#include "host/cri/sandbox/pods.h"
#include "host/cri/sandbox/stats.h"
#include "host/cri/wire/typed.h"
#include "lib/base/pipe.h"
#include "lib/base/read_file.h"
#include "lib/http/grpc/status.h"

namespace triton::cri {

namespace {

using http::grpc::Code;

constexpr std::size_t largest_spec = 32U << 20U;
constexpr std::int64_t longest_timeout_seconds = 366 * 24 * 3600;
constexpr std::size_t most_listeners = 64;
constexpr std::size_t most_unsent_events = 4U << 20U;

/// A container whose usage is asked for.
struct Measured {
    v1::ContainerStats stats;  ///< with its attributes
    std::string id;
    std::string group;
    std::string upper;
    std::pair<std::int64_t, std::uint64_t> before{};  ///< time and CPU time of the sample before
};

void set(v1::UInt64Value* (v1::MemoryUsage::*member)(), v1::MemoryUsage& memory, std::optional<std::uint64_t> value) {
    if (value) (memory.*member)()->set_value(*value);
}

void fill(v1::ContainerStats& stats, ContainerUsage const& usage, std::string const& mountpoint) {
    auto& cpu = *stats.mutable_cpu();
    cpu.set_timestamp(usage.at);
    if (usage.cpu_nanoseconds) cpu.mutable_usage_core_nano_seconds()->set_value(*usage.cpu_nanoseconds);
    if (usage.cpu_nanocores) cpu.mutable_usage_nano_cores()->set_value(*usage.cpu_nanocores);
    auto& memory = *stats.mutable_memory();
    memory.set_timestamp(usage.at);
    set(&v1::MemoryUsage::mutable_usage_bytes, memory, usage.memory);
    set(&v1::MemoryUsage::mutable_working_set_bytes, memory, usage.working_set);
    set(&v1::MemoryUsage::mutable_available_bytes, memory, usage.available);
    set(&v1::MemoryUsage::mutable_rss_bytes, memory, usage.rss);
    set(&v1::MemoryUsage::mutable_page_faults, memory, usage.page_faults);
    set(&v1::MemoryUsage::mutable_major_page_faults, memory, usage.major_page_faults);
    if (usage.swap) {
        stats.mutable_swap()->set_timestamp(usage.at);
        stats.mutable_swap()->mutable_swap_usage_bytes()->set_value(*usage.swap);
    }
    auto& layer = *stats.mutable_writable_layer();
    layer.set_timestamp(usage.at);
    layer.mutable_fs_id()->set_mountpoint(mountpoint);
    layer.mutable_used_bytes()->set_value(usage.layer_bytes);
    layer.mutable_inodes_used()->set_value(usage.layer_inodes);
}

std::optional<std::uint64_t> nanocores(std::pair<std::int64_t, std::uint64_t> const& before,
                                       ContainerUsage const& now) {
    if (before.first == 0 || now.at <= before.first || !now.cpu_nanoseconds || *now.cpu_nanoseconds < before.second)
        return std::nullopt;
    double const share =
        static_cast<double>(*now.cpu_nanoseconds - before.second) / static_cast<double>(now.at - before.first);
    return static_cast<std::uint64_t>(share * 1e9);
}

v1::ContainerEventType event_type(core::Changed::What what) {
    switch (what) {
        case core::Changed::What::created: return v1::CONTAINER_CREATED_EVENT;
        case core::Changed::What::started: return v1::CONTAINER_STARTED_EVENT;
        case core::Changed::What::stopped: return v1::CONTAINER_STOPPED_EVENT;
        case core::Changed::What::deleted: return v1::CONTAINER_DELETED_EVENT;
    }
    return v1::CONTAINER_STOPPED_EVENT;
}

}  // namespace

// --- ExecSync

void Pods::execute(CallPtr const& call, v1::ExecSyncRequest const& request) {
    std::string const id = request.container_id();
    auto const container = core_.containers().find(id);
    if (container == core_.containers().end())
        return call->finish({Code::not_found, "container " + id + " does not exist"});
    if (container->second.phase != core::Phase::running || !link_of(container->second.pod))
        return call->finish({Code::failed_precondition, "container " + id + " does not run"});
    std::string const bundle = facts_.places.bundle(container->second.pod, id);
    std::string const file = bundle + "/exec-" + std::to_string(next_ticket_++) + ".json";
    std::vector<std::string> command(request.cmd().begin(), request.cmd().end());
    auto const seconds = std::clamp<std::int64_t>(request.timeout(), 0, longest_timeout_seconds);
    auto const queued = workers_.run(
        [this, call = CallPtr(call), id, bundle, file, command, seconds, pod = container->second.pod]() mutable {
            auto const write = [&]() -> Result<> {
                std::string const spec = TRY(read_file(bundle + "/config.json", largest_spec));
                return write_file(file, TRY(make_process(spec, command, false)), false);
            };
            auto const written = std::make_shared<Result<>>(write());
            around_.post([this, call = std::exchange(call, nullptr), id, file, seconds, pod, written] {
                if (!*written) return call->finish(http::grpc::status_of(written->error()));
                begin_command(call, id, pod, file, std::chrono::seconds(seconds));
            });
        });
    if (!queued) call->finish(http::grpc::status_of(queued.error()));
}

void Pods::begin_command(CallPtr const& call, std::string const& id, std::string const& pod, std::string const& file,
                         Duration timeout) {
    if (call->is_over()) return (void)::unlink(file.c_str());
    auto const link = link_of(pod);
    auto output = make_pipe();
    auto errors = make_pipe();
    if (!link || !output || !errors)
        return call->finish({Code::unavailable, "a command cannot be started in container " + id});
    auto const command = std::make_shared<ExecSync>(around_.loop, link, *std::move(output), *std::move(errors));
    std::weak_ptr<ExecSync> const weak = command;
    call->when_abandoned([weak] {
        if (auto const running = weak.lock()) running->abandon();
    });
    command->start(id, file, timeout, [this, call, file](Result<ExecSync::Outcome> outcome) {
        // Files of a few hundred bytes, in memory.
        ::unlink(file.c_str());
        ::unlink((file + ".pid").c_str());
        if (!outcome) return call->finish(http::grpc::status_of(outcome.error()));
        v1::ExecSyncResponse response;
        response.set_exit_code(outcome->exit_code);
        response.set_stdout(std::move(outcome->output));
        response.set_stderr(std::move(outcome->errors));
        call->answer(response.SerializeAsString());
    });
}

// --- Usage

void Pods::measure(CallPtr const& call, v1::ContainerStatsFilter const& filter, bool is_one) {
    std::vector<Measured> wanted;
    for (auto const& [id, container] : core_.containers()) {
        auto const data = containers_.find(id);
        if (container.phase != core::Phase::running || data == containers_.end() || !id.starts_with(filter.id()))
            continue;
        auto const& config = data->second.record.config();
        if (!filter.pod_sandbox_id().empty() && !container.pod.starts_with(filter.pod_sandbox_id())) continue;
        if (!has_labels(config.labels(), filter.label_selector())) continue;
        Measured one{.stats = {},
                     .id = id,
                     .group = data->second.record.cgroup(),
                     .upper = facts_.places.layer(id) + "/upper",
                     .before = data->second.sample};
        auto& attributes = *one.stats.mutable_attributes();
        attributes.set_id(id);
        *attributes.mutable_metadata() = config.metadata();
        *attributes.mutable_labels() = config.labels();
        *attributes.mutable_annotations() = config.annotations();
        wanted.push_back(std::move(one));
    }
    if (is_one && wanted.size() != 1)
        return call->finish({Code::not_found, "container " + filter.id() + " does not run"});
    auto const queued = workers_.run([this, call = CallPtr(call), wanted = std::move(wanted), is_one]() mutable {
        auto const found = std::make_shared<std::vector<Measured>>(std::move(wanted));
        for (Measured& one : *found) {
            ContainerUsage usage = read_usage(facts_.cgroups, one.group);
            usage.at = monitor::wall_nanoseconds();
            usage.cpu_nanocores = nanocores(one.before, usage);
            measure_layer(one.upper, usage);
            fill(one.stats, usage, facts_.places.layers());
            one.before = {usage.at, usage.cpu_nanoseconds.value_or(0)};
        }
        around_.post([this, call = std::exchange(call, nullptr), found, is_one] {
            v1::ListContainerStatsResponse list;
            for (Measured& one : *found) {
                if (auto const data = containers_.find(one.id); data != containers_.end())
                    data->second.sample = one.before;
                *list.add_stats() = std::move(one.stats);
            }
            if (!is_one) return call->answer(list.SerializeAsString());
            v1::ContainerStatsResponse response;
            *response.mutable_stats() = list.stats(0);
            call->answer(response.SerializeAsString());
        });
    });
    if (!queued) call->finish(http::grpc::status_of(queued.error()));
}

// --- Events

void Pods::listen(CallPtr const& call) {
    std::erase_if(listeners_, [](CallPtr const& one) { return one->is_over(); });
    if (listeners_.size() >= most_listeners)
        return call->finish({Code::resource_exhausted, "too many clients listen to events"});
    listeners_.push_back(call);
}

void Pods::end_streams() {
    for (CallPtr const& listener : std::exchange(listeners_, {}))
        listener->finish();
}

/// A client that does not read is sent away: it comes again, and lists.
void Pods::tell(core::Changed const& change) {
    if (listeners_.empty()) return;
    v1::ContainerEventResponse event;
    event.set_container_id(change.id);
    event.set_container_event_type(event_type(change.what));
    event.set_created_at(monitor::wall_nanoseconds());
    auto const data = containers_.find(change.id);
    std::string const pod_id = data != containers_.end() ? data->second.record.pod() : change.id;
    auto const pod = core_.pods().find(pod_id);
    auto const pod_data = pods_.find(pod_id);
    if (pod != core_.pods().end() && pod_data != pods_.end()) {
        *event.mutable_pod_sandbox_status() = pod_status(pod->second, pod_data->second);
        for (std::string const& id : pod->second.containers)
            if (auto const one = containers_.find(id);
                one != containers_.end() && core_.containers().at(id).was_created)
                *event.add_containers_statuses() =
                    container_status(core_.containers().at(id), one->second, pod_data->second);
    }
    std::string const bytes = event.SerializeAsString();
    for (CallPtr const& listener : listeners_) {
        if (listener->is_over()) continue;
        if (listener->unsent() > most_unsent_events)
            listener->finish({Code::resource_exhausted, "events were not read"});
        else
            listener->send(bytes);
    }
    std::erase_if(listeners_, [](CallPtr const& one) { return one->is_over(); });
}

void Pods::add_live_calls(Router& router) {
    router.on(method("ExecSync"),
              typed<v1::ExecSyncRequest>([this](CallPtr const& call, auto const& request) { execute(call, request); }));
    router.on(method("ContainerStats"),
              typed<v1::ContainerStatsRequest>([this](CallPtr const& call, auto const& request) {
                  v1::ContainerStatsFilter filter;
                  filter.set_id(request.container_id());
                  measure(call, filter, true);
              }));
    router.on(method("ListContainerStats"),
              typed<v1::ListContainerStatsRequest>(
                  [this](CallPtr const& call, auto const& request) { measure(call, request.filter(), false); }));
    router.on(method("GetContainerEvents"),
              typed<v1::GetEventsRequest>([this](CallPtr const& call, auto const& /*request*/) { listen(call); }));
}

}  // namespace triton::cri
