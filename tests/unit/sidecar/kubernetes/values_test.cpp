#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sidecar/kubernetes/api_objects.h"
#include "sidecar/kubernetes/backoff.h"
#include "sidecar/kubernetes/event_correlator.h"
#include "sidecar/kubernetes/go_values.h"

namespace triton::kubernetes {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(GoValues, BoolsAreThoseOfStrconv) {
    for (std::string_view const yes : {"1", "t", "T", "TRUE", "true", "True"})
        EXPECT_EQ(parse_go_bool(yes), true) << yes;
    for (std::string_view const no : {"0", "f", "F", "FALSE", "false", "False"})
        EXPECT_EQ(parse_go_bool(no), false) << no;
    for (std::string_view const none : {"", "yes", "tRUE", " true", "2"})
        EXPECT_EQ(parse_go_bool(none), std::nullopt) << none;
}

TEST(GoValues, DurationsAreThoseOfTime) {
    struct Row {
        std::string_view text;
        std::optional<Duration> expected;
    };
    for (Row const& row : std::to_array<Row>({{"60s", seconds(60)},
                                              {"1.5h", minutes(90)},
                                              {"-1h15m30.918s", -(hours(1) + minutes(15) + milliseconds(30918))},
                                              {"+5s", seconds(5)},
                                              {"0", Duration::zero()},
                                              {"-0", Duration::zero()},
                                              {".5s", milliseconds(500)},
                                              {"1.s", seconds(1)},
                                              {"1s1h", hours(1) + seconds(1)},
                                              {"3us", std::chrono::microseconds(3)},
                                              {"3\u00b5s", std::chrono::microseconds(3)},
                                              {"3\u03bcs", std::chrono::microseconds(3)},
                                              {"100ms7ns", milliseconds(100) + nanoseconds(7)},
                                              {"0.9999999999999999999999999999s", nanoseconds(999999999)},
                                              {"2562047h47m16.854775807s", Duration(INT64_MAX)},
                                              {"2562047h47m16.854775808s", std::nullopt},
                                              {"9223372036854775807ns", Duration(INT64_MAX)},
                                              {"9223372036854775808ns", std::nullopt},
                                              {"0000000000000000000000001s", seconds(1)},
                                              {"9999999999999999999h", std::nullopt},
                                              {"10000000000000000000ns", std::nullopt},
                                              {"60", std::nullopt},
                                              {"", std::nullopt},
                                              {"-", std::nullopt},
                                              {".s", std::nullopt},
                                              {"1 s", std::nullopt},
                                              {"1d", std::nullopt},
                                              {"1s-", std::nullopt},
                                              {"s", std::nullopt}})) {
        EXPECT_EQ(parse_go_duration(row.text), row.expected) << row.text;
    }
}

TEST(GoValues, SecondsLabelsAndTimes) {
    EXPECT_EQ(parse_unix_seconds("1700000000"), 1700000000);
    EXPECT_EQ(parse_unix_seconds("+7"), 7);
    EXPECT_EQ(parse_unix_seconds("-7"), -7);
    for (std::string_view const none : {"", "+", "+-7", "1.5", "7 ", "99999999999999999999", "0x10"})
        EXPECT_EQ(parse_unix_seconds(none), std::nullopt) << none;
    EXPECT_EQ(node_label_variable("topology.kubernetes.io/zone"), "NODE_LABEL_TOPOLOGY_KUBERNETES_IO_ZONE");
    EXPECT_EQ(node_label_variable("node-role.k8s.io/a_B-c"), "NODE_LABEL_NODE-ROLE_K8S_IO_A_B-C");
}

TEST(ApiObjects, AWatchEventIsReducedToWhatConcernsUs) {
    auto const event = parse_watch_event(
        R"({"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"p","uid":"u","resourceVersion":"12",
        "annotations":{"a.b/one":"1","other":"x","a.b/two":"2"},"labels":{"l":"v"}},"spec":{"nodeName":"n"},
        "status":{"conditions":[{"type":"Ready","status":"True"},{"type":"gate/x","status":"False"}]}}})",
        {"a.b/", "gate/x"});
    ASSERT_TRUE(event) << event.error().text();
    EXPECT_EQ(event->type, WatchEventType::modified);
    EXPECT_EQ(event->object.name, "p");
    EXPECT_EQ(event->object.uid, "u");
    EXPECT_EQ(event->object.resource_version, "12");
    EXPECT_THAT(event->object.annotations, ElementsAre(Pair("one", "1"), Pair("two", "2")));
    EXPECT_THAT(event->object.labels, ElementsAre(Pair("l", "v")));
    EXPECT_EQ(event->object.node_name, "n");
    EXPECT_EQ(event->object.condition, false);
}

