#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string_view>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/cri/monitor/first_process.h"
#include "host/cri/monitor/monitor.h"
#include "lib/base/mount_table.h"
#include "lib/base/pipe.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"

namespace triton::cri::monitor {

namespace {

constexpr auto runtime_limit = std::chrono::minutes(2);
constexpr std::size_t most_log_bytes = 64 * 1024;
constexpr int pipe_size = 1 << 20;

std::optional<std::int64_t> parse_number(std::string_view text) {
    std::int64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end == text.data()) return std::nullopt;
    return value;
}

/// The process that the runtime has written down. Those that signals would take for many are none.
std::optional<pid_t> read_pid(std::string const& path) {
    auto const text = read_file(path, 64);
    auto const number = text ? parse_number(*text) : std::nullopt;
    if (!number || *number <= 1 || *number > INT_MAX) return std::nullopt;
    return static_cast<pid_t>(*number);
}

std::string_view without_end(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.remove_suffix(1);
    return text;
}

/// A path in the options of overlay: what separates there is escaped.
std::string escaped(std::string const& path) {
    std::string out;
    for (char const c : path) {
        if (c == ':' || c == ',' || c == '\\') out += '\\';
        out += c;
    }
    return out;
}

/// The mount point that a path is below, of those in /proc/self/mountinfo.
std::string mount_of(std::string const& path) {
    auto const mounts = read_file("/proc/self/mountinfo", 64U << 20U);
    auto const mount = mounts ? mount_above(*mounts, path) : std::nullopt;
    return mount ? unescape_mount_path(mount->point) : "/";
}

void add_children(pid_t pid, std::vector<pid_t>& found) {
    std::string const path = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children";
    auto const text = read_file(path, 1 << 20);
    if (!text) return;
    std::string_view rest = *text;
    while (auto const child = parse_number(rest)) {
        found.push_back(static_cast<pid_t>(*child));
        rest.remove_prefix(std::min(rest.size(), rest.find(' ') + 1));
    }
}

[[noreturn]] void become(std::vector<char*> const& words, int in, int out, int errors) {
    // Numbers that the others do not have are made first.
    std::array<int, 3> const high{::fcntl(in, F_DUPFD, 10), ::fcntl(out, F_DUPFD, 10), ::fcntl(errors, F_DUPFD, 10)};
    for (int i = 0; i < 3; ++i)
        ::dup2(high[static_cast<std::size_t>(i)], i);
    ::close_range(3, ~0U, 0);
    ::prctl(PR_SET_PDEATHSIG, 0);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    std::array<char*, 2> environment{path, nullptr};
    ::execve(words.front(), words.data(), environment.data());
    ::_exit(127);
}

}  // namespace

Result<pid_t> become_monitor(MonitorSettings const& settings) {
    ::setsid();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::prctl(PR_SET_DUMPABLE, 0);
    ::signal(SIGPIPE, SIG_IGN);
    ::umask(022);
    (void)!::chdir("/");
    if (UniqueFd const score{::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)})
        (void)write_all(score.get(), "-999");  // where that is not allowed, ours stays
    bool const are_mine = !settings.users.is_set();
    int const namespaces = CLONE_NEWNS | (settings.has_ipc && are_mine ? CLONE_NEWIPC : 0) |
                           (!settings.hostname.empty() && are_mine ? CLONE_NEWUTS : 0);
    if (::unshare(namespaces) != 0) return fail(errno, "make the namespaces of the pod");
    if ((namespaces & CLONE_NEWUTS) != 0 && ::sethostname(settings.hostname.data(), settings.hostname.size()) != 0)
        return fail(errno, "set the hostname of the pod");
    // What is mounted below the state stays here; other mounts keep their peers, for volumes that propagate.
    std::string const point = mount_of(settings.state);
    if (::mount(nullptr, point.c_str(), nullptr, MS_SLAVE, nullptr) != 0 &&
        ::mount(nullptr, point.c_str(), nullptr, MS_PRIVATE, nullptr) != 0)
        return fail(errno, "keep mounts below " + point);
    std::string const memory = settings.state + "/shm";
    constexpr unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (settings.has_ipc && ::mount("shm", memory.c_str(), "tmpfs", flags, "mode=1777,size=65536k") != 0)
        return fail(errno, "mount " + memory);
    if (!settings.has_pid && are_mine) return 0;
    pid_t const first = TRY(start_first_process({.place = settings.state + "/c",
                                                 .has_pid = settings.has_pid,
                                                 .users = settings.users,
                                                 .hostname = settings.hostname}));
    std::string const path = settings.state + "/first.pid";
    UniqueFd const file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    if (!file || !write_all(file.get(), std::to_string(first))) return fail(errno, "write " + path);
    return first;
}

