#include "sidecar/agent/agent.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <ctime>
#include <optional>

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/idle_memory.h"
#include "lib/base/read_file.h"
#include "lib/base/stop_requests.h"
#include "lib/json/writer.h"
#include "lib/net/file_watch.h"
#include "lib/net/http_server.h"
#include "lib/net/log_flusher.h"
#include "lib/net/loop.h"
#include "lib/net/resolver.h"
#include "sidecar/agent/own_names.h"
#include "sidecar/agent/probe_runner.h"
#include "sidecar/agent/sandbox.h"
#include "sidecar/agent/service.h"
#include "sidecar/agent/substitutions.h"
#include "sidecar/agent/syslog_forwarder.h"
#include "sidecar/agent/ui.h"
#include "sidecar/kubernetes/kubernetes_reporter.h"

namespace triton::agent {

namespace {

constexpr Duration grace = std::chrono::seconds(5);
constexpr Duration grace_of_restart = std::chrono::seconds(2);
constexpr std::size_t probe_connections = 64;
constexpr int exit_to_be_started_again = 3;
/// Peers and servers influence what a line holds. Lines of this length fit into a pipe at once.
constexpr std::size_t longest_log_text = 512;
/// Descriptors that are not connections of peers: files being hashed, probes under way and others.
constexpr rlim_t own_descriptors = 768;

/// Raises the limit of descriptors as far as possible, and allows no more connections than fit into it.
void fit_to_descriptors(net::HttpLimits& limits) {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    rlim_t const wanted = std::min(files.rlim_max, static_cast<rlim_t>(limits.connections) + own_descriptors);
    if (files.rlim_cur < wanted) {
        files.rlim_cur = wanted;
        if (::setrlimit(RLIMIT_NOFILE, &files) != 0) (void)::getrlimit(RLIMIT_NOFILE, &files);
    }
    rlim_t const left = files.rlim_cur > 2 * own_descriptors ? files.rlim_cur - own_descriptors : files.rlim_cur / 2;
    limits.connections = std::clamp<std::size_t>(left, 1, limits.connections);
    limits.answers = std::max<std::size_t>(1, limits.connections / 2);
    limits.answers_of_peer = std::max(limits.answers / 2, std::min<std::size_t>(limits.answers, 16));
}

/// The settings for probes: they need little, and get it whatever other peers do.
net::HttpSettings probe_settings(net::HttpSettings const& settings) {
    net::HttpSettings result;
    result.limits = settings.limits;
    result.limits.connections = probe_connections;
    result.limits.body_bytes = 0;
    return result;
}

/// What is known of our names when we start. They do not change while a container runs.
OwnNames own_names(AgentOptions const& options) {
    constexpr std::size_t longest_resolv_conf = 64 * 1024;
    OwnNames::Settings settings;
    settings.has_tls = options.has_tls;
    settings.allowed = options.allowed_hosts;
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) == 0) settings.host_name = name.data();
    if (auto const text = read_file("/etc/resolv.conf", longest_resolv_conf))
        settings.cluster_domain = cluster_domain_of(*text);
    return OwnNames(std::move(settings));
}

std::vector<net::HttpRoute> probe_routes() {
    std::vector<net::HttpRoute> routes = endpoint_routes({});
    for (net::HttpRoute& route : routes) {
        if (!route.is_urgent) route.path = no_path;
    }
    return routes;
}

class Agent {
public:
    Agent(AgentOptions options, HandedOver handed, char const* const* environment)
        : options_(std::move(options)),
          environment_(environment),
          handed_(std::move(handed)),
          log_({.level = options_.log_level,
                .format = options_.log_format,
                .path = {},
                .console = STDOUT_FILENO,
                .longest_text = longest_log_text}),
          has_broker_(handed_.launcher),
          control_(io_, std::move(handed_.launcher), options_.control_socket, [this] { launcher_ended(); }),
          signals_(io_, {SIGTERM, SIGINT, SIGHUP}, [this](int signo) { signalled(signo); }),
          names_(own_names(options_)),
          router_(endpoint_routes({options_.has_open_metrics, options_.has_ui})),
          probe_router_(probe_routes()),
          grace_(io_) {}

