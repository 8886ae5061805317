#include "sidecar/kubernetes/reporter.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/sidecar/kubernetes/kubernetes_subject.h"

namespace triton::kubernetes {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

constexpr std::string_view annotations_of_c1 =
    R"({"metadata":{"annotations":{"foundationdb.org/launcher-current-configuration":"c1",)"
    R"("foundationdb.org/launcher-environment":"{\"A\":\"1\",\"B\":\"2\"}"}}})";

PodObject pod_with(std::string_view configuration, std::string_view environment = "{}") {
    PodObject pod;
    pod.annotate("launcher-current-configuration", configuration);
    pod.annotate("launcher-environment", environment);
    return pod;
}

std::string state_of(Subject const& subject) {
    return subject.reports.empty() ? "" : std::string(subject.reports.back().state);
}

TEST(KubernetesReporter, WatchesThePodFromItsPresentState) {
    Subject subject;
    subject.hear(heard::TimePassed{});
    auto const watch = subject.watch();
    EXPECT_THAT(
        watch.target,
        testing::MatchesRegex(
            R"(/api/v1/namespaces/ns/pods\?watch=true&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dpod&timeoutSeconds=[0-9]+)"));
    EXPECT_TRUE(watch.wants_metadata_only);
    EXPECT_THAT(subject.requests, IsEmpty());
}

