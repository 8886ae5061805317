#include "host/cri/sandbox/stray_search.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "host/cri/sandbox/pods.h"

namespace triton::cri {

std::set<std::string> parents_of(Pods const& pods) {
    std::set<std::string> parents;
    for (auto const& [id, pod] : pods.core().pods())
        if (PodData const* const data = pods.find_pod(id))
            parents.insert(data->record.config().linux().cgroup_parent());
    return parents;
}

bool is_known(Pods const& pods, Belonging const& one) {
    return is_of_pod(one.kind) ? pods.find_pod(one.id) != nullptr : pods.find_container(one.id) != nullptr;
}

StraySearch::StraySearch(Pods& pods, PodService::Surroundings around, milliseconds pause)
    : pods_(pods), around_(std::move(around)), pause_(pause), timer_(around_.loop), worker_(1) {}

void StraySearch::begin() {
    timer_.call_at(steady_now() + pause_, [this] { list(); });
}

void StraySearch::list() {
    begin();
    run([this, parents = parents_of(pods_)] {
        auto const all = std::make_shared<std::vector<Belonging>>(list_belongings(pods_.facts(), parents, Names::ids));
        around_.post([this, all] { remove(*all); });
    });
}

void StraySearch::remove(std::vector<Belonging> const& all) {
    std::vector<Belonging> strays;
    std::ranges::copy_if(all, std::back_inserter(strays),
                         [this](Belonging const& one) { return !is_known(pods_, one); });
    if (strays.empty()) return;
    run([this, strays = std::move(strays)] {
        for (Belonging const& one : strays) {
            std::string const what = std::string(name_of(one.kind)) + " " + one.id + ", which does not exist";
            auto const removed = remove_stray(pods_.facts(), one);
            around_.post([this, text = removed ? "removed: " + what : what + ": " + removed.error().text()] {
                around_.warn(text);
            });
        }
    });
}

void StraySearch::run(std::function<void()> work) {
    if (auto const queued = worker_.run(std::move(work)); !queued) around_.warn(queued.error().text());
}

}  // namespace triton::cri
