#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "host/cri/container/oci_spec.h"
#include "host/cri/core/core.h"
#include "host/cri/images/workers.h"
#include "host/cri/monitor/user_mapping.h"
#include "host/cri/sandbox/cgroups.h"
#include "host/cri/sandbox/images_in_use.h"
#include "host/cri/sandbox/monitor_link.h"
#include "host/cri/sandbox/places.h"
#include "host/cri/sandbox/pod_service.h"
#include "host/cri/sandbox/stats.h"
#include "host/cri/sandbox/stored_pod.h"
#include "host/cri/sandbox/stream_calls.h"
#include "host/cri/wire/router.h"
#include "lib/base/unique_fd.h"
#include "lib/net/loop.h"

namespace triton::cri {

/// What is known of a pod beside what the core decides about.
struct PodData {
    record::Pod record;
    std::shared_ptr<MonitorLink> link = {};
    CpuSample sample = {};
};
/// A call that changes the limits of a container.
struct LimitChange {
    core::Ticket ticket;
    v1::LinuxContainerResources resources;
};
struct ContainerData {
    record::Container record;
    int pid = 0;
    std::string image_tree = {};
    CpuSample sample = {};
    std::deque<LimitChange> changes = {};  ///< calls that wait, the oldest first
};

/// What work in another thread needs, copied. The host's part never changes.
struct HostFacts {
    PodSettings settings;
    Places places;
    Cgroups cgroups;
    bool is_unified = false;
    process::CapabilitySet capabilities = 0;
    std::int64_t lowest_oom_score = -1000;
};

/// A container that is ready to be made by the runtime.
struct PreparedContainer {
    record::Container record;
    std::string image_tree;
    monitor::UserMapping users = {};
    std::vector<std::string> mapped = {};  ///< volumes; see ContainerVolumes
};

// Pieces of work. They block, may be called from any thread, and can be repeated.
Result<UniqueFd> make_pod(HostFacts const& facts, record::Pod const& pod);
std::string network_namespace_path(HostFacts const& facts, std::string const& pod);
/// `existing`: path of a network namespace that it gets in place of a new one.
Result<> make_pod_namespace(HostFacts const& facts, record::Pod const& pod, std::string const& existing);
/// Where the namespaces of its first process are: "/proc/1/ns/". Errors: `not_found`: it has none.
Result<std::string> first_process_namespaces(HostFacts const& facts, std::string const& pod);
/// Keeps in the record what was called, before it is; also when it fails. `ranges`: of the addresses of this node.
Result<> add_pod_network(HostFacts const& facts, record::Pod& pod, std::string const& ranges);
Result<> delete_pod_network(HostFacts const& facts, record::Pod const& pod);
Result<> check_pod_network(HostFacts const& facts, record::Pod const& pod);
/// Lets plugins free what no pod of this host holds, those that are stopped and not yet given back included.
Result<> collect_networks(HostFacts const& facts);
void remove_pod_processes(HostFacts const& facts, std::string const& pod);
Result<> remove_pod_files(HostFacts const& facts, std::string const& pod);
/// `targets`: pids of the other containers of the pod by their ids.
Result<PreparedContainer> prepare_container(HostFacts const& facts, record::Pod const& pod, record::Container container,
                                            int monitor, std::map<std::string, int> const& targets);
Result<> remove_container_files(HostFacts const& facts, record::Container const& container);
/// Changes all of its limits, or none. Returns those that are in force then. Errors: `refused`: it uses more memory
/// than it may have; what the runtime says.
Result<v1::LinuxContainerResources> change_limits(HostFacts const& facts, record::Container const& container,
                                                  v1::LinuxContainerResources const& wanted);
/// The limits that are in force.
v1::LinuxContainerResources const& resources_of(record::Container const& container);
/// What the monitor is told to make a container.
monitor::Message create_message(HostFacts const& facts, PreparedContainer const& prepared);

// Answers.
bool is_host_network(v1::PodSandboxConfig const& config);
v1::PodSandbox pod_item(core::Pod const& pod, PodData const& data);
v1::PodSandboxStatus pod_status(core::Pod const& pod, PodData const& data);
v1::Container container_item(core::Container const& container, ContainerData const& data);
v1::ContainerStatus container_status(core::Container const& container, ContainerData const& data, PodData const& pod);
v1::ContainerState container_state(core::Container const& container);
std::string log_path(v1::PodSandboxConfig const& pod, v1::ContainerConfig const& container);
bool has_labels(google::protobuf::Map<std::string, std::string> const& labels,
                google::protobuf::Map<std::string, std::string> const& wanted);

/// What is unique among living pods, and among the containers of one.
std::string key_of(v1::PodSandboxMetadata const& metadata);
std::string container_key(v1::ContainerMetadata const& metadata);

/// The pods of this host: performs what the core decides, in the loop's thread or in others, and answers calls.
class Pods {
public:
    Pods(PodSettings settings, PodService::Surroundings around);

