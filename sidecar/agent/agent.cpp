#include "sidecar/agent/agent.h"

#include <algorithm>
#include <ctime>
#include <optional>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/json/writer.h"
#include "lib/net/file_watch.h"
#include "lib/net/resolver.h"
#include "sidecar/agent/probe_runner.h"
#include "sidecar/agent/sandbox.h"
#include "sidecar/agent/server.h"
#include "sidecar/agent/substitutions.h"
#include "sidecar/kubernetes/kubernetes_reporter.h"

namespace triton::agent {

namespace asio = boost::asio;

namespace {

constexpr Duration grace = std::chrono::seconds(5);
constexpr int exit_to_be_started_again = 3;
/// Files being hashed, probes under way, and what else is no connection of a peer.
constexpr rlim_t own_descriptors = 768;

/// A connection is a descriptor: as many as we may have, and no more connections than that.
void fit_to_descriptors(ServerLimits& limits) {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    rlim_t const wanted = std::min(files.rlim_max, static_cast<rlim_t>(limits.connections) + own_descriptors);
    if (files.rlim_cur < wanted) {
        files.rlim_cur = wanted;
        if (::setrlimit(RLIMIT_NOFILE, &files) != 0) (void)::getrlimit(RLIMIT_NOFILE, &files);
    }
    rlim_t const left = files.rlim_cur > 2 * own_descriptors ? files.rlim_cur - own_descriptors : files.rlim_cur / 2;
    limits.connections = std::clamp<std::size_t>(left, 1, limits.connections);
}

class Agent {
public:
    Agent(AgentOptions options, HandedOver handed)
        : options_(std::move(options)),
          handed_(std::move(handed)),
          log_(STDOUT_FILENO, options_.log_level),
          has_broker_(handed_.launcher),
          control_(io_, std::move(handed_.launcher), options_.control_socket, [this] { launcher_ended(); }),
          signals_(io_, SIGTERM, SIGINT, SIGHUP) {}

    Result<int> run(char const* const* environment) {
        fit_to_descriptors(options_.server.limits);
        TRY(open_output());
        TRY(load_certificates());
        auto sockets = TRY(open_sockets());
        std::string substitutions = TRY(substitutions_json(options_.substitutions, environment));
        watch_certificates();
        SandboxReport sandbox;
        SandboxRules const rules = sandbox_rules();
        TRY(drop_rights(rules, sandbox));
        has_landlock_ = sandbox.has_landlock;
        if (!sockets.empty()) make_service(std::move(substitutions));  // starts its threads
        TRY(filter_system_calls(rules, sandbox));
        tell_of(sandbox);
        for (UniqueFd& socket : sockets) {
            std::string const address = net::local_address(socket.get());
            TRY(server_->listen(std::move(socket)));
            log_.write(sidecar::control::AgentLogLevel::info, "listening", "serving on " + address,
                       {{"address", address}});
        }
        // The launcher lets nobody probe for it but the agent that it has started.
        if (has_broker_) probes_.emplace(io_, control_, "triton-launch-agent/" + agent_version());
        TRY(start_reporter());
        wait_for_signal();
        io_.run();
        log_.write(sidecar::control::AgentLogLevel::info, "stopped", "stopped");
        return exit_code_;
    }

private:
    Result<> open_output() {
        if (handed_.output) {
            output_ = TRY(files::ConfinedDirectory::adopt(std::move(handed_.output)));
        } else if (!options_.output_directory.empty()) {
            output_ = TRY(files::ConfinedDirectory::open(options_.output_directory));
        }
        return {};
    }

    Result<> load_certificates() {
        if (!options_.has_tls) return {};
        certificates_ = TRY(net::Certificates::load(options_.certificates));
        figures_.certificate_not_after = certificates_->not_after();
        if (certificates_->has_expired(std::time(nullptr))) {
            log_.write(sidecar::control::AgentLogLevel::warning, "certificate-expired",
                       options_.certificates.certificate + ": the certificate has expired");
        }
        return {};
    }

    Result<std::vector<UniqueFd>> open_sockets() {
        std::vector<UniqueFd> sockets = std::move(handed_.listening);
        keeps_sockets_ = !sockets.empty() && options_.listen.empty();
        for (net::ListenAddress const& address : options_.listen)
            sockets.push_back(TRY(net::open_listening_socket(address)));
        if (sockets.empty() && !has_broker_ && !options_.has_kubernetes)
            return fail("nothing to do: --listen is missing, and whoever started us handed over nothing");
        return sockets;
    }

