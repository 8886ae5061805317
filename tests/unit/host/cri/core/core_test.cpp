#include "host/cri/core/core.h"

#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace triton::cri::core {
namespace {

constexpr milliseconds second{1000};

Error broken() { return {.kind = ErrorKind::internal, .attempted = {}, .reason = "broken", .details = {}}; }

std::string task_name(Task task) {
    switch (task) {
        case Task::make_pod: return "make_pod";
        case Task::add_network: return "add_network";
        case Task::delete_network: return "delete_network";
        case Task::check_network: return "check_network";
        case Task::end_monitor: return "end_monitor";
        case Task::remove_pod: return "remove_pod";
        case Task::create_container: return "create";
        case Task::start_container: return "start";
        case Task::remove_container: return "remove";
        case Task::update_container: return "update";
    }
    return "?";
}

std::string text_of(Effect const& effect) {
    struct Text {
        std::string operator()(Work const& one) const { return task_name(one.task) + " " + one.id; }
        std::string operator()(SendStop const& one) const { return "stop " + one.container; }
        std::string operator()(Kill const& one) const { return "kill " + one.container; }
        std::string operator()(Arm const& one) const {
            return "arm " + one.id + " " + std::to_string(one.after.count());
        }
        std::string operator()(Answer const& one) const {
            return std::to_string(static_cast<int>(one.ticket)) + ": " +
                   (one.error ? one.error->text() : "ok " + one.id);
        }
        std::string operator()(Changed const& one) const {
            constexpr char const* names[] = {"created", "started", "stopped", "deleted"};
            return std::string(names[static_cast<int>(one.what)]) + " " + one.id;
        }
    };
    return std::visit(Text{}, effect);
}

class CoreTest : public testing::Test {
protected:
    std::vector<std::string> step(Event const& event) {
        std::vector<std::string> texts;
        for (Effect const& effect : core.step(event))
            texts.push_back(text_of(effect));
        return texts;
    }
    void make_pod(bool has_network = false) {
        step(RunPod{Ticket{1}, "p", "key", "content", has_network});
        step(Done{"p"});
        if (has_network) step(Done{"p"});
    }
    void make_container() {
        step(CreateContainer{Ticket{2}, "p", "c", "name", "content"});
        step(Done{"c"});
    }
    void run_container() {
        make_container();
        step(StartContainer{Ticket{3}, "c"});
        step(Done{"c"});
    }
    using Texts = std::vector<std::string>;
    Core core;
};

TEST_F(CoreTest, PodWithNetworkComesUpAndGoesInReverse) {
    EXPECT_EQ(step(RunPod{Ticket{1}, "p", "key", "content", true}), Texts{"make_pod p"});
    EXPECT_EQ(step(Done{"p"}), Texts{"add_network p"});
    EXPECT_FALSE(core.pods().at("p").is_ready());
    EXPECT_EQ(step(Done{"p"}), (Texts{"started p", "1: ok p"}));
    EXPECT_TRUE(core.pods().at("p").is_ready());
    EXPECT_EQ(step(StopPod{Ticket{2}, "p"}), Texts{"end_monitor p"});
    EXPECT_EQ(step(Done{"p"}), Texts{"delete_network p"});
    EXPECT_EQ(step(Done{"p"}), (Texts{"stopped p", "2: ok "}));
    EXPECT_EQ(step(RemovePod{Ticket{3}, "p"}), Texts{"remove_pod p"});
    EXPECT_EQ(step(Done{"p"}), (Texts{"3: ok ", "deleted p"}));
    EXPECT_TRUE(core.pods().empty());
    EXPECT_EQ(step(RemovePod{Ticket{4}, "p"}), Texts{"4: ok "});
}

TEST_F(CoreTest, EqualRequestsShareTheWork) {
    step(RunPod{Ticket{1}, "p", "key", "content"});
    EXPECT_EQ(step(RunPod{Ticket{2}, "q", "key", "content"}), Texts{});
    EXPECT_EQ(step(RunPod{Ticket{3}, "r", "key", "other"}),
              Texts{"3: another pod sandbox of that name and attempt exists: p"});
    EXPECT_EQ(step(Done{"p"}), (Texts{"started p", "1: ok p", "2: ok p"}));
    EXPECT_EQ(step(RunPod{Ticket{4}, "s", "key", "content"}), Texts{"4: ok p"});
}

TEST_F(CoreTest, FailedPodIsUndoneAndItsNameIsFree) {
    step(RunPod{Ticket{1}, "p", "key", "content", true});
    step(Done{"p"});
    EXPECT_EQ(step(Done{"p", broken()}), Texts{"end_monitor p"});
    EXPECT_EQ(step(RunPod{Ticket{2}, "q", "key", "content"}), Texts{"make_pod q"});
    EXPECT_EQ(step(Done{"p"}), Texts{"delete_network p"});
    EXPECT_EQ(step(Done{"p", broken()}), (Texts{"1: broken", "arm p 60000"}));
    EXPECT_EQ(step(Expired{"p"}), Texts{"delete_network p"});
    EXPECT_EQ(step(Done{"p"}), Texts{"remove_pod p"});
    EXPECT_EQ(step(Done{"p"}), Texts{});
    EXPECT_FALSE(core.pods().contains("p"));
}

TEST_F(CoreTest, StopWaitsForItsGrace) {
    make_pod();
    run_container();
    EXPECT_EQ(step(StopContainer{Ticket{4}, "c", 30 * second}), (Texts{"stop c", "arm c 30000"}));
    EXPECT_EQ(step(StopContainer{Ticket{5}, "c", 2 * second}), Texts{"arm c 2000"});
    EXPECT_EQ(step(Expired{"c"}), Texts{"kill c"});
    EXPECT_EQ(step(Exited{"c", 137}), (Texts{"stopped c", "4: ok ", "5: ok "}));
    EXPECT_EQ(step(Exited{"c", 0}), Texts{}) << "an exit is told once";
    EXPECT_EQ(core.containers().at("c").exit_code, 137);
    EXPECT_EQ(step(StopContainer{Ticket{6}, "c", second}), Texts{"6: ok "});
}

TEST_F(CoreTest, RemovalKillsAndAsksOnce) {
    make_pod();
    run_container();
    EXPECT_EQ(step(RemoveContainer{Ticket{4}, "c"}), Texts{"kill c"});
    EXPECT_EQ(step(RemoveContainer{Ticket{5}, "c"}), Texts{});
    EXPECT_EQ(step(Exited{"c", 137}), (Texts{"stopped c", "remove c"}));
    EXPECT_EQ(step(Done{"c", broken()}), (Texts{"4: broken", "5: broken", "arm c 60000"}));
    EXPECT_EQ(step(RemoveContainer{Ticket{6}, "c"}), Texts{"remove c"});
    EXPECT_EQ(step(Done{"c"}), (Texts{"6: ok ", "deleted c"}));
}

TEST_F(CoreTest, FailedCreationLeavesNothing) {
    make_pod();
    step(CreateContainer{Ticket{2}, "p", "c", "name", "content"});
    EXPECT_EQ(step(Done{"c", broken()}), Texts{"remove c"});
    EXPECT_EQ(step(CreateContainer{Ticket{3}, "p", "d", "name", "content"}), Texts{"create d"}) << "the name is free";
    EXPECT_EQ(step(Done{"c"}), Texts{"2: broken"});
    EXPECT_FALSE(core.containers().contains("c"));
}

TEST_F(CoreTest, OnlyOneStartWins) {
    make_pod();
    make_container();
    EXPECT_EQ(step(StartContainer{Ticket{3}, "c"}), Texts{"start c"});
    EXPECT_EQ(step(StartContainer{Ticket{4}, "c"}), Texts{"4: container c was started or stopped before"});
    EXPECT_EQ(step(Exited{"c", 0}), Texts{}) << "it was faster than the answer of its start";
    EXPECT_EQ(step(Done{"c"}), (Texts{"3: ok ", "started c", "stopped c"}));
}

TEST_F(CoreTest, LimitsAreChangedOneAfterTheOther) {
    make_pod();
    EXPECT_EQ(step(UpdateContainer{Ticket{9}, "c"}), Texts{"9: container c does not exist"});
    run_container();
    EXPECT_EQ(step(UpdateContainer{Ticket{4}, "c"}), Texts{"update c"});
    EXPECT_EQ(step(UpdateContainer{Ticket{5}, "c"}), Texts{});
    EXPECT_EQ(step(UpdateContainer{Ticket{6}, "c"}), Texts{});
    EXPECT_EQ(step(Done{"c"}), (Texts{"4: ok ", "update c"}));
    EXPECT_EQ(step(Done{"c", broken()}), (Texts{"5: broken", "update c"}));
    EXPECT_EQ(step(UpdateContainer{Ticket{7}, "c"}), Texts{});
    EXPECT_EQ(step(StopContainer{Ticket{8}, "c"}), Texts{"kill c"}) << "a stop does not wait for limits";
    EXPECT_EQ(step(Exited{"c", 137}), (Texts{"stopped c", "8: ok "}));
    EXPECT_EQ(step(Done{"c"}), (Texts{"6: ok ", "7: container c does not run any more"}));
    EXPECT_EQ(step(UpdateContainer{Ticket{9}, "c"}), Texts{"9: container c does not run any more"});
}

TEST_F(CoreTest, LimitsOfAContainerThatEndsAreRefused) {
    make_pod();
    run_container();
    step(UpdateContainer{Ticket{4}, "c"});
    step(UpdateContainer{Ticket{5}, "c"});
    EXPECT_EQ(step(Exited{"c", 0}), Texts{"stopped c"});
    EXPECT_EQ(step(Done{"c"}), (Texts{"4: ok ", "5: container c does not run any more"}));
}

TEST_F(CoreTest, LostMonitorEndsItsContainersOnly) {
    make_pod();
    run_container();
    EXPECT_EQ(step(MonitorLost{"p"}), (Texts{"kill c", "stopped c"}));
    EXPECT_FALSE(core.pods().at("p").is_ready());
    EXPECT_EQ(core.containers().at("c").reason, "MonitorLost");
    EXPECT_EQ(step(CreateContainer{Ticket{4}, "p", "d", "other", "x"}), Texts{"4: pod sandbox p is not ready"});
    EXPECT_EQ(step(MonitorLost{"p"}), Texts{});
    EXPECT_EQ(step(StopPod{Ticket{5}, "p"}), (Texts{"stopped p", "5: ok "}));
}

TEST_F(CoreTest, PodWaitsForItsContainers) {
    make_pod();
    run_container();
    EXPECT_EQ(step(RemovePod{Ticket{4}, "p"}), Texts{"kill c"});
    EXPECT_EQ(step(Exited{"c", 137}), (Texts{"stopped c", "remove c"}));
    EXPECT_EQ(step(Done{"c"}), (Texts{"deleted c", "end_monitor p"}));
    EXPECT_EQ(step(Done{"p"}), Texts{"remove_pod p"});
    EXPECT_EQ(step(Done{"p"}), (Texts{"4: ok ", "deleted p"}));
}

TEST_F(CoreTest, NetworkThatIsCheckedIsNotDeletedMeanwhile) {
    Pod pod{.id = "p"};
    pod.key = "key";
    pod.wants_network = pod.is_made = pod.has_monitor = pod.has_network = pod.is_networked = pod.was_run = true;
    pod.wants_check = true;
    core.restore(pod);
    ASSERT_EQ(core.resume().size(), 1U);
    EXPECT_EQ(step(StopPod{Ticket{1}, "p"}), Texts{});
    EXPECT_EQ(step(Done{"p", broken()}), Texts{"end_monitor p"}) << "what it finds changes nothing";
    EXPECT_EQ(step(Done{"p"}), Texts{"delete_network p"});
}

TEST_F(CoreTest, StartGoesOnWithWhatWasFound) {
    Pod pod{.id = "p"};
    pod.key = "key";
    pod.is_made = true;
    pod.has_network = true;
    pod.wish = Wish::removed;  // it was being made
    core.restore(pod);
    Texts texts;
    for (Effect const& effect : core.resume())
        texts.push_back(text_of(effect));
    EXPECT_EQ(texts, Texts{"delete_network p"});
    EXPECT_EQ(step(RunPod{Ticket{1}, "q", "key", "content"}), Texts{"make_pod q"});
}

}  // namespace
}  // namespace triton::cri::core
