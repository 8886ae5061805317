#include "host/cri/core/core.h"

#include <algorithm>
#include <utility>

namespace triton::cri::core {

namespace {

constexpr milliseconds pause_before_retry{60'000};
constexpr int killed = 137;  // 128 + SIGKILL

Error error(ErrorKind kind, std::string reason) {
    return {.kind = kind, .attempted = {}, .reason = std::move(reason), .details = {}};
}

Error conflict(std::string_view what, Id const& id) {
    return error(ErrorKind::exists, "another " + std::string(what) + " of that name and attempt exists: " + id);
}

template <class Things>
auto* find(Things& things, Id const& id) {
    auto const found = things.find(id);
    return found == things.end() ? nullptr : &found->second;
}

void grow(Wish& wish, Wish to) { wish = std::max(wish, to); }

}  // namespace

std::vector<Effect> Core::step(Event const& event) {
    effects_.clear();
    std::visit([this](auto const& one) { on(one); }, event);
    return std::exchange(effects_, {});
}

void Core::restore(Pod pod) {
    Id const id = pod.id;
    if (pod.wish == Wish::up) keys_[pod.key] = id;
    pods_.insert_or_assign(id, std::move(pod));
}

void Core::restore(Container container) {
    Id const id = container.id;
    if (Pod* const pod = find(pods_, container.pod)) pod->containers.insert(id);
    containers_.insert_or_assign(id, std::move(container));
}

std::vector<Effect> Core::resume() {
    effects_.clear();
    std::vector<Id> ids;
    for (auto const& [id, container] : containers_)
        ids.push_back(id);
    for (Id const& id : ids)
        advance_container(id);
    ids.clear();
    for (auto const& [id, pod] : pods_)
        ids.push_back(id);
    for (Id const& id : ids)
        advance_pod(id);
    return std::exchange(effects_, {});
}

// --- Calls

void Core::on(RunPod const& event) {
    if (auto const found = keys_.find(event.key); found != keys_.end()) {
        Pod& pod = pods_.at(found->second);
        if (pod.content != event.content) return emit(Answer{event.ticket, conflict("pod sandbox", pod.id)});
        pod.running.push_back(event.ticket);
        return advance_pod(pod.id);
    }
    Pod pod{.id = event.id, .key = event.key, .content = event.content};
    pod.wants_network = event.has_network;
    pod.running.push_back(event.ticket);
    keys_[event.key] = event.id;
    pods_.emplace(event.id, std::move(pod));
    advance_pod(event.id);
}

void Core::on(StopPod const& event) {
    Pod* const pod = find(pods_, event.pod);
    if (!pod) return emit(Answer{event.ticket});
    pod->stopping.push_back(event.ticket);
    grow(pod->wish, Wish::stopped);
    pod->waits = false;
    advance_pod(event.pod);
}

void Core::on(RemovePod const& event) {
    Pod* const pod = find(pods_, event.pod);
    if (!pod) return emit(Answer{event.ticket});
    pod->removing.push_back(event.ticket);
    grow(pod->wish, Wish::removed);  // its name stays taken: after a crash it would be a second one
    pod->waits = false;
    for (Id const& id : pod->containers)
        containers_.at(id).waits = false;
    advance_pod(event.pod);
}

void Core::on(CreateContainer const& event) {
    Pod* const pod = find(pods_, event.pod);
    if (!pod)
        return emit(Answer{event.ticket, error(ErrorKind::not_found, "pod sandbox " + event.pod + " does not exist")});
    for (Id const& id : pod->containers) {
        Container& other = containers_.at(id);
        if (other.key != event.key || other.wish == Wish::removed) continue;
        if (other.content != event.content) return emit(Answer{event.ticket, conflict("container", id)});
        if (other.was_created) return emit(Answer{event.ticket, {}, id});
        other.creating.push_back(event.ticket);
        return advance_container(id);
    }
    if (!pod->is_ready())
        return emit(Answer{event.ticket, error(ErrorKind::refused, "pod sandbox " + event.pod + " is not ready")});
    Container container{.id = event.id, .pod = event.pod, .key = event.key, .content = event.content};
    container.creating.push_back(event.ticket);
    pod->containers.insert(event.id);
    containers_.emplace(event.id, std::move(container));
    advance_container(event.id);
}

void Core::on(StartContainer const& event) {
    Container* const container = find(containers_, event.container);
    if (!container)
        return emit(
            Answer{event.ticket, error(ErrorKind::not_found, "container " + event.container + " does not exist")});
    bool const can_start = container->phase == Phase::created && container->wish == Wish::up && !container->wants_start;
    if (!can_start)
        return emit(Answer{event.ticket, error(ErrorKind::refused,
                                               "container " + event.container + " was started or stopped before")});
    container->wants_start = true;
    container->starting.push_back(event.ticket);
    advance_container(event.container);
}

void Core::on(StopContainer const& event) {
    Container* const container = find(containers_, event.container);
    if (!container) return emit(Answer{event.ticket});
    container->stopping.push_back(event.ticket);
    grow(container->wish, Wish::stopped);
    if (container->phase == Phase::running && !container->is_dying) {
        if (event.grace <= milliseconds{0}) {
            kill(*container);
        } else {
            if (!std::exchange(container->has_been_told, true)) emit(SendStop{container->id});
            emit(Arm{container->id, event.grace});
        }
    }
    advance_container(event.container);
}

void Core::on(RemoveContainer const& event) {
    Container* const container = find(containers_, event.container);
    if (!container) return emit(Answer{event.ticket});
    container->removing.push_back(event.ticket);
    grow(container->wish, Wish::removed);
    container->waits = false;
    advance_container(event.container);
}

void Core::on(UpdateContainer const& event) {
    Container* const container = find(containers_, event.container);
    if (!container || !container->was_created)
        return emit(
            Answer{event.ticket, error(ErrorKind::not_found, "container " + event.container + " does not exist")});
    container->updating.push_back(event.ticket);
    advance_container(event.container);
}

// --- The world

void Core::on(Done const& event) {
    if (Pod* const pod = find(pods_, event.id); pod && pod->work) {
        Task const task = *std::exchange(pod->work, std::nullopt);
        done(*pod, task, event.error);
        return advance_pod(event.id);
    }
    if (Container* const container = find(containers_, event.id); container && container->work) {
        Task const task = *std::exchange(container->work, std::nullopt);
        Id const pod = container->pod;
        done(*container, task, event.error);
        advance_container(event.id);
        advance_pod(pod);
    }
}

void Core::done(Pod& pod, Task task, std::optional<Error> const& error) {
    pod.trouble = error;
    switch (task) {
        case Task::make_pod:
            pod.is_made = true;  // or a part of it, which is removed likewise
            pod.has_monitor = true;
            if (error) fail_pod(pod, *error);
            return;
        case Task::add_network:
            if (error) return fail_pod(pod, *error);
            pod.is_networked = true;
            return;
        case Task::delete_network:
            pod.is_networked = false;
            if (!error) {
                pod.has_network = false;
                return;
            }
            pod.waits = true;
            answer(pod.stopping, error);
            answer(pod.removing, error);
            answer(pod.running, pod.failure);
            emit(Arm{pod.id, pause_before_retry});
            return;
        case Task::check_network: pod.wants_check = false; return;
        case Task::end_monitor: pod.has_monitor = false; return;
        case Task::remove_pod:
            if (!error) {
                pod.is_made = false;
                return;
            }
            pod.waits = true;
            answer(pod.running, pod.failure);
            answer(pod.removing, error);
            emit(Arm{pod.id, pause_before_retry});
            return;
        case Task::create_container:
        case Task::start_container:
        case Task::remove_container:
        case Task::update_container: return;
    }
}

void Core::done(Container& container, Task task, std::optional<Error> const& error) {
    switch (task) {
        case Task::create_container:
            if (container.phase == Phase::absent && !error) container.phase = Phase::created;
            if (error) return fail_container(container, *error);
            container.was_created = true;
            answer(container.creating, {}, container.id);
            emit(Changed{Changed::What::created, container.id});
            return;
        case Task::start_container:
            container.wants_start = false;
            if (error) {
                answer(container.starting, error);
                // It is spent: what the runtime has left of it ends, and its end is told as that of a program.
                if (container.phase == Phase::created) container.reason = "StartError";
                grow(container.wish, Wish::stopped);
                return;
            }
            answer(container.starting, {});
            if (container.phase == Phase::created) container.phase = Phase::running;
            emit(Changed{Changed::What::started, container.id});
            if (container.phase == Phase::exited) emit(Changed{Changed::What::stopped, container.id});
            if (container.phase == Phase::running && container.wish != Wish::up) kill(container);
            return;
        case Task::remove_container:
            container.trouble.reset();
            if (!error) {
                container.is_gone = true;
                return;
            }
            container.waits = true;
            container.trouble = error;
            answer(container.creating, container.failure ? container.failure : error);
            answer(container.stopping, error);
            answer(container.removing, error);
            container.failure = error;
            emit(Arm{container.id, pause_before_retry});
            return;
        case Task::update_container:
            emit(Answer{container.updating.front(), error});
            container.updating.pop_front();
            return;
        case Task::make_pod:
        case Task::add_network:
        case Task::delete_network:
        case Task::check_network:
        case Task::end_monitor:
        case Task::remove_pod: return;
    }
}

void Core::on(Exited const& event) {
    Container* const container = find(containers_, event.container);
    if (!container || container->phase == Phase::exited) return;  // told before
    container->exit_code = event.code;
    container->is_out_of_memory = event.is_out_of_memory;
    ended(*container);
    Id const pod = container->pod;
    advance_container(event.container);
    advance_pod(pod);
}

void Core::on(MonitorLost const& event) {
    Pod* const pod = find(pods_, event.pod);
    if (!pod || !pod->has_monitor) return;
    pod->has_monitor = false;
    for (Id const& id : std::set(pod->containers)) {
        Container& container = containers_.at(id);
        if (container.phase != Phase::created && container.phase != Phase::running) continue;
        emit(Kill{id});  // nobody else tells its processes
        container.exit_code = killed;
        container.reason = "MonitorLost";
        ended(container);
        advance_container(id);
    }
    advance_pod(event.pod);
}

void Core::on(Expired const& event) {
    if (Pod* const pod = find(pods_, event.id)) {
        pod->waits = false;
        return advance_pod(event.id);
    }
    Container* const container = find(containers_, event.id);
    if (!container) return;
    if (container->wish != Wish::up && container->phase == Phase::running) kill(*container);
    Id const pod = container->pod;
    container->waits = false;
    advance_container(event.id);
    advance_pod(pod);
}

// --- From facts to wishes

void Core::fail_pod(Pod& pod, Error const& error) {
    if (!pod.failure) pod.failure = error;
    free_key(pod);
    grow(pod.wish, Wish::removed);
}

/// Others may have the name at once.
void Core::free_key(Pod const& pod) {
    if (auto const found = keys_.find(pod.key); found != keys_.end() && found->second == pod.id) keys_.erase(found);
}

void Core::fail_container(Container& container, Error const& error) {
    container.failure = error;
    grow(container.wish, Wish::removed);
}

void Core::ended(Container& container) {
    bool const was_running = container.phase == Phase::running || container.was_created;
    container.phase = Phase::exited;
    container.is_dying = true;
    if (was_running && container.work != Task::start_container) emit(Changed{Changed::What::stopped, container.id});
    answer(container.stopping, {});
}

void Core::kill(Container& container) {
    if (std::exchange(container.is_dying, true)) return;
    emit(Kill{container.id});
}

void Core::advance_container(Id id) {
    Container* const container = find(containers_, id);
    if (!container || container->work) return;
    if (container->wish == Wish::up) {
        if (!container->was_created && container->phase == Phase::absent)
            return begin(*container, Task::create_container);
        if (container->was_created) answer(container->creating, {}, id);
        if (container->phase == Phase::created && container->wants_start)
            return begin(*container, Task::start_container);
        if (container->phase == Phase::exited)
            refuse_updates(*container);
        else if (!container->updating.empty())
            begin(*container, Task::update_container);
        return;
    }
    refuse_updates(*container);
    if (container->wants_start) {
        container->wants_start = false;
        answer(container->starting, error(ErrorKind::refused, "container " + id + " was stopped"));
    }
    bool const is_alive = container->phase == Phase::created || container->phase == Phase::running;
    // A stop waits for its grace; everything else does not.
    if (is_alive && (container->wish == Wish::removed || container->phase == Phase::created)) kill(*container);
    if (is_alive) return;
    // One whose making has failed may have been made nevertheless.
    if (container->phase == Phase::exited) answer(container->stopping, {});
    if (container->wish != Wish::removed) return;
    if (container->is_gone) return erase_container(id);
    if (!container->waits) begin(*container, Task::remove_container);
}

void Core::refuse_updates(Container& container) {
    for (Ticket const ticket : std::exchange(container.updating, {}))
        emit(Answer{ticket, error(ErrorKind::refused, "container " + container.id + " does not run any more")});
}

void Core::erase_container(Id id) {
    auto const node = containers_.extract(id);
    Container container = std::move(node.mapped());
    answer(container.creating, container.failure);
    answer(container.starting, container.failure);
    answer(container.stopping, {});
    answer(container.removing, {});
    if (container.was_created) emit(Changed{Changed::What::deleted, id});
    if (Pod* const pod = find(pods_, container.pod)) pod->containers.erase(id);
}

void Core::advance_pod(Id id) {
    Pod* const pod = find(pods_, id);
    if (!pod || pod->work) return;
    if (pod->wish == Wish::up)
        bring_up(*pod);
    else if (!pod->waits)
        bring_down(*pod);
}

void Core::bring_up(Pod& pod) {
    if (!pod.is_made) return begin(pod, Task::make_pod);
    if (!pod.has_monitor && !pod.was_run) {
        fail_pod(pod, error(ErrorKind::unavailable, "the monitor of the pod has ended"));
        return bring_down(pod);
    }
    if (pod.wants_network && !pod.is_networked && pod.has_monitor) {
        pod.has_network = true;
        return begin(pod, Task::add_network);
    }
    if (!std::exchange(pod.was_run, true)) emit(Changed{Changed::What::started, pod.id});
    answer(pod.running, {}, pod.id);
    if (pod.wants_check && pod.is_networked && pod.has_monitor) begin(pod, Task::check_network);
}

/// Returns whether none of them lives, and, for a pod that is to be removed, none is there.
bool Core::take_containers_down(Pod& pod) {
    bool is_quiet = true;
    for (Id const& id : std::set(pod.containers)) {
        Container& container = containers_.at(id);
        grow(container.wish, pod.wish);
        if (container.phase == Phase::created || container.phase == Phase::running) kill(container);
        advance_container(id);
        Container const* const left = find(containers_, id);
        if (left && left->waits) answer(pod.removing, left->failure);
        if (left &&
            (left->work || pod.wish == Wish::removed || left->phase == Phase::created || left->phase == Phase::running))
            is_quiet = false;
    }
    return is_quiet;
}

void Core::bring_down(Pod& pod) {
    if (!pod.was_run && !pod.failure) pod.failure = error(ErrorKind::refused, "pod sandbox " + pod.id + " was stopped");
    if (!take_containers_down(pod)) return;
    if (pod.has_monitor) return begin(pod, Task::end_monitor);
    if (pod.has_network) return begin(pod, Task::delete_network);
    if (pod.wish != Wish::removed)
        answer(pod.running, error(ErrorKind::refused, "pod sandbox " + pod.id + " was stopped"));
    if (!pod.stopping.empty()) emit(Changed{Changed::What::stopped, pod.id});
    answer(pod.stopping, {});
    if (pod.wish != Wish::removed) return;
    if (pod.is_made) return begin(pod, Task::remove_pod);
    erase_pod(pod.id);
}

void Core::erase_pod(Id id) {
    auto const node = pods_.extract(id);
    Pod pod = std::move(node.mapped());
    free_key(pod);
    answer(pod.running, pod.failure ? pod.failure : error(ErrorKind::refused, "pod sandbox " + id + " was removed"));
    answer(pod.stopping, {});
    answer(pod.removing, {});
    if (pod.was_run) emit(Changed{Changed::What::deleted, id});
}

void Core::begin(Pod& pod, Task task) {
    pod.work = task;
    emit(Work{task, pod.id});
}

void Core::begin(Container& container, Task task) {
    container.work = task;
    emit(Work{task, container.id});
}

void Core::answer(std::vector<Ticket>& tickets, std::optional<Error> const& error, Id const& id) {
    for (Ticket const ticket : std::exchange(tickets, {}))
        emit(Answer{ticket, error, id});
}

}  // namespace triton::cri::core