    /// What can never report still serves and probes.
    Result<> start_reporter() {
        if (!options_.has_kubernetes) return {};
        auto reporter = kubernetes::KubernetesReporter::start(io_, options_.kubernetes, control_, log_);
        if (reporter) {
            reporter_ = std::move(*reporter);
            return {};
        }
        if (!server_ && !has_broker_) return std::unexpected(std::move(reporter).error());
        std::string const text = "nothing is reported to Kubernetes: " + reporter.error().text();
        log_.write(sidecar::control::AgentLogLevel::error, "kubernetes-off", text);
        if (has_broker_) tell_launcher(reporter.error().text());
        return {};
    }

    /// Once for each version of the launcher: the next one knows nothing of it. That there is another is seen by the
    /// end of a stream.
    void tell_launcher(std::string const& why) {
        json::Writer out;
        out.open('{').key("reporter").open('{').member("state", "failing").member("detail", why).close('}').close('}');
        std::string const parameters = std::move(out).text();
        control_.keep_streaming(
            "org.tritonlaunch.Launcher.WatchConfiguration", "{}",
            [this, parameters](json::Node const& /*reply*/) {
                if (std::exchange(is_launcher_told_, true)) return;
                asio::co_spawn(io_, set_reporter(parameters), asio::detached);
            },
            [this](Error const& /*why: it is tried again*/) { is_launcher_told_ = false; });
    }

    asio::awaitable<void> set_reporter(std::string parameters) {
        auto const done =
            co_await control_.call("org.tritonlaunch.Launcher.SetReporter", std::move(parameters), false, grace);
        if (!done)
            log_.write(sidecar::control::AgentLogLevel::warning, "launcher-refused",
                       "SetReporter: " + done.error().text());
    }

    [[nodiscard]] std::vector<std::string> certificate_paths() const {
        std::vector<std::string> paths{options_.certificates.certificate, options_.certificates.key};
        if (!options_.certificates.authority.empty()) paths.push_back(options_.certificates.authority);
        return paths;
    }

    void watch_certificates() {
        if (!certificates_) return;
        auto watch = net::FileWatch::create(io_, certificate_paths(), [this] { (void)reload_certificates(); });
        if (watch) {
            watch_ = std::move(*watch);
        } else {
            // inotify is used up on this machine. That is no reason to serve nobody.
            log_.write(sidecar::control::AgentLogLevel::warning, "watch-failed",
                       watch.error().text() + "; they are read on SIGHUP and POST /refresh_certs only");
        }
    }

    /// Tells of it. The result is for those who asked.
    Result<bool> reload_certificates() {
        auto result = certificates_->reload(std::time(nullptr));
        if (!result && has_landlock_ && std::ranges::any_of(certificate_paths(), is_out_of_reach)) {
            result = out_of_reach();
        } else if (!result) {
            ++figures_.failed_certificate_reloads;
            log_.write(sidecar::control::AgentLogLevel::error, "certificate-rejected",
                       "the new certificate is no good, the old one stays: " + result.error().text());
        } else if (*result) {
            ++figures_.certificate_reloads;
            figures_.certificate_not_after = certificates_->not_after();
            log_.write(sidecar::control::AgentLogLevel::info, "certificate-loaded",
                       "new connections get the new certificate");
        }
        return result;
    }

    /// They are somewhere else now. The next one of us can look there, if there is somebody who starts it on these
    /// sockets; it serves nobody before it has read them.
    std::unexpected<Error> out_of_reach() {
        ++figures_.failed_certificate_reloads;
        std::string text = "the certificates lead to where the sandbox lets nobody look who was started before: ";
        text += keeps_sockets_ ? "ending, to be started again" : "start the agent again; the old ones stay";
        log_.write(sidecar::control::AgentLogLevel::error, "certificate-out-of-reach", text);
        if (keeps_sockets_ && !is_stopping_) {
            exit_code_ = exit_to_be_started_again;
            begin_stop();
        }
        return fail(std::move(text));
    }

