#include "host/observe/zfs_watch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/observe/zfs_event_text.h"
#include "lib/base/clock.h"
#include "lib/base/pipe.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

extern char** environ;

namespace triton::observe {

namespace {

struct Child {
    pid_t pid = -1;
    UniqueFd output;
};

/// Starts the program with a pipe as its standard output, and nothing else.
Result<Child> start_child(std::string const& program) {
    Pipe pipe = TRY(make_pipe());
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, pipe.writer.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t defaults;
    ::sigemptyset(&defaults);
    ::sigaddset(&defaults, SIGPIPE);  // so that it ends when nobody reads any more
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    std::array<std::string, 5> words{program, "events", "-f", "-H", "-v"};
    std::array<char*, 6> argv{};
    std::ranges::transform(words, argv.begin(), [](std::string& word) { return word.data(); });
    Child child;
    int const err = ::posix_spawnp(&child.pid, program.c_str(), &actions, &attributes, argv.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    if (err != 0) return fail(err, "run " + program + " events");
    child.output = std::move(pipe.reader);
    (void)::fcntl(child.output.get(), F_SETFL, O_NONBLOCK);  // nobody else has this end
    return child;
}

}  // namespace

struct ZfsWatch::State : std::enable_shared_from_this<State> {
    State(net::Loop& runs_in, Settings chosen, Notices to)
        : loop(runs_in),
          settings(std::move(chosen)),
          notices(std::move(to)),
          timer(runs_in),
          pause(settings.first_pause) {}

    net::Loop& loop;
    Settings settings;
    Notices notices;
    net::Timer timer;
    Duration pause;
    pid_t child = -1;
    TimePoint since;
    std::shared_ptr<net::Descriptor> output;
    std::string trouble;
    bool is_ended = false;
    std::uint64_t events = 0;
    std::uint64_t losses = 0;

    void begin() {
        auto started = start_child(settings.program);
        if (!started) return retry(started.error().text());
        child = started->pid;
        since = steady_now();
        output = std::make_shared<net::Descriptor>(loop, std::move(started->output));
        trouble.clear();
        net::spawn(loop, listen(shared_from_this()));
    }

    void retry(std::string why) {
        trouble = std::move(why);
        timer.call_at(steady_now() + pause, [this] { begin(); });
        pause = std::min(2 * pause, settings.longest_pause);
    }

    static net::Task<> listen(std::shared_ptr<State> self) {
        auto const output = self->output;
        ZfsEventText text;
        while (co_await output->wait_readable()) {
            std::array<char, 65536> buffer;
            ssize_t const got = ::read(output->fd(), buffer.data(), buffer.size());
            if (self->is_ended) co_return;
            if (got == 0) break;
            if (got < 0) continue;
            text.take({buffer.data(), static_cast<std::size_t>(got)}, {[&](Uuid const& machine) {
                                                                           ++self->events;
                                                                           self->notices.machine(machine);
                                                                       },
                                                                       [&] { self->lose("ZFS has dropped events"); }});
            self->notices.heard();
            co_await net::yield(self->loop);
        }
        if (!self->is_ended) self->has_ended();
    }

    void lose(std::string_view why) {
        ++losses;
        notices.lost(why);
    }

    void has_ended() {
        output.reset();
        end_child();
        bool const was_short = steady_now() < since + settings.short_life;
        if (!was_short) {
            pause = settings.first_pause;
            lose("zpool events has ended");
            notices.heard();
        }
        retry(settings.program + " events has ended");
    }

    void end_child() {
        if (child <= 0) return;
        (void)::kill(child, SIGKILL);
        (void)::waitpid(child, nullptr, 0);  // it is dead, so this does not take long
        child = -1;
    }

    void end() {
        is_ended = true;
        timer.cancel();
        if (output) output->close();
        end_child();
    }
};

ZfsWatch::ZfsWatch(net::Loop& loop, Settings settings, Notices notices)
    : state_(std::make_shared<State>(loop, std::move(settings), std::move(notices))) {}
ZfsWatch::~ZfsWatch() { state_->end(); }
void ZfsWatch::start() { state_->begin(); }
bool ZfsWatch::is_working() const { return state_->output != nullptr; }
std::string const& ZfsWatch::trouble() const { return state_->trouble; }
std::uint64_t ZfsWatch::events() const { return state_->events; }
std::uint64_t ZfsWatch::losses() const { return state_->losses; }

}  // namespace triton::observe
