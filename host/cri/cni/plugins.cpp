#include "host/cri/cni/plugins.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/json/lookup.h"
#include "lib/json/writer.h"
#include "lib/process/run_command.h"

namespace triton::cri {

namespace {

constexpr std::size_t most_output = 1 << 20;

/// A file without a name, to be read from its beginning.
Result<UniqueFd> input_file(std::string const& text) {
    UniqueFd file{::memfd_create("network", MFD_CLOEXEC)};
    if (!file || !write_all(file.get(), text) || ::lseek(file.get(), 0, SEEK_SET) != 0)
        return fail(errno, "write the input of a network plugin");
    return file;
}

/// A value in CNI_ARGS ends at a semicolon.
std::string argument(std::string text) {
    std::erase_if(text, [](unsigned char c) { return c == ';' || c == '=' || c < ' '; });
    return text;
}

/// `pod` without an id: the call is about no pod.
std::vector<std::string> environment_for(char const* command, NetworkedPod const& pod, std::string const& directories) {
    if (pod.id.empty())
        return {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                std::string("CNI_COMMAND=") + command, "CNI_PATH=" + directories};
    return {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            std::string("CNI_COMMAND=") + command,
            "CNI_CONTAINERID=" + pod.id,
            "CNI_NETNS=" + pod.network_namespace,
            std::string("CNI_IFNAME=") + pod_interface,
            "CNI_PATH=" + directories,
            "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=" + argument(pod.name_space) + ";K8S_POD_NAME=" +
                argument(pod.name) + ";K8S_POD_INFRA_CONTAINER_ID=" + pod.id + ";K8S_POD_UID=" + argument(pod.uid)};
}

/// Those that need the namespace for their DEL, and have nothing to do without it.
bool needs_namespace(std::string const& type) { return type == "loopback" || type == "host-device"; }

}  // namespace

Result<std::string> Plugins::find(std::string const& type) const {
    std::string_view rest = directories_;
    while (!rest.empty()) {
        std::string const path = std::string(rest.substr(0, rest.find(':'))) + "/" + type;
        rest.remove_prefix(std::min(rest.size(), path.size() - type.size()));
        if (::access(path.c_str(), X_OK) == 0) return path;
    }
    return fail(ErrorKind::not_found, "network plugin " + type + " is not in " + directories_);
}

Result<> Plugins::check(NetworkList const& list) const {
    for (json::Object const& plugin : list.plugins)
        TRY(find(json::text_of(plugin, "type")));
    return {};
}

Result<std::string> Plugins::call(char const* command, NetworkList const& list, json::Object const& plugin,
                                  NetworkedPod const& pod, PluginRequest const& request) const {
    std::string const type = json::text_of(plugin, "type");
    std::string const path = TRY(find(type));
    UniqueFd const input = TRY(input_file(plugin_input(list, plugin, request)));
    auto const done = TRY(process::run_command({.arguments = {path},
                                                .environment = environment_for(command, pod, directories_),
                                                .in = input.get(),
                                                .timeout = limit_,
                                                // The next daemon calls DEL: not while an ADD still runs.
                                                .dies_with_us = true,
                                                .most_output = most_output}));
    if (!done.is_whole) return fail(ErrorKind::corrupt, "run network plugin " + type, "it has written too much");
    if (done.is_ok()) return done.output;
    return std::unexpected(plugin_error(type + " (" + command + ")", done.output, done.errors,
                                        done.signal != 0 ? 128 + done.signal : done.exit_code));
}

Result<std::string> Plugins::add(NetworkList const& list, NetworkedPod const& pod,
                                 std::string const& capabilities) const {
    PluginRequest request{.capabilities = capabilities, .previous_result = {}};
    for (json::Object const& plugin : list.plugins) {
        std::string result = TRY(call("ADD", list, plugin, pod, request));
        json::ProblemList problems(1);
        auto const node = json::read_json(result, {}, problems);
        if (!node || !node->get<json::Object>())
            return fail(ErrorKind::corrupt, "run network plugin " + json::text_of(plugin, "type"),
                        "its result is not an object of JSON");
        request.previous_result = std::move(result);
    }
    return request.previous_result;
}

Result<> Plugins::del(NetworkList const& list, NetworkedPod const& pod, std::string const& capabilities,
                      std::string const& result) const {
    PluginRequest const request{.capabilities = capabilities,
                                .previous_result = list.has_previous_results() ? result : ""};
    Result<> first;
    for (auto plugin = list.plugins.rbegin(); plugin != list.plugins.rend(); ++plugin) {
        auto const done = call("DEL", list, *plugin, pod, request);
        bool const is_excused = pod.network_namespace.empty() && needs_namespace(json::text_of(*plugin, "type"));
        if (!done && !is_excused && first) first = std::unexpected(done.error());
    }
    return first;
}

Result<> Plugins::check_pod(NetworkList const& list, NetworkedPod const& pod, std::string const& capabilities,
                            std::string const& result) const {
    if (!list.has_check() || !list.is_checked) return {};
    PluginRequest const request{.capabilities = capabilities, .previous_result = result};
    for (json::Object const& plugin : list.plugins)
        TRY(call("CHECK", list, plugin, pod, request));
    return {};
}

Result<> Plugins::status(NetworkList const& list) const {
    if (!list.has_status()) return {};
    for (json::Object const& plugin : list.plugins)
        TRY(call("STATUS", list, plugin, {}, {}));
    return {};
}

Result<> Plugins::collect(NetworkList const& list, std::vector<std::string> const& pods) const {
    if (!list.has_status() || !list.is_collected) return {};
    json::Writer attachments;
    attachments.open('[');
    for (std::string const& pod : pods)
        attachments.open('{').member("containerID", pod).member("ifname", pod_interface).close('}');
    PluginRequest const request{.attachments = std::move(attachments.close(']')).text()};
    Result<> first;
    for (json::Object const& plugin : list.plugins)
        if (auto const done = call("GC", list, plugin, {}, request); !done && first)
            first = std::unexpected(done.error());
    return first;
}

}  // namespace triton::cri
