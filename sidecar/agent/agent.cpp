#include "sidecar/agent/agent.h"

#include <algorithm>
#include <ctime>
#include <optional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sidecar/agent/file_watch.h"
#include "sidecar/agent/sandbox.h"
#include "sidecar/agent/server.h"
#include "sidecar/agent/substitutions.h"

namespace triton::sidecar {

namespace asio = boost::asio;

namespace {

constexpr Duration grace = std::chrono::seconds(5);
constexpr rlim_t own_descriptors = 512;  // files being hashed, and what a connection is not

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
          control_(io_, options_.control_socket, handed_.control.release(), [this] { launcher_lost(); }),
          signals_(io_, SIGTERM, SIGINT, SIGHUP) {}

    Result<int> run(char const* const* environment) {
        fit_to_descriptors(options_.server.limits);
        TRY(open_output());
        TRY(load_certificates());
        auto sockets = TRY(open_sockets());
        std::string substitutions = TRY(substitutions_json(options_.substitutions, environment));
        watch_certificates();
        SandboxReport sandbox;
        TRY(drop_rights(sandbox_rules(), sandbox));
        make_service(std::move(substitutions));  // starts its threads
        TRY(filter_system_calls(sandbox));
        tell_of(sandbox);
        for (UniqueFd& socket : sockets) {
            std::string const address = local_address(socket.get());
            TRY(server_->listen(std::move(socket)));
            log_.write(AgentLogLevel::info, "listening", "serving on " + address, {{"address", address}});
        }
        wait_for_signal();
        io_.run();
        log_.write(AgentLogLevel::info, "stopped", "stopped");
        return exit_code_;
    }

private:
    Result<> open_output() {
        if (handed_.output) {
            output_ = TRY(ConfinedDirectory::adopt(std::move(handed_.output)));
        } else if (!options_.output_directory.empty()) {
            output_ = TRY(ConfinedDirectory::open(options_.output_directory));
        }
        return {};
    }

    Result<> load_certificates() {
        if (!options_.has_tls) return {};
        certificates_ = TRY(Certificates::load(options_.certificates));
        figures_.certificate_not_after = certificates_->not_after();
        if (certificates_->has_expired(std::time(nullptr))) {
            log_.write(AgentLogLevel::warning, "certificate-expired",
                       options_.certificates.certificate + ": the certificate has expired");
        }
        return {};
    }

    Result<std::vector<UniqueFd>> open_sockets() {
        std::vector<UniqueFd> sockets = std::move(handed_.listening);
        for (ListenAddress const& address : options_.listen)
            sockets.push_back(TRY(open_listening_socket(address)));
        if (sockets.empty()) return fail("nothing to listen on: --listen is missing, and no socket was handed over");
        return sockets;
    }

    [[nodiscard]] std::vector<std::string> certificate_paths() const {
        std::vector<std::string> paths{options_.certificates.certificate, options_.certificates.key};
        if (!options_.certificates.authority.empty()) paths.push_back(options_.certificates.authority);
        return paths;
    }

    void watch_certificates() {
        if (!certificates_) return;
        auto watch = FileWatch::create(io_, certificate_paths(), [this] { (void)reload_certificates(); });
        if (watch) {
            watch_ = std::move(*watch);
        } else {
            // inotify is used up on this machine. That is no reason to serve nobody.
            log_.write(AgentLogLevel::warning, "watch-failed",
                       watch.error().text + "; they are read on SIGHUP and POST /refresh_certs only");
        }
    }

    /// Tells of it. The result is for those who asked.
    Result<bool> reload_certificates() {
        auto result = certificates_->reload(std::time(nullptr));
        if (!result) {
            ++figures_.failed_certificate_reloads;
            log_.write(AgentLogLevel::error, "certificate-rejected",
                       "the new certificate is no good, the old one stays: " + result.error().text);
        } else if (*result) {
            ++figures_.certificate_reloads;
            figures_.certificate_not_after = certificates_->not_after();
            log_.write(AgentLogLevel::info, "certificate-loaded", "new connections get the new certificate");
        }
        return result;
    }

    [[nodiscard]] SandboxRules sandbox_rules() const {
        SandboxRules rules;
        if (output_) rules.output_directory = output_->fd();
        if (certificates_) rules.read_only = directories_of(certificate_paths());
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
            AgentLogLevel::info, "sandbox", message,
            {{"landlock", sandbox.has_landlock ? "yes" : "no"}, {"seccomp", sandbox.has_seccomp ? "yes" : "no"}});
    }

    /// Only whoever starts us can hand us another connection.
    void launcher_lost() {
        log_.write(AgentLogLevel::error, "launcher-lost", "the connection to the launcher has ended; ending too");
        exit_code_ = 1;
        server_->stop(grace);
    }

    void wait_for_signal() {
        signals_.async_wait([this](boost::system::error_code failed, int signo) {
            if (failed) return;
            if (signo == SIGHUP) {
                if (certificates_) (void)reload_certificates();
                return wait_for_signal();
            }
            log_.write(AgentLogLevel::info, "stop-requested", "stopping");
            server_->stop(grace);
        });
    }

    AgentOptions options_;
    HandedOver handed_;
    AgentLog log_;
    AgentFigures figures_;
    std::optional<ConfinedDirectory> output_;
    std::optional<Certificates> certificates_;
    asio::io_context io_{1};
    ControlClient control_;
    asio::signal_set signals_;
    std::unique_ptr<FileWatch> watch_;
    std::optional<Service> service_;
    std::optional<Server> server_;
    int exit_code_ = 0;
};

}  // namespace

Result<int> run_agent(AgentOptions options, HandedOver handed, char const* const* environment) {
    // One heap for all threads: those that hash allocate next to nothing, and each heap of its own is 132 kB.
    (void)::mallopt(M_ARENA_MAX, 1);
    initialize_openssl();
    // Never destroyed: see the header.
    auto* const agent = new Agent(std::move(options), std::move(handed));
    return agent->run(environment);
}

}  // namespace triton::sidecar