TEST(ApiObjects, BookmarksErrorsAndGarbage) {
    Wanted const wanted{"a.b/", ""};
    auto const bookmark =
        parse_watch_event(R"({"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"99"}}})", wanted);
    ASSERT_TRUE(bookmark);
    EXPECT_EQ(bookmark->type, WatchEventType::bookmark);
    EXPECT_EQ(bookmark->object.resource_version, "99");
    auto const error = parse_watch_event(
        R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too\u0007old"}})",
        wanted);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status.code, 410);
    EXPECT_EQ(error->status.message, "too\\x07old");
    std::string const deep(10000, '[');
    std::string const giant = R"({"type":")" + std::string(4 << 20, 'x') + R"("})";
    for (std::string_view const bad :
         {std::string_view(""), std::string_view("[]"), std::string_view("{"), std::string_view("null"),
          std::string_view(R"({"type":"ADDED"})"), std::string_view(R"({"type":"ADDED","object":7})"),
          std::string_view(R"({"type":"ADDED","object":{"metadata":{"name":"p"}}})"),
          std::string_view(R"({"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}})"),
          std::string_view(R"({"type":"GONE","object":{"metadata":{"name":"p","resourceVersion":"1"}}})"),
          std::string_view(deep), std::string_view(giant)})
        EXPECT_FALSE(parse_watch_event(bad, wanted)) << bad.substr(0, 60);
}

TEST(ApiObjects, RefusalsAreShownWhateverTheirBodyIs) {
    EXPECT_EQ(parse_status(R"({"kind":"Status","code":403,"message":"pods \"p\" is forbidden"})", 403).message,
              R"(pods "p" is forbidden)");
    EXPECT_EQ(parse_status("<html>\nBad Gateway", 502).message, "<html>\\x0aBad Gateway");
    EXPECT_EQ(parse_status(R"({"code":200})", 500).code, 500) << "what HTTP says";
    EXPECT_EQ(parse_status(std::string(100000, 'x'), 500).message.size(), 1024U);
}

TEST(ApiObjects, Bodies) {
    EXPECT_EQ(annotations_patch("a.b/", {{"x", "1\n\"2\""}, {"y", "{}"}}),
              R"({"metadata":{"annotations":{"a.b/x":"1\n\"2\"","a.b/y":"{}"}}})");
    EXPECT_EQ(condition_patch("g/r", true, 0),
              R"({"status":{"conditions":[{"type":"g/r","status":"True","reason":"ProgramsReady",)"
              R"("message":"every program is ready","lastTransitionTime":"1970-01-01T00:00:00Z"}]}})");
    EventRecord record{.id = 1, .is_warning = true, .reason = "R", .message = "m", .name = "abc"};
    record.first_seconds = 60;
    record.last_seconds = 61;
    record.count = 2;
    EventSource const source{"pod", "ns", "uid", "node"};
    EXPECT_EQ(event_body(source, record),
              R"({"apiVersion":"v1","kind":"Event","metadata":{"name":"pod.abc","namespace":"ns"},"involvedObject":)"
              R"({"apiVersion":"v1","kind":"Pod","namespace":"ns","name":"pod","uid":"uid"},"source":)"
              R"({"component":"triton-launch","host":"node"},"reportingComponent":"triton-launch",)"
              R"("reportingInstance":"pod","type":"Warning","reason":"R","message":"m",)"
              R"("firstTimestamp":"1970-01-01T00:01:00Z","lastTimestamp":"1970-01-01T00:01:01Z","count":2})");
    EXPECT_EQ(event_patch(record), R"({"message":"m","lastTimestamp":"1970-01-01T00:01:01Z","count":2})");
    EXPECT_EQ(event_name({std::string(248, 'a') + "-bcde", "", "", ""}, record), std::string(248, 'a') + ".abc");
    EXPECT_EQ(percent_encoded("metadata.name=a/b"), "metadata.name%3Da%2Fb");
}

