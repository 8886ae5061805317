#include "sidecar/agent/probe_runner.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>

#include "lib/base/http_field.h"
#include "lib/net/certificates.h"
#include "lib/net/transport.h"
#include "sidecar/agent/grpc_health.h"
#include "sidecar/agent/line_pattern.h"
#include "sidecar/agent/probe_answer.h"
#include "sidecar/agent/probe_order.h"

namespace triton::agent {

using net::Task;

namespace {

constexpr std::size_t most_at_once = 256;
constexpr std::size_t most_answer_bytes = 64 * 1024;
constexpr std::size_t read_size = 2048;
constexpr Duration report_limit = std::chrono::seconds(5);

/// Why a probe failed; nullopt: it did not.
using Problem = std::optional<std::string>;

std::string lower_case_first(std::string text) {
    if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
    return text;
}

std::string not_connected(Error const& why) { return lower_case_first(why.reason); }

/// Why there was no answer over an existing connection.
std::string not_answered(Error const& why) {
    if (why.kind == ErrorKind::unavailable) return "the connection ended without an answer";
    if (why.kind == ErrorKind::corrupt) return "TLS: " + why.reason;
    return lower_case_first(why.reason);
}

std::string authority_of(config::ProbeTarget const& target) {
    std::string const host(target.host);
    std::string const shown = host.find(':') == host.npos ? host : "[" + host + "]";
    return target.port == (target.is_tls ? 443 : 80) ? shown : shown + ":" + std::to_string(target.port);
}

}  // namespace

class ProbeRunner::State : public std::enable_shared_from_this<State> {
public:
    State(net::Loop& loop, sidecar::control::ControlClient& control, std::string user_agent)
        : loop_(loop), control_(control), user_agent_(std::move(user_agent)) {}

    void begin() {
        std::weak_ptr<State> const weak = weak_from_this();
        control_.keep_streaming(
            "org.tritonlaunch.Launcher.Probes", "{}",
            [weak](json::Node const& reply) {
                if (auto const self = weak.lock()) self->take(reply);
            },
            [weak](Error const& /*why: the next stream tells all that is wanted*/) {
                if (auto const self = weak.lock()) self->forget_all();
            });
    }

    void forget_all() {
        for (auto const& [id, probe] : std::exchange(probes_, {}))
            probe->forget();
        waiting_.clear();
        verdicts_.clear();
    }

private:
    struct Probe {
        ProbeOrder order;
        TimePoint deadline;
        net::Transport* transport = nullptr;  // while it is under way
        std::optional<LinePattern> pattern;   // only for kind log
        bool is_wanted = true;

        void forget() {
            is_wanted = false;
            if (transport) transport->close();
        }
    };
    using ProbePointer = std::shared_ptr<Probe>;

    void take(json::Node const& reply) {
        if (auto const lines = parse_probe_lines(reply)) return look_at(*lines);
        auto order = parse_probe_order(reply);
        if (!order) return;
        auto const known = probes_.find(order->id);
        if (known != probes_.end()) {
            known->second->forget();
            probes_.erase(known);
        }
        if (order->kind.empty()) return;
        auto const probe = std::make_shared<Probe>();
        probe->deadline = std::chrono::steady_clock::now() + order->timeout;
        probe->order = std::move(*order);
        probes_.emplace(probe->order.id, probe);
        if (probe->order.kind == "log") return await_line(*probe);
        waiting_.push_back(probe);
        start_waiting();
    }

    void await_line(Probe& probe) {
        auto pattern = LinePattern::compile(probe.order.target);
        if (!pattern)
            return answer(probe,
                          "\"" + probe.order.target + "\" is not a regular expression: " + pattern.error().text());
        probe.pattern = std::move(*pattern);
    }

    void look_at(ProbeLines const& lines) {
        auto const known = probes_.find(lines.id);
        if (known == probes_.end() || !known->second->pattern) return;
        ProbePointer const probe = known->second;
        for (json::Node const& line : *lines.lines) {
            auto const* const text = line.get<std::string>();
            if (text && probe->pattern->matches(*text)) return answer(*probe, {});
        }
    }