    void add_pod_calls(Router& router);
    void add_container_calls(Router& router);
    void add_live_calls(Router& router);
    void add_measure_calls(Router& router);
    void recover();
    void end_streams();
    [[nodiscard]] std::optional<Error> missing() const;
    /// Where streams of a container, or ports of a pod, lead to.
    Result<StreamCalls::Target> running_container(std::string const& id);
    Result<StreamCalls::Target> ready_pod(std::string const& id);

    [[nodiscard]] core::Core const& core() const { return core_; }
    [[nodiscard]] HostFacts const& facts() const { return facts_; }
    /// nullptr: there is none.
    [[nodiscard]] PodData const* find_pod(std::string const& id) const;
    [[nodiscard]] ContainerData const* find_container(std::string const& id) const;
    /// How long the work of a pod or container has taken so far; nullopt: there is none now.
    [[nodiscard]] std::optional<Duration> work_time(std::string const& id) const;
    /// Now, and not when its timer expires, what waits for that.
    void try_again(std::string const& id);

private:
    using CallPtr = std::shared_ptr<http::grpc::Call>;
    using Reply = std::function<std::string(std::string const& id)>;

    void step(core::Event const& event);
    void perform(std::vector<core::Effect> const& effects);
    void perform(core::Work const& work);
    void perform(core::SendStop const& effect);
    void perform(core::Kill const& effect);
    void perform(core::Arm const& effect);
    void perform(core::Answer const& effect);
    void perform(core::Changed const& effect);

    core::Ticket ticket(CallPtr const& call, Reply reply);
    /// Runs `work` in another thread, and then `then` in this one, which says Done; without it that is said at once.
    void run(std::string const& id, std::function<Result<>()> work, std::function<void()> then = {});
    void done(std::string const& id, Result<> const& result);

    void after_records(std::function<void()> call);
    void begin_pod(std::string const& id);
    void add_network(std::string const& id);
    void delete_network(std::string const& id);
    void check_network(std::string const& id);
    void collect_networks();
    void end_monitor(std::string const& id);
    void begin_container(std::string const& id);
    void start_container(std::string const& id);
    void end_container(std::string const& id);
    void change_limits(std::string const& id);
    std::shared_ptr<MonitorLink> link_of(std::string const& pod);
    void attach(std::string const& pod, UniqueFd socket);
    void exited(MonitoredContainer const& one);
    void save_container(std::string const& id);
    void save_pod(std::string const& id);

    void run_pod(CallPtr const& call, v1::RunPodSandboxRequest const& request);
    void list_pods(CallPtr const& call, v1::ListPodSandboxRequest const& request);
    /// What a client that wants to know more gets: JSON, as crictl inspect prints it.
    [[nodiscard]] std::string verbose_info(core::Pod const& pod) const;
    [[nodiscard]] std::string verbose_info(core::Container const& container) const;
    void show_pod(CallPtr const& call, v1::PodSandboxStatusRequest const& request);
    void create(CallPtr const& call, v1::CreateContainerRequest const& request);
    void list_containers(CallPtr const& call, v1::ListContainersRequest const& request);
    void show_container(CallPtr const& call, v1::ContainerStatusRequest const& request);
    void update_ranges(CallPtr const& call, v1::UpdateRuntimeConfigRequest const& request);
    void update(CallPtr const& call, v1::UpdateContainerResourcesRequest const& request);
    void reopen_log(CallPtr const& call, v1::ReopenContainerLogRequest const& request);

    void execute(CallPtr const& call, v1::ExecSyncRequest const& request);
    void begin_command(CallPtr const& call, std::string const& id, std::string const& pod, std::string const& file,
                       Duration timeout);
    struct Measured;
    struct MeasuredPod;
    Measured to_measure(core::Container const& container, ContainerData const& data);
    MeasuredPod to_measure(core::Pod const& pod, PodData const& data);
    void measure(CallPtr const& call, v1::ContainerStatsFilter const& filter, bool is_one);
    void measure_pods(CallPtr const& call, v1::PodSandboxStatsFilter const& filter, bool is_one);
    void listen(CallPtr const& call);
    void tell(core::Changed const& change);

    void restore(StoredPod const& stored);
    void remove_strays();

    PodService::Surroundings around_;
    HostFacts facts_;
    core::Core core_;
    std::map<std::string, PodData> pods_;
    std::map<std::string, ContainerData> containers_;
    std::map<std::uint64_t, std::function<void(core::Answer const&)>> tickets_;
    std::uint64_t next_ticket_ = 1;
    std::vector<CallPtr> listeners_;
    std::string ranges_;  // of addresses, as kubelet gives them to this node
    std::map<std::string, std::unique_ptr<net::Timer>> timers_;
    std::map<std::string, TimePoint> work_began_;
    net::Timer collection_;
    std::shared_mutex networks_;  // whoever makes or deletes one shares it; collecting excludes them
    Workers workers_;
    Workers keeper_;  // of records: one thread, so that they are written in order
};

}  // namespace triton::cri