void kill_family(pid_t pid) {
    std::vector<pid_t> family{pid};
    std::set<pid_t> seen;
    // Each is stopped before its children are listed, so that it makes no more of them.
    for (std::size_t i = 0; i < family.size() && i < 100'000; ++i) {
        if (!seen.insert(family[i]).second) continue;
        ::kill(family[i], SIGSTOP);
        add_children(family[i], family);
    }
    for (pid_t const one : seen)
        ::kill(one, SIGKILL);
}

std::int64_t count_oom_kills(std::string const& paths) {
    std::int64_t sum = 0;
    std::string_view rest = paths;
    while (!rest.empty()) {
        std::string const path(rest.substr(0, rest.find('\n')));
        rest.remove_prefix(std::min(rest.size(), path.size() + 1));
        auto const text = read_file(path, 4096);
        if (!text) continue;
        for (std::string_view const key : {"\noom_kill ", "\noom_group_kill "}) {
            std::string const lines = "\n" + *text;
            if (auto const at = lines.find(key); at != std::string::npos)
                sum += parse_number(std::string_view(lines).substr(at + key.size())).value_or(0);
        }
    }
    return sum;
}

Result<pid_t> Monitor::run_runtime(Container const& container, std::vector<std::string> const& words, int in, int out,
                                   int errors) {
    std::string const& bundle = container.settings[create_bundle];
    std::string const log = bundle + "/runtime.log";
    ::unlink(log.c_str());
    std::vector<std::string> all{container.settings[create_runtime],
                                 "--root",
                                 container.settings[create_state],
                                 "--log",
                                 log,
                                 "--cgroup-manager",
                                 container.settings[create_driver]};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> pointers;
    for (std::string& word : all)
        pointers.push_back(word.data());
    pointers.push_back(nullptr);
    UniqueFd const null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    if (!null) return fail(errno, "open /dev/null");
    pid_t const pid = ::fork();
    if (pid < 0) return fail(errno, "start " + all.front());
    if (pid == 0)
        become(pointers, in < 0 ? null.get() : in, out < 0 ? null.get() : out, errors < 0 ? null.get() : errors);
    return pid;
}

Error Monitor::runtime_error(Container const& container, int code) const {
    std::string const& program = container.settings[create_runtime];
    auto const log = read_file(container.settings[create_bundle] + "/runtime.log", most_log_bytes);
    std::string_view text = log ? without_end(*log) : std::string_view();
    text = text.substr(text.rfind('\n') + 1);
    // "2026-11-28T15:50:00.123456Z: what went wrong"
    if (auto const at = text.find("Z: "); at != std::string_view::npos && at < 40) text.remove_prefix(at + 3);
    std::string reason = text.empty() ? "it ended with " + std::to_string(code) : std::string(text.substr(0, 2048));
    return {.kind = ErrorKind::internal, .attempted = "run " + program, .reason = std::move(reason), .details = {}};
}