    void start_waiting() {
        while (running_ < most_at_once && !waiting_.empty()) {
            ProbePointer const probe = waiting_.front();
            waiting_.pop_front();
            if (!probe->is_wanted) continue;
            ++running_;
            net::spawn(loop_, run(shared_from_this(), probe));
        }
    }

    static Task<> run(std::shared_ptr<State> self, ProbePointer probe) {
        struct Place {  // given back whatever the outcome
            State& state;
            ~Place() { --state.running_; }
        };
        {
            Place const place{*self};
            try {
                co_await self->make(*probe);
            } catch (std::exception const& error) {
                self->answer(*probe, error.what());
            }
        }
        self->start_waiting();
    }

    Task<> make(Probe& probe) {
        auto const target = target_of(probe.order);
        if (!target) co_return answer(probe, target.error().text());
        auto const transport = net::Transport::to_connect(loop_);
        struct Link {  // while it exists, others can close the connection
            Probe& probe;
            ~Link() { probe.transport = nullptr; }
        };
        probe.transport = transport.get();
        Link const link{probe};
        transport->expires_at(probe.deadline);
        if (Problem const problem = co_await connect(*transport, *target, probe)) co_return answer(probe, problem);
        if (probe.order.kind == "tcp") co_return answer(probe, {});
        if (probe.order.kind == "grpc") co_return co_await check_by_grpc(*transport, *target, probe);
        if (target->is_tls) {
            if (Problem const problem = co_await secure(*transport)) co_return answer(probe, problem);
        }
        co_await request(*transport, *target, probe);
        if (target->is_tls) co_await transport->end_writing();
    }

    /// Connects to the first address that works. If none does, the problem of the first is told: the other family may
    /// not exist at all.
    static Task<Problem> connect(net::Transport& transport, config::ProbeTarget const& target, Probe const& probe) {
        Problem problem;
        for (net::Address const& address : net::addresses_of(target.host)) {
            if (!probe.is_wanted) break;
            auto const connected = co_await transport.connect(address, target.port);
            if (connected) co_return std::nullopt;
            if (!problem) problem = not_connected(connected.error());
        }
        co_return problem;
    }

    Task<Problem> secure(net::Transport& transport) {
        // It is made for the first probe that needs it; most probes do not.
        if (!tls_) {
            auto made = net::trusting_client_context();
            if (!made) co_return made.error().text();
            tls_ = std::move(*made);
        }
        if (!transport.prepare_tls(tls_.get())) co_return "not enough memory for TLS";
        auto const secured = co_await transport.connect_tls();
        co_return secured ? Problem() : not_answered(secured.error());
    }

    Task<> request(net::Transport& transport, config::ProbeTarget const& target, Probe& probe) {
        auto const sent = co_await transport.send(question_of(target, probe.order));
        if (!sent) co_return answer(probe, not_answered(sent.error()));
        ProbeAnswer head;
        std::string text;  // read and not yet parsed
        for (std::size_t total = 0; !head.status();) {
            if (total >= most_answer_bytes) co_return answer(probe, "the answer's header is too long");
            std::size_t const before = text.size();
            text.resize(before + read_size);
            std::span<char> const room(text.data() + before, read_size);
            auto const size = co_await transport.receive(room);
            if (!size) co_return answer(probe, not_answered(size.error()));
            if (*size == 0) co_return answer(probe, "the connection ended without an answer");
            text.resize(before + *size);
            total += *size;
            auto const taken = head.take(text);
            if (!taken) co_return answer(probe, taken.error().text());
            text.erase(0, *taken);
        }
        unsigned const status = *head.status();
        answer(probe, is_good(probe.order, status) ? Problem() : Problem("status " + std::to_string(status)));
        co_await drop_rest(transport, text.size());
    }