TEST(Backoff, DoublesWithJitterAndHeedsTheServer) {
    Random random(1);
    Backoff backoff(seconds(1), seconds(8));
    for (int const step : {1, 2, 4, 8, 8, 8}) {
        Duration const delay = backoff.after_failure(random);
        EXPECT_GE(delay, seconds(step) / 2);
        EXPECT_LE(delay, seconds(step));
    }
    Duration const asked = backoff.after_failure(random, seconds(100));
    EXPECT_GE(asked, seconds(100));
    EXPECT_LE(asked, seconds(110));
    EXPECT_LE(backoff.after_failure(random, hours(24)), minutes(11)) << "no server puts us off for good";
    EXPECT_GE(backoff.after_failure(random, -hours(1)), seconds(4));
    backoff.reset();
    EXPECT_LE(backoff.after_failure(random), seconds(1));
}

TEST(Pace, AThousandChangesInAMinuteAreFewWrites) {
    Pace pace;
    TimePoint const start{};
    TimePoint last = start;
    int writes = 0;
    std::optional<TimePoint> wanted;
    for (int i = 0; i < 1000; ++i) {
        TimePoint const now = start + i * milliseconds(60);
        if (!wanted) wanted = now;
        if (pace.next(now) > now) continue;
        pace.written(now, *wanted);
        wanted.reset();
        last = now;
        ++writes;
    }
    EXPECT_LE(writes, 20);
    EXPECT_GE(writes, 15);
    EXPECT_LE(pace.next(last) - last, seconds(4));
    TimePoint const later = last + seconds(10);
    EXPECT_LE(pace.next(later), later);
    pace.written(later, later);
    EXPECT_EQ(pace.next(later), later + milliseconds(250)) << "at ease again";
}

// Events

