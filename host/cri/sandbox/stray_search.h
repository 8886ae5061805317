#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "host/cri/images/workers.h"
#include "host/cri/sandbox/pod_service.h"
#include "host/cri/sandbox/strays.h"
#include "lib/base/clock.h"
#include "lib/net/loop.h"

namespace triton::cri {

class Pods;

/// The control groups that pods have above their own.
std::set<std::string> parents_of(Pods const& pods);
/// Whether there is the pod or container that something belongs to.
bool is_known(Pods const& pods, Belonging const& one);

/// Removes now and then what no pod or container knows, as a start does, and warns of each. All is listed in a thread;
/// then the loop's thread says what is known: see list_belongings().
class StraySearch {
public:
    StraySearch(Pods& pods, PodService::Surroundings around, milliseconds pause);
    /// The first search is after the pause.
    void begin();

private:
    void list();
    void remove(std::vector<Belonging> const& all);
    void run(std::function<void()> work);

    Pods& pods_;
    PodService::Surroundings around_;
    milliseconds pause_;
    net::Timer timer_;
    Workers worker_;
};

}  // namespace triton::cri
