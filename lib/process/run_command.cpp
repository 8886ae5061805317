#include "lib/process/run_command.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/pipe.h"
#include "lib/base/unique_fd.h"

namespace triton::process {

namespace {

constexpr std::size_t piece_size = 64 << 10;
/// How long to wait for a killed process that hangs in the kernel.
constexpr milliseconds patience_after_kill{5000};

/// One of the child's streams: what has been read from it, and where the rest comes from.
struct Stream {
    UniqueFd fd;
    std::string text;
};

/// Makes a pipe for output. Grandchildren may keep the other end open, and nobody may wait for them.
Result<Pipe> make_output_pipe() {
    Pipe pipe = TRY(make_pipe());
    (void)::fcntl(pipe.reader.get(), F_SETFL, O_NONBLOCK);
    return pipe;
}

/// The two objects of posix_spawn, which must be destroyed.
class SpawnSettings {
public:
    SpawnSettings() {
        posix_spawn_file_actions_init(&actions_);
        posix_spawnattr_init(&attributes_);
        sigset_t all;
        sigset_t none;
        sigfillset(&all);
        sigemptyset(&none);
        posix_spawnattr_setsigdefault(&attributes_, &all);
        posix_spawnattr_setsigmask(&attributes_, &none);
        posix_spawnattr_setpgroup(&attributes_, 0);
        posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~SpawnSettings() {
        posix_spawn_file_actions_destroy(&actions_);
        posix_spawnattr_destroy(&attributes_);
    }
    SpawnSettings(SpawnSettings const&) = delete;
    SpawnSettings& operator=(SpawnSettings const&) = delete;

    /// Gives the child `fds` as 0, 1, 2 and so on. They are copied out of the way first, since one may have another's
    /// number.
    Result<> give(std::vector<int> const& fds) {
        int const first_free = static_cast<int>(fds.size());
        for (int const fd : fds) {
            UniqueFd copy{::fcntl(fd, F_DUPFD_CLOEXEC, first_free)};
            if (!copy) return fail(errno, "copy a descriptor");
            copies_.push_back(std::move(copy));
        }
        for (int number = 0; UniqueFd const& copy : copies_)
            posix_spawn_file_actions_adddup2(&actions_, copy.get(), number++);
        posix_spawn_file_actions_addclosefrom_np(&actions_, first_free);
        return {};
    }

    Result<pid_t> spawn(Command const& command) {
        auto const pointers = [](std::vector<std::string> const& texts) {
            std::vector<char*> list;
            for (std::string const& text : texts)
                list.push_back(const_cast<char*>(text.c_str()));
            list.push_back(nullptr);
            return list;
        };
        std::vector<std::string> words = command.arguments;
        if (command.dies_with_us) words.insert(words.begin(), {"setpriv", "--pdeathsig", "KILL", "--"});
        auto const argv = pointers(words);
        auto const environment = command.environment ? pointers(*command.environment) : std::vector<char*>{};
        pid_t pid = -1;
        int const err = ::posix_spawnp(&pid, argv[0], &actions_, &attributes_, argv.data(),
                                       command.environment ? environment.data() : environ);
        if (err != 0) return fail(err, "execute " + command.arguments[0]);
        return pid;
    }

private:
    posix_spawn_file_actions_t actions_;
    posix_spawnattr_t attributes_;
    std::vector<UniqueFd> copies_;
};

/// A child that has not been reaped, so that its number still belongs to it.
class Running {
public:
    Running(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
    Running(Running const&) = delete;
    Running& operator=(Running const&) = delete;
    ~Running() {
        if (pid_ > 0) (void)kill_and_reap();
    }

    [[nodiscard]] int pidfd() const { return pidfd_.get(); }

    /// Kills what is left of the group, and returns how the child ended; nothing if even SIGKILL did not end it.
    std::optional<siginfo_t> kill_and_reap() {
        ::kill(-pid_, SIGKILL);
        pollfd ended{pidfd_.get(), POLLIN, 0};
        int ready = 0;
        do
            ready = ::poll(&ended, 1, static_cast<int>(patience_after_kill.count()));
        while (ready < 0 && errno == EINTR);
        siginfo_t how{};
        pid_t const pid = std::exchange(pid_, -1);
        if (ready <= 0 || ::waitid(P_PID, static_cast<id_t>(pid), &how, WEXITED) != 0) return std::nullopt;
        return how;
    }

private:
    pid_t pid_;
    UniqueFd pidfd_;
};

/// Reads what is there now, and closes the stream at the end of file. Bounded by what a pipe holds at once.
void read_some(Stream& stream, std::size_t most, bool& is_whole) {
    std::array<char, piece_size> piece;
    ssize_t const size = ::read(stream.fd.get(), piece.data(), piece.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
        stream.fd = UniqueFd{};
        return;
    }
    std::size_t const kept = std::min(static_cast<std::size_t>(size), most - std::min(most, stream.text.size()));
    stream.text.append(piece.data(), kept);
    is_whole = is_whole && kept == static_cast<std::size_t>(size);
}

class Waiting {
public:
    Waiting(Command const& command, Stream out, Stream err)
        : command_(command), streams_{std::move(out), std::move(err)} {
        if (command.timeout) deadline_ = std::chrono::steady_clock::now() + *command.timeout;
    }

