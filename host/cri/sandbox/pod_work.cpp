#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/cri/cni/network_namespace.h"
#include "host/cri/container/name_service.h"
#include "host/cri/sandbox/pods.h"
#include "host/cri/sandbox/records_store.h"
#include "host/cri/sandbox/user_namespace.h"
#include "lib/base/read_file.h"
#include "lib/process/run_command.h"

namespace triton::cri {

namespace {

constexpr auto monitor_limit = std::chrono::seconds(30);
constexpr auto end_limit = std::chrono::seconds(10);
constexpr std::size_t most_pid_bytes = 32;

Result<UniqueFd> bind_for_monitor(std::string const& run) {
    UniqueFd const directory{::open(run.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!directory) return fail(errno, "open " + run);
    ::unlinkat(directory.get(), "monitor.sock", 0);
    UniqueFd socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) return fail(errno, "make a socket");
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::string const path = "/proc/self/fd/" + std::to_string(directory.get()) + "/monitor.sock";
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    if (::bind(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        return fail(errno, "bind a socket to " + run + "/monitor.sock");
    return socket;
}

Result<> write_pod_files(std::string const& run, record::Pod const& pod) {
    if (pod.config().has_dns_config()) {
        std::string const text = TRY(resolver_text(pod.config().dns_config()));
        TRY(write_file(run + "/resolv.conf", text, false, readable_by_all));
    } else {
        std::error_code error;  // a host without one has no names
        std::filesystem::copy_file("/etc/resolv.conf", run + "/resolv.conf",
                                   std::filesystem::copy_options::overwrite_existing, error);
        ::chmod((run + "/resolv.conf").c_str(), readable_by_all);
    }
    TRY(write_file(run + "/hostname", pod.hostname() + "\n", false, readable_by_all));
    if (!is_host_network(pod.config())) return {};
    std::error_code error;
    std::filesystem::copy_file("/etc/hosts", run + "/hosts", std::filesystem::copy_options::overwrite_existing, error);
    if (error) return write_file(run + "/hosts", hosts_text(pod.hostname(), {}), false, readable_by_all);
    ::chmod((run + "/hosts").c_str(), readable_by_all);
    return {};
}

Result<> start_monitor(HostFacts const& facts, std::string const& run, record::Pod const& pod, int listener) {
    auto const& options = pod.config().linux().security_context().namespace_options();
    bool const has_ipc = options.ipc() != v1::NODE;
    bool const has_pid = options.pid() == v1::POD;
    auto const users = TRY(user_mapping_of(pod.config()));
    std::string const hostname = is_host_network(pod.config()) ? "" : pod.hostname();
    auto const ended =
        TRY(process::run_command({.arguments = {facts.settings.monitor, run, has_ipc ? "ipc" : "", has_pid ? "pid" : "",
                                                hostname, monitor::mapping_text(users)},
                                  .descriptors = {listener},
                                  .timeout = monitor_limit}));
    if (ended.is_ok()) return {};
    return fail(
        ErrorKind::internal, "start the monitor of pod " + pod.id(),
        ended.errors.empty() ? "it ended with " + std::to_string(ended.exit_code) : ended.errors.substr(0, 1024));
}

/// Waits until a process has ended.
bool wait_for_end(int pid, std::chrono::milliseconds limit) {
    UniqueFd const process{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
    if (!process) return true;
    pollfd one{process.get(), POLLIN, 0};
    return ::poll(&one, 1, static_cast<int>(limit.count())) > 0;
}

}  // namespace

bool is_host_network(v1::PodSandboxConfig const& config) {
    return config.linux().security_context().namespace_options().network() == v1::NODE;
}

Result<UniqueFd> make_pod(HostFacts const& facts, record::Pod const& pod) {
    TRY(save(facts.places, pod, true));
    std::string const run = facts.places.run(pod.id());
    TRY(make_directories(run + "/c"));
    TRY(make_directories(run + "/shm"));
    TRY(make_directories(facts.places.runtime()));
    TRY(write_pod_files(run, pod));
    bool const has_users = TRY(user_mapping_of(pod.config())).is_set();
    // The monitor's mounts are those of this moment, and the pin is one of them.
    if (!is_host_network(pod.config()) && !has_users) TRY(make_pod_namespace(facts, pod, ""));
    {
        UniqueFd const listener = TRY(bind_for_monitor(run));
        TRY(start_monitor(facts, run, pod, listener.get()));
    }
    UniqueFd socket = TRY(connect_to_monitor(run));
    TRY(ask_for_table(socket.get(), monitor_limit));
    if (has_users) TRY(make_pod_namespace(facts, pod, TRY(first_process_namespaces(facts, pod.id())) + "net"));
    return socket;
}

Result<std::string> first_process_namespaces(HostFacts const& facts, std::string const& pod) {
    return "/proc/" + TRY(read_file(facts.places.run(pod) + "/first.pid", most_pid_bytes)) + "/ns/";
}

/// The monitor, if it is still there. What it has started is killed by its groups.
void remove_pod_processes(HostFacts const& facts, std::string const& pod) {
    auto const socket = connect_to_monitor(facts.places.run(pod));
    if (!socket) return;
    auto const pid = monitor_pid(socket->get());
    if (!pid || *pid <= 1 || *pid == ::getpid()) return;
    if (wait_for_end(*pid, std::chrono::milliseconds(200))) return;
    (void)monitor::send_message(socket->get(), {.kind = monitor::Kind::end});
    if (wait_for_end(*pid, end_limit)) return;
    ::kill(*pid, SIGKILL);
    wait_for_end(*pid, end_limit);
}

Result<> remove_pod_files(HostFacts const& facts, std::string const& pod) {
    remove_pod_processes(facts, pod);
    TRY(remove_network_namespace(network_namespace_path(facts, pod)));
    TRY(remove_all(facts.places.run(pod)));
    TRY(remove_all(facts.places.container_records(pod)));
    return remove_all(facts.places.record(pod));
}

}  // namespace triton::cri
