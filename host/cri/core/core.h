#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host/cri/core/events.h"
#include "lib/base/result.h"

namespace triton::cri::core {

/// What somebody wants of a pod or a container. It only ever grows: what is to be removed is never wanted again.
enum class Wish : std::uint8_t { up, stopped, removed };

/// Where a container is. `created`: in the runtime, and not started.
enum class Phase : std::uint8_t { absent, created, running, exited };

struct Container {
    Id id;
    Id pod;
    std::string key = {};
    std::string content = {};
    Wish wish = Wish::up;
    Phase phase = Phase::absent;
    bool was_created = false;  ///< a call was told its id
    bool wants_start = false;
    bool has_been_told = false;  ///< it got its stop signal
    bool is_dying = false;       ///< it got SIGKILL
    bool is_gone = false;        ///< nothing is left of it
    bool waits = false;          ///< before its removal is tried again
    int exit_code = 0;
    bool is_out_of_memory = false;
    std::string reason = {};  ///< why it has exited, where its end was not seen
    std::optional<Error> failure = {};
    std::optional<Error> trouble = {};  ///< what its removal has failed with, and is tried again
    std::optional<Task> work = {};
    std::vector<Ticket> creating = {};
    std::vector<Ticket> starting = {};
    std::vector<Ticket> stopping = {};
    std::vector<Ticket> removing = {};
    std::deque<Ticket> updating = {};
};

struct Pod {
    Id id;
    std::string key = {};
    std::string content = {};
    Wish wish = Wish::up;
    bool wants_network = false;
    bool is_made = false;      ///< its record is there, and its monitor was
    bool has_monitor = false;  ///< which lives
    bool has_network = false;  ///< or part of one: there is something to delete
    bool is_networked = false;
    bool wants_check = false;  ///< of its network
    bool was_run = false;      ///< a call was told its id
    bool waits = false;        ///< for a timer, before it tries again
    std::set<Id> containers = {};
    std::optional<Error> failure = {};
    std::optional<Error> trouble = {};  ///< what work that is tried again has failed with
    std::optional<Task> work = {};
    std::vector<Ticket> running = {};
    std::vector<Ticket> stopping = {};
    std::vector<Ticket> removing = {};

    /// Whether containers can be made in it.
    [[nodiscard]] bool is_ready() const {
        return wish == Wish::up && is_made && has_monitor && (!wants_network || is_networked);
    }
};

/// All decisions about pods and containers: an event comes in, and effects come out. There is no clock, no file and no
/// process in it, so that the same code runs in tritoncrid and in a simulation.
///
/// A pod and a container have facts, and a wish. After each event, what lies between the two is done one piece of work
/// at a time, and each piece has an end: so a request that was lost, doubled or is late changes nothing, and a start
/// after a crash is nothing but facts. Work that was begun goes on when its client has gone.
///
/// - Equal requests for something with the same key share the work and its result; an unequal one is `exists`.
/// - What fails on the way up is undone, and its key is free at once.
/// - A container never waits for another pod's; a pod waits for its containers.
/// - A network is deleted until that succeeds.
class Core {
public:
    std::vector<Effect> step(Event const& event);

    [[nodiscard]] std::map<Id, Pod> const& pods() const { return pods_; }
    [[nodiscard]] std::map<Id, Container> const& containers() const { return containers_; }

    /// Takes what a start has found. Called before the first step(); the containers after their pod.
    void restore(Pod pod);
    void restore(Container container);
    /// Goes on with everything that was restored.
    std::vector<Effect> resume();

private:
    void on(RunPod const& event);
    void on(StopPod const& event);
    void on(RemovePod const& event);
    void on(CreateContainer const& event);
    void on(StartContainer const& event);
    void on(StopContainer const& event);
    void on(RemoveContainer const& event);
    void on(UpdateContainer const& event);
    void on(Done const& event);
    void on(Exited const& event);
    void on(MonitorLost const& event);
    void on(Expired const& event);

    void done(Pod& pod, Task task, std::optional<Error> const& error);
    void done(Container& container, Task task, std::optional<Error> const& error);
    void fail_pod(Pod& pod, Error const& error);
    void fail_container(Container& container, Error const& error);
    void ended(Container& container);
    void advance_pod(Id id);
    void advance_container(Id id);
    void bring_up(Pod& pod);
    void bring_down(Pod& pod);
    bool take_containers_down(Pod& pod);
    void free_key(Pod const& pod);
    void erase_pod(Id id);
    void erase_container(Id id);
    void refuse_updates(Container& container);
    void kill(Container& container);
    void begin(Pod& pod, Task task);
    void begin(Container& container, Task task);
    void answer(std::vector<Ticket>& tickets, std::optional<Error> const& error, Id const& id = {});
    void emit(Effect effect) { effects_.push_back(std::move(effect)); }

    std::map<Id, Pod> pods_;
    std::map<Id, Container> containers_;
    std::map<std::string, Id, std::less<>> keys_;  // of pods
    std::vector<Effect> effects_;
};

}  // namespace triton::cri::core
