// Whatever an API server says: no crash, no request but for what is ours, no loop. The first byte chooses what the text
// is; of a session it is the status of refusals, and each line is one thing that happens.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

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

/// A Reporter to which one thing after the other happens. Each costs one call and at most one document to read, so that
/// an input takes microseconds: an answer is one that the input gives, to the one request that waits for it.
class Played {
public:
    explicit Played(int status) : status_(status), reporter_(settings(), now_) {
        hear(heard::LauncherReached{});
        hear(heard::Configuration{"c", {{"A", "1"}}, 1, {"no"}});
        hear(heard::Status{"1", 1, true});
    }

    /// The first character says what happens, the rest what is said.
    void happen(std::string_view line) {
        if (line.empty()) return;
        now_.time += milliseconds(1);
        std::string text(line.substr(1));
        switch (line[0]) {
            case 'p': return hear(heard::WatchLine{pod_watch_, std::move(text)});
            case 'n': return hear(heard::WatchLine{node_watch_, std::move(text)});
            case 'e': return hear(heard::WatchEnded{pod_watch_, status_, std::nullopt, std::move(text)});
            case 'E': return hear(heard::WatchEnded{node_watch_, status_, std::nullopt, std::move(text)});
            case 'r': return answer(status_, std::move(text));
            case 'o': return answer(200, std::move(text));
            case 'x': return hear(heard::Unreachable{std::exchange(request_, 0), std::move(text)});
            case 'c': return hear(heard::Configuration{std::move(text), {}, ++loads_, {}});
            case 'l': return hear(heard::LauncherLost{});
            case 'q': return hear(heard::Ending{});
            case 'a': return answer_all(text);
            default: return pass_time();
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

    void answer(int status, std::string text) {
        hear(heard::Response{std::exchange(request_, 0), status, std::nullopt, std::move(text)});
    }
    /// However it is answered, it does not ask for ever. Once for an input: nothing else takes as long.
    void answer_all(std::string const& text) {
        if (std::exchange(has_answered_all_, true)) return;
        for (int answers = 0; request_ != 0; ++answers) {
            require(answers < 100);
            answer(status_, text);
        }
    }
    void pass_time() {
        auto const deadline = reporter_.deadline();
        if (!deadline) return;
        require(*deadline > heard_at_);
        now_.time = std::max(now_.time, *deadline);
        hear(heard::TimePassed{});
    }

    /// And what follows at once: calls are done, watches are open.
    void hear(Heard const& heard) {
        heard_at_ = now_.time;
        take(reporter_.handle(heard, now_));
        for (int followed = 0; !follows_.empty(); ++followed) {
            require(followed < 50);
            Heard const next = std::move(follows_.back());
            follows_.pop_back();
            take(reporter_.handle(next, now_));
        }
    }
    void take(std::vector<Action> const& actions) {
        for (Action const& action : actions)
            std::visit([this](auto const& one) { act(one); }, action);
    }
    void act(action::Request const& request) {
        require(request_ == 0);  // one at a time
        require(request.target.starts_with("/api/v1/namespaces/ns/"));
        require(request.method == "PATCH" || request.method == "POST");
        request_ = request.id;
    }
    void act(action::OpenWatch const& open) {
        (open.what == Watched::pod ? pod_watch_ : node_watch_) = open.id;
        follows_.emplace_back(heard::WatchOpened{open.id});
    }
    void act(action::CloseWatch const&) {}
    void act(action::SetPod const& pod) {
        require(pod.shutdown_delay >= Duration::zero());
        json::ProblemList problems{1};
        json::Limits limits;
        limits.document_bytes = 16 << 20;
        require(json::read_json(set_pod_parameters(pod), limits, problems).has_value());
        follows_.emplace_back(heard::CallDone{LauncherCall::set_pod});
    }
    void act(action::SetReporter const&) { follows_.emplace_back(heard::CallDone{LauncherCall::set_reporter}); }
    void act(action::Reload const&) { follows_.emplace_back(heard::CallDone{LauncherCall::reload}); }
    void act(action::GetStatus const&) { follows_.emplace_back(heard::CallDone{LauncherCall::get_status}); }
    void act(action::Log const& log) { require(!log.message.empty()); }

    int status_;
    Now now_{TimePoint{} + std::chrono::hours(1), 1'700'000'000'000'000};
    TimePoint heard_at_{};
    Reporter reporter_;
    std::vector<Heard> follows_;
    std::uint64_t request_ = 0;  // that waits for an answer; 0: none
    std::uint64_t pod_watch_ = 0;
    std::uint64_t node_watch_ = 0;
    std::int64_t loads_ = 1;
    bool has_answered_all_ = false;
};

/// What may have happened before, so that an input need not say it: each reaches what the ones before it cannot.
Played const& prepared(std::size_t which, int status) {
    static constexpr std::string_view pod =
        R"({"metadata":{"name":"pod","uid":"u","resourceVersion":"5","annotations":{"foundationdb.org/)"
        R"(launcher-current-configuration":"c","foundationdb.org/launcher-environment":"{\"A\":\"1\"}"}},)"
        R"("spec":{"nodeName":"n"},"status":{"conditions":[]}})";
    static auto const begun = [](int refusal, std::initializer_list<std::string> lines) {
        Played played(refusal);
        for (std::string const& line : lines)
            played.happen(line);
        return played;
    };
    static std::string const seen = R"(p{"type":"ADDED","object":)" + std::string(pod) + "}";
    static std::string const other = R"(p{"type":"ADDED","object":{"metadata":{"name":"pod","uid":"u",)"
                                     R"("resourceVersion":"4"},"spec":{"nodeName":"n"}}})";
    static auto const all = [](int refusal) {
        return std::array{begun(refusal, {}),
                          begun(refusal, {other}),
                          begun(refusal, {seen}),
                          begun(refusal, {other, "o" + std::string(pod)}),
                          begun(refusal, {other, "r{}"}),
                          begun(refusal, {other, "xaway"}),
                          begun(refusal, {seen, "e{}"}),
                          begun(refusal, {seen, "c2", "q"})};
    };
    static std::map<int, decltype(all(0))> states;
    auto found = states.find(status);
    if (found == states.end()) found = states.emplace(status, all(status)).first;
    return found->second[which % found->second.size()];
}

// Behind what is prepared. Half of them make nearly twice as many inputs a second; findings are replayed whole.
#ifdef FUZZ_REPLAY
constexpr int most_lines = 8;
#else
constexpr int most_lines = 4;
#endif

/// The first character chooses what has happened before.
void session(std::string_view text, int status) {
    if (text.empty()) return;
    Played played = prepared(static_cast<unsigned char>(text[0]), status);
    text.remove_prefix(1);
    for (int lines = 0; !text.empty() && lines < most_lines; ++lines) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        played.happen(text.substr(0, end));
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
        case 'w': session(text, 200); break;
        case 'f': session(text, 403); break;
        case 'n': session(text, 404); break;
        case 'g': session(text, 410); break;
        case 'u': session(text, 422); break;
        case 'v': values(text); break;
        case 'l': launcher(text); break;
        default: (void)parse_status(text, 500); break;
    }
    return 0;
}

#ifndef FUZZ_REPLAY
// Half of the time went into the stacks of allocations and into pages of what was freed long ago. ASAN_OPTIONS has
// precedence: with malloc_context_size=30 the replay of a finding says where its memory came from.
extern "C" char const* __asan_default_options() {
    return "malloc_context_size=0:quarantine_size_mb=1:detect_stack_use_after_return=0";
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return kubernetes_fuzz(data, size);
}
#endif
