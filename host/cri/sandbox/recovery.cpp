#include <set>
#include <utility>

#include "host/cri/sandbox/pods.h"
#include "host/cri/sandbox/records_store.h"
#include "host/cri/sandbox/strays.h"
#include "host/cri/wire/canonical.h"

namespace triton::cri {

namespace {

constexpr auto table_limit = std::chrono::seconds(2);
constexpr int unknown_exit = 255;

core::Phase phase_of(std::int64_t phase) {
    switch (phase) {
        case monitor::phase_created: return core::Phase::created;
        case monitor::phase_running: return core::Phase::running;
        case monitor::phase_exited: return core::Phase::exited;
        default: return core::Phase::absent;
    }
}

}  // namespace

/// The monitor is asked first: it has seen what nobody has written down.
void Pods::restore(StoredPod const& stored) {
    std::string const& id = stored.pod.id();
    pods_[id].record = stored.pod;
    auto socket = connect_to_monitor(facts_.places.run(id));
    std::map<std::string, MonitoredContainer> table;
    if (socket) {
        if (auto const asked = ask_for_table(socket->get(), table_limit)) {
            for (MonitoredContainer const& one : *asked)
                table[one.id] = one;
        } else {
            around_.warn(asked.error().text());
            socket = std::unexpected(asked.error());
        }
    }
    core::Pod pod{.id = id};
    v1::RunPodSandboxRequest request;
    *request.mutable_config() = stored.pod.config();
    request.set_runtime_handler(stored.pod.handler());
    pod.key = key_of(stored.pod.config().metadata());
    pod.content = canonical(request);
    pod.wants_network = !is_host_network(stored.pod.config());
    pod.is_made = true;
    pod.has_monitor = socket.has_value();
    pod.was_run = stored.pod.was_run();
    pod.has_network = !stored.pod.network().configuration().empty();
    pod.is_networked = !stored.pod.network().result().empty();
    pod.wants_check = pod.is_networked;
    if (stored.pod.is_stopped()) pod.wish = core::Wish::stopped;
    if (!pod.was_run) pod.wish = core::Wish::removed;  // nobody was told of it
    bool const has_monitor = pod.has_monitor;
    core_.restore(std::move(pod));
    for (record::Container const& record : stored.containers) {
        core::Container container{.id = record.id(), .pod = id};
        container.key = container_key(record.config().metadata());
        container.content = canonical(record.config());
        container.was_created = record.was_created();
        auto const seen = table.find(record.id());
        ContainerData& data = containers_[record.id()];
        data.record = record;
        if (record.is_exited()) {
            container.phase = core::Phase::exited;
            container.exit_code = record.exit_code();
        } else if (seen != table.end()) {
            container.phase = phase_of(seen->second.phase);
            container.exit_code = seen->second.exit_code;
            container.is_out_of_memory = seen->second.is_out_of_memory;
            data.pid = container.phase == core::Phase::exited ? 0 : seen->second.pid;
            if (container.phase == core::Phase::exited) data.record.set_finished_at(seen->second.exited_at);
        } else {
            container.phase = core::Phase::exited;
            container.exit_code = unknown_exit;
            container.reason = "Unknown";
        }
        bool const was_told = record.was_created() && container.phase != core::Phase::absent;
        if (!was_told) container.wish = core::Wish::removed;
        container.is_dying = container.phase == core::Phase::exited;
        bool const is_lost = container.phase == core::Phase::exited && !record.is_exited();
        core_.restore(std::move(container));
        if (is_lost && was_told) save_container(record.id());
        if (!has_monitor)
            if (auto const killed = facts_.cgroups.kill(record.cgroup()); !killed) around_.warn(killed.error().text());
    }
    if (socket) attach(id, *std::move(socket));
}

/// What no record knows: a pod whose making was cut off, or the rest of one whose removal was.
void Pods::remove_strays() {
    std::set<std::string> parents;
    for (auto const& [id, pod] : pods_)
        parents.insert(pod.record.config().linux().cgroup_parent());
    for (Belonging const& one : list_belongings(facts_, parents, Names::all)) {
        if (is_of_pod(one.kind) ? pods_.contains(one.id) : containers_.contains(one.id)) continue;
        if (auto const removed = remove_stray(facts_, one); !removed) around_.warn(removed.error().text());
    }
}

void Pods::recover() {
    std::vector<std::string> complaints;
    for (StoredPod const& stored : load_records(facts_.places, complaints))
        restore(stored);
    for (std::string const& complaint : complaints)
        around_.warn(complaint);
    remove_strays();
    collect_networks();
    perform(core_.resume());
}

}  // namespace triton::cri
