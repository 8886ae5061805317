#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lib/json/text.h"
#include "sidecar/kubernetes/reporter.h"

namespace triton::kubernetes {

inline std::string quoted_json(std::string_view text) {
    std::string out;
    json::append_json_string(out, text);
    return out;
}

/// A pod as the API shows it.
struct PodObject {
    std::string uid = "uid-1";
    std::uint64_t version = 10;
    Pairs annotations = {};  // with their prefix
    std::string node = "node-1";
    std::optional<bool> gate = {};

    void annotate(std::string_view name, std::string_view value) {
        std::string const key = "foundationdb.org/" + std::string(name);
        std::erase_if(annotations, [&key](auto const& one) { return one.first == key; });
        annotations.emplace_back(key, value);
    }
    [[nodiscard]] std::string annotation(std::string_view name) const {
        std::string const key = "foundationdb.org/" + std::string(name);
        auto const found = std::ranges::find(annotations, key, &std::pair<std::string, std::string>::first);
        return found == annotations.end() ? "" : found->second;
    }
    [[nodiscard]] std::string json() const {
        std::string out = R"({"metadata":{"name":"pod","namespace":"ns","uid":)" + quoted_json(uid);
        out += R"(,"resourceVersion":")" + std::to_string(version) + R"(","annotations":)" + json_object(annotations);
        out += R"(},"spec":{"nodeName":)" + quoted_json(node) + R"(},"status":{"conditions":[)";
        if (gate) out += R"({"type":"gate/ready","status":)" + quoted_json(*gate ? "True" : "False") + "}";
        return out + "]}}";
    }
    [[nodiscard]] std::string line(std::string_view type) const {
        return R"({"type":)" + quoted_json(type) + R"(,"object":)" + json() + "}";
    }
};

inline std::string bookmark_line(std::uint64_t version) {
    return R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":")" + std::to_string(version) + R"("}}})";
}

inline std::string node_line(std::string_view name, Pairs const& labels, std::uint64_t version) {
    return R"({"type":"MODIFIED","object":{"metadata":{"name":)" + quoted_json(name) + R"(,"resourceVersion":")" +
           std::to_string(version) + R"(","labels":)" + json_object(labels) + "}}}";
}

inline std::string status_body(int code, std::string_view message) {
    return R"({"kind":"Status","code":)" + std::to_string(code) + R"(,"message":)" + quoted_json(message) + "}";
}

inline std::string forbidden_body(std::string_view verb, std::string_view resource) {
    return status_body(403, std::string(resource) + " is forbidden: User \"sa\" cannot " + std::string(verb) +
                                " resource \"" + std::string(resource) + "\" in API group \"\"");
}

/// A Reporter with its time, and what it wants done, by kind, until that is taken.
struct Subject {
    static ReporterSettings settings() {
        ReporterSettings settings;
        settings.pod_name = "pod";
        settings.pod_namespace = "ns";
        return settings;
    }

    explicit Subject(ReporterSettings with = settings()) : reporter(std::move(with), now) {}

    Now now{TimePoint{} + std::chrono::hours(1), 1'700'000'000'000'000};
    Reporter reporter;
    std::vector<action::Request> requests;
    std::vector<action::OpenWatch> watches;
    std::vector<action::CloseWatch> closed;
    std::vector<action::SetPod> pods;
    std::vector<action::SetReporter> reports;
    std::vector<action::Log> logs;
    int reloads = 0;
    int status_calls = 0;

    void hear(Heard const& heard) {
        for (Action& action : reporter.handle(heard, now))
            std::visit([this](auto& one) { take(std::move(one)); }, action);
    }
    void take(action::Request&& one) { requests.push_back(std::move(one)); }
    void take(action::OpenWatch&& one) { watches.push_back(std::move(one)); }
    void take(action::CloseWatch&& one) { closed.push_back(one); }
    void take(action::SetPod&& one) { pods.push_back(std::move(one)), answered.push_back(LauncherCall::set_pod); }
    void take(action::SetReporter&& one) {
        reports.push_back(std::move(one)), answered.push_back(LauncherCall::set_reporter);
    }
    void take(action::Reload&&) { ++reloads, answered.push_back(LauncherCall::reload); }
    void take(action::GetStatus&&) { ++status_calls, answered.push_back(LauncherCall::get_status); }
    void take(action::Log&& one) { logs.push_back(std::move(one)); }

    std::vector<LauncherCall> answered;  // calls that the launcher has not answered yet

    void answer_calls() {
        while (!answered.empty()) {
            LauncherCall const call = answered.front();
            answered.erase(answered.begin());
            hear(heard::CallDone{call});
        }
    }

    /// Time passes, with a wake-up at each deadline within it.
    void pass(Duration time) {
        TimePoint const end = now.time + time;
        for (int wakes = 0; reporter.deadline() && *reporter.deadline() <= end; ++wakes) {
            ASSERT_LT(wakes, 100000) << "it wakes up again and again";
            set_time(std::max(now.time, *reporter.deadline()));
            hear(heard::TimePassed{});
            answer_calls();
        }
        set_time(end);
    }
    void set_time(TimePoint time) {
        now.unix_microseconds += std::chrono::duration_cast<std::chrono::microseconds>(time - now.time).count();
        now.time = time;
    }

    action::Request request() {
        EXPECT_EQ(requests.size(), 1U);
        if (requests.empty()) return {};
        action::Request one = std::move(requests.front());
        requests.erase(requests.begin());
        return one;
    }
    action::OpenWatch watch() {
        EXPECT_EQ(watches.size(), 1U);
        if (watches.empty()) return {};
        action::OpenWatch one = std::move(watches.front());
        watches.erase(watches.begin());
        return one;
    }
    void respond(action::Request const& request, int status, std::string body = {},
                 std::optional<Duration> retry_after = std::nullopt) {
        hear(heard::Response{request.id, status, retry_after, std::move(body)});
        answer_calls();
    }
    void line(std::uint64_t watch, std::string const& text) {
        hear(heard::WatchLine{watch, text});
        answer_calls();
    }
    void configure(std::string text, std::int64_t accepted_at = 1'699'999'000'000'000, Pairs environment = {}) {
        hear(heard::Configuration{std::move(text), std::move(environment), accepted_at, {}});
        answer_calls();
    }

    /// The usual beginning: the launcher is there, the watch is open and has shown the pod.
    std::uint64_t begin(PodObject const& pod) {
        hear(heard::LauncherReached{});
        hear(heard::Status{"1.0", 7, true});
        answer_calls();
        auto const opened = watch();
        hear(heard::WatchOpened{opened.id});
        line(opened.id, pod.line("ADDED"));
        return opened.id;
    }
};

}  // namespace triton::kubernetes
