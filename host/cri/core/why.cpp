#include "host/cri/core/why.h"

#include <utility>

namespace triton::cri::core {

namespace {

bool lives(Container const& container) {
    return container.phase == Phase::created || container.phase == Phase::running;
}

/// "2 calls of StopPodSandbox wait for that."
void add_calls(std::vector<std::string>& lines, std::size_t count, std::string_view call) {
    if (count == 0) return;
    lines.push_back(std::to_string(count) + (count == 1 ? " call of " : " calls of ") + std::string(call) +
                    (count == 1 ? " waits for that." : " wait for that."));
}

void add_trouble(std::vector<std::string>& lines, bool waits, std::optional<Error> const& trouble) {
    if (!waits) return;
    lines.push_back("The last attempt has failed: " + (trouble ? trouble->text() : std::string("unknown")) + ".");
    lines.emplace_back("It is tried again within a minute; `criadm recover` tries now.");
}

std::string first_sentence(Pod const& pod) {
    if (pod.wish == Wish::removed && pod.failure) return "It has failed and is removed: " + pod.failure->text() + ".";
    if (pod.wish == Wish::removed) return "It is removed: RemovePodSandbox was called.";
    if (pod.wish == Wish::stopped && state_word(pod) == "stopped")
        return "It was stopped: nothing of it runs, and its network was deleted.";
    if (pod.wish == Wish::stopped) return "It is stopped: StopPodSandbox was called.";
    if (pod.is_ready())
        return pod.wants_network ? "It is ready: its monitor runs, and it has its network."
                                 : "It is ready: its monitor runs, and it uses the network of the node.";
    if (pod.was_run)
        return "It is not ready: its monitor (triton-pod) has ended, and all of its containers with it. kubelet "
               "replaces "
               "it by a new pod; `criadm remove` removes it without kubelet.";
    return "It is started.";
}

std::string first_sentence(Container const& container) {
    if (container.wish == Wish::removed && container.failure)
        return "It has failed and is removed: " + container.failure->text() + ".";
    if (container.wish == Wish::removed) return "It is removed: RemoveContainer was called, or its pod is removed.";
    switch (container.phase) {
        case Phase::absent: return "It is made.";
        case Phase::created:
            return container.wants_start ? "It is started." : "It is made, and waits for StartContainer.";
        case Phase::running:
            if (container.wish == Wish::up) return "It runs.";
            return container.is_dying ? "It is killed: its grace period is over, or its pod is stopped."
                                      : "It has got its stop signal, and is killed when its grace period is over.";
        case Phase::exited: break;
    }
    std::string text = "It has exited with " + std::to_string(container.exit_code);
    if (container.exit_code > 128 && container.exit_code < 128 + 65)
        text += " (signal " + std::to_string(container.exit_code - 128) + ")";
    if (container.is_out_of_memory)
        return text + ": the kernel has killed it, because it used more memory than its limit.";
    if (container.reason == "MonitorLost") return text + ": the monitor of its pod has ended.";
    if (container.reason == "StartError") return text + ": it could not be started.";
    if (container.reason == "Unknown") return text + ": nobody has seen its end, as after a reboot of the node.";
    return text + ".";
}

}  // namespace

std::string_view state_word(Pod const& pod) {
    switch (pod.wish) {
        case Wish::removed: return "removing";
        case Wish::stopped: return pod.has_monitor || pod.has_network || pod.work ? "stopping" : "stopped";
        case Wish::up: break;
    }
    if (pod.is_ready()) return "ready";
    return pod.was_run ? "not-ready" : "starting";
}

std::string_view state_word(Container const& container) {
    if (container.wish == Wish::removed) return "removing";
    switch (container.phase) {
        case Phase::absent: return "creating";
        case Phase::created: return container.wants_start ? "starting" : "created";
        case Phase::running: return container.wish == Wish::up ? "running" : "stopping";
        case Phase::exited: return "exited";
    }
    std::unreachable();
}

std::string_view describe(Task task) {
    switch (task) {
        case Task::make_pod: return "its record, its files and its monitor are made";
        case Task::add_network: return "the plugins make its network";
        case Task::delete_network: return "the plugins delete its network";
        case Task::check_network: return "the plugins check its network";
        case Task::end_monitor: return "its monitor ends, with what is left in the runtime";
        case Task::remove_pod: return "its record and files are removed";
        case Task::create_container: return "its files are made, and the runtime makes it";
        case Task::start_container: return "the runtime starts it";
        case Task::remove_container: return "the runtime deletes it, and its files are removed";
        case Task::update_container: return "the runtime changes its limits";
    }
    std::unreachable();
}

std::vector<std::string> why(Core const& core, Pod const& pod) {
    std::vector<std::string> lines{first_sentence(pod)};
    if (pod.work) lines.push_back("Now " + std::string(describe(*pod.work)) + ".");
    add_trouble(lines, pod.waits, pod.trouble);
    if (pod.wish != Wish::up)
        for (Id const& id : pod.containers) {
            Container const& container = core.containers().at(id);
            if (lives(container) || (pod.wish == Wish::removed && !container.waits) || container.work)
                lines.push_back("It waits for container " + id + ": " + std::string(state_word(container)) + ".");
            else if (container.waits)
                lines.push_back("It waits for container " + id + ", whose removal fails.");
        }
    add_calls(lines, pod.running.size(), "RunPodSandbox");
    add_calls(lines, pod.stopping.size(), "StopPodSandbox");
    add_calls(lines, pod.removing.size(), "RemovePodSandbox");
    return lines;
}

std::vector<std::string> why(Core const& core, Container const& container) {
    std::vector<std::string> lines{first_sentence(container)};
    if (container.work) lines.push_back("Now " + std::string(describe(*container.work)) + ".");
    if (container.wish == Wish::removed && lives(container))
        lines.emplace_back("It was killed, and has not ended yet.");
    add_trouble(lines, container.waits, container.trouble);
    auto const pod = core.pods().find(container.pod);
    if (pod != core.pods().end() && !pod->second.is_ready() && container.wish == Wish::up)
        lines.push_back("Its pod is " + std::string(state_word(pod->second)) + ".");
    add_calls(lines, container.creating.size(), "CreateContainer");
    add_calls(lines, container.starting.size(), "StartContainer");
    add_calls(lines, container.stopping.size(), "StopContainer");
    add_calls(lines, container.removing.size(), "RemoveContainer");
    add_calls(lines, container.updating.size(), "UpdateContainerResources");
    return lines;
}

}  // namespace triton::cri::core
