// Whatever an API server says: no crash, no request but for what is ours, no loop. The first byte chooses what the text
// is; of a watch each line is an event, and time passes between them.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "config/limits.h"
#include "sidecar/kubernetes/go_values.h"
#include "sidecar/kubernetes/launcher_replies.h"
#include "sidecar/kubernetes/reporter.h"

namespace {

using namespace triton;
using namespace triton::kubernetes;

void require(bool holds) {
    if (!holds) std::abort();
}

/// A Reporter whose watches open at once, and whose requests all get one answer.
class Played {
public:
    Played(int status, std::string_view body) : status_(status), body_(body), reporter_(settings(), now_) {
        hear(heard::LauncherReached{});
        hear(heard::Configuration{"c", {{"A", "1"}}, 1, {"no"}});
        hear(heard::Status{"1", 1, true});
    }

    void line(std::string_view text) {
        hear(heard::WatchLine{pod_watch_, std::string(text)});
        hear(heard::WatchLine{node_watch_, std::string(text)});
        for (int i = 0; i < 4 && reporter_.deadline(); ++i) {
            require(*reporter_.deadline() > now_.time);
            now_.time = *reporter_.deadline();
            hear(heard::TimePassed{});
        }
    }

private:
    static ReporterSettings settings() {
        ReporterSettings settings;
        settings.pod_name = "pod";
        settings.pod_namespace = "ns";
        settings.watches_node = true;
        settings.readiness_gate = "g/r";
        return settings;
    }

    void hear(Heard const& heard) {
        auto actions = reporter_.handle(heard, now_);
        require(++depth_ < 200);  // answers that come at once, each to what the one before has caused
        for (Action& action : actions)
            std::visit([this](auto const& one) { act(one); }, action);
        --depth_;
    }
    void act(action::Request const& request) {
        require(request.target.starts_with("/api/v1/namespaces/ns/"));
        require(request.method == "PATCH" || request.method == "POST");
        now_.time += milliseconds(1);
        hear(heard::Response{request.id, status_, std::nullopt, std::string(body_)});
    }
    void act(action::OpenWatch const& open) {
        (open.what == Watched::pod ? pod_watch_ : node_watch_) = open.id;
        now_.time += milliseconds(1);
        if (open.id % 3 == 0) return hear(heard::WatchEnded{open.id, status_, std::nullopt, std::string(body_)});
        hear(heard::WatchOpened{open.id});
    }
    void act(action::CloseWatch const&) {}
    void act(action::SetPod const& pod) {
        require(pod.shutdown_delay >= Duration::zero());
        json::ProblemList problems{1};
        json::Limits limits;
        limits.document_bytes = 16 << 20;
        require(json::read_json(set_pod_parameters(pod), limits, problems).has_value());
        hear(heard::CallDone{LauncherCall::set_pod});
    }
    void act(action::SetReporter const&) { hear(heard::CallDone{LauncherCall::set_reporter}); }
    void act(action::Reload const&) { hear(heard::CallDone{LauncherCall::reload}); }
    void act(action::GetStatus const&) { hear(heard::CallDone{LauncherCall::get_status}); }
    void act(action::Log const& log) { require(!log.message.empty()); }

    int status_;
    std::string_view body_;
    Now now_{TimePoint{} + std::chrono::hours(1), 1'700'000'000'000'000};
    Reporter reporter_;
    std::uint64_t pod_watch_ = 0;
    std::uint64_t node_watch_ = 0;
    int depth_ = 0;
};

void watch(std::string_view text, int status) {
    Played played(status, text.substr(0, text.find('\n')));
    while (!text.empty()) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        played.line(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

void values(std::string_view text) {
    (void)parse_go_bool(text);
    (void)parse_unix_seconds(text);
    require(node_label_variable(text).size() == text.size() + 11);
    // What is read is what Go's own form of it would be read as.
    if (auto const duration = parse_go_duration(text))
        require(parse_go_duration(std::to_string(duration->count()) + "ns") == *duration);
}

void launcher(std::string_view text) {
    json::ProblemList problems{1};
    auto const node = json::read_json(text, {}, problems);
    if (!node) return;
    (void)parse_configuration(*node);
    (void)parse_record(*node);
    (void)parse_launcher_status(*node);
}

}  // namespace

extern "C" int kubernetes_fuzz(std::uint8_t const* data, std::size_t size) {
    if (size == 0) return 0;
    std::string_view const text(reinterpret_cast<char const*>(data) + 1, size - 1);
    switch (data[0]) {
        case 'w': watch(text, 200); break;
        case 'f': watch(text, 403); break;
        case 'n': watch(text, 404); break;
        case 'g': watch(text, 410); break;
        case 'u': watch(text, 422); break;
        case 'v': values(text); break;
        case 'l': launcher(text); break;
        default: (void)parse_status(text, 500); break;
    }
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return kubernetes_fuzz(data, size);
}
#endif
