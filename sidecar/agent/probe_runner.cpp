#include "sidecar/agent/probe_runner.h"

#include <array>
#include <deque>
#include <optional>
#include <unordered_map>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "sidecar/agent/probe_answer.h"
#include "sidecar/agent/probe_order.h"

namespace triton::agent {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t most_at_once = 256;
constexpr std::size_t most_answer_bytes = 64 * 1024;
constexpr std::size_t read_size = 2048;
constexpr Duration report_limit = std::chrono::seconds(5);

using TlsStream = asio::ssl::stream<beast::tcp_stream&>;
/// Why it failed; nullopt: it did not.
using Problem = std::optional<std::string>;

auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

std::string lower_case_first(std::string text) {
    if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
    return text;
}

std::string reason(error_code why) {
    if (why == beast::error::timeout) return "timed out";
    if (why == asio::error::eof || why == asio::ssl::error::stream_truncated)
        return "the connection ended without an answer";
    if (why.category() == asio::error::get_ssl_category()) return "TLS: " + why.message();
    return lower_case_first(errno_text(why.value()));
}

/// In the order in which they are tried. A name that means both families is up when one of them is.
std::vector<asio::ip::address> addresses_of(std::string_view host) {
    if (host == "localhost") return {asio::ip::address_v4::loopback(), asio::ip::address_v6::loopback()};
    return {asio::ip::make_address(std::string(host))};
}

std::string authority_of(config::ProbeTarget const& target) {
    std::string const host(target.host);
    std::string const shown = host.find(':') == host.npos ? host : "[" + host + "]";
    return target.port == (target.is_tls ? 443 : 80) ? shown : shown + ":" + std::to_string(target.port);
}

}  // namespace

class ProbeRunner::State : public std::enable_shared_from_this<State> {
public:
    State(asio::io_context& io, sidecar::control::ControlClient& control, std::string user_agent)
        : io_(io), control_(control), user_agent_(std::move(user_agent)) {}

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
        tcp::socket* socket = nullptr;  // while it is under way
        bool is_wanted = true;

