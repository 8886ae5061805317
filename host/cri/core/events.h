#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "lib/base/clock.h"
#include "lib/base/result.h"

/// What happens to pods and containers, and what is to be done about it. See core.h.
namespace triton::cri::core {

enum class Ticket : std::uint64_t {};  ///< a call that waits for its answer
using Id = std::string;

// Events: calls.

/// `key`: what must be unique among pods that live; `content`: equal for equal requests. `id`: for a new one.
struct RunPod {
    Ticket ticket;
    Id id;
    std::string key;
    std::string content;
    bool has_network = false;  ///< a namespace of its own
};
struct StopPod {
    Ticket ticket;
    Id pod;
};
struct RemovePod {
    Ticket ticket;
    Id pod;
};
struct CreateContainer {
    Ticket ticket;
    Id pod;
    Id id;
    std::string key;
    std::string content;
};
struct StartContainer {
    Ticket ticket;
    Id container;
};
struct StopContainer {
    Ticket ticket;
    Id container;
    milliseconds grace{};
};
struct RemoveContainer {
    Ticket ticket;
    Id container;
};
/// Other limits. Those of one container are changed in the order of their calls.
struct UpdateContainer {
    Ticket ticket;
    Id container;
};

// Events: of the world.

/// The work of a pod or of a container has ended.
struct Done {
    Id id;
    std::optional<Error> error = {};
};
struct Exited {
    Id container;
    int code = 0;
    bool is_out_of_memory = false;
};
/// The monitor of a pod has ended, whoever did that.
struct MonitorLost {
    Id pod;
};
/// The time of an Arm has passed.
struct Expired {
    Id id;
};

using Event = std::variant<RunPod, StopPod, RemovePod, CreateContainer, StartContainer, StopContainer, RemoveContainer,
                           UpdateContainer, Done, Exited, MonitorLost, Expired>;

// Effects. A Work is answered by one Done of the same id; a pod and a container have one at a time.

enum class Task : std::uint8_t {
    make_pod,          ///< its record, durable, and its monitor
    add_network,       ///< namespace, plugins
    delete_network,    ///< the reverse; succeeds when there is nothing
    check_network,     ///< of a pod that was there before us; an error changes nothing
    end_monitor,       ///< with what is left in the runtime
    remove_pod,        ///< its record and files
    create_container,  ///< its record, files, and in the runtime
    start_container,
    remove_container,  ///< from the runtime, its record and files
    update_container,  ///< for the oldest call that waits
};
struct Work {
    Task task;
    Id id;
    bool operator==(Work const&) const = default;
};
/// The stop signal, once.
struct SendStop {
    Id container;
    bool operator==(SendStop const&) const = default;
};
/// SIGKILL to everything in it.
struct Kill {
    Id container;
    bool operator==(Kill const&) const = default;
};
/// An Expired after that time. Replaces the one of that id before.
struct Arm {
    Id id;
    milliseconds after{};
    bool operator==(Arm const&) const = default;
};
struct Answer {
    Ticket ticket;
    std::optional<Error> error = {};
    Id id = {};  ///< of what was made
    bool operator==(Answer const&) const = default;
};
/// The state of a container or pod has changed: for its record, and for those who listen.
struct Changed {
    enum class What : std::uint8_t { created, started, stopped, deleted };
    What what;
    Id id;
    bool operator==(Changed const&) const = default;
};

using Effect = std::variant<Work, SendStop, Kill, Arm, Answer, Changed>;

}  // namespace triton::cri::core