/// Of a pod with a user namespace: the image and the volumes are mounted once more, as that namespace sees them.
/// Returns where the image is.
Result<std::string> Monitor::map_owners(Container& container) {
    auto const& settings = container.settings;
    if (!container.is_mapped) return settings[create_lower];
    std::string const path = "/proc/" + std::to_string(first_) + "/ns/user";
    UniqueFd const users{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!users) return fail(errno, "open " + path);
    for (std::size_t i = create_texts; i < settings.size(); ++i) {
        std::string const target = mapped_volume(settings[create_bundle], i - create_texts);
        bool const has_mapping = settings[i].starts_with(volume_mapped);
        TRY(mount_mapped(settings[i].substr(1), target, has_mapping ? users.get() : -1));
        container.mounts.push_back(target);
    }
    std::string lower = settings[create_bundle] + "/lower";
    TRY(mount_mapped(settings[create_lower], lower, users.get()));
    container.mounts.push_back(lower);
    return lower;
}

/// The root of a container: the image below, its own files above. Only this namespace has it.
Result<> Monitor::mount_root(Container& container) {
    auto const& settings = container.settings;
    if (settings[create_lower].empty()) return {};
    std::string const target = settings[create_bundle] + "/rootfs";
    std::string const lower = TRY(map_owners(container));
    std::string const options = "lowerdir=" + escaped(lower) + ",upperdir=" + escaped(settings[create_upper]) +
                                ",workdir=" + escaped(settings[create_work]);
    for (char const* const more : {",volatile", ""}) {
        if (::mount("overlay", target.c_str(), "overlay", 0, (options + more).c_str()) == 0) {
            container.mounts.push_back(target);
            return {};
        }
    }
    return fail(errno, "mount the root of container " + container.id + " on " + target);
}

// --- Requests

void Monitor::create(Client client, Message& request) {
    if (request.texts.size() < create_texts || find(request.container) || ending_)
        return answer(client, request.sequence, fail(ErrorKind::invalid, "the monitor cannot make such a container"));
    Container& container = containers_[request.container];
    container.id = request.container;
    container.settings = std::move(request.texts);
    container.wanted = request.numbers[0];
    container.is_mapped = first_ != 0 && request.numbers[1] != 0;
    auto const pid = begin_container(container);
    if (pid)
        return jobs_.push_back(
            {Kind::create, client, request.sequence, request.container, *pid, steady_now() + runtime_limit});
    answer(client, request.sequence, std::unexpected(pid.error()));
    destroyed(request.container);
}

Result<pid_t> Monitor::begin_container(Container& container) {
    container.log = TRY(ContainerLog::open(container.settings[create_log]));
    TRY(mount_root(container));
    std::string const bundle = container.settings[create_bundle];
    std::vector<std::string> words{"create", "--bundle", bundle, "--pid-file", bundle + "/pid"};
    if ((container.wanted & stream_terminal) != 0) {
        container.console = TRY(ConsoleSocket::create(state_));
        words.insert(words.end(), {"--console-socket", container.console.path(), container.id});
        return run_runtime(container, words, -1, -1, -1);
    }
    words.push_back(container.id);
    Pipe output = TRY(make_pipe());
    Pipe errors = TRY(make_pipe());
    for (Pipe const* pipe : {&output, &errors}) {
        ::fcntl(pipe->reader.get(), F_SETFL, O_NONBLOCK);
        ::fcntl(pipe->reader.get(), F_SETPIPE_SZ, pipe_size);
    }
    Pipe input;
    if ((container.wanted & stream_input) != 0) {
        input = TRY(make_pipe());
        ::fcntl(input.writer.get(), F_SETFL, O_NONBLOCK);
    }
    pid_t const pid = TRY(run_runtime(container, words, input.reader ? input.reader.get() : -1, output.writer.get(),
                                      errors.writer.get()));
    container.output = {std::move(output.reader), &container.log->output()};
    container.errors = {std::move(errors.reader), &container.log->errors()};
    if (input.writer)
        container.streams.set_input(std::move(input.writer), false, (container.wanted & stream_input_once) != 0);
    return pid;
}

/// The runtime has made the terminal: one descriptor is what the container writes, another its input.
Result<> Monitor::adopt_terminal(Container& container) {
    if (!container.console) return {};
    container.terminal = TRY(container.console.take());
    container.console = {};
    container.output = {UniqueFd{::fcntl(container.terminal.get(), F_DUPFD_CLOEXEC, 0)}, &container.log->output()};
    if ((container.wanted & stream_input) != 0)
        container.streams.set_input(UniqueFd{::fcntl(container.terminal.get(), F_DUPFD_CLOEXEC, 0)}, true, false);
    return {};
}

