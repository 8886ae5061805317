#include "launcher/services/network_probes.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;
using Texts = std::vector<std::string>;

class NetworkProbesTest : public testing::Test {
protected:
    static std::string text(NetworkProbes::Verdict const& verdict) {
        switch (verdict.end) {
            case NetworkProbes::End::good: return "ok";
            case NetworkProbes::End::bad: return verdict.detail;
            case NetworkProbes::End::cancelled: return "cancelled";
        }
        std::unreachable();
    }
    void run(NetworkProbes::Key key, Duration timeout = 1s) {
        probes.run({key, config::ProbeKind::tcp, "127.0.0.1:" + std::to_string(key), timeout}, now);
    }

    TimePoint now{1h};
    Texts told;
    NetworkProbes probes{{.send =
                              [this](std::uint64_t id, NetworkProbes::Probe const& probe) {
                                  told.push_back("send " + std::to_string(id) + " " + probe.target);
                              },
                          .cancel = [this](std::uint64_t id) { told.push_back("cancel " + std::to_string(id)); },
                          .done =
                              [this](NetworkProbes::Key key, NetworkProbes::Verdict const& verdict) {
                                  told.push_back(std::to_string(key) + " " + text(verdict));
                              },
                          .late = [this] { told.emplace_back("late"); }}};
};

TEST_F(NetworkProbesTest, TellsTheVerdictOnce) {
    probes.set_listening(true, now);
    run(7);
    run(8);
    probes.result(2, false, "connection refused");
    probes.result(2, true, "");
    probes.result(1, true, "");
    EXPECT_EQ(told, (Texts{"send 1 127.0.0.1:7", "send 2 127.0.0.1:8", "8 connection refused", "7 ok"}));
    EXPECT_EQ(probes.next_deadline(), std::nullopt);
}

TEST_F(NetworkProbesTest, WaitsForAnAgentWithoutALimit) {
    run(7);
    EXPECT_EQ(probes.next_deadline(), std::nullopt);
    now += 1h;
    probes.time_passed(now);
    EXPECT_EQ(told, Texts{});
    probes.set_listening(true, now);
    EXPECT_EQ(told, Texts{"send 1 127.0.0.1:7"});
    EXPECT_EQ(probes.next_deadline(), now + 2s) << "a second more than the agent has";
}

TEST_F(NetworkProbesTest, AnAgentThatDiesFailsNoProbe) {
    probes.set_listening(true, now);
    run(7);
    probes.set_listening(false, now);
    probes.result(1, false, "said by the dead one");
    now += 1h;
    probes.time_passed(now);
    probes.set_listening(true, now);
    probes.result(1, false, "an old id");
    probes.result(2, true, "");
    EXPECT_EQ(told, (Texts{"send 1 127.0.0.1:7", "send 2 127.0.0.1:7", "7 ok"}));
}

TEST_F(NetworkProbesTest, AnAgentThatSaysNothingIsAskedAgainAndFailsNoProbe) {
    probes.set_listening(true, now);
    run(7, 3s);
    run(8, 1s);
    probes.time_passed(now + 2s - 1ms);
    EXPECT_EQ(told.size(), 2U);
    probes.time_passed(now + 2s);
    EXPECT_EQ((Texts{told.begin() + 2, told.end()}), (Texts{"cancel 2", "send 3 127.0.0.1:8", "late"}));
    EXPECT_EQ(probes.next_deadline(), now + 4s);
    probes.result(2, false, "an old id");
    probes.result(3, true, "");
    EXPECT_EQ(told.back(), "8 ok");
}

TEST_F(NetworkProbesTest, CancelAnswersAtOnce) {
    run(7);
    EXPECT_TRUE(probes.cancel(7));
    EXPECT_FALSE(probes.cancel(7));
    probes.set_listening(true, now);
    run(8);
    EXPECT_TRUE(probes.cancel(8));
    EXPECT_EQ(told, (Texts{"7 cancelled", "send 1 127.0.0.1:8", "cancel 1", "8 cancelled"}));
}

TEST_F(NetworkProbesTest, WhatWaitsGoesOnElsewhere) {
    probes.set_listening(true, now);
    run(7);
    run(8);
    probes.result(1, true, "");
    EXPECT_EQ(probes.waiting(), (std::vector<NetworkProbes::Probe>{{8, config::ProbeKind::tcp, "127.0.0.1:8", 1s}}));
}

TEST_F(NetworkProbesTest, WhoeverIsToldMayBeginAnother) {
    std::vector<std::uint64_t> sent;
    NetworkProbes* again = nullptr;
    NetworkProbes chained{{.send = [&](std::uint64_t id, NetworkProbes::Probe const&) { sent.push_back(id); },
                           .cancel = [](std::uint64_t) {},
                           .done =
                               [&](NetworkProbes::Key key, NetworkProbes::Verdict const&) {
                                   again->run({key, config::ProbeKind::http, "http://127.0.0.1:1/", 1s}, TimePoint{1h});
                               },
                           .late = [] {}}};
    again = &chained;
    chained.set_listening(true, now);
    chained.run({7, config::ProbeKind::http, "http://127.0.0.1:1/", 1s}, now);
    chained.result(1, true, "");
    EXPECT_EQ(sent, (std::vector<std::uint64_t>{1, 2}));
    EXPECT_EQ(chained.waiting().size(), 1U);
}

}  // namespace

}  // namespace triton::launcher
