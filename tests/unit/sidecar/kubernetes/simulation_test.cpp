// The reporter against a cluster that is played: virtual time, random faults, the same for the same seed.
// TRITON_SIMULATION_SEED replays one, TRITON_KUBERNETES_EPISODES makes more of them.

#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lib/json/reader.h"
#include "tests/unit/sidecar/kubernetes/kubernetes_subject.h"

namespace triton::kubernetes {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

json::Node const* member(json::Node const* node, std::string_view name) {
    auto const* const members = node ? node->get<json::Object>() : nullptr;
    if (!members) return nullptr;
    auto const found = std::ranges::find(*members, name, &json::Member::key);
    return found == members->end() ? nullptr : &found->node;
}

std::string text(json::Node const* node) {
    auto const* const value = node ? node->get<std::string>() : nullptr;
    return value ? *value : std::string();
}

enum class Mode : std::uint8_t { good, refusing, hung, overloaded, broken, other_token, denied };
constexpr int modes = 7;

class World {
public:
    explicit World(std::uint64_t seed) : random_(seed), reporter_(settings(seed), now_) {
        hear(heard::TimePassed{});
        launcher_back();
    }

    void step() {
        do_something();
        run(milliseconds(random_.next() % (random_.next() % 8 == 0 ? 60'000 : 300)));
    }

    /// All is well again: what is wanted must come about, and then there must be quiet.
    void settle() {
        mode_ = Mode::good;
        if (!is_reached_) launcher_back();
        if (!pod_) make_pod();
        run(minutes(17));  // a watch that hangs is found out by then
        is_checked_ = true;
        run(minutes(1));
        ASSERT_EQ(pod_->annotation("launcher-current-configuration"), configuration_.text.value_or(""));
        EXPECT_EQ(pod_->annotation("launcher-environment"),
                  configuration_.text ? json_object(configuration_.environment) : "");
        EXPECT_EQ(pod_->gate, is_ready_);
        EXPECT_EQ(pod_->annotation("somebody-else"), "x");
        ASSERT_TRUE(told_);
        EXPECT_EQ(told_->is_isolated, pod_->annotation("isolate-process-group") == "true");
        EXPECT_EQ(told_->variables, (Pairs{{"NODE_LABEL_ZONE", "z" + std::to_string(label_)}}));
        EXPECT_EQ(report_.state, "ok") << report_.detail;
        std::size_t const requests = requests_;
        std::size_t const watches = watches_opened_;
        run(hours(1));
        // Events that had to wait for a token go out one in 5 minutes; nothing else does.
        EXPECT_LE(requests_ - requests, 12U + 1U);
        EXPECT_LE(watches_opened_ - watches, 2U * 7U);
        EXPECT_LE(event_writes_, 25U + static_cast<std::size_t>((now_.time - began_) / minutes(5)) + 1);
    }

    /// Whatever goes on, it does not outlive its second, and then asks for nothing more.
    void end() {
        hear(heard::Ending{});
        for (int i = 0; i < 5 && !reporter_.is_finished(); ++i) {
            do_something();
            run(milliseconds(200));
        }
        ASSERT_TRUE(reporter_.is_finished());
        EXPECT_FALSE(reporter_.deadline());
        std::size_t const requests = requests_ + watches_opened_;
        run(minutes(1));
        EXPECT_EQ(requests_ + watches_opened_, requests);
    }

    void run(Duration time) {
        TimePoint const end = now_.time + time;
        for (int instant = 0;;) {
            TimePoint next = end + nanoseconds(1);
            if (!due_.empty()) next = due_.begin()->first;
            if (reporter_.deadline()) next = std::min(next, std::max(now_.time, *reporter_.deadline()));
            if (next > end) break;
            instant = next == now_.time ? instant + 1 : 0;
            ASSERT_LT(instant, 1000) << "time stands still";
            set_time(next);
            if (!due_.empty() && due_.begin()->first <= now_.time) {
                auto const call = std::move(due_.begin()->second);
                due_.erase(due_.begin());
                call();
            } else {
                hear(heard::TimePassed{});
                // Whatever was due must not be due again: it would spin.
                ASSERT_TRUE(!reporter_.deadline() || *reporter_.deadline() > now_.time);
            }
        }
        set_time(end);
    }

private:
    struct OpenWatch {
        std::uint64_t id = 0;
        Watched what{};
        bool is_hung = false;
        int life = 0;
    };

    static ReporterSettings settings(std::uint64_t seed) {
        ReporterSettings settings = Subject::settings();
        settings.watches_node = true;
        settings.readiness_gate = "gate/ready";
        settings.seed = seed;
        return settings;
    }

    void set_time(TimePoint time) {
        now_.unix_microseconds += std::chrono::duration_cast<std::chrono::microseconds>(time - now_.time).count();
        now_.time = time;
    }
    void after(Duration time, std::function<void()> call) { due_.emplace(now_.time + time, std::move(call)); }
    Duration latency() { return milliseconds(1 + random_.next() % 20); }
    bool one_in(std::uint64_t count) { return random_.next() % count == 0; }

    void hear(Heard const& heard) {
        for (Action& action : reporter_.handle(heard, now_))
            std::visit([this](auto& one) { act(one); }, action);
    }

    // The launcher

    void launcher_back() {
        is_reached_ = true;
        hear(heard::LauncherReached{});
        hear(configuration_);
    }
    void upgrade() {
        is_reached_ = false;
        hear(heard::LauncherLost{});
        after(milliseconds(random_.next() % 2000), [this] {
            if (!is_reached_) launcher_back();
        });
    }
    template <class Done>
    void answer(LauncherCall call, Done done) {
        auto const kind = static_cast<std::size_t>(call);
        ASSERT_FALSE(is_called_[kind]) << "two at once";
        ASSERT_TRUE(is_reached_);
        is_called_[kind] = true;
        bool const is_lost = !is_checked_ && one_in(10);
        after(latency(), [this, call, kind, is_lost, done] {
            is_called_[kind] = false;
            if (is_lost) return hear(heard::CallLost{call});
            done();
            hear(heard::CallDone{call});
        });
    }
    void act(action::SetPod& pod) {
        answer(LauncherCall::set_pod, [this, pod] { told_ = pod; });
    }
    void act(action::SetReporter& report) {
        answer(LauncherCall::set_reporter, [this, report] { report_ = report; });
    }
    void act(action::Reload&) {
        answer(LauncherCall::reload, [] {});
    }
    void act(action::GetStatus&) {
        answer(LauncherCall::get_status, [this] { hear(heard::Status{"1.0", 7, is_ready_}); });
    }
    void act(action::Log& line) {
        if (line.event == "annotations-changed") ++blamed_;
        EXPECT_LE(blamed_, meddled_) << "our own writes are nobody else's";
    }

    // The API server

    void act(action::Request& request) {
        ++requests_;
        ASSERT_FALSE(is_requested_) << "two at once";
        is_requested_ = true;
        bool const has_token = mode_ != Mode::other_token || (request.with_fresh_token && one_in(2));
        if (mode_ == Mode::hung) return answer_request(request.id, seconds(15), 0, "no answer within 15s");
        if (mode_ == Mode::refusing) return answer_request(request.id, latency(), 0, "Connection refused");
        if (mode_ == Mode::broken)
            return answer_request(request.id, latency(), 500 + static_cast<int>(random_.next() % 5), "<html>");
        if (mode_ == Mode::overloaded)
            return answer_request(request.id, latency(), 429, "", seconds(random_.next() % 20));
        if (!has_token) return answer_request(request.id, latency(), 401, status_body(401, "Unauthorized"));
        if (mode_ == Mode::denied && one_in(2))
            return answer_request(request.id, latency(), 403, forbidden_body("patch", "pods"));
        bool const is_answer_lost = !is_checked_ && one_in(20);
        after(latency(), [this, request, is_answer_lost] { serve(request, is_answer_lost); });
    }
    void answer_request(std::uint64_t id, Duration in, int status, std::string body,
                        std::optional<Duration> retry_after = std::nullopt) {
        after(in, [this, id, status, body, retry_after] {
            is_requested_ = false;
            if (status == 0) return hear(heard::Unreachable{id, body});
            hear(heard::Response{id, status, retry_after, body});
        });
    }
    /// The answer comes later than the watch's event as often as not.
    void serve(action::Request const& request, bool is_answer_lost) {
        auto [status, body] = apply(request);
        if (is_answer_lost) status = 0, body = "the connection has ended";
        answer_request(request.id, latency(), status, body);
    }
    std::pair<int, std::string> apply(action::Request const& request) {
        json::ProblemList problems{1};
        auto const body = json::read_json(request.body, {}, problems);
        if (!body) return {400, "no JSON"};
        if (request.target.find("/events") != std::string::npos) return apply_event(request, *body);
        if (!pod_) return {404, status_body(404, "not found")};
        if (request.target.find("/status?") != std::string::npos) {
            auto const* const conditions = member(member(&*body, "status"), "conditions");
            pod_->gate = text(member(&conditions->get<json::Array>()->front(), "status")) == "True";
        } else {
            auto const* const annotations = member(member(&*body, "metadata"), "annotations");
            for (json::Member const& one : *annotations->get<json::Object>()) {
                EXPECT_TRUE(one.key == "foundationdb.org/launcher-current-configuration" ||
                            one.key == "foundationdb.org/launcher-environment")
                    << one.key;
                pod_->annotate(one.key.substr(one.key.find('/') + 1), text(&one.node));
            }
        }
        changed("MODIFIED");
        return {200, pod_->json()};
    }
    std::pair<int, std::string> apply_event(action::Request const& request, json::Node const& body) {
        ++event_writes_;
        if (request.method == "POST") {
            std::string const name = text(member(member(&body, "metadata"), "name"));
            if (!pod_event_names_.insert({name, 1}).second) return {409, status_body(409, "already exists")};
            return {201, "{}"};
        }
        std::size_t const at = request.target.find("/events/") + 8;
        std::string const name = request.target.substr(at, request.target.find('?') - at);
        if (!pod_event_names_.contains(name)) return {404, status_body(404, "not found")};
        return {200, "{}"};
    }

    void act(action::OpenWatch& open) {
        ++watches_opened_;
        ASSERT_FALSE(watch_of(open.what)) << "two at once";
        bool const is_sick = mode_ != Mode::good && mode_ != Mode::denied;
        std::string const target = open.target;
        OpenWatch const watch{open.id, open.what, !is_checked_ && one_in(30), ++lives_};
        open_.push_back(watch);
        if (is_sick || (mode_ == Mode::denied && one_in(2))) {
            int const status = mode_ == Mode::broken        ? 500
                               : mode_ == Mode::overloaded  ? 429
                               : mode_ == Mode::other_token ? 401
                               : mode_ == Mode::denied      ? 403
                                                            : 0;
            auto const id = open.id;
            std::string const why = status == 403 ? forbidden_body("watch", "pods") : "no";
            return after(mode_ == Mode::hung ? seconds(15) : latency(),
                         [this, id, status, why] { end_watch(id, status, why); });
        }
        after(latency(), [this, watch, target] { serve_watch(watch, target); });
    }
    void act(action::CloseWatch& close) {
        std::erase_if(open_, [&](OpenWatch const& one) { return one.id == close.id; });
    }
    OpenWatch* watch_of(Watched what) {
        auto const found = std::ranges::find(open_, what, &OpenWatch::what);
        return found == open_.end() ? nullptr : &*found;
    }
    bool is_open(std::uint64_t id) const { return std::ranges::find(open_, id, &OpenWatch::id) != open_.end(); }
    void end_watch(std::uint64_t id, int status, std::string const& why = {}) {
        if (!is_open(id)) return;
        std::erase_if(open_, [id](OpenWatch const& one) { return one.id == id; });
        hear(heard::WatchEnded{id, status, std::nullopt, why});
    }
    void serve_watch(OpenWatch const& watch, std::string const& target) {
        if (!is_open(watch.id)) return;
        std::size_t const at = target.find("&resourceVersion=");
        std::uint64_t const from = at == target.npos ? 0 : std::stoull(target.substr(at + 17));
        if (from != 0 && from < compacted_ && one_in(2)) return end_watch(watch.id, 410, "{}");
        hear(heard::WatchOpened{watch.id});
        if (from != 0 && from < compacted_) {
            if (is_open(watch.id)) {
                hear(heard::WatchLine{watch.id, R"({"type":"ERROR","object":{"code":410,"message":"too old"}})"});
            }
            return;
        }
        if (watch.what == Watched::node) {
            hear(heard::WatchLine{watch.id, node_line("node-1", {{"zone", "z" + std::to_string(label_)}}, version_)});
        } else if (from == 0) {
            if (pod_) hear(heard::WatchLine{watch.id, pod_->line("ADDED")});
        } else {
            auto const missed = history_;
            for (auto const& [version, line] : missed) {
                if (version > from && is_open(watch.id)) hear(heard::WatchLine{watch.id, line});
            }
        }
        if (!is_open(watch.id)) return;
        served_.push_back(watch.id);
        std::size_t const key = target.find("timeoutSeconds=") + 15;
        after(seconds(std::stoi(target.substr(key))), [this, watch] {
            if (!watch.is_hung) end_watch(watch.id, 200);
        });
        bookmark(watch);
    }
    void bookmark(OpenWatch const& watch) {
        after(minutes(1), [this, watch] {
            if (!is_open(watch.id) || watch.is_hung) return;
            hear(heard::WatchLine{watch.id, bookmark_line(version_)});
            bookmark(watch);
        });
    }
    /// The pod is another; those who watch learn of it.
    void changed(std::string_view type) {
        pod_->version = ++version_;
        std::string const line = pod_->line(type);
        history_.emplace_back(version_, line);
        if (history_.size() > 50) {
            compacted_ = history_.front().first + 1;
            history_.erase(history_.begin());
        }
        OpenWatch const* const watch = watch_of(Watched::pod);
        if (!watch || watch->is_hung || std::ranges::find(served_, watch->id) == served_.end()) return;
        // In the order of the changes, since each takes as long.
        after(milliseconds(5), [this, id = watch->id, line] {
            if (is_open(id)) hear(heard::WatchLine{id, line});
        });
    }
    void make_pod() {
        pod_ = PodObject{};
        pod_->uid = "uid-" + std::to_string(++pods_);
        pod_->annotate("somebody-else", "x");
        changed("ADDED");
    }

    // What happens

    void do_something() {
        switch (random_.next() % 13) {
            case 0:
            case 1:
            case 2: {
                configuration_.text = "c" + std::to_string(random_.next() % 5);
                configuration_.environment = {{"A", std::to_string(random_.next() % 3)}};
                configuration_.accepted_at = now_.unix_microseconds;
                configuration_.rejection.clear();
                if (one_in(4)) configuration_.rejection = {"bad " + std::to_string(random_.next() % 20)};
                if (is_reached_) hear(configuration_);
                return;
            }
            case 3: mode_ = static_cast<Mode>(random_.next() % modes); return;
            case 4: mode_ = Mode::good; return;
            case 5:
                if (!pod_) return make_pod();
                if (!one_in(3)) return;
                changed("DELETED");
                pod_.reset();
                return;
            case 6:
                if (!pod_) return;
                pod_->annotate("isolate-process-group", one_in(2) ? "true" : "0");
                return changed("MODIFIED");
            case 7:
                if (!pod_) return;
                pod_->annotate("launcher-current-configuration", "not ours");
                ++meddled_;
                return changed("MODIFIED");
            case 8:
                if (OpenWatch const* const watch = watch_of(Watched::pod))
                    end_watch(watch->id, one_in(2) ? 200 : 0, "torn");
                return;
            case 9:
                if (is_reached_) upgrade();
                return;
            case 10: {
                heard::Record record;
                record.event = "process-exited";
                record.process = static_cast<std::int64_t>(1 + random_.next() % 20);
                record.ending = "exit code 1";
                record.restart_in_seconds = static_cast<double>(random_.next() % 4);
                if (is_reached_) hear(record);
                return;
            }
            case 11:
                ++label_;
                ++version_;
                if (OpenWatch const* const watch = watch_of(Watched::node)) end_watch(watch->id, 200);
                return;
            case 12:
                is_ready_ = !is_ready_;
                if (is_reached_) hear(heard::Record{"process-ready", {}, {}, 1, {}, {}, {}, {}});
                return;
        }
    }

    Random random_;
    Now now_{TimePoint{} + hours(1), 1'700'000'000'000'000};
    TimePoint began_ = now_.time;
    Reporter reporter_;
    std::multimap<TimePoint, std::function<void()>> due_;
    Mode mode_ = Mode::good;
    bool is_checked_ = false;

    heard::Configuration configuration_;
    bool is_reached_ = false;
    bool is_ready_ = true;
    std::optional<action::SetPod> told_;
    action::SetReporter report_;
    std::array<bool, 4> is_called_{};

    std::optional<PodObject> pod_;
    std::uint64_t pods_ = 0;
    std::uint64_t version_ = 100;
    std::uint64_t compacted_ = 0;
    std::vector<std::pair<std::uint64_t, std::string>> history_;
    std::map<std::string, int> pod_event_names_;
    int label_ = 0;
    std::vector<OpenWatch> open_;
    std::vector<std::uint64_t> served_;
    int lives_ = 0;
    bool is_requested_ = false;
    std::size_t requests_ = 0;
    std::size_t blamed_ = 0;   // somebody else, by the log
    std::size_t meddled_ = 0;  // somebody else, in truth
    std::size_t watches_opened_ = 0;
    std::size_t event_writes_ = 0;
};

std::uint64_t from_environment(char const* name, std::uint64_t otherwise) {
    char const* const text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(KubernetesSimulation, WhateverHappensTheLastStateArrives) {
    std::uint64_t const first = from_environment("TRITON_SIMULATION_SEED", 1);
    std::uint64_t const episodes = from_environment("TRITON_KUBERNETES_EPISODES", 60);
    for (std::uint64_t seed = first; seed < first + episodes; ++seed) {
        World world(seed);
        for (int i = 0; i < 150 && !testing::Test::HasFailure(); ++i)
            world.step();
        if (!testing::Test::HasFailure()) world.settle();
        ASSERT_FALSE(testing::Test::HasFailure()) << "TRITON_SIMULATION_SEED=" << seed;
    }
}

TEST(KubernetesSimulation, WhateverHappensTheEndComesInTime) {
    std::uint64_t const first = from_environment("TRITON_SIMULATION_SEED", 1);
    std::uint64_t const episodes = 5 * from_environment("TRITON_KUBERNETES_EPISODES", 60);
    for (std::uint64_t seed = first; seed < first + episodes; ++seed) {
        World world(seed);
        for (std::uint64_t i = 0; i < seed % 50 && !testing::Test::HasFailure(); ++i)
            world.step();
        if (!testing::Test::HasFailure()) world.end();
        ASSERT_FALSE(testing::Test::HasFailure()) << "TRITON_SIMULATION_SEED=" << seed;
    }
}

}  // namespace
}  // namespace triton::kubernetes