    Result<int> run() {
        fit_to_descriptors(options_.server.limits);
        log_flusher_ = TRY(net::LogFlusher::create(io_, log_));
        for (std::string const& remark : options_.remarks)
            log_.write(log::LogLevel::warning, "unknown-variable", remark);
        TRY(open_output());
        watch_files();  // before they are read, so that no change in between is missed
        TRY(load_certificates());
        auto sockets = TRY(open_sockets());
        auto probe_sockets = TRY(open_probe_sockets());
        if (sockets.empty() && probe_sockets.empty() && !has_broker_ && !options_.has_kubernetes)
            return fail("nothing to do: --listen is missing, and no descriptors were passed");
        if (options_.has_ui && sockets.empty()) return fail("--ui needs --listen");
        std::string token;
        if (!options_.ui_token_file.empty()) token = TRY(read_token(options_.ui_token_file));
        binary_directory_ = main_binary_directory(options_.substitutions);
        std::string substitutions = TRY(substitutions_now());
        SandboxReport sandbox;
        SandboxRules const rules = sandbox_rules();
        TRY(drop_rights(rules, sandbox));
        has_landlock_ = sandbox.has_landlock;
        if (!sockets.empty() || !probe_sockets.empty()) make_service(std::move(substitutions));  // starts its threads
        if (!sockets.empty())
            server_ = TRY(make_server(options_.server, router_, certificates_ ? &*certificates_ : nullptr));
        if (!probe_sockets.empty())
            probe_server_ = TRY(make_server(probe_settings(options_.server), probe_router_, nullptr));
        if (options_.has_ui) make_ui(std::move(token));
        TRY(make_syslog());
        TRY(filter_system_calls(rules, sandbox));
        tell_of(sandbox);
        for (UniqueFd& socket : sockets)
            TRY(listen(*server_, std::move(socket), "listening", "serving on "));
        for (UniqueFd& socket : probe_sockets)
            TRY(listen(*probe_server_, std::move(socket), "probe-listening", "serving probes on "));
        // The launcher lets only the agent that it has started probe for it.
        if (has_broker_) probes_.emplace(io_, control_, "triton-launch-agent/" + agent_version());
        if (syslog_) syslog_->start();
        TRY(start_reporter());
        if (ui_) ui_->start();
        io_.run();
        log_.write(log::LogLevel::info, "stopped", "stopped");
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
            log_.write(log::LogLevel::warning, "certificate-expired",
                       options_.certificates.certificate + ": the certificate has expired");
        }
        return {};
    }

    Result<std::vector<UniqueFd>> open_sockets() {
        std::vector<UniqueFd> sockets = std::move(handed_.listening);
        keeps_sockets_ = !sockets.empty() && options_.listen.empty();
        for (net::ListenAddress const& address : options_.listen)
            sockets.push_back(TRY(net::open_listening_socket(address)));
        return sockets;
    }

    Result<std::vector<UniqueFd>> open_probe_sockets() {
        std::vector<UniqueFd> sockets = std::move(handed_.probes);
        for (net::ListenAddress const& address : options_.probe_listen)
            sockets.push_back(TRY(net::open_listening_socket(address)));
        return sockets;
    }

    Result<> listen(net::HttpServer& server, UniqueFd socket, std::string_view event, std::string_view words) {
        std::string const address = net::local_address(socket.get());
        TRY(server.listen(std::move(socket)));
        log_.write(log::LogLevel::info, event, std::string(words) + address, {{"address", address}});
        return {};
    }

    /// An agent that cannot report still serves and probes.
    Result<> start_reporter() {
        if (!options_.has_kubernetes) return {};
        auto reporter = kubernetes::KubernetesReporter::start(io_, options_.kubernetes, control_, log_);
        if (reporter) {
            reporter_ = std::move(*reporter);
            return {};
        }
        if (!service_ && !has_broker_) return std::unexpected(std::move(reporter).error());
        std::string const text = "nothing is reported to Kubernetes: " + reporter.error().text();
        log_.write(log::LogLevel::error, "kubernetes-off", text);
        if (has_broker_) tell_launcher(reporter.error().text());
        return {};
    }

    /// Tells each version of the launcher once, since the next one knows nothing of it. The end of a stream shows that
    /// there is a next one.
    void tell_launcher(std::string const& why) {
        json::Writer out;
        out.open('{').key("reporter").open('{').member("state", "failing").member("detail", why).close('}').close('}');
        std::string const parameters = std::move(out).text();
        control_.keep_streaming(
            "org.tritonlaunch.Launcher.WatchConfiguration", "{}",
            [this, parameters](json::Node const& /*reply*/) {
                if (std::exchange(is_launcher_told_, true)) return;
                net::spawn(io_, set_reporter(parameters));
            },
            [this](Error const& /*why: it is tried again*/) { is_launcher_told_ = false; });
    }

    net::Task<> set_reporter(std::string parameters) {
        auto const done =
            co_await control_.call("org.tritonlaunch.Launcher.SetReporter", std::move(parameters), false, grace);
        if (!done) log_.write(log::LogLevel::warning, "launcher-refused", "SetReporter: " + done.error().text());
    }

    [[nodiscard]] std::vector<std::string> certificate_paths() const {
        std::vector<std::string> paths{options_.certificates.certificate, options_.certificates.key};
        if (!options_.certificates.authority.empty()) paths.push_back(options_.certificates.authority);
        return paths;
    }

    void watch_files() {
        if (options_.has_tls) {
            certificates_watch_ =
                watched(certificate_paths(), "SIGHUP and POST /refresh_certs", [this] { (void)reload_certificates(); });
        }
        if (!options_.ui_token_file.empty())
            token_watch_ = watched({options_.ui_token_file}, "SIGHUP", [this] { reload_token(); });
        if (std::string const& file = options_.substitutions.environment_file; !file.empty())
            variables_watch_ = watched({file}, "SIGHUP", [this] { reload_substitutions(); });
    }

    /// What /substitutions says from now on. Reports lines that are left out.
    Result<std::string> substitutions_now() {
        Substitutions found = TRY(read_substitutions(options_.substitutions, binary_directory_, environment_));
        for (std::string const& problem : found.problems)
            log_.write(log::LogLevel::error, "substitutions-incomplete", problem);
        return std::move(found.json);
    }

    void reload_substitutions() {
        if (!service_) return;
        auto fresh = substitutions_now();
        if (fresh) return service_->set_substitutions(std::move(*fresh));
        log_.write(log::LogLevel::error, "substitutions-rejected",
                   "the new variables cannot be used, the old ones stay: " + fresh.error().text());
    }

    /// Returns null when inotify is used up on this machine; the agent serves all the same.
    std::unique_ptr<net::FileWatch> watched(std::vector<std::string> paths, std::string const& instead,
                                            std::function<void()> changed) {
        auto watch = net::FileWatch::create(io_, std::move(paths), std::move(changed));
        Result<> const outcome = watch ? (*watch)->outcome() : Result<>(std::unexpected(watch.error()));
        if (!outcome)
            log_.write(log::LogLevel::warning, "watch-failed",
                       outcome.error().text() + "; what is there is read on " + instead + (watch ? "" : " only"));
        return watch ? std::move(*watch) : nullptr;
    }

    void reload_token() {
        auto token = read_token(options_.ui_token_file);
        if (!token && has_landlock_ && is_out_of_reach(options_.ui_token_file)) {
            (void)out_of_reach("ui-token-out-of-reach", "the token is now");
        } else if (!token) {
            log_.write(log::LogLevel::error, "ui-token-rejected",
                       "the new token cannot be used, the old one stays: " + token.error().text());
        } else if (ui_->replace_token(std::move(*token))) {
            log_.write(log::LogLevel::info, "ui-token-loaded", "from now on the page needs the new token");
        }
    }

    /// Loads new certificates and logs the outcome. The result is for callers that asked for it.
    Result<bool> reload_certificates() {
        auto result = certificates_->reload(std::time(nullptr));
        if (!result && has_landlock_ && std::ranges::any_of(certificate_paths(), is_out_of_reach)) {
            ++figures_.failed_certificate_reloads;
            result = out_of_reach("certificate-out-of-reach", "the certificates are now");
        } else if (!result) {
            ++figures_.failed_certificate_reloads;
            log_.write(log::LogLevel::error, "certificate-rejected",
                       "the new certificate cannot be used, the old one stays: " + result.error().text());
        } else if (*result) {
            ++figures_.certificate_reloads;
            figures_.certificate_not_after = certificates_->not_after();
            log_.write(log::LogLevel::info, "certificate-loaded", "new connections get the new certificate");
        }
        return result;
    }

    /// Files have moved to where the sandbox does not allow us to read. The next agent can read them, if somebody
    /// starts it on these sockets; it serves nobody before that.
    std::unexpected<Error> out_of_reach(std::string_view event, std::string_view what_leads) {
        std::string text(what_leads);
        text += " where the sandbox of a running agent cannot read: ";
        text += keeps_sockets_ ? "ending, to be started again" : "start the agent again; what it has read stays";
        log_.write(log::LogLevel::error, event, text);
        if (keeps_sockets_ && !std::exchange(is_stopping_, true)) {
            exit_code_ = exit_to_be_started_again;
            stop_for_successor();
        }
        return fail(std::move(text));
    }

    [[nodiscard]] SandboxRules sandbox_rules() const {
        SandboxRules rules;
        if (output_) rules.output_directory = output_->fd();
        std::vector<std::string> followed = certificates_ ? certificate_paths() : std::vector<std::string>();
        if (!options_.ui_token_file.empty()) followed.push_back(options_.ui_token_file);
        if (handed_.syslog) followed.push_back(options_.syslog_authority);
        rules.read_only = net::readable_for(followed);
        if (std::string const& file = options_.substitutions.environment_file; !file.empty()) {
            auto const directories = net::deciding_directories({file});
            rules.read_only.insert(rules.read_only.end(), directories.begin(), directories.end());
            rules.read_only.push_back(file);
        }
        // The whole directory is readable, because a new token comes in a new directory inside it.
        if (options_.has_kubernetes) rules.read_only.push_back(options_.kubernetes.service_account_directory);
        rules.may_connect = has_broker_ || options_.has_kubernetes;
        rules.may_connect_by_path = !options_.control_socket.empty();
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
        std::function<Result<bool>()> reload;
        if (certificates_) reload = [this] { return reload_certificates(); };
        service_.emplace(std::move(settings),
                         Service::Surroundings{io_, output_ ? &*output_ : nullptr, control_, figures_,
                                               std::move(reload), [this] { restart(); }});
    }

    void make_ui(std::string token) {
        UiAccess::Settings settings;
        settings.token = std::move(token);
        settings.asks_for_certificates = options_.has_tls && !options_.certificates.authority.empty();
        ui_.emplace(io_, control_, log_, UiAccess(std::move(settings)));
    }

    Result<> make_syslog() {
        if (!handed_.syslog || !handed_.syslog_answers) return {};
        syslog_ = TRY(SyslogForwarder::create(
            io_, log_, {std::move(handed_.syslog), std::move(handed_.syslog_answers), options_.syslog_authority}));
        return {};
    }

    net::Task<net::HttpResponse> answer(net::HttpRequest const& request) {
        if (auto const refusal = names_.refusal_of(request.host, request.origin))
            return refuse(net::text_response(403, std::string(*refusal)));
        Endpoint const endpoint = endpoint_of(request.match.route);
        bool const is_of_ui = endpoint >= Endpoint::ui && endpoint < Endpoint::none;
        return is_of_ui ? ui_->answer(endpoint, request) : service_->answer(request);
    }

    static net::Task<net::HttpResponse> refuse(net::HttpResponse response) { co_return response; }

    Result<net::HttpServer> make_server(net::HttpSettings settings, net::HttpRouter const& router,
                                        net::Certificates* certificates) {
        // Pages of other origins must not see an answer, not even as a script or an image.
        settings.fields = "\r\nX-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin";
        return net::HttpServer::create(
            std::move(settings),
            {.loop = io_,
             .router = router,
             .answer = [this](net::HttpRequest const& request) { return answer(request); },
             .answered = [this](std::size_t route, unsigned status) { count(endpoint_of(route), status); },
             .certificates = certificates,
             .figures = figures_.http,
             .log = log_,
             .idle =
                 [this] {
                     bool const is_quiet =
                         (!server_ || server_->is_quiet()) && (!probe_server_ || probe_server_->is_quiet());
                     if (is_quiet) release_idle_memory();
                 }});
    }

    void count(Endpoint endpoint, unsigned status) {
        assert(may_answer(endpoint, status));
        ++figures_.requests[{endpoint, status}];
    }

    void tell_of(SandboxReport const& sandbox) {
        std::string const message =
            sandbox.missing.empty() ? "all rights dropped" : "rights dropped; " + sandbox.missing;
        log_.write(
            log::LogLevel::info, "sandbox", message,
            {{"landlock", sandbox.has_landlock ? "yes" : "no"}, {"seccomp", sandbox.has_seccomp ? "yes" : "no"}});
    }

    /// Ends for good: in an upgrade the launcher would keep the other end.
    void launcher_ended() {
        log_.write(log::LogLevel::error, "launcher-ended", "the launcher has ended; ending too");
        exit_code_ = 1;
        stop();
    }

    /// Somebody with the right to do so has asked for a restart.
    void restart() {
        log_.write(log::LogLevel::info, "restart-requested", "ending, to be started again");
        stop_for_successor();
    }

    /// The reporter says nothing at this end: the pod is as ready as it was.
    void stop_for_successor() {
        if (!syslog_) return stop(grace_of_restart);
        syslog_->finish([this] { stop(grace_of_restart); });
    }

    /// Stops when all answers are written, at the latest after `within`.
    void stop(Duration within = grace) {
        grace_.call_at(std::chrono::steady_clock::now() + within, [this] { io_.stop(); });
        if (ui_) ui_->stop();
        auto const servers = std::make_shared<int>(0);
        for (auto* const server : {&server_, &probe_server_})
            if (*server) ++*servers;
        if (*servers == 0) return io_.stop();
        for (auto* const server : {&server_, &probe_server_}) {
            if (!*server) continue;
            (*server)->stop([this, servers] {
                if (--*servers == 0) io_.stop();
            });
        }
    }

    /// Stops reporter and syslog first: they have little left to send, and connections get their answers meanwhile.
    void begin_stop() {
        if (std::exchange(is_stopping_, true)) return io_.stop();
        TimePoint const limit = std::chrono::steady_clock::now() + grace;
        auto const unfinished = std::make_shared<int>(1);
        auto const go_on = [this, limit, unfinished] {
            if (--*unfinished == 0) stop(limit - std::chrono::steady_clock::now());
        };
        if (reporter_) {
            ++*unfinished;
            reporter_->finish(go_on);
        }
        if (syslog_) {
            ++*unfinished;
            syslog_->finish(go_on);
        }
        go_on();
    }

    void signalled(int signo) {
        if (signo == SIGHUP) {
            if (certificates_) (void)reload_certificates();
            if (!options_.ui_token_file.empty()) reload_token();
            reload_substitutions();
            return;
        }
        if (requests_.is_the_same(std::chrono::steady_clock::now())) return;
        log_.write(log::LogLevel::info, "stop-requested", "stopping");
        begin_stop();
    }

    AgentOptions options_;
    char const* const* environment_;
    HandedOver handed_;
    log::Log log_;
    AgentFigures figures_;
    StopRequests requests_;
    std::optional<files::ConfinedDirectory> output_;
    std::optional<net::Certificates> certificates_;
    net::Loop io_{1};
    bool has_broker_;
    sidecar::control::ControlClient control_;
    net::Signals signals_;
    OwnNames names_;
    net::HttpRouter router_;
    net::HttpRouter probe_router_;
    net::Timer grace_;
    std::optional<net::LogFlusher> log_flusher_;
    std::unique_ptr<net::FileWatch> certificates_watch_;
    std::unique_ptr<net::FileWatch> token_watch_;
    std::unique_ptr<net::FileWatch> variables_watch_;
    std::optional<std::string> binary_directory_;  // read once: the sandbox does not reach to the version file
    std::optional<Service> service_;
    std::optional<Ui> ui_;
    std::optional<net::HttpServer> server_;
    std::optional<net::HttpServer> probe_server_;
    std::optional<ProbeRunner> probes_;
    std::unique_ptr<SyslogForwarder> syslog_;
    std::unique_ptr<kubernetes::KubernetesReporter> reporter_;
    bool is_launcher_told_ = false;
    bool is_stopping_ = false;
    bool has_landlock_ = false;
    bool keeps_sockets_ = false;  // our parent does
    int exit_code_ = 0;
};

}  // namespace

Result<int> run_agent(AgentOptions options, HandedOver handed, char const* const* environment) {
    // One heap for all threads: hashing threads allocate next to nothing, and each further heap takes 132 kB.
    (void)::mallopt(M_ARENA_MAX, 1);
    net::initialize_openssl();
    // Never destroyed: see the header.
    auto* const agent = new Agent(std::move(options), std::move(handed), environment);
    return agent->run();
}

}  // namespace triton::agent
