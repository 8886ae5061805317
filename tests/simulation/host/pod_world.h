#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "host/cri/core/core.h"

namespace triton::simulation {

/// A host with disk, monitors and network plugins, on which the core of tritoncrid decides about pods. Clients ask for
/// what they like; work fails, before, in the middle and at its end; programs and monitors end; exits are told late and
/// twice; and the daemon is killed at any time.
class PodWorld {
public:
    explicit PodWorld(std::uint64_t seed) : random_(seed) {}

    void step();
    /// Nothing fails any more: everything comes to its end, and then all pods are removed.
    void settle();
    /// What must not be, and is; empty: nothing.
    [[nodiscard]] std::string const& problem() const { return problem_; }
    [[nodiscard]] std::uint64_t made() const { return made_; }
    [[nodiscard]] std::uint64_t removed() const { return removed_; }
    [[nodiscard]] std::uint64_t kills() const { return kills_; }
    [[nodiscard]] std::uint64_t exits() const { return exits_; }
    [[nodiscard]] std::uint64_t updates() const { return updates_; }

private:
    using Id = cri::core::Id;

    struct DiskPod {
        std::string key;
        std::string content;
        bool wants_network = false;
        bool has_network = false;
        bool is_networked = false;
        bool was_run = false;
        bool is_stopped = false;
    };
    struct DiskContainer {
        Id pod;
        std::string key;
        std::string content;
        bool was_created = false;
        bool is_exited = false;
        int code = 0;
    };
    struct Monitored {
        cri::core::Phase phase = cri::core::Phase::absent;
        int code = 0;
    };

    std::uint64_t below(std::uint64_t number) { return random_() % number; }
    bool chance(std::uint64_t one_in) { return !is_settling_ && below(one_in) == 0; }
    template <class Things>
    std::optional<Id> any_of(Things const& things);
    void complain(std::string const& what);

    void ask();
    void feed(cri::core::Event const& event);
    void perform(cri::core::Work const& work);
    void perform(cri::core::SendStop const& effect);
    void perform(cri::core::Kill const& effect);
    void perform(cri::core::Arm const& effect);
    void perform(cri::core::Answer const& effect);
    void perform(cri::core::Changed const& effect);

    void finish_work();
    /// Does it, or a part of it. Returns whether it is done.
    bool do_work(cri::core::Work const& work, bool is_whole);
    void end_container(Id const& id, int code);
    void lose_monitor(Id const& pod);
    void kill_daemon();
    void deliver();
    void expire();
    void check();

    std::mt19937_64 random_;
    cri::core::Core core_;
    std::map<Id, DiskPod> pods_;
    std::map<Id, DiskContainer> containers_;
    std::map<Id, std::map<Id, Monitored>> monitors_;
    std::set<Id> networks_;  ///< addresses that plugins have given
    std::map<Id, cri::core::Task> works_;
    std::set<Id> timers_;
    std::deque<cri::core::Event> late_;  ///< what monitors have said, and nobody has heard yet
    std::map<std::uint64_t, cri::core::Event> tickets_;
    std::uint64_t next_ = 1;
    std::string problem_;
    bool is_settling_ = false;
    std::uint64_t made_ = 0;
    std::uint64_t removed_ = 0;
    std::uint64_t kills_ = 0;
    std::uint64_t exits_ = 0;
    std::uint64_t updates_ = 0;
};

}  // namespace triton::simulation
