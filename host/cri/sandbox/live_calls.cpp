#include <algorithm>
#include <utility>

#include <unistd.h>

#include "host/cri/monitor/container_log.h"
#include "host/cri/sandbox/exec_sync.h"
#include "host/cri/sandbox/pods.h"
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
    if (!link || !output || !errors) {
        ::unlink(file.c_str());
        return call->finish({Code::unavailable, "a command cannot be started in container " + id});
    }
    auto const command = std::make_shared<ExecSync>(around_.loop, link, *std::move(output), *std::move(errors));
    std::weak_ptr<ExecSync> const weak = command;
    call->when_abandoned([weak] {
        if (auto const running = weak.lock()) running->abandon();
    });
    command->start(id, file, timeout, [call](Result<ExecSync::Outcome> outcome) {
        if (!outcome) return call->finish(http::grpc::status_of(outcome.error()));
        v1::ExecSyncResponse response;
        response.set_exit_code(outcome->exit_code);
        response.set_stdout(std::move(outcome->output));
        response.set_stderr(std::move(outcome->errors));
        call->answer(response.SerializeAsString());
    });
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
    router.on(method("GetContainerEvents"),
              typed<v1::GetEventsRequest>([this](CallPtr const& call, auto const& /*request*/) { listen(call); }));
}

}  // namespace triton::cri
