#include "programs/tritoncrid/run.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "host/cri/images/image_calls.h"
#include "host/cri/images/library.h"
#include "host/cri/sandbox/pod_service.h"
#include "host/cri/tickets/stream_server.h"
#include "host/cri/wire/router.h"
#include "host/systemd/daemon.h"
#include "lib/base/clock.h"
#include "lib/daemon/sole_instance.h"
#include "lib/daemon/unix_listener.h"
#include "lib/http/grpc/server.h"
#include "lib/log/log.h"
#include "lib/net/log_flusher.h"
#include "lib/net/loop.h"
#include "programs/tritoncrid/configuration.h"
#include "programs/tritoncrid/runtime_calls.h"

namespace triton::program {

namespace {

using log::LogLevel;

constexpr Duration end_limit = std::chrono::seconds(10);  // for pulls to be given up, and for answers

struct CriListener {
    UniqueFd socket;
    std::string address;  ///< for the log
};

/// The Unix sockets that systemd hands over, else one of our own.
Result<std::vector<CriListener>> open_cri_listeners(CriOptions const& options, CriConfiguration const& configuration) {
    std::vector<CriListener> listeners;
    for (systemd::HandedSocket& handed : TRY(systemd::take_sockets())) {
        if (!handed.is_unix) return fail(ErrorKind::invalid, "use a socket of systemd", "only Unix sockets are served");
        listeners.push_back({std::move(handed.fd), "a Unix socket of systemd"});
    }
    if (!listeners.empty()) return listeners;
    std::string const path = options.listen.empty() ? options.root + "/run/triton/cri.sock" : options.listen;
    UniqueFd socket = TRY(daemon::listen_on_unix_socket(path, configuration.socket_group));
    listeners.push_back({std::move(socket), path});
    return listeners;
}

/// A program of ours that is not for people: beside this one in a build tree, else where it is installed.
std::string helper_program(std::string const& name) {
    if (char const* const chosen = std::getenv("TRITON_LIBEXEC"); chosen && *chosen == '/')
        return std::string(chosen) + "/" + name;
    std::error_code error;
    auto const self = std::filesystem::read_symlink("/proc/self/exe", error);
    std::string beside = self.parent_path().string() + "/" + name;
    return ::access(beside.c_str(), X_OK) == 0 ? beside : "/usr/libexec/triton/" + name;
}

cri::PodSettings pod_settings(CriOptions const& options, CriConfiguration const& configuration,
                              net::ListenAddress const& stream_address) {
    return {.root = options.root,
            .images = {.root = options.root},
            .runtime = configuration.runtime,
            .is_systemd = settled(configuration.cgroup_driver, options.root) == CgroupDriver::systemd,
            .monitor = helper_program("triton-pod"),
            .network_directory = options.root + configuration.network_directory,
            .plugin_directories = configuration.plugin_directories,
            .plugin_limit = configuration.plugin_timeout,
            .stream_address = stream_address,
            .stray_pause = configuration.stray_interval};
}

/// The parts of the daemon and their connections.
class CriDaemon {
public:
    CriDaemon(CriOptions const& options, CriConfiguration const& configuration,
              net::ListenAddress const& stream_address, log::Log& log)
        : options_(options),
          configuration_(configuration),
          log_(log),
          library_(
              {.root = options.root},
              [this](std::string const& warning) {
                  post([this, warning] { log_.write(LogLevel::warning, "image-warning", warning); });
              },
              options.root + configuration.registry_directory),
          pods_(
              pod_settings(options, configuration, stream_address),
              {.loop = loop_,
               .post = [this](auto call) { post(std::move(call)); },
               .warn = [this](std::string const& warning) { log_.write(LogLevel::warning, "pod-warning", warning); }}),
          runtime_({.root = options.root,
                    .configuration = configuration,
                    .library = library_,
                    .pods = pods_,
                    .post = [this](auto call) { post(std::move(call)); }}),
          images_(library_, configuration.parallel_pulls,
                  {.post = [this](auto call) { post(std::move(call)); },
                   .pulled = [this](std::string const& image, Result<std::string> const& id) { log_pull(image, id); }}),
          server_({}, {.loop = loop_,
                       .serve = [this](std::shared_ptr<http::grpc::Call> const& call) { serve(call); },
                       .log = log}),
          watchdog_(loop_),
          end_(loop_) {
        runtime_.add_to(router_);
        images_.add_to(router_);
        pods_.add_to(router_);
    }