TEST(KubernetesReporter, WritesItsTwoAnnotationsAndNothingElse) {
    Subject subject;
    PodObject pod;
    pod.annotations = {{"somebody/else", "x"}};
    subject.begin(pod);
    subject.configure("c1", 1'700'000'000'000'000, {{"B", "2"}, {"A", "1"}});
    auto const request = subject.request();
    EXPECT_EQ(request.method, "PATCH");
    EXPECT_EQ(request.target, "/api/v1/namespaces/ns/pods/pod?fieldManager=triton-launch");
    EXPECT_EQ(request.content_type, "application/merge-patch+json");
    EXPECT_EQ(request.body, annotations_of_c1);
    PodObject written = pod_with("c1", R"({"A":"1","B":"2"})");
    written.version = 11;
    subject.respond(request, 200, written.json());
    auto const event = subject.request();
    EXPECT_EQ(event.method, "POST");
    EXPECT_EQ(event.target, "/api/v1/namespaces/ns/events?fieldManager=triton-launch");
    EXPECT_THAT(event.body, HasSubstr(R"("reason":"ConfigurationLoaded")"));
    EXPECT_THAT(event.body, HasSubstr(R"("uid":"uid-1")"));
    subject.respond(event, 201, "{}");
    subject.pass(seconds(9));
    subject.configure("c2", 1'700'000'001'000'000);
    written = pod_with("c2");
    written.version = 12;
    subject.respond(subject.request(), 200, written.json());
    subject.respond(subject.request(), 200, "{}");
    subject.pass(minutes(9));
    EXPECT_THAT(subject.requests, IsEmpty());
    EXPECT_THAT(subject.logs, IsEmpty()) << "our own writes are nobody else's";
    EXPECT_EQ(state_of(subject), "ok");
    EXPECT_EQ(subject.reports.back().last_success, 1'700'000'009'000'000);
}

TEST(KubernetesReporter, AnAgentThatComesBackWritesNothingThatIsThere) {
    Subject subject;
    subject.configure("c1");
    EXPECT_THAT(subject.requests, IsEmpty()) << "the watch will tell whether it is needed";
    subject.begin(pod_with("c1"));
    subject.pass(minutes(5));
    EXPECT_THAT(subject.requests, IsEmpty());
    subject.configure("c2", 1'700'000'001'000'000);
    EXPECT_THAT(subject.request().body, HasSubstr("c2"));
}

TEST(KubernetesReporter, WritesBlindlyWhenTheWatchDoesNotAnswer) {
    Subject subject;
    subject.hear(heard::LauncherReached{});
    subject.configure("c1");
    subject.pass(seconds(3));
    auto const request = subject.request();
    PodObject written = pod_with("c1");
    subject.respond(request, 200, written.json());
    EXPECT_THAT(subject.request().body, HasSubstr("ConfigurationLoaded"));
}

TEST(KubernetesReporter, AThousandSwapsAreFewWritesAndTheLastOneArrives) {
    Subject subject;
    subject.begin({});
    int writes = 0;
    std::string last;
    PodObject pod;
    auto const serve = [&] {
        while (!subject.requests.empty()) {
            auto const request = subject.request();
            if (request.method == "POST" || request.target.find("/events/") != std::string::npos) {
                subject.respond(request, 201, "{}");
                continue;
            }
            ++writes;
            std::size_t const at = request.body.find(R"(configuration":")") + 16;
            last = request.body.substr(at, request.body.find('"', at) - at);
            pod = pod_with(last);
            pod.version += static_cast<std::uint64_t>(writes);
            subject.respond(request, 200, pod.json());
        }
    };
    for (int i = 0; i < 1000; ++i) {
        subject.configure("c" + std::to_string(i), 1'700'000'000'000'000 + i);
        serve();
        subject.pass(milliseconds(60));
        serve();
    }
    subject.pass(seconds(4));
    serve();
    EXPECT_EQ(last, "c999");
    EXPECT_LE(writes, 22);
    subject.pass(minutes(1));
    subject.configure("at ease", 1'800'000'000'000'000);
    EXPECT_THAT(subject.request().body, HasSubstr("at ease")) << "at once";
}

TEST(KubernetesReporter, ALostWriteIsMadeAgainAndAFightIsSlow) {
    Subject subject;
    auto const watch = subject.begin({});
    subject.configure("c1");
    std::uint64_t version = 11;
    auto const answer = [&](action::Request const& request) {
        PodObject written = pod_with("c1");
        written.version = version++;
        subject.respond(request, 200, written.json());
    };
    answer(subject.request());
    subject.respond(subject.request(), 201, "{}");
    subject.pass(seconds(1));
    PodObject late = pod_with("");
    late.version = 10;  // of before our write
    subject.line(watch, late.line("MODIFIED"));
    EXPECT_THAT(subject.requests, IsEmpty());
    int writes = 0;
    for (TimePoint const end = subject.now.time + minutes(60); subject.now.time < end;) {
        PodObject other = pod_with("of another launcher");
        other.version = version++;
        subject.line(watch, other.line("MODIFIED"));
        EXPECT_TRUE(writes > 0 || !subject.requests.empty()) << "the first time at once";
        while (subject.requests.empty() && subject.now.time < end)
            subject.pass(seconds(1));
        if (subject.requests.empty()) break;
        ++writes;
        answer(subject.request());
        subject.pass(milliseconds(100));
    }
    EXPECT_GE(writes, 10);
    EXPECT_LE(writes, 30) << "in an hour";
}

TEST(KubernetesReporter, AFightHoldsNoEventUp) {
    Subject subject;
    auto const watch = subject.begin({});
    subject.configure("c1");
    auto const is_there = [](std::string const& configuration, std::uint64_t version) {
        PodObject pod = pod_with(configuration);
        pod.version = version;
        return pod;
    };
    subject.respond(subject.request(), 200, is_there("c1", 11).json());
    subject.respond(subject.request(), 201, "{}");
    subject.pass(seconds(1));
    subject.line(watch, is_there("of another launcher", 12).line("MODIFIED"));
    subject.respond(subject.request(), 200, is_there("c1", 13).json());
    subject.pass(milliseconds(100));
    subject.line(watch, is_there("of another launcher", 14).line("MODIFIED"));
    ASSERT_THAT(subject.requests, IsEmpty()) << "it waits";
    subject.hear(heard::Configuration{"c1", {}, 1, {"version: missing"}});
    EXPECT_THAT(subject.request().body, HasSubstr("version: missing"));
}

TEST(KubernetesReporter, ItsOwnWriteMayBeSeenBeforeItsAnswer) {
    Subject subject;
    auto const watch = subject.begin(pod_with("c1"));
    subject.configure("c1");
    subject.configure("c2", 1);
    subject.respond(subject.request(), 200, [] {
        PodObject written = pod_with("c2");
        written.version = 11;
        return written.json();
    }());
    subject.respond(subject.request(), 201, "{}");
    subject.pass(seconds(1));
    subject.configure("c3", 2);
    PodObject written = pod_with("c3");
    written.version = 12;
    subject.line(watch, written.line("MODIFIED"));
    subject.respond(subject.request(), 200, written.json());
    EXPECT_THAT(subject.logs, IsEmpty());
}

TEST(KubernetesReporter, RetryAfterIsHeededAndFailuresBackOff) {
    Subject subject;
    subject.begin({});
    subject.configure("c1");
    subject.respond(subject.request(), 429, status_body(429, "slow down"), seconds(7));
    EXPECT_EQ(state_of(subject), "failing");
    EXPECT_EQ(subject.reports.back().detail, "the pod's annotations cannot be written: HTTP status 429: slow down");
    subject.pass(seconds(6));
    EXPECT_THAT(subject.requests, IsEmpty());
    subject.pass(seconds(2));
    auto request = subject.request();
    int tries = 0;
    for (TimePoint const end = subject.now.time + minutes(10); subject.now.time < end; ++tries) {
        subject.hear(heard::Unreachable{request.id, "cannot connect"});
        subject.answer_calls();
        while (subject.requests.empty())
            subject.pass(milliseconds(100));
        request = subject.request();
    }
    EXPECT_GE(tries, 20);
    EXPECT_LE(tries, 50);
    EXPECT_LE(subject.logs.size(), 3U) << "one line for a failure that lasts";
    subject.respond(request, 200, pod_with("c1").json());
    EXPECT_EQ(state_of(subject), "ok");
    EXPECT_EQ(subject.logs.back().event, "kubernetes-works-again");
}

TEST(KubernetesReporter, TheLatestStateIsSentWhenTheServerIsBack) {
    Subject subject;
    subject.begin({});
    subject.configure("c1");
    auto const hung = subject.request();
    subject.configure("c2", 1);
    subject.configure("c3", 2);
    subject.pass(seconds(15));
    EXPECT_THAT(subject.requests, IsEmpty()) << "one at a time";
    subject.hear(heard::Unreachable{hung.id, "no answer within 15s"});
    subject.pass(seconds(1));
    EXPECT_THAT(subject.request().body, HasSubstr("c3"));
}

TEST(KubernetesReporter, AMissingPermissionIsNamedOnce) {
    Subject subject;
    subject.begin({});
    subject.configure("c1");
    subject.respond(subject.request(), 403, forbidden_body("patch", "pods"));
    ASSERT_EQ(subject.logs.size(), 1U);
    EXPECT_EQ(subject.logs[0].event, "permission-missing");
    EXPECT_EQ(subject.logs[0].level, log::LogLevel::error);
    EXPECT_THAT(subject.logs[0].message,
                testing::StartsWith("the pod's annotations cannot be written: permission missing: verb \"patch\" on "
                                    "resource \"pods\" in namespace \"ns\""));
    std::vector<std::string> events;
    for (; !subject.requests.empty();) {
        auto const request = subject.request();
        events.push_back(request.body);
        subject.respond(request, 201, "{}");
    }
    ASSERT_EQ(events.size(), 2U);
    EXPECT_THAT(events[1], HasSubstr("MissingPermission"));
    EXPECT_THAT(events[1], HasSubstr(R"(verb \"patch\" on resource \"pods\")"));
    int tries = 0;
    for (int i = 0; i < 3600; ++i) {
        subject.pass(seconds(1));
        for (; !subject.requests.empty(); ++tries)
            subject.respond(subject.request(), 403, forbidden_body("patch", "pods"));
    }
    EXPECT_GE(tries, 10);
    EXPECT_LE(tries, 40);
    EXPECT_EQ(std::ranges::count(subject.logs, "permission-missing", &action::Log::event), 1);
}

TEST(KubernetesReporter, EachVerbThatIsMissingIsNamed) {
    Subject subject;
    subject.hear(heard::LauncherReached{});
    subject.hear(heard::WatchEnded{subject.watch().id, 403, std::nullopt, forbidden_body("watch", "pods")});
    EXPECT_THAT(subject.logs.back().message, HasSubstr(R"(verb "watch" on resource "pods")"));
    subject.configure("c1");
    subject.respond(subject.request(), 403, forbidden_body("patch", "pods"));
    auto const event = subject.request();  // about no uid: nobody would tell us
    EXPECT_THAT(event.body, Not(HasSubstr(R"("uid")")));
    subject.respond(event, 403, forbidden_body("create", "events"));
    EXPECT_THAT(subject.logs.back().message, HasSubstr(R"(verb "create" on resource "events")"));
    EXPECT_EQ(state_of(subject), "failing");
}

TEST(KubernetesReporter, AnotherRefusalIsNoMissingPermission) {
    for (std::string const message : {"pods \"pod\" is forbidden: annotations cannot be changed on Fridays",
                                      "it cannot patch resource \"nodes\"", ""}) {
        Subject subject;
        subject.begin(pod_with(""));
        subject.configure("c1");
        subject.respond(subject.request(), 403, status_body(403, message));
        ASSERT_EQ(subject.logs.size(), 1U);
        EXPECT_EQ(subject.logs[0].event, "kubernetes-failing");
        std::string const why = message.empty() ? "HTTP status 403" : message;
        EXPECT_EQ(subject.logs[0].message, "the pod's annotations cannot be written: " + why);
        EXPECT_EQ(subject.reports.back().detail, subject.logs[0].message);
        for (; !subject.requests.empty();) {
            auto const request = subject.request();
            EXPECT_THAT(request.body, Not(HasSubstr("MissingPermission")));
            subject.respond(request, 201, "{}");
        }
    }
}

TEST(KubernetesReporter, WhatTheServerWillNotHaveIsNotSentAgainSoon) {
    Subject subject;
    subject.begin({});
    subject.configure("giant");
    subject.respond(subject.request(), 422, status_body(422, "metadata.annotations: Too long"));
    subject.respond(subject.request(), 201, "{}");
    subject.respond(subject.request(), 201, "{}");
    EXPECT_EQ(state_of(subject), "failing");
    EXPECT_THAT(subject.reports.back().detail, HasSubstr("Too long"));
    subject.pass(seconds(4));
    EXPECT_THAT(subject.requests, IsEmpty());
    subject.configure("small", 1);
    subject.pass(seconds(1));
    EXPECT_THAT(subject.request().body, HasSubstr("small"));
}

/// How many writes of Events tell of a refusal, while every write of annotations is refused with this status.
int refused_and_told(Subject& subject, int status, Duration time, std::vector<std::string>& messages) {
    int told = 0;
    for (auto const end = subject.now.time + time; subject.now.time < end; subject.pass(seconds(10))) {
        while (!subject.requests.empty()) {
            auto const request = subject.request();
            if (request.target.find("/events") == std::string::npos) {
                subject.respond(request, status, status_body(status, "metadata.annotations: Too long"));
                continue;
            }
            if (request.body.find("cannot be written to the pod") != std::string::npos) {
                ++told;
                messages.push_back(request.body);
            }
            subject.respond(request, 201, "{}");
        }
    }
    return told;
}

TEST(KubernetesReporter, ARefusalOfAnnotationsIsToldOnceForEachContent) {
    for (int const status : {400, 413, 422}) {
        Subject subject;
        subject.begin({});
        subject.configure("giant");
        std::vector<std::string> messages;
        EXPECT_EQ(refused_and_told(subject, status, minutes(20), messages), 1) << "however often it is tried again";
        ASSERT_EQ(messages.size(), 1U);
        EXPECT_THAT(messages[0], HasSubstr(R"("type":"Warning","reason":"AnnotationsRefused")"));
        EXPECT_THAT(messages[0],
                    HasSubstr("\"message\":\"configuration (sha256 "
                              "0b132ea2f6cd37dd630da9e84733f169a4473feaebbfa70359b449b759885ffe) cannot be "
                              "written to the pod: HTTP status " +
                              std::to_string(status) + ": metadata.annotations: Too long\""));
        subject.configure("more than giant", 1'700'000'001'000'000);
        EXPECT_EQ(refused_and_told(subject, status, minutes(20), messages), 1) << "another content";
    }
}

TEST(KubernetesReporter, ARefusalIsToldAgainWhenThePodHadTaken) {
    Subject subject;
    subject.begin({});
    std::vector<std::string> messages;
    subject.configure("giant");
    EXPECT_EQ(refused_and_told(subject, 413, minutes(1), messages), 1);
    subject.configure("small", 1'700'000'001'000'000);
    PodObject small = pod_with("small");
    small.version = 11;
    subject.respond(subject.request(), 200, small.json());
    subject.configure("giant", 1'700'000'002'000'000);
    EXPECT_EQ(refused_and_told(subject, 413, minutes(1), messages), 1);
}

TEST(KubernetesReporter, WhatIsOnlyLateOrNotAllowedIsNotARefusalOfAnnotations) {
    for (int const status : {403, 404, 408, 409, 429, 500}) {
        Subject subject;
        subject.begin({});
        subject.configure("giant");
        std::vector<std::string> messages;
        EXPECT_EQ(refused_and_told(subject, status, minutes(5), messages), 0) << status;
    }
}

TEST(KubernetesReporter, AServerThatTakesAnnotationsAndDropsThemIsNotFlooded) {
    Subject subject;
    subject.begin({});
    subject.configure("c1");
    PodObject without;
    without.version = 11;
    subject.respond(subject.request(), 200, without.json());
    subject.respond(subject.request(), 201, "{}");
    int tries = 0;
    for (int i = 0; i < 600; ++i) {
        subject.pass(seconds(1));
        for (; !subject.requests.empty(); ++tries)
            subject.respond(subject.request(), 200, without.json());
    }
    EXPECT_LE(tries, 10);
    EXPECT_EQ(state_of(subject), "failing");
}

TEST(KubernetesReporter, ARefusedTokenIsReadAgainOnceThenItBacksOff) {
    Subject subject;
    subject.begin({});
    subject.configure("c1");
    auto const first = subject.request();
    EXPECT_FALSE(first.with_fresh_token);
    subject.respond(first, 401, status_body(401, "Unauthorized"));
    auto const second = subject.request();
    EXPECT_TRUE(second.with_fresh_token);
    subject.respond(second, 401, status_body(401, "Unauthorized"));
    EXPECT_THAT(subject.requests, IsEmpty());
    EXPECT_EQ(state_of(subject), "failing");
    subject.pass(seconds(1));
    subject.respond(subject.request(), 200, pod_with("c1").json());
    EXPECT_EQ(state_of(subject), "ok");
}

TEST(KubernetesReporter, ADeletedPodIsWaitedForAndWrittenAnew) {
    Subject subject;
    auto const watch = subject.begin({});
    subject.configure("c1");
    PodObject written = pod_with("c1");
    written.version = 11;
    subject.respond(subject.request(), 200, written.json());
    subject.respond(subject.request(), 201, "{}");
    written.version = 12;
    subject.line(watch, written.line("DELETED"));
    EXPECT_EQ(state_of(subject), "failing");
    EXPECT_EQ(subject.reports.back().detail, "the pod's annotations cannot be written: there is no pod ns/pod");
    subject.pass(seconds(11));
    subject.respond(subject.request(), 404, status_body(404, "not found"));
    PodObject fresh;
    fresh.uid = "uid-2";
    fresh.version = 20;
    subject.line(watch, fresh.line("ADDED"));
    subject.pass(seconds(4));
    EXPECT_THAT(subject.request().body, HasSubstr("c1"));
}

TEST(KubernetesReporter, EventsOfAnotherPodAreItsOwn) {
    Subject subject;
    auto const watch = subject.begin(pod_with("c1"));
    subject.configure("c1");
    subject.hear(heard::Record{"process-gave-up", "web is given up", "web", 1, {}, {}, {}, {}});
    subject.respond(subject.request(), 201, "{}");
    PodObject fresh = pod_with("c1");
    fresh.uid = "uid-2";
    fresh.version = 20;
    subject.line(watch, fresh.line("ADDED"));
    subject.hear(heard::Record{"process-gave-up", "web is given up", "web", 1, {}, {}, {}, {}});
    auto const event = subject.request();
    EXPECT_EQ(event.method, "POST");
    EXPECT_THAT(event.body, HasSubstr("uid-2"));
    EXPECT_THAT(event.body, HasSubstr(R"("count":1)"));
}

TEST(KubernetesReporter, ALoadNamesVersionAndChecksum) {
    struct Row {
        std::string_view text;
        std::string_view message;
    };
    // The checksums are those of sha256sum(1).
    Row const rows[] = {
        {R"({"version":"7.3.63"})",
         "configuration 7.3.63 (sha256 48f424b4aa0689a9ff83aed2d086f98486ddb52b7323aa47d7c510fbf5371497) is active"},
        {"c1", "configuration (sha256 d0f631ca1ddba8db3bcfcb9e057cdc98d0379f1bee00e75a545147a27dadd982) is active"},
        {R"({"programs":{}})",
         "configuration (sha256 004b8d1cf87782f189964c5822c76f6bf4abb514cd55a3b3c1a2558e23e9d5bd) is active"},
        {"[]", "configuration (sha256 4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945) is active"},
    };
    for (Row const& row : rows) {
        Subject subject;
        subject.begin({});
        subject.configure(std::string(row.text));
        subject.respond(subject.request(), 200, pod_with(row.text).json());
        EXPECT_THAT(subject.request().body, HasSubstr(R"("message":")" + std::string(row.message) + "\""));
    }
}

TEST(KubernetesReporter, AnnotationsThatCannotBeReadAreWarnings) {
    struct Row {
        std::string_view name;
        std::string_view value;
        std::string_view message;
    };
    Row const rows[] = {
        {"isolate-process-group", "yes", R"(isolate-process-group is \"yes\", not true or false)"},
        {"delay-shutdown", "60", R"(delay-shutdown is \"60\", not a duration such as 60s or 1m30s)"},
        {"delay-shutdown", "-1s", R"(delay-shutdown is \"-1s\", not a duration such as 60s or 1m30s)"},
        {"outdated-config-map-seen", "now", R"(outdated-config-map-seen is \"now\", not a Unix time in seconds)"},
    };
    for (Row const& row : rows) {
        Subject subject;
        PodObject pod;
        pod.annotate(row.name, row.value);
        auto const watch = subject.begin(pod);
        auto const event = subject.request();
        EXPECT_THAT(event.body, HasSubstr(R"("reason":"AnnotationUnreadable")"));
        EXPECT_THAT(event.body, HasSubstr(R"("type":"Warning")"));
        EXPECT_THAT(event.body, HasSubstr(R"("message":"foundationdb.org/)" + std::string(row.message) + "\""));
        subject.respond(event, 201, "{}");
        pod.version = 11;
        subject.line(watch, pod.line("MODIFIED"));
        subject.pass(seconds(60));
        EXPECT_THAT(subject.requests, IsEmpty()) << "it is told once";
    }
}

TEST(KubernetesReporter, AnnotationsThatCanBeReadAreNot) {
    Subject subject;
    PodObject pod;
    pod.annotate("isolate-process-group", "T");
    pod.annotate("delay-shutdown", "0");
    pod.annotate("outdated-config-map-seen", "");
    subject.begin(pod);
    EXPECT_THAT(subject.requests, IsEmpty());
}

TEST(KubernetesReporter, LoadsAndRejectionsAreEvents) {
    Subject subject;
    subject.begin({});
    subject.hear(heard::Configuration{"c1", {}, 1, {"arguments[0]: bad", "version: missing"}});
    subject.respond(subject.request(), 200, pod_with("c1").json());
    auto const rejected = subject.request();
    EXPECT_THAT(rejected.body, HasSubstr(R"("reason":"ConfigurationRejected")"));
    EXPECT_THAT(rejected.body, HasSubstr(R"("message":"rejected: arguments[0]: bad; version: missing")"));
    EXPECT_THAT(rejected.body, HasSubstr(R"("type":"Warning")"));
    subject.respond(rejected, 201, "{}");
    EXPECT_THAT(subject.request().body, HasSubstr("ConfigurationLoaded"));
}

/// Such an Event would be refused for ever: it goes, is told in the log, and the next one is not held up.
TEST(KubernetesReporter, AnEventThatTheServerWillNotHaveIsDropped) {
    for (int const status : {400, 413, 422}) {
        Subject subject;
        subject.begin(pod_with("c1"));
        subject.hear(heard::Configuration{"c1", {}, 1, {"version: missing"}});
        subject.respond(subject.request(), status, status_body(status, "Too long"));
        ASSERT_FALSE(subject.logs.empty()) << status;
        EXPECT_EQ(subject.logs.back().event, "event-refused");
        EXPECT_EQ(subject.logs.back().message,
                  "ConfigurationRejected: HTTP status " + std::to_string(status) + ": Too long");
        while (!subject.requests.empty()) {
            auto const next = subject.request();
            EXPECT_THAT(next.body, Not(HasSubstr("version: missing"))) << status;
            subject.respond(next, 201, "{}");
        }
        subject.pass(minutes(20));
        EXPECT_THAT(subject.requests, IsEmpty()) << status;
    }
}

TEST(KubernetesReporter, AnEventThatIsRefusedForNoReasonOfItsOwnComesLater) {
    Subject subject;
    subject.begin(pod_with("c1"));
    subject.hear(heard::Configuration{"c1", {}, 1, {"version: missing"}});
    subject.respond(subject.request(), 405, status_body(405, "not here"));
    subject.pass(seconds(4));
    EXPECT_THAT(subject.requests, IsEmpty());
    int tries = 0;
    for (auto const end = subject.now.time + minutes(10); subject.now.time < end; subject.pass(seconds(1))) {
        for (; !subject.requests.empty(); ++tries)
            subject.respond(subject.request(), 405, status_body(405, "not here"));
    }
    EXPECT_GE(tries, 3);
    EXPECT_LE(tries, 30);
}

TEST(KubernetesReporter, ARejectionForTheSameReasonsIsToldAgain) {
    Subject subject;
    subject.begin(pod_with("c1"));
    heard::Configuration configuration{"c1", {}, 1, {"version: missing"}};
    auto const count = [&subject] {
        int sent = 0;
        for (; !subject.requests.empty(); ++sent)
            subject.respond(subject.request(), 200, "{}");
        return sent;
    };
    subject.hear(configuration);
    EXPECT_EQ(count(), 1);
    subject.hear(configuration);
    EXPECT_EQ(count(), 0) << "an older launcher does not say when";
    configuration.rejected_at = 2;
    subject.hear(configuration);
    EXPECT_EQ(count(), 1);
    subject.hear(configuration);
    EXPECT_EQ(count(), 0);
    configuration.rejected_at = 3;
    subject.hear(configuration);
    subject.respond(subject.request(), 200, "{}");
    configuration.rejection.clear();
    configuration.rejected_at.reset();
    subject.hear(configuration);
    EXPECT_EQ(count(), 0);
}

heard::Record ended(std::string ending, std::optional<double> restart_in, std::int64_t process = 2) {
    heard::Record record;
    record.event = "process-exited";
    record.program = "web";
    record.process = process;
    record.ending = std::move(ending);
    record.restart_in_seconds = restart_in;
    return record;
}

TEST(KubernetesReporter, ACrashLoopIsOneEventWithACount) {
    Subject subject;
    subject.begin(pod_with("c1"));
    subject.configure("c1");
    subject.hear(ended("exit code 1", 0));
    subject.hear(ended("exit code 1", 1));
    EXPECT_THAT(subject.requests, IsEmpty());
    subject.hear(ended("exit code 1", 0));  // it had run well in between
    subject.hear(ended("exit code 1", 1));
    subject.hear(ended("exit code 1", 1, 3));
    EXPECT_THAT(subject.requests, IsEmpty());
    subject.hear(ended("exit code 1", 2));
    auto const first = subject.request();
    EXPECT_THAT(first.body, HasSubstr(R"("reason":"CrashLooping","message":"web:2 keeps failing: exit code 1")"));
    subject.hear(ended("exit code 1", 4));
    subject.hear(ended("exit code 1", 8));
    subject.respond(first, 201, "{}");
    auto const second = subject.request();
    EXPECT_EQ(second.method, "PATCH");
    EXPECT_THAT(second.body, HasSubstr(R"("count":3)"));
    subject.respond(second, 404, status_body(404, "not found"));  // its time was over
    auto const third = subject.request();
    EXPECT_EQ(third.method, "POST");
    EXPECT_THAT(third.body, HasSubstr(R"("count":3)"));
    subject.respond(third, 409, status_body(409, "already exists"));
    EXPECT_THAT(subject.requests, IsEmpty());
}

TEST(KubernetesReporter, RecordsThatWereLostAreToldInTheLog) {
    Subject subject;
    subject.begin(pod_with("c1"));
    subject.configure("c1");
    subject.hear(ended("exit code 1", 1));
    subject.hear(ended("exit code 1", 1));
    int const calls = subject.status_calls;
    subject.hear(heard::RecordsLost{3});
    subject.pass(std::chrono::seconds(10));
    EXPECT_GT(subject.status_calls, calls);
    ASSERT_FALSE(subject.logs.empty());
    EXPECT_EQ(subject.logs.back(),
              (action::Log{log::LogLevel::warning, "records-lost",
                           "3 records of the launcher were lost: events in Kubernetes may be missing"}));
    subject.hear(ended("exit code 1", 1));  // it may have run well in between
    EXPECT_THAT(subject.requests, IsEmpty());
}

TEST(KubernetesReporter, ALauncherThatCountsFailuresIsBelieved) {
    Subject subject;
    subject.begin(pod_with("c1"));
    subject.configure("c1");
    auto const ends = [&subject](std::int64_t failures, double restart_in) {
        heard::Record record = ended(failures > 0 ? "exit code 1" : "exit code 0", restart_in);
        record.failures = failures;
        subject.hear(record);
    };
    for (int i = 0; i < 4; ++i)
        ends(0, 5);  // it waits before each start
    ends(1, 5);
    ends(2, 0);
    ends(1, 5);  // it had run well in between
    ends(2, 5);
    EXPECT_THAT(subject.requests, IsEmpty());
    ends(3, 0);
    EXPECT_THAT(subject.request().body, HasSubstr(R"("message":"web:2 keeps failing: exit code 1")"));
}

heard::Record trouble(std::string event, std::string message, std::string action = {}) {
    heard::Record record;
    record.event = std::move(event);
    record.message = std::move(message);
    record.program = "web";
    record.process = 2;
    record.action = std::move(action);
    return record;
}

TEST(KubernetesReporter, WhatTheLauncherItselfKilledIsNamed) {
    struct Row {
        heard::Record trouble;
        std::string_view cause;
    };
    Row const rows[] = {
        {trouble("process-timed-out", "web:2 was not ready in time: killed"), "was not ready in time: killed"},
        {trouble("process-timed-out", "web missed its watchdog: aborted"), "missed its watchdog: aborted"},
        {trouble("process-unhealthy", "web:2 is unhealthy: 3 probes in a row have failed", "restart"),
         "is unhealthy: 3 probes in a row have failed"},
        {trouble("process-unhealthy", "web:2 is unhealthy: 3 probes in a row have failed", "report"), "signal SIGKILL"},
    };
    for (Row const& row : rows) {
        Subject subject;
        subject.begin(pod_with("c1"));
        subject.configure("c1");
        subject.hear(row.trouble);
        auto const trouble_event = subject.request();
        EXPECT_THAT(trouble_event.body, HasSubstr(R"("reason":"Unhealthy","message":")" + row.trouble.message + "\""));
        subject.respond(trouble_event, 201, "{}");
        subject.hear(ended("signal SIGKILL", 1));
        subject.hear(ended("signal SIGKILL", 1));
        subject.hear(row.trouble);
        subject.respond(subject.request(), 200, "{}");
        subject.hear(ended("signal SIGKILL", 1));
        auto const first = subject.request();
        EXPECT_THAT(first.body, HasSubstr(R"("message":"web:2 keeps failing: )" + std::string(row.cause) + "\""));
        subject.respond(first, 201, "{}");
        subject.hear(ended("exit code 1", 1));
        EXPECT_THAT(subject.request().body, HasSubstr("web:2 keeps failing: exit code 1")) << "this time by itself";
    }
}

TEST(KubernetesReporter, ALauncherThatKeepsItsPidWasUpgraded) {
    Subject subject;
    subject.begin(pod_with("c1"));
    subject.configure("c1");
    subject.hear(heard::LauncherLost{});
    subject.hear(heard::LauncherReached{});
    EXPECT_EQ(subject.pods.size(), 1U + 1U) << "the new version is told what the pod says";
    subject.hear(heard::Status{"1.1", 7, true});
    auto const event = subject.request();
    EXPECT_THAT(event.body, HasSubstr(R"("reason":"LauncherUpgraded","message":"upgraded from 1.0 to 1.1")"));
    subject.respond(event, 201, "{}");
    subject.answer_calls();
    subject.hear(heard::LauncherLost{});
    subject.hear(heard::LauncherReached{});
    subject.hear(heard::Status{"1.1", 8, true});
    EXPECT_THAT(subject.requests, IsEmpty()) << "another process: a restart";
}

TEST(KubernetesReporter, ALauncherThatHasJustBegunWasNotUpgraded) {
    for (double const uptime : {3600.0, 4.0}) {
        Subject subject;
        subject.begin(pod_with("c1"));
        subject.configure("c1");
        subject.hear(heard::LauncherLost{});
        subject.pass(std::chrono::seconds(5));
        subject.hear(heard::LauncherReached{});
        subject.hear(heard::Status{"1.1", 7, true, uptime});
        bool const is_upgraded = uptime > 5;
        EXPECT_EQ(subject.requests.size(), is_upgraded ? 1U : 0U) << uptime << ": PID 1 of another container";
    }
}

TEST(KubernetesReporter, IsolationAndDelayReachTheLauncherWhenTheyChange) {
    Subject subject;
    PodObject pod;
    pod.annotate("isolate-process-group", "T");
    pod.annotate("delay-shutdown", "1m30s");
    auto const watch = subject.begin(pod);
    ASSERT_EQ(subject.pods.size(), 1U);
    EXPECT_EQ(subject.pods[0], (action::SetPod{true, seconds(90), {}}));
    ++pod.version;
    subject.line(watch, pod.line("MODIFIED"));
    EXPECT_EQ(subject.pods.size(), 1U);
    pod.annotate("isolate-process-group", "maybe");
    pod.annotate("delay-shutdown", "90");
    ++pod.version;
    subject.line(watch, pod.line("MODIFIED"));
    ASSERT_EQ(subject.pods.size(), 2U);
    EXPECT_EQ(subject.pods[1], (action::SetPod{false, Duration::zero(), {}}));
    pod.annotate("delay-shutdown", "-5s");
    ++pod.version;
    subject.line(watch, pod.line("MODIFIED"));
    EXPECT_EQ(subject.pods.size(), 2U);
}

TEST(KubernetesReporter, ACallThatGotLostIsMadeAgain) {
    Subject subject;
    PodObject pod;
    pod.annotate("isolate-process-group", "true");
    subject.hear(heard::LauncherReached{});
    auto const watch = subject.watch();
    subject.hear(heard::WatchOpened{watch.id});
    subject.hear(heard::WatchLine{watch.id, pod.line("ADDED")});
    ASSERT_EQ(subject.pods.size(), 1U);
    pod.annotate("delay-shutdown", "3s");
    pod.annotate("isolate-process-group", "false");
    pod.version = 11;
    subject.hear(heard::WatchLine{watch.id, pod.line("MODIFIED")});
    EXPECT_EQ(subject.pods.size(), 1U) << "one at a time";
    subject.hear(heard::CallLost{LauncherCall::set_pod});
    subject.pass(seconds(1));
    ASSERT_EQ(subject.pods.size(), 2U);
    EXPECT_EQ(subject.pods[1], (action::SetPod{false, seconds(3), {}}));
}

TEST(KubernetesReporter, ACallThatIsRefusedIsAFailure) {
    Subject subject;
    auto const watch = subject.begin(pod_with("c1"));
    subject.configure("c1");
    EXPECT_EQ(state_of(subject), "ok");
    auto change = [&, version = 20U](std::string_view isolated) mutable {
        PodObject pod = pod_with("c1");
        pod.annotate("isolate-process-group", isolated);
        pod.version = version++;
        subject.hear(heard::WatchLine{watch, pod.line("MODIFIED")});
        ASSERT_EQ(subject.answered, (std::vector{LauncherCall::set_pod}));
        subject.answered.clear();
    };
    change("true");
    subject.hear(heard::CallRefused{LauncherCall::set_pod, "InvalidParameter: variables"});
    subject.answer_calls();
    EXPECT_EQ(state_of(subject), "failing");
    EXPECT_EQ(subject.reports.back().detail, "the launcher refuses SetPod: InvalidParameter: variables");
    change("false");
    subject.hear(heard::CallRefused{LauncherCall::set_pod, "InvalidParameter: variables"});
    EXPECT_EQ(std::ranges::count(subject.logs, "launcher-refused", &action::Log::event), 1);
    EXPECT_EQ(subject.logs.back().message, subject.reports.back().detail);
    change("true");
    subject.hear(heard::CallDone{LauncherCall::set_pod});
    EXPECT_EQ(state_of(subject), "ok");
}

TEST(KubernetesReporter, ALauncherThatTakesNothingFromUsIsToldOfOnce) {
    Subject subject;
    subject.hear(heard::LauncherReached{});
    auto const watch = subject.watch();
    subject.hear(heard::WatchOpened{watch.id});
    subject.hear(heard::WatchLine{watch.id, PodObject{}.line("ADDED")});
    subject.hear(heard::CallRefused{LauncherCall::set_reporter, "PermissionDenied", true});
    subject.hear(heard::CallRefused{LauncherCall::set_pod, "PermissionDenied", true});
    ASSERT_EQ(subject.logs.size(), 1U);
    EXPECT_EQ(subject.logs[0].event, "launcher-refused");
    EXPECT_THAT(subject.logs[0].message, HasSubstr("isolation, the delay of the shutdown and labels of the node"));
    std::size_t const told = subject.pods.size() + subject.reports.size();
    PodObject pod;
    pod.annotate("isolate-process-group", "true");
    pod.version = 11;
    subject.line(watch.id, pod.line("MODIFIED"));
    subject.hear(heard::Unreachable{0, "no"});
    EXPECT_EQ(subject.pods.size() + subject.reports.size(), told);
    subject.hear(heard::LauncherReached{});
    EXPECT_GT(subject.pods.size() + subject.reports.size(), told) << "another one may be our own";
    subject.hear(heard::CallRefused{LauncherCall::set_pod, "PermissionDenied", true});
    EXPECT_EQ(subject.logs.size(), 1U);
}

TEST(KubernetesReporter, APokeReloadsOnceWhenItIsLaterThanTheLoad) {
    struct Row {
        std::string value;
        int reloads;
    };
    Subject subject;
    PodObject pod;
    pod.annotate("outdated-config-map-seen", "1700000000");
    auto const watch = subject.begin(pod);
    EXPECT_EQ(subject.reloads, 0) << "it is not known yet when the last load was";
    subject.configure("c1", 1'700'000'000'999'999);
    EXPECT_EQ(subject.reloads, 0) << "the same second is not a later one";
    int expected = 0;
    for (Row const& row : std::vector<Row>{{"1700000001", 1},
                                           {"1700000001", 0},
                                           {"soon", 0},
                                           {"1700000001", 0},
                                           {"1700000000", 0},
                                           {"1600000000", 0},
                                           {"1600000001", 1}}) {  // of a clock that is behind, but a new request
        pod.annotate("outdated-config-map-seen", row.value);
        ++pod.version;
        subject.line(watch, pod.line("MODIFIED"));
        expected += row.reloads;
        EXPECT_EQ(subject.reloads, expected) << row.value;
    }
}

TEST(KubernetesReporter, AWatchIsResumedAtItsLastVersionAnd410BeginsAnew) {
    Subject subject;
    auto const watch = subject.begin(pod_with("c1"));
    subject.line(watch, bookmark_line(77));
    subject.pass(minutes(4));
    subject.line(watch, bookmark_line(78));
    subject.pass(minutes(4));
    subject.hear(heard::WatchEnded{watch, 200, std::nullopt, ""});
    subject.pass(seconds(1));
    auto const resumed = subject.watch();
    EXPECT_THAT(resumed.target, HasSubstr("&resourceVersion=78"));
    subject.hear(heard::WatchOpened{resumed.id});
    subject.line(resumed.id, R"({"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}})");
    EXPECT_EQ(subject.closed.back().id, resumed.id);
    auto const anew = subject.watch();
    EXPECT_THAT(anew.target, Not(HasSubstr("resourceVersion")));
    subject.hear(heard::WatchEnded{anew.id, 410, std::nullopt, "{}"});
    EXPECT_THAT(subject.watches, IsEmpty()) << "not at once, twice in a row";
    subject.pass(seconds(1));
    EXPECT_EQ(subject.watches.size(), 1U);
}

TEST(KubernetesReporter, AVersionThatIsGoneAgainIsNotAskedForAtOnce) {
    Subject subject;
    auto const too_old = R"({"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}})";
    auto watch = subject.begin(pod_with("c1"));
    auto const hear_that_it_is_gone = [&] {
        subject.line(watch, bookmark_line(77));
        subject.line(watch, too_old);
    };
    auto const goes_on = [&] {
        watch = subject.watch().id;
        subject.hear(heard::WatchOpened{watch});
    };
    hear_that_it_is_gone();
    ASSERT_EQ(subject.watches.size(), 1U) << "the first time at once";
    goes_on();
    hear_that_it_is_gone();
    EXPECT_THAT(subject.watches, IsEmpty()) << "it had a version, and the server forgets too fast";
    subject.pass(seconds(2));
    ASSERT_EQ(subject.watches.size(), 1U);
    goes_on();
    subject.pass(minutes(4));
    subject.line(watch, bookmark_line(78));
    subject.pass(minutes(4));
    hear_that_it_is_gone();
    EXPECT_EQ(subject.watches.size(), 1U) << "once in a while it may";
}

TEST(KubernetesReporter, AHungWatchIsClosed) {
    Subject subject;
    auto const watch = subject.begin({});
    subject.pass(minutes(16));
    ASSERT_EQ(subject.closed.size(), 1U) << "it outlived its timeout";
    EXPECT_EQ(subject.closed[0].id, watch);
    subject.pass(seconds(1));
    auto const second = subject.watch();
    subject.hear(heard::WatchOpened{second.id});
    subject.line(second.id, bookmark_line(77));
    subject.pass(minutes(5) + seconds(1));
    EXPECT_EQ(subject.closed.size(), 2U) << "where bookmarks come, silence is short";
    subject.line(second.id, bookmark_line(99));  // too late
    subject.pass(seconds(2));
    EXPECT_THAT(subject.watch().target, Not(HasSubstr("99")));
}

TEST(KubernetesReporter, AWatchThatEndsAtOnceIsNotOpenedInALoop) {
    Subject subject;
    subject.hear(heard::LauncherReached{});
    int opened = 0;
    for (TimePoint const end = subject.now.time + minutes(10); subject.now.time < end;) {
        subject.pass(milliseconds(100));
        for (; !subject.watches.empty(); ++opened) {
            auto const watch = subject.watch();
            subject.hear(heard::WatchOpened{watch.id});
            subject.line(watch.id, pod_with("c1").line("ADDED"));
            subject.hear(heard::WatchEnded{watch.id, 200, std::nullopt, ""});
            subject.answer_calls();
        }
    }
    EXPECT_GE(opened, 15);
    EXPECT_LE(opened, 50);
    EXPECT_EQ(state_of(subject), "failing");
}

TEST(KubernetesReporter, AWatchThatIsRefusedOnceItIsOpenIsNotCalledGoodEachTime) {
    Subject subject;
    subject.hear(heard::LauncherReached{});
    auto const refusal = R"({"type":"ERROR","object":{"kind":"Status","code":500,"message":"no progress here"}})";
    for (TimePoint const end = subject.now.time + minutes(10); subject.now.time < end;) {
        subject.pass(milliseconds(100));
        while (!subject.watches.empty()) {
            auto const watch = subject.watch();
            subject.hear(heard::WatchOpened{watch.id});
            subject.line(watch.id, refusal);
            subject.answer_calls();
        }
    }
    EXPECT_EQ(state_of(subject), "failing");
    EXPECT_LE(std::ranges::count(subject.logs, "kubernetes-works-again", &action::Log::event), 2);
}

TEST(KubernetesReporter, GarbageInAWatchIsItsEnd) {
    Subject subject;
    auto const watch = subject.begin({});
    subject.line(watch, "<html>");
    EXPECT_EQ(subject.closed.size(), 1U);
    EXPECT_EQ(state_of(subject), "failing");
    EXPECT_THAT(subject.reports.back().detail, HasSubstr("the pod cannot be watched: cannot be understood"));
}

TEST(KubernetesReporter, LabelsOfTheNodeAreWaitedForAndSent) {
    ReporterSettings settings = Subject::settings();
    settings.watches_node = true;
    Subject subject(settings);
    subject.hear(heard::LauncherReached{});
    auto const pod_watch = subject.watch();
    EXPECT_FALSE(pod_watch.wants_metadata_only) << "the pod says which node";
    subject.hear(heard::WatchOpened{pod_watch.id});
    subject.line(pod_watch.id, PodObject{}.line("ADDED"));
    EXPECT_THAT(subject.pods, IsEmpty());
    auto const node_watch = subject.watch();
    EXPECT_THAT(node_watch.target,
                HasSubstr("/api/v1/nodes?watch=true&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dnode-1"));
    EXPECT_TRUE(node_watch.wants_metadata_only);
    subject.hear(heard::WatchOpened{node_watch.id});
    subject.line(node_watch.id, node_line("node-1", {{"a.b/zone", "z1"}, {"host-name", "h"}}, 3));
    ASSERT_EQ(subject.pods.size(), 1U);
    EXPECT_THAT(subject.pods[0].variables,
                ElementsAre(Pair("NODE_LABEL_A_B_ZONE", "z1"), Pair("NODE_LABEL_HOST-NAME", "h")));
    subject.line(node_watch.id, node_line("node-1", {{"a.b/zone", "z2"}}, 4));
    ASSERT_EQ(subject.pods.size(), 2U);
    EXPECT_THAT(subject.pods[1].variables, ElementsAre(Pair("NODE_LABEL_A_B_ZONE", "z2")));
}

TEST(KubernetesReporter, MoreLabelsThanTheLauncherTakesAreLeftOut) {
    struct Row {
        std::size_t labels;
        std::size_t value;
    };
    for (Row const& row : std::vector<Row>{{1000, 30}, {1100, 30}, {900, 63}}) {
        ReporterSettings settings = Subject::settings();
        settings.watches_node = true;
        settings.node_name = "node-1";
        Subject subject(settings);
        subject.hear(heard::LauncherReached{});
        auto const watches = std::exchange(subject.watches, {});
        Pairs labels;
        for (std::size_t i = row.labels; i > 0; --i)
            labels.emplace_back("l" + std::to_string(10000 + i - 1), std::string(row.value, 'v'));
        subject.hear(heard::WatchOpened{watches[1].id});
        subject.line(watches[1].id, node_line("node-1", labels, 3));
        subject.hear(heard::WatchOpened{watches[0].id});
        PodObject pod;
        pod.annotate("isolate-process-group", "true");
        subject.line(watches[0].id, pod.line("ADDED"));
        ASSERT_EQ(subject.pods.size(), 1U);
        EXPECT_TRUE(subject.pods[0].is_isolated);
        Pairs const& variables = subject.pods[0].variables;
        std::size_t const fit = std::min<std::size_t>(1000, (64 << 10) / (17 + row.value));
        ASSERT_EQ(variables.size(), std::min(row.labels, fit));
        EXPECT_TRUE(std::ranges::is_sorted(variables));
        EXPECT_EQ(variables.front().first, "NODE_LABEL_L10000");
        subject.line(watches[1].id, node_line("node-1", labels, 4));
        bool const is_cut = row.labels > fit;
        ASSERT_EQ(subject.logs.size(), is_cut ? 1U : 0U) << "once";
        if (!is_cut) continue;
        EXPECT_EQ(subject.logs[0].event, "labels-left-out");
        EXPECT_THAT(subject.logs[0].message, HasSubstr(std::to_string(row.labels - fit) + " are left out"));
    }
}

TEST(KubernetesReporter, IsolationDoesNotWaitForANodeThatMayNotBeWatched) {
    ReporterSettings settings = Subject::settings();
    settings.watches_node = true;
    settings.node_name = "node-1";
    Subject subject(settings);
    subject.hear(heard::LauncherReached{});
    ASSERT_EQ(subject.watches.size(), 2U);
    EXPECT_TRUE(subject.watches[0].wants_metadata_only);
    subject.hear(heard::WatchOpened{subject.watches[0].id});
    PodObject pod;
    pod.annotate("isolate-process-group", "true");
    subject.line(subject.watches[0].id, pod.line("ADDED"));
    EXPECT_THAT(subject.pods, IsEmpty());
    subject.hear(heard::WatchEnded{subject.watches[1].id, 403, std::nullopt, forbidden_body("watch", "nodes")});
    ASSERT_EQ(subject.pods.size(), 1U);
    EXPECT_TRUE(subject.pods[0].is_isolated);
    EXPECT_THAT(subject.logs.back().message, HasSubstr(R"(verb "watch" on resource "nodes")"));
}

TEST(KubernetesReporter, TheConditionFollowsReadiness) {
    ReporterSettings settings = Subject::settings();
    settings.readiness_gate = "gate/ready";
    Subject subject(settings);
    auto const watch = subject.begin(pod_with("c1"));
    auto const request = subject.request();
    EXPECT_EQ(request.target, "/api/v1/namespaces/ns/pods/pod/status?fieldManager=triton-launch");
    EXPECT_EQ(request.content_type, "application/strategic-merge-patch+json");
    EXPECT_THAT(request.body, HasSubstr(R"("type":"gate/ready","status":"True")"));
    PodObject pod = pod_with("c1");
    pod.gate = true;
    pod.version = 11;
    subject.respond(request, 200, pod.json());
    EXPECT_THAT(subject.requests, IsEmpty());
    int const calls = subject.status_calls;
    subject.hear(heard::Record{"process-ready", {}, {}, 1, {}, {}, {}, {}});
    subject.pass(milliseconds(100));
    EXPECT_EQ(subject.status_calls, calls + 1) << "a record may mean that readiness has changed";
    subject.hear(heard::Status{"1.0", 7, false});
    subject.pass(milliseconds(250));
    EXPECT_THAT(subject.request().body, HasSubstr(R"("status":"False")"));
    (void)watch;
}

heard::Record gave_up() {
    heard::Record record;
    record.event = "process-gave-up";
    record.message = "web is given up: started 3 times in too short a time";
    return record;
}

TEST(KubernetesReporter, WithNothingToSayTheEndIsAsQuickAsTheLauncher) {
    Subject subject;
    subject.begin(pod_with("c1"));
    subject.configure("c1");
    EXPECT_FALSE(subject.reporter.is_finished());
    subject.hear(heard::Ending{});
    EXPECT_FALSE(subject.reporter.is_finished()) << "it may have said something that is still on its way";
    ASSERT_EQ(subject.answered, (std::vector{LauncherCall::get_status}));
    subject.hear(heard::Status{"1.0", 7, true});
    subject.answer_calls();
    EXPECT_TRUE(subject.reporter.is_finished());
    EXPECT_THAT(subject.requests, IsEmpty());
}

TEST(KubernetesReporter, TheLastWordsAreWarningsAndThatItIsNotReady) {
    ReporterSettings settings = Subject::settings();
    settings.readiness_gate = "gate/ready";
    Subject subject(settings);
    PodObject pod = pod_with("c0");
    pod.gate = true;
    subject.begin(pod);
    subject.configure("c1");  // its request is under way
    auto const annotations = subject.request();
    subject.hear(heard::Ending{});
    subject.hear(gave_up());  // said before, heard after
    subject.answer_calls();
    EXPECT_FALSE(subject.reporter.is_finished());
    subject.configure("c2", 1'700'000'001'000'000);
    pod = pod_with("c1");
    pod.gate = true;
    pod.version = 11;
    subject.respond(annotations, 200, pod.json());
    auto const event = subject.request();
    EXPECT_THAT(event.body, HasSubstr("StartLimitHit"));
    subject.respond(event, 201, "{}");
    auto const condition = subject.request();
    EXPECT_THAT(condition.body, HasSubstr(R"("status":"False")"));
    EXPECT_FALSE(subject.reporter.is_finished());
    pod.version = 12;
    subject.respond(condition, 200, pod.json());  // it has taken it, and shows something else
    EXPECT_TRUE(subject.reporter.is_finished());
    EXPECT_THAT(subject.requests, IsEmpty()) << "c2 and that it was loaded is not worth staying for";
}

TEST(KubernetesReporter, TheLastWordsNeedNoToken) {
    Subject subject;
    subject.begin(pod_with("c1"));
    subject.configure("c1");
    for (int i = 0; i < 40; ++i) {
        subject.hear(ended("exit code 1", 1));
        while (!subject.requests.empty())
            subject.respond(subject.request(), 201, "{}");
    }
    subject.hear(gave_up());
    EXPECT_THAT(subject.requests, IsEmpty()) << "the crash loop has used them up";
    subject.hear(heard::Ending{});
    subject.answer_calls();
    auto const request = subject.request();
    EXPECT_THAT(request.body, HasSubstr("StartLimitHit"));
    subject.respond(request, 201, "{}");
    EXPECT_TRUE(subject.reporter.is_finished()) << "the count of the other can wait";
}

TEST(KubernetesReporter, TheLastWordsTakeASecondAtMost) {
    Subject subject;
    subject.begin(pod_with("c1"));
    subject.configure("c1");
    subject.hear(gave_up());
    EXPECT_EQ(subject.requests.size(), 1U);
    subject.hear(heard::Ending{});
    subject.answer_calls();
    subject.pass(milliseconds(999));
    EXPECT_FALSE(subject.reporter.is_finished());
    subject.pass(milliseconds(1));
    EXPECT_TRUE(subject.reporter.is_finished());
}

TEST(KubernetesReporter, ALauncherThatDoesNotAnswerTakesASecondAtMost) {
    Subject subject;
    subject.begin(pod_with("c1"));
    subject.hear(heard::Ending{});
    TimePoint const limit = subject.now.time + seconds(1);
    EXPECT_EQ(subject.reporter.deadline(), limit);
    subject.set_time(limit);
    subject.hear(heard::TimePassed{});
    EXPECT_TRUE(subject.reporter.is_finished());
}

TEST(KubernetesReporter, WhereTheApiIsAwayTheEndIsAtOnce) {
    Subject never;
    never.hear(heard::LauncherReached{});
    never.hear(gave_up());
    never.hear(heard::Ending{});
    EXPECT_TRUE(never.reporter.is_finished()) << "it has never answered";

    Subject broken;
    auto const watch = broken.begin(pod_with("c1"));
    broken.hear(heard::WatchEnded{watch, 0, std::nullopt, "torn"});
    broken.hear(heard::WatchEnded{watch + 1, 0, std::nullopt, "torn"});
    broken.hear(gave_up());
    broken.hear(heard::Ending{});
    EXPECT_TRUE(broken.reporter.is_finished());

    Subject failing;
    failing.begin(pod_with("c1"));
    failing.hear(gave_up());
    auto const request = failing.request();
    failing.hear(heard::Ending{});
    failing.answer_calls();
    EXPECT_FALSE(failing.reporter.is_finished());
    failing.hear(heard::Unreachable{request.id, "Connection refused"});
    EXPECT_TRUE(failing.reporter.is_finished());
    EXPECT_THAT(failing.requests, IsEmpty());
}

TEST(KubernetesReporter, AnIdleHourIsAFewWatches) {
    Subject subject;
    auto watch = subject.begin(pod_with("c1"));
    subject.configure("c1");
    std::size_t const reports = subject.reports.size();
    int opened = 0;
    for (int minute = 0; minute < 60; ++minute) {
        subject.line(watch, bookmark_line(100 + static_cast<std::uint64_t>(minute)));
        if (minute % 11 == 10) subject.hear(heard::WatchEnded{watch, 200, std::nullopt, ""});
        subject.pass(minutes(1));
        if (subject.watches.empty()) continue;
        watch = subject.watch().id;
        subject.hear(heard::WatchOpened{watch});
        subject.answer_calls();
        ++opened;
    }
    EXPECT_EQ(opened, 5);
    EXPECT_THAT(subject.requests, IsEmpty());
    EXPECT_LE(subject.reports.size() - reports, 5U);
}

}  // namespace
}  // namespace triton::kubernetes