        void forget() {
            is_wanted = false;
            error_code ignored;
            if (socket) socket->close(ignored);
        }
    };
    using ProbePointer = std::shared_ptr<Probe>;

    void take(json::Node const& reply) {
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
        waiting_.push_back(probe);
        start_waiting();
    }

    void start_waiting() {
        while (running_ < most_at_once && !waiting_.empty()) {
            ProbePointer const probe = waiting_.front();
            waiting_.pop_front();
            if (!probe->is_wanted) continue;
            ++running_;
            asio::co_spawn(io_, run(shared_from_this(), probe), asio::detached);
        }
    }

    static awaitable<void> run(std::shared_ptr<State> self, ProbePointer probe) {
        struct Place {  // given back however this ends
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

    awaitable<void> make(Probe& probe) {
        auto const target = target_of(probe.order);
        if (!target) co_return answer(probe, target.error().text());
        beast::tcp_stream stream(io_);
        struct Link {  // the socket can be closed from elsewhere as long as it lives
            Probe& probe;
            ~Link() { probe.socket = nullptr; }
        };
        probe.socket = &stream.socket();
        Link const link{probe};
        stream.expires_at(probe.deadline);
        if (Problem const problem = co_await connect(stream, *target, probe)) co_return answer(probe, problem);
        if (probe.order.kind == "tcp") co_return answer(probe, {});
        if (!target->is_tls) {
            co_await request(stream, *target, probe);
            co_return;
        }
        TlsStream secure(stream, tls_context());
        error_code failed;
        co_await secure.async_handshake(asio::ssl::stream_base::client, into(failed));
        if (failed) co_return answer(probe, reason(failed));
        co_await request(secure, *target, probe);
        co_await secure.async_shutdown(into(failed));
    }

    /// Made when the first probe needs it, and most need none.
    asio::ssl::context& tls_context() {
        if (!tls_) tls_.emplace(asio::ssl::context::tls_client).set_verify_mode(asio::ssl::verify_none);
        return *tls_;
    }

    /// Of two addresses the first one's problem is told: the other family may be missing altogether.
    static awaitable<Problem> connect(beast::tcp_stream& stream, config::ProbeTarget const& target,
                                      Probe const& probe) {
        Problem problem;
        for (auto const& address : addresses_of(target.host)) {
            if (!probe.is_wanted) break;
            error_code failed;
            stream.socket().close(failed);
            tcp::endpoint const to(address, target.port);
            co_await stream.async_connect(to, into(failed));
            if (!failed) co_return std::nullopt;
            if (!problem) problem = reason(failed);
        }
        co_return problem;
    }

    template <class Stream>
    awaitable<void> request(Stream& stream, config::ProbeTarget const& target, Probe& probe) {
        http::request<http::empty_body> question(http::verb::get,
                                                 beast::string_view(target.path.data(), target.path.size()), 11);
        question.set(http::field::host, authority_of(target));
        question.set(http::field::user_agent, user_agent_);
        question.set(http::field::accept, "*/*");
        question.keep_alive(false);
        error_code failed;
        co_await http::async_write(stream, question, into(failed));
        if (failed) co_return answer(probe, reason(failed));
        ProbeAnswer head;
        std::string text;  // what is read and not taken
        for (std::size_t total = 0; !head.status();) {
            if (total >= most_answer_bytes) co_return answer(probe, "the answer's header is too long");
            std::size_t const before = text.size();
            text.resize(before + read_size);
            std::size_t const size =
                co_await stream.async_read_some(asio::buffer(text.data() + before, read_size), into(failed));
            if (failed) co_return answer(probe, reason(failed));
            text.resize(before + size);
            total += size;
            auto const taken = head.take(text);
            if (!taken) co_return answer(probe, taken.error().text());
            text.erase(0, *taken);
        }
        unsigned const status = *head.status();
        answer(probe, status < 400 ? Problem() : Problem("status " + std::to_string(status)));
        co_await drop_rest(stream, text.size());
    }

    /// Whoever sends a body while we close would see a reset, and complain in his log at each probe.
    template <class Stream>
    static awaitable<void> drop_rest(Stream& stream, std::size_t size) {
        std::array<char, 4096> dropped;
        error_code failed;
        while (!failed && size < most_answer_bytes)
            size += co_await stream.async_read_some(asio::buffer(dropped), into(failed));
    }

    // --- results

    void answer(Probe& probe, Problem const& problem) {
        if (!std::exchange(probe.is_wanted, false)) return;
        probes_.erase(probe.order.id);
        verdicts_.push_back(probe_result_json(probe.order.id, problem));
        if (!std::exchange(is_reporting_, true)) asio::co_spawn(io_, report(shared_from_this()), asio::detached);
    }

    /// One after the other: however many end at once, the launcher is not flooded, and no verdict is lost to a limit.
    static awaitable<void> report(std::shared_ptr<State> self) {
        struct Guard {
            State& state;
            ~Guard() { state.is_reporting_ = false; }
        };
        Guard const guard{*self};
        while (!self->verdicts_.empty()) {
            std::string verdict = std::move(self->verdicts_.front());
            self->verdicts_.pop_front();
            // When it cannot be told the stream has ended as well, or the launcher's own limit for the probe passes.
            (void)co_await self->control_.call("org.tritonlaunch.Launcher.ProbeResult", std::move(verdict), false,
                                               report_limit);
        }
    }

    asio::io_context& io_;
    sidecar::control::ControlClient& control_;
    std::string user_agent_;
    std::optional<asio::ssl::context> tls_;
    std::unordered_map<std::int64_t, ProbePointer> probes_;  // that the launcher waits for
    std::deque<ProbePointer> waiting_;                       // for a place
    std::size_t running_ = 0;
    std::deque<std::string> verdicts_;  // to be told
    bool is_reporting_ = false;
};

ProbeRunner::ProbeRunner(asio::io_context& io, sidecar::control::ControlClient& control, std::string user_agent)
    : state_(std::make_shared<State>(io, control, std::move(user_agent))) {
    state_->begin();
}

ProbeRunner::~ProbeRunner() { state_->forget_all(); }

}  // namespace triton::agent
