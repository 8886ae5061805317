#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "host/cri/monitor/console_socket.h"
#include "host/cri/monitor/container_log.h"
#include "host/cri/monitor/container_streams.h"
#include "host/cri/monitor/message.h"
#include "host/cri/monitor/sessions.h"
#include "host/cri/monitor/user_mapping.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::cri::monitor {

/// The parent of all processes of one pod: it starts them by the runtime's program, keeps their logs, sees how they
/// end, and tells whoever is connected. It lives as long as the pod, in a mount namespace of its own, where the roots
/// of the containers are mounted: with it they all go. One thread; it reads nothing that a container has written but
/// its output, and that it only copies.
/// Of a status as of wait(2): 128 and the signal for one that a signal has ended, as shells have it.
int exit_code_of(int status);

class Monitor : private SessionHost {
public:
    /// `listener`: a SEQPACKET socket that has its name. `state`: the directory of the pod. `first`: a child of ours,
    /// with whose end the pod has ended; 0: none. Errors: those of listen(2) and signalfd(2).
    static Result<std::unique_ptr<Monitor>> create(UniqueFd listener, std::string state, pid_t first);
    /// Until it was told to end.
    void run();

private:
    using Client = std::uint64_t;

    struct Stream {
        UniqueFd pipe;
        LogStream* lines = nullptr;
    };
    struct Container {
        std::string id;
        std::vector<std::string> settings;  // CreateText
        std::int64_t phase = phase_making;  // a ContainerPhase
        pid_t pid = 0;
        int exit_code = 0;
        std::int64_t oom_before = 0;
        bool is_oom = false;
        std::int64_t exited_at = 0;
        std::optional<ContainerLog> log;
        Stream output;
        Stream errors;
        bool is_mapped = false;  // into the user namespace of the pod
        std::vector<std::string> mounts = {};
        std::int64_t wanted = 0;  // StreamBit
        ConsoleSocket console;    // while it is being made
        UniqueFd terminal;
        ContainerStreams streams;
    };
    /// A run of the runtime's program for a request.
    struct Job {
        Kind kind;
        Client client;
        std::uint64_t sequence;
        std::string container;
        pid_t pid;
        TimePoint deadline;
        // Of `execute`:
        std::string pid_file = {};
        pid_t command = 0;  // what it has started
        bool is_aborted = false;
        std::uint64_t session = 0;  // of a command whose client is there, in place of `client` and `sequence`
    };
    struct Exit {
        pid_t pid;
        int status;
    };

    Monitor(UniqueFd listener, UniqueFd signals, std::string state, pid_t first)
        : listener_(std::move(listener)),
          signals_(std::move(signals)),
          first_(first),
          state_(state),
          sessions_(*this, std::move(state)) {}

    ContainerStreams* streams_of(std::string const& container) override;
    void resize(std::string const& container, std::int64_t width, std::int64_t height) override;
    Result<> start_command(std::uint64_t session, std::string const& container, std::string const& process,
                           StreamEnds const& streams, std::string const& console) override;
    void open_session(Client client, Received& received);

    void accept_client();
    void hear(Client client);
    void handle(Client client, Received received);
    void reap();
    void job_ended(Job job, int status);
    void command_ended(Job const& job, int status);
    void report(Job const& job, Result<std::int64_t> const& result);
    void container_ended(Container& container, int code);
    [[nodiscard]] int next_timeout() const;
    void kill_late_jobs();
    void serve_slow_clients();
    void release_memory();

    void list(Client client, Message const& request);
    void create(Client client, Message& request);
    void start(Client client, Message const& request);
    void signal(Client client, Message const& request);
    void destroy(Client client, Message const& request);
    void execute(Client client, Received& received);
    void abort(Client client, Message const& request);
    void end(Client client, Message const& request);

    void created(Job const& job, Container& container, int code);
    void destroyed(std::string const& id);
    void finish_end();

    Result<pid_t> run_runtime(Container const& container, std::vector<std::string> const& words, int in, int out,
                              int errors);
    Result<std::string> map_owners(Container& container);
    Result<> mount_root(Container& container);
    Result<pid_t> begin_container(Container& container);
    Result<> adopt_terminal(Container& container);
    void read_output(Container& container, Stream& stream, bool to_the_end);
    [[nodiscard]] Error runtime_error(Container const& container, int code) const;
    std::optional<int> take_exit(pid_t pid);
    Container* find(std::string const& id);

    void answer(Client client, std::uint64_t sequence, Result<std::int64_t> const& result);
    void send(Client client, Message const& message);
    void tell_exit(Container const& container);
    void drop(Client client);

    UniqueFd listener_;
    UniqueFd signals_;
    pid_t first_;
    std::string state_;
    PollSet polled_;
    Sessions sessions_;
    std::map<Client, UniqueFd> clients_;
    Client next_client_ = 1;
    std::vector<Client> listening_;
    std::map<std::string, Container> containers_;
    std::list<Job> jobs_;
    std::deque<Exit> exits_;  // of pids that nobody has claimed yet
    std::optional<std::pair<Client, std::uint64_t>> ending_;
    bool is_over_ = false;
    bool has_grown_ = true;  // its memory, since it was released
};

/// What the monitor itself is in, so that the containers of its pod can join it there. Of a pod with a first process
/// state/first.pid has that.
struct MonitorSettings {
    std::string state;          ///< a directory, below which roots are mounted
    bool has_ipc = false;       ///< an IPC namespace of its own, and a /dev/shm: state/shm
    std::string hostname = {};  ///< a UTS namespace of its own, with that name; empty: the host's
    bool has_pid = false;       ///< one PID namespace for all containers
    /// A user namespace. With it the namespaces of the pod are those of its first process; see FirstProcess.
    UserMapping users = {};
};

/// Becomes what a monitor is: leads a session, adopts orphans, has mounts of its own, and is what the kernel kills
/// last. Returns the first process of the pod, 0: it has none. Errors: those of unshare(2) and mount(2).
Result<pid_t> become_monitor(MonitorSettings const& settings);

/// Kills a process and all that it has started.
void kill_family(pid_t pid);

/// The sum of what files say of kills by the OOM killer: memory.events, or memory.oom_control.
std::int64_t count_oom_kills(std::string const& paths);

}  // namespace triton::cri::monitor