struct Correlated {
    EventCorrelator events;
    Now now{TimePoint{} + hours(1), 1'700'000'000'000'000};

    void pass(Duration time) {
        now.time += time;
        now.unix_microseconds += std::chrono::duration_cast<std::chrono::microseconds>(time).count();
    }
    void observe(std::string_view message, std::string_view reason = "R") {
        events.observe(true, reason, message, now);
    }
    std::optional<EventRecord> write() {
        auto const record = events.next(now.time);
        if (!record) return record;
        events.begin(record->id);
        events.written(*record, now.time);
        return record;
    }
};

TEST(EventCorrelator, TheSameAgainIsACount) {
    Correlated subject;
    subject.observe("a");
    auto const first = subject.write();
    ASSERT_TRUE(first);
    EXPECT_FALSE(first->is_created);
    EXPECT_EQ(first->count, 1U);
    EXPECT_EQ(subject.events.next_at(subject.now.time), std::nullopt);
    subject.pass(seconds(5));
    subject.observe("a");
    subject.observe("a");
    auto const second = subject.write();
    ASSERT_TRUE(second);
    EXPECT_TRUE(second->is_created);
    EXPECT_EQ(second->name, first->name);
    EXPECT_EQ(second->count, 3U);
    EXPECT_EQ(second->first_seconds, 1'700'000'000);
    EXPECT_EQ(second->last_seconds, 1'700'000'005);
    EXPECT_FALSE(subject.write());
}

TEST(EventCorrelator, WhatHappensWhileItIsWrittenIsWrittenAfterwards) {
    Correlated subject;
    subject.observe("a");
    auto const record = subject.events.next(subject.now.time);
    subject.events.begin(record->id);
    subject.observe("a");
    subject.events.written(*record, subject.now.time);
    auto const next = subject.write();
    ASSERT_TRUE(next);
    EXPECT_TRUE(next->is_created);
    EXPECT_EQ(next->count, 2U);
}

TEST(EventCorrelator, SimilarOnesAreCombinedAfterTen) {
    Correlated subject;
    for (int i = 0; i < 30; ++i)
        subject.observe("m" + std::to_string(i));
    std::vector<std::string> messages;
    while (auto const record = subject.write())
        messages.push_back(record->message);
    ASSERT_EQ(messages.size(), 11U);
    EXPECT_EQ(messages.back(), "(combined from similar events): m29");
    subject.observe("m3");
    EXPECT_EQ(subject.write()->message, "(combined from similar events): m3");
    subject.observe("of another reason", "S");
    EXPECT_EQ(subject.write()->message, "of another reason");
    subject.pass(seconds(601));
    subject.observe("m31");
    EXPECT_EQ(subject.write()->message, "m31") << "10 minutes without any end it";
}

TEST(EventCorrelator, TwentyFiveWritesThenOneInFiveMinutes) {
    Correlated subject;
    int writes = 0;
    for (int i = 0; i < 3600; ++i) {  // a crash each second for an hour
        subject.observe("a");
        writes += subject.write().has_value();
        subject.pass(seconds(1));
    }
    EXPECT_EQ(writes, 25 + 11);
    auto const at = subject.events.next_at(subject.now.time);
    ASSERT_TRUE(at);
    EXPECT_LE(*at, subject.now.time + minutes(5) + milliseconds(10));
    subject.pass(*at - subject.now.time);
    EXPECT_EQ(subject.write()->count, 3600U) << "nothing was lost by waiting";
}

/// What the server has forgotten or will not have was a write, too: it must not be tried without end.
TEST(EventCorrelator, WhatWasInVainCostsAWrite) {
    for (bool const is_forgotten : {true, false}) {
        Correlated subject;
        int writes = 0;
        for (int i = 0; i < 100; ++i) {
            subject.observe("a");
            auto const record = subject.events.next(subject.now.time);
            if (!record) continue;
            ++writes;
            subject.events.begin(record->id);
            if (is_forgotten)
                subject.events.gone(record->id, subject.now);
            else
                subject.events.drop(record->id, subject.now.time);
        }
        EXPECT_EQ(writes, 25) << is_forgotten;
    }
}

TEST(EventCorrelator, NewOnesGoBeforeUpdates) {
    Correlated subject;
    subject.observe("old");
    ASSERT_TRUE(subject.write());
    subject.observe("old");
    subject.observe("new");
    EXPECT_EQ(subject.write()->message, "new");
    EXPECT_EQ(subject.write()->message, "old");
}

TEST(EventCorrelator, FailuresCostNothingAndKeepThem) {
    Correlated subject;
    subject.observe("a");
    for (int i = 0; i < 100; ++i) {
        auto const record = subject.events.next(subject.now.time);
        ASSERT_TRUE(record);
        subject.events.begin(record->id);
        EXPECT_FALSE(subject.events.next(subject.now.time));
        subject.events.failed(record->id);
    }
    ASSERT_TRUE(subject.write());
    subject.observe("a");
    auto const update = subject.events.next(subject.now.time);
    subject.events.begin(update->id);
    subject.events.gone(update->id, subject.now);  // an hour has passed, and the server has forgotten it
    auto const again = subject.write();
    EXPECT_FALSE(again->is_created);
    EXPECT_NE(again->name, update->name);
    subject.observe("b");
    auto const dropped = subject.events.next(subject.now.time);
    subject.events.begin(dropped->id);
    subject.events.drop(dropped->id, subject.now.time);
    EXPECT_FALSE(subject.write());
}

TEST(EventCorrelator, MessagesAndMemoryAreBounded) {
    Correlated subject;
    std::string text;
    while (text.size() < 5000)
        text += "\u00e4";
    subject.observe(text);
    std::string const message = subject.write()->message;
    EXPECT_LE(message.size(), 1024U);
    EXPECT_GE(message.size(), 1020U);
    EXPECT_TRUE(message.ends_with("\u00e4..."));
    for (int i = 0; i < 1000; ++i)
        subject.events.observe(false, "R" + std::to_string(i), "m", subject.now);
    int left = 0;
    for (; subject.write(); ++left)
        subject.pass(minutes(5));
    EXPECT_EQ(left, 64);
}

TEST(EventCorrelator, AnotherPodGetsObjectsOfItsOwn) {
    Correlated subject;
    subject.observe("told");
    ASSERT_TRUE(subject.write());
    subject.observe("half");
    auto const half = subject.write();
    subject.observe("half");
    subject.events.forget_written(subject.now);
    auto const next = subject.write();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->message, "half");
    EXPECT_FALSE(next->is_created);
    EXPECT_NE(next->name, half->name);
    EXPECT_FALSE(subject.write());
}

}  // namespace
}  // namespace triton::kubernetes
