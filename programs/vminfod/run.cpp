#include "programs/vminfod/run.h"

#include <array>
#include <csignal>
#include <memory>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "host/info/agenda.h"
#include "host/info/cache.h"
#include "host/info/feed.h"
#include "host/observe/observer.h"
#include "host/observe/sequence_file.h"
#include "host/observe/worker.h"
#include "host/systemd/daemon.h"
#include "lib/base/clock.h"
#include "lib/daemon/sole_instance.h"
#include "lib/log/log.h"
#include "lib/net/log_flusher.h"
#include "lib/net/loop.h"
#include "programs/vminfod/listeners.h"
#include "programs/vminfod/service.h"

namespace triton::program {

namespace {

constexpr Duration end_limit = std::chrono::seconds(5);  // for answers that are under way
constexpr std::uint64_t sequence_reach = 200'000;        // how far before its mark the next one is reserved

/// Answers what the service asks of the daemon, through its parts.
class HostDaemon final : public Daemon {
public:
    HostDaemon(observe::Observer& observer, std::string not_listening)
        : observer_(observer), not_listening_(std::move(not_listening)) {}
    void look_again(std::optional<Uuid> const& machine, Done done) override {
        observer_.look_again(machine, std::move(done));
    }
    void usage(GotText got) override { observer_.usage(std::move(got)); }
    void history(std::optional<Uuid> const& machine, GotText got) override {
        observer_.history(machine, std::move(got));
    }
    [[nodiscard]] std::string raw(std::string const& machine) const override { return observer_.raw(machine); }
    [[nodiscard]] DaemonFacts facts() const override {
        DaemonFacts facts = observer_.facts();
        facts.not_listening = not_listening_;
        return facts;
    }

private:
    observe::Observer& observer_;
    std::string not_listening_;
};

/// Raises the limit of descriptors: a listener is one, and so is a launcher that is followed.
void allow_all_descriptors() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);  // if this fails, connections give way earlier
}

/// The parts of the daemon and their connections.
class Program {
public:
    Program(DaemonOptions const& options, InfoConfiguration const& configuration, log::Log& log,
            std::string const& directory)
        : options_(options),
          configuration_(configuration),
          log_(log),
          sequence_file_(directory + "/sequence"),
          watchdog_(loop_),
          end_(loop_) {}

    Result<> run() {
        allow_all_descriptors();
        auto const flusher = TRY(net::LogFlusher::create(loop_, log_));
        begin_sequence();
        info::Feed feed(last_sequence_);
        info::Cache cache(feed);
        info::Agenda agenda;
        feed_ = &feed;
        listeners_ = TRY(open_listeners(options_, configuration_));
        if (!listeners_.missing.empty()) log_.write(log::LogLevel::warning, "not-listening", listeners_.missing);
        auto const observer =
            TRY(observe::Observer::create({.root = options_.root, .now = wall_microseconds},
                                          {loop_, agenda, cache, feed, log_, [this] { feed_has_grown(); }}));
        HostDaemon daemon(*observer, listeners_.missing);
        auto const service = TRY(Service::create({.version = TRITON_VERSION,
                                                  .has_open_secrets = configuration_.has_open_secrets,
                                                  .served_host = listeners_.tcp_host,
                                                  .now = wall_microseconds},
                                                 {loop_, cache, feed, agenda, daemon, log_}));
        service_ = service.get();
        net::Signals const signals(loop_, {SIGTERM, SIGINT}, [this](int signal) { end(signal); });
        keep_watchdog_quiet();
        systemd::notify("STATUS=reading all machines");
        observer->start([this] { open_doors(); });
        loop_.run();
        if (!result_) return std::move(result_);
        // Threads may hang in system calls as long as others decide: nobody waits for them.
        observer->abandon();
        log_.drain(std::chrono::seconds(1));
        ::_exit(0);
    }

private:
    /// Without a file no number is reserved, so the first event tries to reserve some.
    void begin_sequence() {
        auto const fallback = static_cast<std::uint64_t>(wall_microseconds());
        auto const last = sequence_file_.begin(fallback);
        last_sequence_ = last.value_or(fallback);
        reserved_ = last ? *last + observe::SequenceFile::reserve : fallback;
        if (!last) log_.write(log::LogLevel::warning, "no-sequence-file", last.error().text());
    }

    void feed_has_grown() {
        if (service_) service_->feed_has_grown();
        std::uint64_t const next = feed_->next();
        if (next + sequence_reach < reserved_ || is_reserving_) return;
        is_reserving_ = true;
        writer_.run([this, next] {
            auto const kept = sequence_file_.keep_ahead(next);
            net::post(loop_, [this, next, kept] { end_reserving(next, kept); });
        });
    }

    /// Ends a reservation. After a failure the next event tries again: there is time for very many of them.
    void end_reserving(std::uint64_t next, Result<> const& kept) {
        is_reserving_ = false;
        if (kept) {
            reserved_ = next + observe::SequenceFile::reserve;
        } else if (!std::exchange(has_told_of_sequence_, true)) {
            log_.write(log::LogLevel::warning, "no-sequence-file", kept.error().text());
        }
    }

    /// Called when all machines are known.
    void open_doors() {
        for (Listener& listener : listeners_.open) {
            if (auto listening = service_->listen(std::move(listener.socket), listener.entrance); !listening) {
                result_ = std::move(listening);
                return loop_.stop();
            }
            log_.write(log::LogLevel::info, "listening", "serves " + listener.address);
        }
        systemd::notify("READY=1\nSTATUS=serving");
    }

    void keep_watchdog_quiet() {
        auto const limit = systemd::watchdog_limit();
        if (!limit) return;
        systemd::notify("WATCHDOG=1");
        watchdog_.call_at(std::chrono::steady_clock::now() + *limit / 2, [this] { keep_watchdog_quiet(); });
    }

    void end(int signal) {
        if (is_ending_) return;
        is_ending_ = true;
        log_.write(log::LogLevel::info, "stopping", "ends by a signal",
                   {{"signal", static_cast<std::int64_t>(signal)}});
        systemd::notify("STOPPING=1");
        end_.call_at(std::chrono::steady_clock::now() + end_limit, [this] { loop_.stop(); });
        service_->stop([this] { loop_.stop(); });
    }

    DaemonOptions const& options_;
    InfoConfiguration const& configuration_;
    log::Log& log_;
    net::Loop loop_{1};
    observe::SequenceFile sequence_file_;
    net::Timer watchdog_;
    net::Timer end_;
    Listeners listeners_;
    info::Feed* feed_ = nullptr;
    Service* service_ = nullptr;
    std::uint64_t last_sequence_ = 0;
    std::uint64_t reserved_ = 0;
    bool is_reserving_ = false;
    bool has_told_of_sequence_ = false;
    bool is_ending_ = false;
    Result<> result_;
    observe::Worker writer_;
};

}  // namespace

Result<> run_daemon(DaemonOptions const& options) {
    (void)::signal(SIGPIPE, SIG_IGN);  // a peer that has gone is an error of its connection
    InfoConfiguration configuration = TRY(read_configuration(options.root));
    std::string const directory = options.root + "/var/triton/vminfod";
    // Two would use the same sequence numbers.
    UniqueFd const only_one = TRY(daemon::be_the_only_one(directory, "vminfod"));
    log::Log log({.level = options.log_level, .format = options.log_format, .path = {}, .console = STDERR_FILENO});
    auto program = std::make_unique<Program>(options, configuration, log, directory);
    return program->run();
}

}  // namespace triton::program