    /// The request. The order may have its own values for the usual fields.
    [[nodiscard]] std::string question_of(config::ProbeTarget const& target, ProbeOrder const& order) const {
        std::string question = "GET " + std::string(target.path) + " HTTP/1.1\r\n";
        std::array<std::pair<std::string, std::string>, 3> const usual{
            {{"Host", authority_of(target)}, {"User-Agent", user_agent_}, {"Accept", "*/*"}}};
        for (auto const& [name, value] : usual) {
            bool const is_given = std::ranges::any_of(
                order.headers, [&](auto const& field) { return are_same_letters(field.first, name); });
            if (!is_given) question += name + ": " + value + "\r\n";
        }
        for (auto const& [name, value] : order.headers)
            question += name + ": " + value + "\r\n";
        return question + "Connection: close\r\n\r\n";
    }

    Task<> check_by_grpc(net::Transport& transport, config::ProbeTarget const& target, Probe& probe) {
        GrpcHealth health(authority_of(target), probe.order.service, user_agent_);
        std::array<char, read_size> buffer;
        for (std::size_t total = 0; !health.is_over();) {
            if (std::string const out = health.take_output(); !out.empty()) {
                auto const sent = co_await transport.send(out);
                if (!sent) co_return answer(probe, not_answered(sent.error()));
            }
            if (health.is_over()) break;
            if (total >= most_answer_bytes) co_return answer(probe, "the answer is too long");
            auto const size = co_await transport.receive(buffer);
            if (!size) co_return answer(probe, not_answered(size.error()));
            if (*size == 0) co_return answer(probe, "the connection ended without an answer");
            total += *size;
            health.take_input(std::string_view(buffer.data(), *size));
        }
        answer(probe, health.problem());
    }

    /// Reads the rest of an answer. Otherwise a server that is still sending would see a reset, and log that at each
    /// probe.
    static Task<> drop_rest(net::Transport& transport, std::size_t size) {
        std::array<char, 4096> dropped;
        for (std::size_t got = 1; got > 0 && size < most_answer_bytes; size += got)
            got = co_await transport.read_some(dropped);
    }

    // --- results

    void answer(Probe& probe, Problem const& problem) {
        if (!std::exchange(probe.is_wanted, false)) return;
        probes_.erase(probe.order.id);
        verdicts_.push_back(probe_result_json(probe.order.id, problem));
        if (!std::exchange(is_reporting_, true)) net::spawn(loop_, report(shared_from_this()));
    }

    /// Sends one verdict after the other: however many probes end at once, the launcher is not flooded, and no verdict
    /// is lost to a limit.
    static Task<> report(std::shared_ptr<State> self) {
        struct Guard {
            State& state;
            ~Guard() { state.is_reporting_ = false; }
        };
        Guard const guard{*self};
        while (!self->verdicts_.empty()) {
            std::string verdict = std::move(self->verdicts_.front());
            self->verdicts_.pop_front();
            // If this fails the stream has ended as well, or the launcher's own limit for the probe passes.
            (void)co_await self->control_.call("org.tritonlaunch.Launcher.ProbeResult", std::move(verdict), false,
                                               report_limit);
        }
    }

    net::Loop& loop_;
    sidecar::control::ControlClient& control_;
    std::string user_agent_;
    net::Certificates::Context tls_;
    std::unordered_map<std::int64_t, ProbePointer> probes_;  // those that the launcher waits for
    std::deque<ProbePointer> waiting_;                       // those that wait for a place
    std::size_t running_ = 0;
    std::deque<std::string> verdicts_;  // those that are not sent yet
    bool is_reporting_ = false;
};

ProbeRunner::ProbeRunner(net::Loop& loop, sidecar::control::ControlClient& control, std::string user_agent)
    : state_(std::make_shared<State>(loop, control, std::move(user_agent))) {
    state_->begin();
}

ProbeRunner::~ProbeRunner() { state_->forget_all(); }

}  // namespace triton::agent
