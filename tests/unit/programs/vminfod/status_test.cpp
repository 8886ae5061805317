#include "programs/vminfod/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace triton::program {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

StatusFacts some_facts() {
    StatusFacts facts;
    facts.version = "1.0";
    facts.now = 1'800'000'003'500'000;
    facts.resident_bytes = 4096;
    facts.daemon.state = "running";
    facts.daemon.doing = "working";
    facts.daemon.started_at = facts.now - 54'632'550'000;
    facts.daemon.uptime = 54'632'550'000;
    facts.daemon.refreshed_at = facts.now - 61'000'000;
    facts.daemon.since_refresh = 61'000'000;
    facts.daemon.refreshes = 2;
    facts.daemon.missed = 1;
    facts.daemon.reloads = 7;
    facts.daemon.sources.push_back({"zfs", false, "there is no zpool command", 3, 0});
    facts.daemon.refresh_log.push_back({facts.now, 1'500'000, 10, 1, "timer"});
    facts.daemon.refresh_errors.push_back({facts.now - 7'200'000'000, "cannot read"});
    facts.machines = 10;
    facts.states = {{"running", 9}, {"we\"ird", 1}};
    facts.first_sequence = 5;
    facts.next_sequence = 9;
    facts.queue.targeted = 1;
    info::Job scan;
    scan.why = "timer";
    facts.queue.running.push_back(scan);
    facts.listeners.push_back({"7-1", "vminfo/1.0", Entrance::tcp, facts.now - 1'000'000, 2, true});
    facts.http[1].open_streams = 1;
    facts.requests[{Endpoint::machine, 200}] = 4;
    return facts;
}

TEST(Status, HasTheMembersThatItsReadersKnow) {
    std::string const expected =
        "{\"pid\":" + std::to_string(::getpid()) +
        R"_(,"version":"1.0","uptime":"54632.55s (15.18h)","memory":{"rss":4096},"state":"running",)_"
        R"_("status":"working","numVms":10,"unreadableVms":0,"curDate":"2027-01-15T08:00:03.500Z",)_"
        R"_("curTime":1800000003500,"queue":{"pending":1,"queued":1,"targeted":1,"refresh":0,"delayed":0,)_"
        R"_("launchers":0,"waiters":0,"refreshing":false,"running":[{"description":"all machines","why":"timer"}]},)_"
        R"_("lastRefresh":"2027-01-15T07:59:02.500Z","lastRefreshAgo":"61s","refreshes":2,"missedEvents":1,)_"
        R"_("reloads":7,"writtenOffThreads":0,"refreshErrors":[{"err":"cannot read","time":)_"
        R"_("2027-01-15T06:00:03.500Z","ago":"2h"}],"events":{"first":5,"next":9,"keptBytes":0,)_"
        R"_("documentBytes":0,"resyncs":0},"sources":[{"name":"zfs","working":false,"note":)_"
        R"_("there is no zpool command","notifications":3,"losses":0}],"listeners":{"unix":0,"tcp":1},"eventsListeners":{"7-1":{)_"
        R"_("userAgent":"vminfo/1.0","entrance":"tcp","createdTime":1800000002500,)_"
        R"_("createdDate":"2027-01-15T08:00:02.500Z","createdAgo":"1s","inSnapshot":true,"resyncs":2}}})_"
        "\n";
    EXPECT_EQ(status_text(some_facts(), false, true), expected);
}

TEST(Status, SaysWhyThePortIsNotServed) {
    StatusFacts facts = some_facts();
    EXPECT_THAT(status_text(facts, false, false), Not(HasSubstr("notListening")));
    facts.daemon.not_listening = "cannot listen on 127.0.0.1:9090: Address already in use";
    EXPECT_THAT(status_text(facts, false, false),
                HasSubstr(R"("notListening":"cannot listen on 127.0.0.1:9090: Address already in use")"));
}

TEST(Status, IsLongerInFull) {
    EXPECT_THAT(status_text(some_facts(), true, false),
                HasSubstr(R"("refreshLog":[{"date":"2027-01-15T08:00:03.500Z","why":"timer","took":1.500000,"vms":10,)"
                          R"("vmChanges":1}],"http":{"unix":{"connections":0,)"));
}

TEST(Status, CountsListenersThatItDoesNotName) {
    EXPECT_THAT(status_text(some_facts(), true, false),
                AllOf(HasSubstr(R"("listeners":{"unix":0,"tcp":1},"refreshLog":)"), Not(HasSubstr("eventsListeners")),
                      Not(HasSubstr("vminfo/1.0"))));
}

TEST(Status, AgesOfTheDaemonDoNotFollowTheWallClock) {
    StatusFacts facts = some_facts();
    facts.now += 56LL * 365 * 86'400 * 1'000'000;
    EXPECT_THAT(status_text(facts, false, false),
                AllOf(HasSubstr(R"_("uptime":"54632.55s (15.18h)")_"), HasSubstr(R"("lastRefreshAgo":"61s")")));
}

TEST(Metrics, ThreadsThatHangMayReturn) {
    StatusFacts facts = some_facts();
    facts.daemon.written_off = 3;
    EXPECT_THAT(
        metrics_text(facts, net::MetricsFormat::open_metrics),
        AllOf(HasSubstr("# TYPE vminfod_written_off_threads gauge\n"), HasSubstr("\nvminfod_written_off_threads 3\n")));
}

TEST(Metrics, ComeInBothFormats) {
    std::string const open = metrics_text(some_facts(), net::MetricsFormat::open_metrics);
    EXPECT_THAT(open, HasSubstr("# TYPE vminfod_vms gauge\n# HELP vminfod_vms Machines, by state.\n"
                                "vminfod_vms{state=\"running\"} 9\nvminfod_vms{state=\"we\\\"ird\"} 1\n"));
    EXPECT_THAT(open, HasSubstr("vminfod_requests_total{endpoint=\"vm\",code=\"200\"} 4\n"));
    EXPECT_THAT(open,
                HasSubstr("vminfod_open_streams{entrance=\"unix\"} 0\nvminfod_open_streams{entrance=\"tcp\"} 1\n"));
    EXPECT_TRUE(open.ends_with("# EOF\n"));
    std::string const text = metrics_text(some_facts(), net::MetricsFormat::prometheus_text);
    EXPECT_THAT(text, HasSubstr("# TYPE vminfod_missed_events_total counter\n"));
    EXPECT_THAT(text, Not(HasSubstr("# EOF")));
}

}  // namespace
}  // namespace triton::program
