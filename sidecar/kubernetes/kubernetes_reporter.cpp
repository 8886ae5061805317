#include "sidecar/kubernetes/kubernetes_reporter.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <random>

#include "lib/flags/flags.h"
#include "lib/json/text.h"
#include "lib/net/address.h"
#include "lib/net/resolver.h"
#include "sidecar/control/control_reply.h"
#include "sidecar/kubernetes/api_client.h"
#include "sidecar/kubernetes/launcher_replies.h"
#include "sidecar/kubernetes/reporter.h"

namespace triton::kubernetes {

using net::Task;

namespace {

constexpr Duration call_limit = std::chrono::seconds(10);
constexpr std::string_view interface = "org.tritonlaunch.Launcher.";

Now now() {
    auto const wall = std::chrono::system_clock::now().time_since_epoch();
    return {std::chrono::steady_clock::now(), std::chrono::duration_cast<std::chrono::microseconds>(wall).count()};
}

/// Whether a text may begin the key of an annotation or a type of condition. Source: k8s.io/apimachinery,
/// validation.IsQualifiedName.
bool is_domain(std::string_view text) {
    bool const has_ends = !text.empty() && std::string_view(".-").find(text.front()) == text.npos &&
                          std::string_view(".-").find(text.back()) == text.npos;
    return has_ends && text.size() <= 253 && std::ranges::all_of(text, [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
           });
}

bool is_name(std::string_view text) {
    auto const is_letter = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    auto const is_inner = [&](char c) { return is_letter(c) || c == '.' || c == '-' || c == '_'; };
    return !text.empty() && text.size() <= 63 && is_letter(text.front()) && is_letter(text.back()) &&
           std::ranges::all_of(text, is_inner);
}

bool is_qualified_name(std::string_view text) {
    std::size_t const slash = text.find('/');
    if (slash == text.npos) return is_name(text);
    return is_domain(text.substr(0, slash)) && is_name(text.substr(slash + 1));
}

/// An address without brackets in its canonical form, or a name unchanged.
Result<std::string> parse_host(std::string_view host) {
    if (host.empty())
        return fail("KUBERNETES_SERVICE_HOST is not set: this is not a pod, or its service links are off");
    std::string_view bare = host;
    if (bare.starts_with('[') && bare.ends_with(']')) bare = bare.substr(1, bare.size() - 2);
    if (auto const address = net::parse_address(bare)) return address->to_string();
    if (net::is_host_name(host)) return std::string(host);
    return fail("KUBERNETES_SERVICE_HOST is " + json::shown(host) + ", neither an address nor the name of a host");
}

Result<std::uint16_t> parse_port(std::string const& text) {
    if (text.empty()) return 443;
    auto const port = flags::whole_number(text, 1, 65535);
    if (!port) return fail("KUBERNETES_SERVICE_PORT: " + port.error().text());
    return static_cast<std::uint16_t>(*port);
}

Result<> check(KubernetesSettings const& settings) {
    if (settings.pod_name.empty()) return fail("the pod's name is unknown: --pod-name (POD_NAME) is missing");
    if (!is_domain(settings.pod_name)) return fail(json::quoted(settings.pod_name) + " is not the name of a pod");
    if (!is_domain(settings.pod_namespace)) return fail(json::quoted(settings.pod_namespace) + " is not a namespace");
    if (!settings.node_name.empty() && !is_domain(settings.node_name))
        return fail(json::quoted(settings.node_name) + " is not the name of a node");
    if (!is_qualified_name(settings.annotation_prefix + "launcher-current-configuration"))
        return fail(json::quoted(settings.annotation_prefix) + " is not the prefix of an annotation: example.org/");
    if (!settings.readiness_gate.empty() && !is_qualified_name(settings.readiness_gate))
        return fail(json::quoted(settings.readiness_gate) + " is not the type of a condition: example.org/ready");
    return {};
}

ReporterSettings reporter_settings(KubernetesSettings const& settings) {
    std::random_device device;
    return {.pod_name = settings.pod_name,
            .pod_namespace = settings.pod_namespace,
            .node_name = settings.node_name,
            .watches_node = settings.watches_node,
            .readiness_gate = settings.readiness_gate,
            .annotation_prefix = settings.annotation_prefix,
            .seed = (std::uint64_t{device()} << 32) | device()};
}

}  // namespace

/// Does what the Reporter wants, and tells it the result.
struct KubernetesReporter::State : std::enable_shared_from_this<State> {
    State(net::Loop& with, KubernetesSettings const& settings, net::HttpOrigin server, ServiceAccount account,
          sidecar::control::ControlClient& launcher, log::Log& to)
        : loop(with),
          control(launcher),
          log(to),
          reporter(reporter_settings(settings), now()),
          client(loop, std::move(server), "triton-launch-agent/" + settings.version, std::move(account)),
          timer(loop) {}