    Result<> run() {
        auto const flusher = TRY(net::LogFlusher::create(loop_, log_));
        auto listeners = TRY(open_cri_listeners(options_, configuration_));
        net::Signals const signals(loop_, {SIGTERM, SIGINT}, [this](int signal) { end(signal); });
        keep_watchdog_quiet();
        systemd::notify("STATUS=recovering images");
        runtime_.recover([this, &listeners](Result<> const& recovered) {
            if (!recovered) log_.write(LogLevel::error, "images-unavailable", recovered.error().text());
            systemd::notify("STATUS=recovering pods");
            pods_.recover();
            pods_.start_streams();
            open_doors(std::move(listeners));
        });
        loop_.run();
        // Threads may hang in system calls: nobody waits for them. What they have begun, the next start finishes.
        log_.drain(std::chrono::seconds(1));
        ::_exit(0);
    }

private:
    void post(std::function<void()> call) { net::post(loop_, std::move(call)); }

    void serve(std::shared_ptr<http::grpc::Call> const& call) {
        log_.write(LogLevel::debug, "call", call->path());
        router_.serve(call);
    }

    void log_pull(std::string const& image, Result<std::string> const& id) {
        if (id)
            log_.write(LogLevel::info, "image-pulled", image, {{"id", *id}});
        else
            log_.write(LogLevel::warning, "pull-failed", id.error().text(), {{"image", image}});
    }

    void open_doors(std::vector<CriListener> listeners) {
        if (is_ending_) return;
        for (CriListener& listener : listeners) {
            server_.listen(std::move(listener.socket));
            log_.write(LogLevel::info, "listening", "serves " + listener.address);
        }
        systemd::notify("READY=1\nSTATUS=serving");
    }

    void keep_watchdog_quiet() {
        auto const limit = systemd::watchdog_limit();
        if (!limit) return;
        systemd::notify("WATCHDOG=1");
        watchdog_.call_at(steady_now() + *limit / 2, [this] { keep_watchdog_quiet(); });
    }

    void end(int signal) {
        if (std::exchange(is_ending_, true)) return;
        log_.write(LogLevel::info, "stopping", "ends by a signal", {{"signal", static_cast<std::int64_t>(signal)}});
        systemd::notify("STOPPING=1");
        end_.call_at(steady_now() + end_limit, [this] { loop_.stop(); });
        images_.cancel_pulls();
        pods_.end_streams();
        server_.stop([this] { loop_.stop(); });
    }

    CriOptions const& options_;
    CriConfiguration const& configuration_;
    log::Log& log_;
    net::Loop loop_{1};
    cri::Router router_;
    cri::ImageLibrary library_;
    cri::PodService pods_;
    RuntimeCalls runtime_;
    cri::ImageCalls images_;
    http::grpc::Server server_;
    net::Timer watchdog_;
    net::Timer end_;
    bool is_ending_ = false;
};

}  // namespace

Result<> run_cri_daemon(CriOptions const& options) {
    if (::geteuid() != 0) return fail(ErrorKind::denied, "start tritoncrid", "this needs root");
    (void)::signal(SIGPIPE, SIG_IGN);  // a peer that has gone is an error of its connection
    ::umask(0077);
    CriConfiguration const configuration = TRY(read_cri_configuration(options.root));
    net::ListenAddress const stream_address = TRY(cri::parse_stream_address(configuration.stream_address));
    UniqueFd const only_one = TRY(daemon::be_the_only_one(options.root + "/run/triton/cri", "tritoncrid"));
    log::Log log({.level = options.log_level, .format = options.log_format, .path = {}, .console = STDERR_FILENO});
    return std::make_unique<CriDaemon>(options, configuration, stream_address, log)->run();
}

}  // namespace triton::program
