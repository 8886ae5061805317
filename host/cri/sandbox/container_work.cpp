#include <algorithm>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "host/cri/container/stop_signals.h"
#include "host/cri/sandbox/pods.h"
#include "host/cri/sandbox/user_namespace.h"
#include "host/cri/sandbox/volumes.h"

namespace triton::cri {

namespace {

constexpr unsigned container_root_mode = 0755;

Result<std::vector<SpecNamespace>> find_namespaces(HostFacts const& facts, record::Pod const& pod,
                                                   v1::ContainerConfig const& config, int monitor,
                                                   monitor::UserMapping const& users,
                                                   std::map<std::string, int> const& targets) {
    auto const& context = config.linux().security_context();
    auto const& options = context.namespace_options();
    auto const& of_pod = pod.config().linux().security_context().namespace_options();
    std::string const of_monitor = "/proc/" + std::to_string(monitor) + "/ns/";
    std::vector<SpecNamespace> found{{"mount"}};
    if (users.is_set()) {
        std::string const of_first = TRY(first_process_namespaces(facts, pod.id()));
        found.insert(found.begin(), {"user", of_first + "user"});  // it owns the others
        for (char const* const kind : {"ipc", "uts"})
            found.push_back({kind, of_first + kind});
        found.push_back({"network", of_first + "net"});
    } else {
        if (of_pod.ipc() != v1::NODE) found.push_back({"ipc", of_monitor + "ipc"});
        if (!is_host_network(pod.config())) {
            found.push_back({"uts", of_monitor + "uts"});
            found.push_back({"network", network_namespace_path(facts, pod.id())});
        }
    }
    if (facts.is_unified && !context.privileged()) found.push_back({"cgroup"});
    switch (options.pid()) {
        case v1::NODE: break;
        case v1::CONTAINER: found.push_back({"pid"}); break;
        case v1::TARGET: {
            auto const target = targets.find(options.target_id());
            if (target == targets.end())
                return fail(ErrorKind::refused,
                            "container " + options.target_id() + ", whose processes it is to see, does not run");
            found.push_back({"pid", "/proc/" + std::to_string(target->second) + "/ns/pid"});
            break;
        }
        default: {
            if (of_pod.pid() != v1::POD)
                return fail(ErrorKind::invalid, "the pod has no PID namespace for all of its containers");
            found.push_back({"pid", TRY(first_process_namespaces(facts, pod.id())) + "pid"});
        }
    }
    return found;
}

/// Of the pod, or not mentioned.
Result<> check_users(v1::ContainerConfig const& config, monitor::UserMapping const& users) {
    auto const& options = config.linux().security_context().namespace_options();
    if (options.has_userns_options() && TRY(user_mapping_of(options.userns_options())) != users)
        return fail(ErrorKind::invalid, "the user namespace of the container is not that of its pod");
    return {};
}

/// The runtime goes on as root of the user namespace, who has to find what is mounted in the bundle. Nobody can list
/// these directories, and what is in them says itself who may read it.
Result<> open_way(HostFacts const& facts, std::string const& pod, std::string const& container) {
    constexpr unsigned pass = 0711;
    std::string const bundle = facts.places.bundle(pod, container);
    std::string const run = facts.places.run(pod);
    std::string const runs = facts.places.runs();
    for (std::string const& path : {bundle, run + "/c", run, runs, runs.substr(0, runs.rfind('/'))})
        if (::chmod(path.c_str(), pass) != 0) return fail(errno, "open " + path);
    return {};
}

/// The upper directory is the root of the container, and belongs to its root.
Result<> make_layer(std::string const& layer, monitor::UserMapping const& users) {
    TRY(make_directories(layer + "/work"));
    TRY(make_directories(layer + "/upper"));
    if (users.is_set() && ::chown((layer + "/upper").c_str(), users.users.host, users.groups.host) != 0)
        return fail(errno, "give " + layer + "/upper to the container");
    if (::chmod((layer + "/upper").c_str(), container_root_mode) != 0)
        return fail(errno, "open " + layer + "/upper to the container");
    return {};
}

}  // namespace

Result<PreparedContainer> prepare_container(HostFacts const& facts, record::Pod const& pod, record::Container container,
                                            int monitor, std::map<std::string, int> const& targets) {
    v1::ContainerConfig const& config = container.config();
    auto const users = TRY(user_mapping_of(pod.config()));
    TRY(check_users(config, users));
    TRY(make_layer(facts.places.layer(container.id()), users));  // first: a start finds by it what was being made
    HeldImage const image = TRY(hold_image(facts.settings.images, config.image().image(), container.id()));
    container.set_image_id(image.id);
    container.set_image_uuid(image.uuid);
    container.set_image_ref(image.id);
    container.set_stop_signal(stop_signal_of(config.stop_signal(), image.execution.stop_signal));
    auto const& context = config.linux().security_context();
    ContainerUser const user = TRY(find_user(context, image.execution.user, image.tree));
    container.set_user(user.user);
    container.set_group(user.group);
    container.clear_groups();
    for (std::uint32_t const group : user.groups)
        container.add_groups(group);
    std::string const parent = pod.config().linux().cgroup_parent();
    container.set_cgroup(facts.cgroups.path(parent, container.id()));
    std::string const run = facts.places.run(pod.id());
    SpecSurroundings around{.image = image.execution, .user = user, .hostname = pod.hostname()};
    around.files = {.resolver = run + "/resolv.conf",
                    .hostname = run + "/hostname",
                    .hosts = ::access((run + "/hosts").c_str(), F_OK) == 0 ? run + "/hosts" : "",
                    .memory = run + "/shm",
                    .has_ipc = pod.config().linux().security_context().namespace_options().ipc() != v1::NODE};
    around.namespaces = TRY(find_namespaces(facts, pod, config, monitor, users, targets));
    around.users = {users.users.host, users.users.count};
    around.groups = {users.groups.host, users.groups.count};
    std::string const bundle = facts.places.bundle(pod.id(), container.id());
    TRY(make_directories(bundle + "/rootfs"));
    if (users.is_set()) {
        TRY(make_directories(bundle + "/lower"));
        TRY(open_way(facts, pod.id(), container.id()));
    }
    ContainerVolumes volumes = TRY(find_volumes(config, users, facts.settings.images, container.id(), bundle));
    around.files.sources = std::move(volumes.sources);
    for (auto const& [mount, id] : volumes.images)
        (*container.mutable_volume_images())[mount] = id;
    for (auto const& [name, value] : pod.config().linux().sysctls())
        if (!name.starts_with("net.") && !name.starts_with("net/"))
            around.sysctls[name] = value;  // those are set already
    around.cgroups_path = facts.cgroups.specified(parent, container.id());
    around.has_unified_cgroups = facts.is_unified;
    around.capabilities = facts.capabilities;
    around.lowest_oom_score = facts.lowest_oom_score;
    std::string const spec = TRY(make_spec(config, around));
    TRY(write_file(bundle + "/config.json", spec, false));
    return PreparedContainer{
        .record = std::move(container), .image_tree = image.tree, .users = users, .mapped = std::move(volumes.mapped)};
}

Result<> remove_container_files(HostFacts const& facts, record::Container const& container) {
    TRY(facts.cgroups.kill(container.cgroup()));
    facts.cgroups.remove(container.cgroup());
    // Without its monitor nobody has told the runtime.
    TRY(remove_all(facts.places.runtime() + "/" + container.id()));
    TRY(remove_all(facts.places.bundle(container.pod(), container.id())));
    TRY(remove_all(facts.places.layer(container.id())));
    TRY(release_images(facts.settings.images, container.id()));
    return remove_all(facts.places.record(container.pod(), container.id()));
}

monitor::Message create_message(HostFacts const& facts, PreparedContainer const& prepared) {
    record::Container const& container = prepared.record;
    monitor::Message message{.kind = monitor::Kind::create, .container = container.id()};
    v1::ContainerConfig const& config = container.config();
    message.numbers[0] = monitor::bits({{config.stdin(), monitor::stream_input},
                                        {config.tty(), monitor::stream_terminal},
                                        {config.stdin_once(), monitor::stream_input_once}});
    message.texts.resize(monitor::create_texts);
    message.texts[monitor::create_runtime] = facts.settings.runtime;
    message.texts[monitor::create_state] = facts.places.runtime();
    message.texts[monitor::create_driver] = facts.cgroups.driver();
    message.texts[monitor::create_bundle] = facts.places.bundle(container.pod(), container.id());
    message.texts[monitor::create_log] = container.log_path();
    message.texts[monitor::create_lower] = prepared.image_tree;
    message.texts[monitor::create_upper] = facts.places.layer(container.id()) + "/upper";
    message.texts[monitor::create_work] = facts.places.layer(container.id()) + "/work";
    message.texts[monitor::create_oom] = facts.cgroups.oom_files(container.cgroup());
    message.numbers[1] = prepared.users.is_set() ? 1 : 0;
    message.texts.insert(message.texts.end(), prepared.mapped.begin(), prepared.mapped.end());
    return message;
}

}  // namespace triton::cri