    Result<Completed> wait(Running& child) {
        while (true) {
            std::array<pollfd, 4> fds{{{child.pidfd(), POLLIN, 0},
                                       {streams_[0].fd.get(), POLLIN, 0},
                                       {streams_[1].fd.get(), POLLIN, 0},
                                       {command_.cancel, POLLIN, 0}}};
            int const ready = ::poll(fds.data(), fds.size(), time_left());
            if (ready < 0 && errno != EINTR) return fail(errno, "wait for " + command_.arguments[0]);
            if (ready == 0) return out_of_time();
            for (std::size_t i = 0; ready > 0 && i < streams_.size(); ++i)
                if (fds[i + 1].revents != 0) read_some(streams_[i], command_.most_output, completed_.is_whole);
            if (ready > 0 && fds[0].revents != 0) return complete(child);
            if (ready > 0 && fds[3].revents != 0) return fail(ErrorKind::refused, "cancelled");
        }
    }

private:
    /// The time left in milliseconds, rounded up; -1: no limit.
    [[nodiscard]] int time_left() const {
        if (!deadline_) return -1;
        auto const left = std::chrono::ceil<milliseconds>(*deadline_ - std::chrono::steady_clock::now());
        return static_cast<int>(std::clamp<milliseconds::rep>(left.count(), 0, 1 << 30));
    }

    [[nodiscard]] std::unexpected<Error> out_of_time() const {
        auto const count = command_.timeout->count();
        std::string const limit =
            count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
        return fail(ErrorKind::timeout, "run " + command_.arguments[0], "did not end within " + limit);
    }

    /// The pipes hold what the child wrote before its end, and nothing more can come from it.
    Result<Completed> complete(Running& child) {
        auto const how = child.kill_and_reap();
        if (!how)
            return fail(ErrorKind::internal, "wait for " + command_.arguments[0], "its exit status is not available");
        for (Stream& stream : streams_)
            for (std::size_t round = 0; stream.fd && round < 64; ++round) {
                std::size_t const before = stream.text.size();
                bool const was_whole = completed_.is_whole;
                read_some(stream, command_.most_output, completed_.is_whole);
                if (stream.text.size() == before && was_whole == completed_.is_whole) break;
            }
        if (how->si_code == CLD_EXITED)
            completed_.exit_code = how->si_status;
        else
            completed_.signal = how->si_status;
        completed_.output = std::move(streams_[0].text);
        completed_.errors = std::move(streams_[1].text);
        return std::move(completed_);
    }

    Command const& command_;
    std::array<Stream, 2> streams_;
    std::optional<TimePoint> deadline_;
    Completed completed_;
};

}  // namespace

Result<Completed> run_command(Command const& command) {
    UniqueFd const null{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    if (!null) return fail(errno, "open /dev/null");
    Pipe out;
    if (command.out < 0) out = TRY(make_output_pipe());
    Pipe err = TRY(make_output_pipe());

    std::vector<int> fds{command.in < 0 ? null.get() : command.in, command.out < 0 ? out.writer.get() : command.out,
                         err.writer.get()};
    fds.insert(fds.end(), command.descriptors.begin(), command.descriptors.end());
    SpawnSettings settings;
    TRY(settings.give(fds));
    pid_t const pid = TRY(settings.spawn(command));
    // Nothing else in this program reaps the child, so the number is still its own.
    Running child(pid, UniqueFd{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))});
    if (child.pidfd() < 0) return fail(errno, "watch " + command.arguments[0]);
    out.writer = UniqueFd{};
    err.writer = UniqueFd{};
    return Waiting(command, {std::move(out.reader), {}}, {std::move(err.reader), {}}).wait(child);
}

}  // namespace triton::process