    net::Loop& loop;
    sidecar::control::ControlClient& control;
    log::Log& log;
    Reporter reporter;
    ApiClient client;
    net::Timer timer;
    std::array<std::shared_ptr<ApiClient::Watch>, 2> watches;
    std::array<bool, 2> is_streaming{};
    std::deque<Heard> heard;
    std::function<void()> finished;
    bool is_hearing = false;
    bool is_stopped = false;

    void begin() {
        listen(0, "WatchConfiguration", [](State& self, json::Node const& reply) {
            if (json::value_of<std::int64_t>(reply, "sequence")) self.hear(parse_configuration(reply));
        });
        listen(1, "Subscribe", [](State& self, json::Node const& reply) {
            if (auto const lost = json::number_of(reply, "lost")) self.hear(heard::RecordsLost{*lost});
            if (auto record = parse_record(reply)) self.hear(*std::move(record));
        });
        hear(heard::TimePassed{});
    }

    /// Handles one piece of news after the other, even if an action brings another at once.
    void hear(Heard one) {
        if (is_stopped) return;
        heard.push_back(std::move(one));
        if (std::exchange(is_hearing, true)) return;
        while (!heard.empty() && !is_stopped) {
            Heard const next = std::move(heard.front());
            heard.pop_front();
            for (Action& action : reporter.handle(next, now()))
                std::visit([this](auto& it) { act(it); }, action);
        }
        is_hearing = false;
        arm();
        if (!reporter.is_finished()) return;
        if (auto const done = std::exchange(finished, nullptr)) net::post(loop, done);
    }

    void arm() {
        if (is_stopped) return;
        auto const deadline = reporter.deadline();
        if (!deadline) {
            timer.cancel();
            return;
        }
        if (*deadline == timer.due()) return;  // unchanged: most news moves no deadline
        timer.call_at(*deadline, [weak = weak_from_this()] {
            if (auto const self = weak.lock()) self->hear(heard::TimePassed{});
        });
    }

    // The launcher

    using OnReply = void (*)(State&, json::Node const&);

    void listen(std::size_t stream, std::string_view method, OnReply on_reply) {
        std::weak_ptr<State> const weak = weak_from_this();
        control.keep_streaming(
            std::string(interface).append(method), "{}",
            [weak, stream, on_reply](json::Node const& reply) {
                auto const self = weak.lock();
                if (!self) return;
                bool const was_reached = self->is_streaming[0] || self->is_streaming[1];
                self->is_streaming[stream] = true;
                if (!was_reached) self->hear(heard::LauncherReached{});
                on_reply(*self, reply);
            },
            [weak, stream](Error const& /*why: it is tried again*/) {
                auto const self = weak.lock();
                if (!self || !std::exchange(self->is_streaming[stream], false)) return;
                if (!self->is_streaming[0] && !self->is_streaming[1]) self->hear(heard::LauncherLost{});
            });
    }

    void call(LauncherCall kind, std::string_view method, std::string parameters) {
        net::spawn(loop,
                   run_call(shared_from_this(), kind, std::string(interface).append(method), std::move(parameters)));
    }

    static Task<> run_call(std::shared_ptr<State> self, LauncherCall kind, std::string method, std::string parameters) {
        auto const replies = co_await self->control.call(std::move(method), std::move(parameters), false, call_limit);
        if (!replies) {
            ErrorKind const why = replies.error().kind;
            if (why == ErrorKind::unavailable || why == ErrorKind::timeout) {
                self->hear(heard::CallLost{kind});
                co_return;
            }
            self->hear(heard::CallRefused{kind, replies.error().text(), why == ErrorKind::denied});
            co_return;
        }
        self->hear(heard::CallDone{kind});
        if (kind == LauncherCall::get_status && !replies->empty()) self->hear(parse_launcher_status(replies->front()));
    }

    /// On a connection of its own: an agent that the launcher has not started is answered after the reload, and all
    /// other calls would wait behind it. A reload that is late is under way and not asked for again, and the launcher
    /// itself reports one that fails to all who listen.
    static Task<> run_reload(std::shared_ptr<State> self) {
        net::HttpCaller asker;  // never gives up
        auto const replies =
            co_await self->control.call_alone(std::string(interface).append("Reload"), "{}", call_limit, asker);
        if (!replies && replies.error().kind == ErrorKind::unavailable) {
            self->hear(heard::CallLost{LauncherCall::reload});
        } else {
            self->hear(heard::CallDone{LauncherCall::reload});
        }
    }

