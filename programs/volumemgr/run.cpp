#include "programs/volumemgr/run.h"

#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "host/content/store.h"
#include "host/systemd/daemon.h"
#include "host/volume/keep/uses.h"
#include "lib/base/path_watcher.h"
#include "lib/daemon/sole_instance.h"
#include "lib/varlink/server.h"
#include "programs/volumemgr/published_files.h"
#include "programs/volumemgr/service.h"

namespace triton::program {

namespace {

/// 1,000 watchers, and publishers of large sets; a call of a hostile one costs no more than this.
varlink::Limits const limits{
    .roles = {{.sessions = 1200, .input_bytes = 1 << 20, .output_bytes = 256 << 10, .values = 32'768, .reserved = 16}},
    .work = 4096,
    .stream_bytes = 64 << 10};

void allow_all_descriptors() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);  // if this fails, connections give way earlier
}

/// The parts of the program and their connections.
class Program {
public:
    Program(ManagerOptions const& options, log::Log& log, EventLoop& loop)
        : options_(options),
          log_(log),
          loop_(loop),
          server_timer_(loop, [this] { server_->enter([this] { server_->time_passed(); }); }),
          idle_timer_(loop, [this] { end_if_idle(); }),
          watchdog_(loop, [this] { keep_watchdog_quiet(); }),
          workers_timer_(loop, [this] { replace_stuck_workers(); }) {}

    Result<> run() {
        volume::Place place = TRY(volume::read_place(options_.root));
        configuration_ = TRY(read_volumes_configuration(place.settings.root));
        volume::AllRows rows;
        {
            auto store = TRY(content::Store::open(place.site.content));
            auto kept = TRY(volume::Rows::open(store.database()));
            rows = TRY(kept.load());
            place.epoch = TRY(kept.epoch());
        }
        published_directory_ = place.settings.root + "/etc/triton/volumes.d";
        uses_file_ = place.links + "/" + std::string(volume::uses_file_name);
        mailbox_ = TRY(Mailbox::create(loop_));
        keeper_ = std::make_unique<Keeper>(*mailbox_, place.site.content + "/content.db");
        workers_ = std::make_unique<Workers>(*mailbox_, place, configuration_.stuck_after);
        TRY(keeper_->start());
        TRY(workers_->start(configuration_.workers));
        manager_ =
            std::make_unique<Manager>(loop_, log_, options_.settings(configuration_), board_, *keeper_, *workers_);
        service_ = std::make_unique<VolumesService>(*manager_, board_, log_);
        loop_.set_round_end([this] { end_round(); });
        TRY(watch_signals());
        manager_->begin(std::move(rows), [this] {
            result_ = open_doors();
            if (!result_) loop_.stop();
        });
        keep_watchdog_quiet();
        TRY(loop_.run());
        TRY(std::move(result_));
        systemd::notify("STOPPING=1");
        // Workers may hang in system calls as long as disks and servers decide: nobody waits for them.
        log_.drain(std::chrono::seconds(1));
        ::_exit(0);
    }

private:
    /// Called when what was there is known.
    Result<> open_doors() {
        server_ = TRY(varlink::Server::create(loop_, TRY(where_to_listen()), *service_, limits));
        service_->use(*server_);
        TRY(watch_files());
        publish_files();
        systemd::notify("READY=1\nSTATUS=serving");
        log_.write(log::LogLevel::info, "serving", "volumes of this host");
        return {};
    }

    Result<varlink::Settings> where_to_listen() {
        for (systemd::HandedSocket& handed : TRY(systemd::take_sockets())) {
            if (!handed.is_unix) continue;
            varlink::Settings settings{.path = "volumemgr.socket"};
            settings.adopted = varlink::HandedSocket{handed.fd.release(), 0, 0};  // the file is systemd's
            return settings;
        }
        std::string const usual = options_.root + "/run/triton/volumemgr.socket";
        return varlink::Settings{.path = options_.socket.empty() ? usual : options_.socket};
    }

    Result<> watch_signals() {
        sigset_t signals;
        ::sigemptyset(&signals);
        ::sigaddset(&signals, SIGTERM);
        ::sigaddset(&signals, SIGINT);
        signals_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
        if (!signals_) return fail(errno, "make a signalfd");
        signal_watch_ = TRY(loop_.on_readable(signals_.get(), [this] { loop_.stop(); }));
        return {};
    }