    [[nodiscard]] SandboxRules sandbox_rules() const {
        SandboxRules rules;
        if (output_) rules.output_directory = output_->fd();
        if (certificates_) rules.read_only = net::readable_for(certificate_paths());
        // The whole of it: a new token comes in a new directory there.
        if (options_.has_kubernetes) rules.read_only.push_back(options_.kubernetes.service_account_directory);
        rules.may_connect = has_broker_ || options_.has_kubernetes;
        rules.may_resolve = options_.has_kubernetes && net::is_host_name(options_.kubernetes.api_host);
        if (rules.may_resolve)
            rules.read_only.insert(rules.read_only.end(), net::resolver_files.begin(), net::resolver_files.end());
        return rules;
    }

    void make_service(std::string substitutions) {
        ServiceSettings settings;
        settings.version = agent_version();
        settings.substitutions_json = std::move(substitutions);
        settings.hash_threads = options_.hash_threads;
        settings.most_busy = std::max<std::size_t>(1, options_.server.limits.connections / 2);
        std::function<Result<bool>()> reload;
        if (certificates_) reload = [this] { return reload_certificates(); };
        service_.emplace(std::move(settings), Service::Surroundings{io_, output_ ? &*output_ : nullptr, control_,
                                                                    figures_, std::move(reload)});
        server_.emplace(options_.server, Server::Surroundings{io_, *service_, certificates_ ? &*certificates_ : nullptr,
                                                              figures_, log_});
    }

    void tell_of(SandboxReport const& sandbox) {
        std::string const message =
            sandbox.missing.empty() ? "all rights dropped" : "rights dropped; " + sandbox.missing;
        log_.write(
            sidecar::control::AgentLogLevel::info, "sandbox", message,
            {{"landlock", sandbox.has_landlock ? "yes" : "no"}, {"seccomp", sandbox.has_seccomp ? "yes" : "no"}});
    }

    /// For good: over its upgrades the launcher keeps the other end.
    void launcher_ended() {
        log_.write(sidecar::control::AgentLogLevel::error, "launcher-ended", "the launcher has ended; ending too");
        exit_code_ = 1;
        stop();
    }

    void stop(Duration within = grace) {
        if (!server_) return io_.stop();
        server_->stop(within);
    }

    /// The reporter first: what it has to say is short, and connections get their answers meanwhile.
    void begin_stop() {
        if (std::exchange(is_stopping_, true)) return io_.stop();
        if (!reporter_) return stop();
        TimePoint const limit = std::chrono::steady_clock::now() + grace;
        reporter_->finish([this, limit] { stop(limit - std::chrono::steady_clock::now()); });
    }

    void wait_for_signal() {
        signals_.async_wait([this](boost::system::error_code failed, int signo) {
            if (failed) return;
            if (signo == SIGHUP) {
                if (certificates_) (void)reload_certificates();
                return wait_for_signal();
            }
            log_.write(sidecar::control::AgentLogLevel::info, "stop-requested", "stopping");
            begin_stop();
            wait_for_signal();
        });
    }

    AgentOptions options_;
    HandedOver handed_;
    sidecar::control::AgentLog log_;
    AgentFigures figures_;
    std::optional<files::ConfinedDirectory> output_;
    std::optional<net::Certificates> certificates_;
    asio::io_context io_{1};
    bool has_broker_;
    sidecar::control::ControlClient control_;
    asio::signal_set signals_;
    std::unique_ptr<net::FileWatch> watch_;
    std::optional<Service> service_;
    std::optional<Server> server_;
    std::optional<ProbeRunner> probes_;
    std::unique_ptr<kubernetes::KubernetesReporter> reporter_;
    bool is_launcher_told_ = false;
    bool is_stopping_ = false;
    bool has_landlock_ = false;
    bool keeps_sockets_ = false;  // whoever has started us does
    int exit_code_ = 0;
};

}  // namespace

Result<int> run_agent(AgentOptions options, HandedOver handed, char const* const* environment) {
    // One heap for all threads: those that hash allocate next to nothing, and each heap of its own is 132 kB.
    (void)::mallopt(M_ARENA_MAX, 1);
    net::initialize_openssl();
    // Never destroyed: see the header.
    auto* const agent = new Agent(std::move(options), std::move(handed));
    return agent->run(environment);
}

}  // namespace triton::agent
