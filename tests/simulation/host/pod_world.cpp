#include "tests/simulation/host/pod_world.h"

#include <iterator>
#include <utility>
#include <variant>

namespace triton::simulation {

using namespace cri::core;

namespace {

constexpr std::uint64_t keys = 4;
constexpr int most_settling = 20'000;

Error bad_luck() { return {.kind = ErrorKind::internal, .attempted = {}, .reason = "bad luck", .details = {}}; }

bool is_alive(Phase phase) { return phase == Phase::created || phase == Phase::running; }

}  // namespace

template <class Things>
std::optional<Id> PodWorld::any_of(Things const& things) {
    if (things.empty()) return std::nullopt;
    auto one = things.begin();
    std::advance(one, below(things.size()));
    return one->first;
}

void PodWorld::complain(std::string const& what) {
    if (problem_.empty()) problem_ = what;
}

void PodWorld::step() {
    switch (below(12)) {
        case 0:
        case 1:
        case 2: ask(); break;
        case 3:
        case 4:
        case 5:
        case 6: finish_work(); break;
        case 7:
        case 8: deliver(); break;
        case 9: expire(); break;
        case 10: {
            auto const pod = any_of(monitors_);
            if (!pod) break;
            if (chance(8)) {
                lose_monitor(*pod);
            } else if (auto const container = any_of(monitors_.at(*pod));
                       container && monitors_.at(*pod).at(*container).phase == Phase::running) {
                end_container(*container, static_cast<int>(below(3)));
            }
            break;
        }
        default:
            if (chance(20)) kill_daemon();
    }
    check();
}

void PodWorld::ask() {
    Ticket const ticket{next_};
    Id const id = "x" + std::to_string(next_);
    std::string const key = std::to_string(below(keys));
    auto const pod = any_of(core_.pods());
    auto const container = any_of(core_.containers());
    Event event =
        RunPod{ticket, "p" + std::to_string(next_), key, std::to_string(below(8) == 0 ? 1 : 0), below(2) == 0};
    switch (below(9)) {
        case 8:
            if (container) event = UpdateContainer{ticket, *container};
            break;
        case 0:
        case 1:
            if (pod) event = CreateContainer{ticket, *pod, "c" + std::to_string(next_), key, "same"};
            break;
        case 2:
        case 3:
            if (container) event = StartContainer{ticket, *container};
            break;
        case 4:
            if (container) event = StopContainer{ticket, *container, milliseconds{below(2) * 1000}};
            break;
        case 5:
            if (container) event = RemoveContainer{ticket, *container};
            break;
        case 6:
            if (pod && below(2) == 0) event = StopPod{ticket, *pod};
            if (pod && below(3) == 0) event = RemovePod{ticket, *pod};
            break;
        default: break;
    }
    tickets_.emplace(next_++, event);
    feed(event);
}

void PodWorld::feed(Event const& event) {
    if (auto const* const run = std::get_if<RunPod>(&event); run && !pods_.contains(run->id)) {
        // The record is made by the work; what it will say is known here.
        pods_[run->id] = {.key = run->key, .content = run->content, .wants_network = run->has_network};
    }
    if (auto const* const create = std::get_if<CreateContainer>(&event); create && !containers_.contains(create->id))
        containers_[create->id] = {.pod = create->pod, .key = create->key, .content = create->content};
    for (Effect const& effect : core_.step(event))
        std::visit([this](auto const& one) { perform(one); }, effect);
    if (auto const* const run = std::get_if<RunPod>(&event); run && !core_.pods().contains(run->id))
        pods_.erase(run->id);
    if (auto const* const create = std::get_if<CreateContainer>(&event);
        create && !core_.containers().contains(create->id))
        containers_.erase(create->id);
}

void PodWorld::perform(Work const& work) {
    if (works_.contains(work.id)) complain("two works at once for " + work.id);
    if (work.task == Task::add_network) pods_.at(work.id).has_network = true;  // the record comes before the plugins
    if (work.task == Task::remove_pod && networks_.contains(work.id))
        complain("pod " + work.id + " is removed with its address");
    works_[work.id] = work.task;
}

void PodWorld::perform(SendStop const& effect) {
    if (below(2) == 0) end_container(effect.container, 0);  // others are deaf
}

void PodWorld::perform(Kill const& effect) { end_container(effect.container, 137); }

void PodWorld::perform(Arm const& effect) { timers_.insert(effect.id); }

void PodWorld::perform(Answer const& effect) {
    auto const node = tickets_.extract(static_cast<std::uint64_t>(effect.ticket));
    if (!node) return complain("a call was answered twice, or was none");
    if (effect.error) return;
    Event const& event = node.mapped();
    auto const is_running = [&](Id const& id) {
        for (auto const& [pod, table] : monitors_)
            if (auto const found = table.find(id); found != table.end() && is_alive(found->second.phase)) return true;
        return false;
    };
    if (auto const* const stop = std::get_if<StopContainer>(&event); stop && is_running(stop->container))
        complain("container " + stop->container + " runs after its stop");
    if (auto const* const remove = std::get_if<RemoveContainer>(&event); remove && is_running(remove->container))
        complain("container " + remove->container + " runs after its removal");
    if (auto const* const stop = std::get_if<StopPod>(&event);
        stop && (networks_.contains(stop->pod) || monitors_.contains(stop->pod)))
        complain("pod " + stop->pod + " has something after its stop");
    if (auto const* const remove = std::get_if<RemovePod>(&event);
        remove && (networks_.contains(remove->pod) || monitors_.contains(remove->pod) || pods_.contains(remove->pod)))
        complain("pod " + remove->pod + " has something after its removal");
}

void PodWorld::perform(Changed const& effect) {
    using What = Changed::What;
    if (auto const pod = pods_.find(effect.id); pod != pods_.end()) {
        if (effect.what == What::started) ++made_;
        if (effect.what == What::started) pod->second.was_run = true;
        if (effect.what == What::stopped) pod->second.is_stopped = true;
    }
    if (auto const container = containers_.find(effect.id); container != containers_.end()) {
        if (effect.what == What::created) container->second.was_created = true;
        if (effect.what == What::stopped) {
            container->second.is_exited = true;
            auto const decided = core_.containers().find(effect.id);
            if (decided != core_.containers().end()) container->second.code = decided->second.exit_code;
        }
    }
    if (effect.what == What::deleted) ++removed_;
}

void PodWorld::finish_work() {
    auto const id = any_of(works_);
    if (!id) return;
    Work const work{works_.at(*id), *id};
    bool const fails = chance(6);
    bool const is_done = do_work(work, !fails || chance(2));
    works_.erase(*id);
    feed(Done{*id, fails || !is_done ? std::optional(bad_luck()) : std::nullopt});
}

bool PodWorld::do_work(Work const& work, bool is_whole) {
    Id const& id = work.id;
    if (!pods_.contains(id) && !containers_.contains(id)) return true;  // it was done before, and nobody was told
    switch (work.task) {
        case Task::make_pod:
            if (is_whole) monitors_[id];
            return true;
        case Task::add_network:
            networks_.insert(id);
            if (is_whole) pods_.at(id).is_networked = true;
            return true;
        case Task::delete_network:
            if (is_whole) networks_.erase(id);
            return is_whole;
        case Task::check_network:
            if (!networks_.contains(id)) complain("the network of pod " + id + " is checked, and is not there");
            return is_whole;
        case Task::end_monitor: monitors_.erase(id); return true;
        case Task::remove_pod:
            monitors_.erase(id);
            if (is_whole) pods_.erase(id);
            return is_whole;
        case Task::create_container: {
            auto const monitor = monitors_.find(containers_.at(id).pod);
            if (monitor == monitors_.end()) return false;
            if (is_whole) monitor->second[id] = {.phase = Phase::created};
            return is_whole;
        }
        case Task::start_container: {
            auto const monitor = monitors_.find(containers_.at(id).pod);
            if (monitor == monitors_.end() || !monitor->second.contains(id)) return false;
            if (monitor->second.at(id).phase != Phase::created) return false;
            if (is_whole) monitor->second.at(id).phase = Phase::running;
            return is_whole;
        }
        case Task::update_container: {
            auto const monitor = monitors_.find(containers_.at(id).pod);
            bool const is_there = monitor != monitors_.end() && monitor->second.contains(id);
            if (is_there && is_whole) ++updates_;
            return is_there && is_whole;
        }
        case Task::remove_container: {
            if (!is_whole) return false;
            if (auto const monitor = monitors_.find(containers_.at(id).pod); monitor != monitors_.end())
                monitor->second.erase(id);
            containers_.erase(id);
            return true;
        }
    }
    return false;
}

void PodWorld::end_container(Id const& id, int code) {
    for (auto& [pod, table] : monitors_) {
        auto const found = table.find(id);
        if (found == table.end() || !is_alive(found->second.phase)) continue;
        found->second = {.phase = Phase::exited, .code = code};
        late_.push_back(Exited{id, code});
        ++exits_;
        if (chance(10)) late_.push_back(Exited{id, code});
    }
}

void PodWorld::lose_monitor(Id const& pod) {
    monitors_.erase(pod);
    late_.push_back(MonitorLost{pod});
}

void PodWorld::deliver() {
    if (late_.empty()) return;
    Event const event = late_.front();
    late_.pop_front();
    feed(event);
}

void PodWorld::expire() {
    if (timers_.empty()) return;
    auto one = timers_.begin();
    std::advance(one, below(timers_.size()));
    Id const id = *one;
    timers_.erase(one);
    feed(Expired{id});
}

/// What was under way is done, or a part of it, or nothing. What was told is forgotten; the monitors know it.
void PodWorld::kill_daemon() {
    ++kills_;
    for (auto const& [id, task] : works_)
        if (below(2) == 0) do_work({task, id}, below(2) == 0);
    works_.clear();
    timers_.clear();
    late_.clear();
    tickets_.clear();
    core_ = Core();
    for (auto const& [id, record] : pods_) {
        Pod pod{.id = id, .key = record.key, .content = record.content};
        pod.wants_network = record.wants_network;
        pod.is_made = true;
        pod.has_monitor = monitors_.contains(id);
        pod.was_run = record.was_run;
        pod.has_network = record.has_network;
        pod.is_networked = record.is_networked;
        pod.wants_check = record.is_networked;
        if (record.is_stopped) pod.wish = Wish::stopped;
        if (!record.was_run) pod.wish = Wish::removed;
        core_.restore(pod);
    }
    std::erase_if(containers_, [this](auto const& one) { return !pods_.contains(one.second.pod); });
    for (auto const& [id, record] : containers_) {
        Container container{.id = id, .pod = record.pod, .key = record.key, .content = record.content};
        container.was_created = record.was_created;
        auto const monitor = monitors_.find(record.pod);
        bool const is_known = monitor != monitors_.end() && monitor->second.contains(id);
        container.phase = record.is_exited || !is_known ? Phase::exited : monitor->second.at(id).phase;
        container.exit_code = is_known ? monitor->second.at(id).code : 255;
        if (!record.was_created) container.wish = Wish::removed;
        container.is_dying = container.phase == Phase::exited;
        core_.restore(container);
    }
    for (Effect const& effect : core_.resume())
        std::visit([this](auto const& one) { perform(one); }, effect);
}

void PodWorld::check() {
    std::set<std::string> ready;
    for (auto const& [id, pod] : core_.pods())
        if (pod.is_ready() && !ready.insert(pod.key).second) complain("two pods are ready by the name " + pod.key);
    for (Id const& id : networks_)
        if (!pods_.contains(id)) complain("an address is lost: " + id);
}

void PodWorld::settle() {
    is_settling_ = true;
    auto const run_dry = [this] {
        for (int i = 0; i < most_settling && problem_.empty(); ++i) {
            if (works_.empty() && late_.empty() && timers_.empty()) return;
            finish_work();
            deliver();
            if (works_.empty() && late_.empty()) expire();
            check();
        }
        complain("it does not come to rest");
    };
    run_dry();
    if (problem_.empty() && !tickets_.empty())
        complain("a call waits for ever: event " + std::to_string(tickets_.begin()->second.index()) + " of ticket " +
                 std::to_string(tickets_.begin()->first));
    std::vector<Id> ids;
    for (auto const& [id, pod] : core_.pods())
        ids.push_back(id);
    for (Id const& id : ids) {
        Event const event = RemovePod{Ticket{next_}, id};
        tickets_.emplace(next_++, event);
        feed(event);
    }
    run_dry();
    if (!problem_.empty()) return;
    if (!tickets_.empty()) complain("a removal waits for ever");
    if (!core_.pods().empty() || !core_.containers().empty()) complain("the core still has something");
    if (!pods_.empty() || !containers_.empty() || !monitors_.empty() || !networks_.empty())
        complain("something is left");
}

}  // namespace triton::simulation