    Result<> watch_files() {
        watcher_.emplace(TRY(PathWatcher::create()));
        (void)look_at_files();
        file_watch_ = TRY(loop_.on_readable(
            watcher_->fd(),
            [this] {
                for (std::size_t const changed : look_at_files())
                    changed == 0 ? publish_files() : manager_->follow_machines();
            }));
        manager_->follow_machines();
        return {};
    }

    /// Which of the watched paths may have changed.
    std::vector<std::size_t> look_at_files() {
        std::vector<std::size_t> changed = watcher_->take_changes();
        auto const watched = watcher_->watch({published_directory_, uses_file_});
        if (!watched) log_.write(log::LogLevel::warning, "not-watched", watched.error().text());
        return changed;
    }

    /// What the files say now is everything that their publisher wants.
    void publish_files() {
        auto configs = read_published_files(published_directory_);
        if (!configs) return log_.write(log::LogLevel::error, "bad-files", configs.error().text());
        manager_->restart("files");
        manager_->put(*std::move(configs), [this](Result<> const& done) {
            if (!done) return log_.write(log::LogLevel::error, "bad-files", done.error().text());
            manager_->complete("files");
        });
    }

    void end_round() {
        manager_->end_round();
        log_.flush();
        if (!server_) return;
        server_->enter([this] {
            server_->end_round();
            service_->end_round();
        });
        manager_->end_round();  // with what the calls have asked for
        server_timer_.arm(server_->next_deadline());
        bool const works = workers_->is_busy();
        if (!works) workers_timer_.disarm();
        if (works && !workers_timer_.is_armed()) workers_timer_.arm(loop_.now() + configuration_.stuck_after / 2);
        bool const is_idle = manager_->is_settled() && server_->is_idle();
        if (!is_idle)
            idle_timer_.disarm();
        else if (!idle_timer_.is_armed())
            idle_timer_.arm(loop_.now() + options_.idle_time(configuration_));
        log_.flush();
    }

    /// Nobody waits for a worker that a disk or a server holds: another one takes the jobs that wait.
    void replace_stuck_workers() {
        auto const replaced = workers_->replace_stuck();
        if (!replaced) log_.write(log::LogLevel::error, "no-worker", replaced.error().text());
        if (replaced && *replaced > 0)
            log_.write(log::LogLevel::warning, "worker-stuck",
                       std::to_string(workers_->stuck()) + " workers have given no sign for " +
                           std::to_string(configuration_.stuck_after.count()) + " ms; others take their place");
    }

    void end_if_idle() {
        if (!manager_->is_settled() || !server_->is_idle()) return;
        log_.write(log::LogLevel::info, "idle", "there is nothing to do");
        loop_.stop();
    }

    void keep_watchdog_quiet() {
        auto const limit = systemd::watchdog_limit();
        if (!limit) return;
        systemd::notify("WATCHDOG=1");
        watchdog_.arm(steady_now() + *limit / 2);
    }

    ManagerOptions const& options_;
    VolumesConfiguration configuration_;
    log::Log& log_;
    EventLoop& loop_;
    Board board_;
    std::string published_directory_;
    std::string uses_file_;  // written after each change of what machines hold
    std::unique_ptr<Mailbox> mailbox_;
    std::unique_ptr<Keeper> keeper_;
    std::unique_ptr<Workers> workers_;
    std::unique_ptr<Manager> manager_;
    std::unique_ptr<VolumesService> service_;
    std::unique_ptr<varlink::Server> server_;
    EventLoop::Timer server_timer_;
    EventLoop::Timer idle_timer_;
    EventLoop::Timer watchdog_;
    EventLoop::Timer workers_timer_;
    UniqueFd signals_;
    EventLoop::Watch signal_watch_;
    std::optional<PathWatcher> watcher_;
    EventLoop::Watch file_watch_;
    Result<> result_;
};

}  // namespace

Result<> run_manager(ManagerOptions const& options) {
    (void)::signal(SIGPIPE, SIG_IGN);  // a peer that has gone is an error of its connection
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGINT);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);  // before any thread
    allow_all_descriptors();
    UniqueFd const only_one = TRY(daemon::be_the_only_one(options.root + "/run/triton/volumemgr", "volumemgr"));
    log::Log log({.level = options.log_level, .format = options.log_format, .path = {}, .console = STDERR_FILENO});
    auto const loop = TRY(EventLoop::create());
    auto program = std::make_unique<Program>(options, log, *loop);
    return program->run();
}

}  // namespace triton::program