void Monitor::created(Job const& job, Container& container, int code) {
    auto const pid = code == 0 ? read_pid(container.settings[create_bundle] + "/pid") : std::nullopt;
    if (!pid) {
        answer(job.client, job.sequence, std::unexpected(runtime_error(container, code)));
        return destroyed(job.container);
    }
    if (auto const adopted = adopt_terminal(container); !adopted) {
        answer(job.client, job.sequence, std::unexpected(adopted.error()));
        container.pid = *pid;  // is killed
        return destroyed(job.container);
    }
    container.pid = *pid;
    container.phase = phase_created;
    answer(job.client, job.sequence, *pid);
}

void Monitor::start(Client client, Message const& request) {
    Container* const container = find(request.container);
    if (!container || container->phase != phase_created)
        return answer(client, request.sequence, fail(ErrorKind::refused, "the container does not wait for its start"));
    container->oom_before = count_oom_kills(container->settings[create_oom]);
    auto const pid = run_runtime(*container, {"start", container->id}, -1, -1, -1);
    if (!pid) return answer(client, request.sequence, std::unexpected(pid.error()));
    jobs_.push_back({Kind::start, client, request.sequence, request.container, *pid, steady_now() + runtime_limit});
}

/// Its process was not reaped, so that the number is still its own.
void Monitor::signal(Client client, Message const& request) {
    Container const* const container = find(request.container);
    bool const is_alive = container && (container->phase == phase_created || container->phase == phase_running);
    int const signo = static_cast<int>(request.numbers[0]);
    if (is_alive && ::kill(container->pid, signo) != 0)
        return answer(client, request.sequence, fail(errno, "signal container " + request.container));
    answer(client, request.sequence, is_alive ? 1 : 0);
}

void Monitor::destroy(Client client, Message const& request) {
    Container* const container = find(request.container);
    if (!container) return answer(client, request.sequence, 0);
    auto const pid = run_runtime(*container, {"delete", "--force", container->id}, -1, -1, -1);
    if (!pid) return answer(client, request.sequence, std::unexpected(pid.error()));
    jobs_.push_back({Kind::destroy, client, request.sequence, request.container, *pid, steady_now() + runtime_limit});
}

void Monitor::destroyed(std::string const& id) {
    Container* const container = find(id);
    if (!container) return;
    for (auto mount = container->mounts.rbegin(); mount != container->mounts.rend(); ++mount)
        ::umount2(mount->c_str(), MNT_DETACH);
    if (container->pid != 0 && container->phase != phase_exited) ::kill(container->pid, SIGKILL);
    sessions_.container_removed(container->streams);
    containers_.erase(id);
}

void Monitor::execute(Client client, Received& received) {
    Message const& request = received.message;
    Container* const container = find(request.container);
    if (!container || container->phase != phase_running)
        return answer(client, request.sequence,
                      fail(ErrorKind::refused, "container " + request.container + " does not run"));
    if (request.texts.size() != execute_texts || received.descriptors.size() != 2)
        return answer(client, request.sequence, fail(ErrorKind::invalid, "the monitor cannot execute that"));
    std::string const pid_file = request.texts[execute_process] + ".pid";
    auto const pid = run_runtime(
        *container,
        {"exec", "--detach", "--pid-file", pid_file, "--process", request.texts[execute_process], container->id}, -1,
        received.descriptors[0].get(), received.descriptors[1].get());
    if (!pid) return answer(client, request.sequence, std::unexpected(pid.error()));
    jobs_.push_back(
        {Kind::execute, client, request.sequence, request.container, *pid, steady_now() + runtime_limit, pid_file});
}