    void act(action::SetPod const& pod) { call(LauncherCall::set_pod, "SetPod", set_pod_parameters(pod)); }
    void act(action::SetReporter const& now) {
        call(LauncherCall::set_reporter, "SetReporter", set_reporter_parameters(now));
    }
    void act(action::Reload const&) { net::spawn(loop, run_reload(shared_from_this())); }
    void act(action::GetStatus const&) { call(LauncherCall::get_status, "GetStatus", "{}"); }
    void act(action::Log const& line) { log.write(line.level, line.event, line.message); }

    // The API server

    void act(action::Request& request) {
        ApiRequest message{.method = request.method,
                           .target = std::move(request.target),
                           .content_type = request.content_type,
                           .body = std::move(request.body),
                           .wants_metadata_only = request.wants_metadata_only,
                           .with_fresh_token = request.with_fresh_token};
        net::spawn(loop, run_request(shared_from_this(), request.id, std::move(message)));
    }

    static Task<> run_request(std::shared_ptr<State> self, std::uint64_t id, ApiRequest request) {
        Heard answer = heard::Unreachable{id, "out of memory"};
        try {
            auto got = co_await self->client.request(std::move(request));
            if (got) {
                answer = heard::Response{id, got->status, got->retry_after, std::move(got->body)};
            } else {
                answer = heard::Unreachable{id, std::move(got).error().text()};
            }
        } catch (std::exception const& error) {  // no memory, or no descriptors for the loop
            answer = heard::Unreachable{id, error.what()};
        }
        self->hear(std::move(answer));
    }

    void act(action::OpenWatch& open) {
        std::weak_ptr<State> const weak = weak_from_this();
        auto const hear_it = [weak](Heard one) {
            if (auto const self = weak.lock()) self->hear(std::move(one));
        };
        auto const watch = std::make_shared<ApiClient::Watch>(
            [hear_it, id = open.id] { hear_it(heard::WatchOpened{id}); },
            [hear_it, id = open.id](std::string line) { hear_it(heard::WatchLine{id, std::move(line)}); });
        watches[static_cast<std::size_t>(open.what)] = watch;
        ApiRequest message;
        message.target = std::move(open.target);
        message.wants_metadata_only = open.wants_metadata_only;
        message.with_fresh_token = open.with_fresh_token;
        net::spawn(loop, run_watch(shared_from_this(), open.id, watch, std::move(message)));
    }

    static Task<> run_watch(std::shared_ptr<State> self, std::uint64_t id, std::shared_ptr<ApiClient::Watch> watch,
                            ApiRequest request) {
        heard::WatchEnded ended{id, 0, std::nullopt, "out of memory"};
        try {
            auto got = co_await self->client.watch(std::move(watch), std::move(request));
            if (got) {
                ended = {id, got->status, got->retry_after, std::move(got->body)};
            } else {
                ended.text = std::move(got).error().text();
            }
        } catch (std::exception const& error) {  // no memory, or no descriptors for the loop
            ended.text = error.what();
        }
        self->hear(std::move(ended));
    }

    void act(action::CloseWatch const& close) {
        auto& watch = watches[static_cast<std::size_t>(close.what)];
        if (watch) watch->close();
        watch.reset();
    }

    void stop() {
        is_stopped = true;
        timer.cancel();
        for (auto& watch : watches) {
            if (watch) watch->close();
            watch.reset();
        }
        client.stop();
    }
};

Result<std::unique_ptr<KubernetesReporter>> KubernetesReporter::start(net::Loop& loop, KubernetesSettings settings,
                                                                      sidecar::control::ControlClient& control,
                                                                      log::Log& log) {
    std::string host = TRY(parse_host(settings.api_host));
    auto const port = TRY(parse_port(settings.api_port));
    net::HttpOrigin server{.host = std::move(host), .port = port};
    ServiceAccount account(settings.service_account_directory);
    if (settings.pod_namespace.empty()) settings.pod_namespace = TRY(account.pod_namespace());
    TRY(check(settings));
    auto const state = std::make_shared<State>(loop, settings, std::move(server), std::move(account), control, log);
    state->begin();
    return std::unique_ptr<KubernetesReporter>(new KubernetesReporter(state));
}

KubernetesReporter::KubernetesReporter(std::shared_ptr<State> state) : state_(std::move(state)) {}

KubernetesReporter::~KubernetesReporter() { state_->stop(); }

void KubernetesReporter::finish(std::function<void()> done) {
    state_->finished = std::move(done);
    state_->hear(heard::Ending{});
}

void KubernetesReporter::stop() noexcept { state_->stop(); }

}  // namespace triton::kubernetes
