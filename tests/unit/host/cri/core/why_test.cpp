#include "host/cri/core/why.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace triton::cri::core {
namespace {

using Texts = std::vector<std::string>;

class WhyTest : public testing::Test {
protected:
    Texts of_pod() { return why(core, core.pods().at("p")); }
    Texts of_container() { return why(core, core.containers().at("c")); }
    std::string pod_word() { return std::string(state_word(core.pods().at("p"))); }
    std::string container_word() { return std::string(state_word(core.containers().at("c"))); }
    void run_container() {
        core.step(CreateContainer{Ticket{2}, "p", "c", "name", "content"});
        core.step(Done{"c"});
        core.step(StartContainer{Ticket{3}, "c"});
        core.step(Done{"c"});
    }
    void make_pod(bool has_network = false) {
        core.step(RunPod{Ticket{1}, "p", "key", "content", has_network});
        core.step(Done{"p"});
        if (has_network) core.step(Done{"p"});
    }
    Core core;
};

TEST_F(WhyTest, StartIsToldStepByStep) {
    core.step(RunPod{Ticket{1}, "p", "key", "content", true});
    EXPECT_EQ(pod_word(), "starting");
    EXPECT_EQ(of_pod(), (Texts{"It is started.", "Now its record, its files and its monitor are made.",
                               "1 call of RunPodSandbox waits for that."}));
    core.step(RunPod{Ticket{2}, "q", "key", "content", true});
    core.step(Done{"p"});
    EXPECT_EQ(of_pod(), (Texts{"It is started.", "Now the plugins make its network.",
                               "2 calls of RunPodSandbox wait for that."}));
    core.step(Done{"p"});
    EXPECT_EQ(pod_word(), "ready");
    EXPECT_EQ(of_pod(), Texts{"It is ready: its monitor runs, and it has its network."});
}

TEST_F(WhyTest, NetworkThatCannotBeDeletedIsNamed) {
    make_pod(true);
    core.step(StopPod{Ticket{2}, "p"});
    EXPECT_EQ(pod_word(), "stopping");
    core.step(Done{"p"});
    core.step(Done{"p", fail(ErrorKind::internal, "delete the network", "the plugin is missing").error()});
    EXPECT_EQ(pod_word(), "stopping");
    EXPECT_EQ(of_pod(), (Texts{"It is stopped: StopPodSandbox was called.",
                               "The last attempt has failed: cannot delete the network: the plugin is missing.",
                               "It is tried again within a minute; `criadm recover` tries now."}));
    core.step(Expired{"p"});
    EXPECT_EQ(of_pod(), (Texts{"It is stopped: StopPodSandbox was called.", "Now the plugins delete its network."}));
    core.step(Done{"p"});
    EXPECT_EQ(pod_word(), "stopped");
    EXPECT_EQ(of_pod(), Texts{"It was stopped: nothing of it runs, and its network was deleted."});
}

TEST_F(WhyTest, PodThatFailedSaysWhyItGoes) {
    core.step(RunPod{Ticket{1}, "p", "key", "content", true});
    core.step(Done{"p"});
    core.step(Done{"p", fail(ErrorKind::internal, "add the pod to a network", "no address is left").error()});
    EXPECT_EQ(pod_word(), "removing");
    EXPECT_EQ(of_pod().front(), "It has failed and is removed: cannot add the pod to a network: no address is left.");
}

TEST_F(WhyTest, LostMonitorIsToldOfThePodAndItsContainers) {
    make_pod();
    run_container();
    core.step(MonitorLost{"p"});
    EXPECT_EQ(pod_word(), "not-ready");
    EXPECT_TRUE(of_pod().front().starts_with("It is not ready: its monitor (triton-pod) has ended"));
    EXPECT_EQ(of_container(),
              (Texts{"It has exited with 137 (signal 9): the monitor of its pod has ended.", "Its pod is not-ready."}));
}

TEST_F(WhyTest, ContainerFromItsStartToItsEnd) {
    make_pod();
    core.step(CreateContainer{Ticket{2}, "p", "c", "name", "content"});
    EXPECT_EQ(container_word(), "creating");
    core.step(Done{"c"});
    EXPECT_EQ(of_container(), Texts{"It is made, and waits for StartContainer."});
    core.step(StartContainer{Ticket{3}, "c"});
    EXPECT_EQ(container_word(), "starting");
    core.step(Done{"c"});
    EXPECT_EQ(of_container(), Texts{"It runs."});
    core.step(StopContainer{Ticket{4}, "c", milliseconds{1000}});
    EXPECT_EQ(of_container(), (Texts{"It has got its stop signal, and is killed when its grace period is over.",
                                     "1 call of StopContainer waits for that."}));
    core.step(Expired{"c"});
    EXPECT_EQ(of_container().front(), "It is killed: its grace period is over, or its pod is stopped.");
    core.step(Exited{"c", 137, true});
    EXPECT_EQ(of_container(), Texts{"It has exited with 137 (signal 9): the kernel has killed it, because it used more "
                                    "memory than its limit."});
}

TEST_F(WhyTest, PodWaitsForItsContainers) {
    make_pod();
    run_container();
    core.step(StopPod{Ticket{5}, "p"});
    EXPECT_EQ(of_pod(), (Texts{"It is stopped: StopPodSandbox was called.", "It waits for container c: stopping.",
                               "1 call of StopPodSandbox waits for that."}));
}

}  // namespace
}  // namespace triton::cri::core