Result<> Monitor::start_command(std::uint64_t session, std::string const& container, std::string const& process,
                                StreamEnds const& streams, std::string const& console) {
    Container* const found = find(container);
    if (!found) return fail(ErrorKind::refused, "container " + container + " does not run");
    std::string const pid_file = process + ".pid";
    std::vector<std::string> words{"exec", "--detach", "--pid-file", pid_file, "--process", process};
    if (!console.empty()) words.insert(words.end(), {"--tty", "--console-socket", console});
    words.push_back(found->id);
    auto const number = [](UniqueFd const& end) { return end ? end.get() : -1; };
    pid_t const pid =
        TRY(run_runtime(*found, words, number(streams.input), number(streams.output), number(streams.errors)));
    jobs_.push_back({Kind::execute, 0, 0, container, pid, steady_now() + runtime_limit, pid_file});
    jobs_.back().session = session;
    return {};
}

/// To whoever waits for the end of a job.
void Monitor::report(Job const& job, Result<std::int64_t> const& result) {
    if (job.session == 0) return answer(job.client, job.sequence, result);
    ::unlink(job.pid_file.c_str());
    ::unlink(job.pid_file.substr(0, job.pid_file.size() - (sizeof ".pid" - 1)).c_str());
    sessions_.command_ended(job.session, result);
}

void Monitor::abort(Client client, Message const& request) {
    for (Job& job : jobs_) {
        if (job.kind != Kind::execute || job.client != client ||
            job.sequence != static_cast<std::uint64_t>(request.numbers[0]))
            continue;
        // While the runtime starts it nobody knows yet which process it is: it is killed as soon as that is known.
        job.is_aborted = true;
        if (job.command) kill_family(job.command);
    }
    answer(client, request.sequence, 0);
}

void Monitor::end(Client client, Message const& request) {
    ending_ = {client, request.sequence};
    std::vector<std::string> ids;
    for (auto const& [id, container] : containers_)
        ids.push_back(id);
    for (std::string const& id : ids) {
        Message one{.kind = Kind::destroy, .sequence = 0, .container = id};
        destroy(0, one);
    }
    finish_end();
}

void Monitor::finish_end() {
    if (!ending_ || !containers_.empty() || !jobs_.empty()) return;
    if (first_ != 0) {
        ::kill(first_, SIGKILL);
        // It ends after all others of its namespace, and those of them that are our children are ours to reap.
        for (pid_t ended = 0; ended != first_ && (ended >= 0 || errno == EINTR);)
            ended = ::waitpid(-1, nullptr, 0);
        first_ = 0;
    }
    answer(ending_->first, ending_->second, 0);
    is_over_ = true;
}

void Monitor::job_ended(Job job, int status) {
    std::string const& id = job.container;
    Container* const container = find(id);
    int const code = exit_code_of(status);
    if (!container) {
        report(job, fail(ErrorKind::refused, "container " + id + " was removed"));
    } else if (job.kind == Kind::create) {
        created(job, *container, code);
    } else if (job.kind == Kind::start) {
        if (status == 0 && container->phase == phase_created) container->phase = phase_running;
        answer(job.client, job.sequence,
               status == 0 ? Result<std::int64_t>(0) : std::unexpected(runtime_error(*container, code)));
    } else if (job.kind == Kind::destroy) {
        auto const error = runtime_error(*container, code);
        bool const is_done = status == 0 || error.reason.find("does not exist") != std::string::npos ||
                             error.reason.find("No such file") != std::string::npos;
        if (is_done || ending_) destroyed(id);
        answer(job.client, job.sequence, is_done ? Result<std::int64_t>(0) : std::unexpected(error));
    } else if (job.kind == Kind::execute) {
        auto const pid = code == 0 ? read_pid(job.pid_file) : std::nullopt;
        auto const current = std::ranges::find(jobs_, job.pid, &Job::pid);
        if (pid && current != jobs_.end()) {
            current->command = *pid;
            if (current->is_aborted) kill_family(current->command);
            if (job.session != 0) sessions_.command_started(job.session);
            return;
        }
        if (current != jobs_.end()) jobs_.erase(current);
        report(job, std::unexpected(runtime_error(*container, code)));
    }
    finish_end();
}

void Monitor::command_ended(Job const& job, int status) {
    report(job, exit_code_of(status));
    finish_end();
}

}  // namespace triton::cri::monitor
