#include "host/cri/container/oci_spec.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "host/cri/container/devices.h"
#include "host/cri/container/seccomp_profile.h"
#include "host/cri/wire/messages.h"
#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"

namespace triton::cri {

namespace {

using json::Writer;

constexpr int most_texts = 65'536;

/// Text of a request that goes into a document: JSON has no other bytes than UTF-8, and a program no NUL.
Result<> check_texts(std::vector<std::string> const& texts, char const* what) {
    for (std::string const& text : texts)
        if (text.find('\0') != std::string::npos)
            return fail(ErrorKind::invalid, std::string(what) + " with a NUL byte: " + json::quoted(text));
    if (texts.size() > most_texts) return fail(ErrorKind::invalid, std::string("too many of ") + what);
    return {};
}

void add_capabilities(Writer& out, ContainerCapabilities const& capabilities) {
    out.key("capabilities").open('{');
    for (char const* const set : {"bounding", "effective", "permitted"})
        out.key(set).list(capability_names(capabilities.bounding));
    for (char const* const set : {"inheritable", "ambient"})
        out.key(set).list(capability_names(capabilities.ambient));
    out.close('}');
}

/// No labels are set. Where the kernel has no SELinux a label means nothing, as for other runtimes.
/// Errors: `unsupported`.
Result<> check_label(v1::SELinuxOption const& label, std::string const& selinux) {
    bool const is_empty = label.user().empty() && label.role().empty() && label.type().empty() && label.level().empty();
    if (is_empty || ::access(selinux.c_str(), F_OK) != 0) return {};
    return fail(ErrorKind::unsupported, "selinux_options are not supported, and this node has SELinux");
}

Result<> add_process(Writer& out, v1::ContainerConfig const& config, SpecSurroundings const& around,
                     ContainerCapabilities const& capabilities) {
    auto const& context = config.linux().security_context();
    auto const words = TRY(command_of(config, around.image));
    auto const environment = environment_of(config, around.image, around.hostname, around.user.home);
    TRY(check_texts(words, "an argument"));
    TRY(check_texts(environment, "a variable"));
    TRY(check_label(context.selinux_options(), around.selinux));
    std::string const profile = TRY(around.apparmor.profile_for(context));
    std::string directory = config.working_dir().empty() ? around.image.working_directory : config.working_dir();
    if (directory.empty()) directory = "/";
    if (!directory.starts_with('/'))
        return fail(ErrorKind::invalid, "working_dir is not absolute: " + json::quoted(directory));
    out.key("process").open('{').member("terminal", config.tty());
    out.key("user").open('{').member("uid", around.user.user).member("gid", around.user.group).member("umask", 022);
    out.key("additionalGids").list(around.user.groups).close('}');
    out.key("args").list(words).key("env").list(environment).member("cwd", directory);
    add_capabilities(out, capabilities);
    out.member("noNewPrivileges", context.no_new_privs() && !context.privileged());
    auto const score = std::max(config.linux().resources().oom_score_adj(), around.lowest_oom_score);
    out.member("oomScoreAdj", std::clamp<std::int64_t>(score, -1000, 1000));
    if (!profile.empty()) out.member("apparmorProfile", profile);
    out.close('}');
    return {};
}

void add_device_rule(Writer& out, bool is_allowed, std::string_view type, std::string_view access,
                     std::optional<std::uint32_t> major = {}, std::optional<std::uint32_t> minor = {}) {
    out.open('{').member("allow", is_allowed).member("type", type).member("access", access);
    if (major) out.member("major", *major);
    if (minor) out.member("minor", *minor);
    out.close('}');
}

void add_device_rules(Writer& out, bool is_privileged, std::vector<SpecDevice> const& devices) {
    constexpr std::pair<std::uint32_t, std::uint32_t> usual[] = {{1, 3}, {1, 5}, {1, 7}, {1, 8},
                                                                 {1, 9}, {5, 0}, {5, 1}, {5, 2}};
    out.key("devices").open('[');
    add_device_rule(out, is_privileged, "a", "rwm");
    if (!is_privileged) {
        for (std::string_view const type : {"c", "b"})
            add_device_rule(out, true, type, "m");  // to make a node is not to use it
        for (auto const& [major, minor] : usual)
            add_device_rule(out, true, "c", "rwm", major, minor);
        add_device_rule(out, true, "c", "rwm", 136);  // terminals of /dev/pts
        for (SpecDevice const& device : devices)
            add_device_rule(out, true, std::string(1, device.type), device.permissions, device.major, device.minor);
    }
    out.close(']');
}

void add_cpu(Writer& out, v1::LinuxContainerResources const& resources) {
    out.key("cpu").open('{');
    if (resources.cpu_shares() > 0) out.member("shares", resources.cpu_shares());
    if (resources.cpu_quota() != 0) out.member("quota", resources.cpu_quota());
    if (resources.cpu_period() > 0) out.member("period", resources.cpu_period());
    if (!resources.cpuset_cpus().empty()) out.member("cpus", resources.cpuset_cpus());
    if (!resources.cpuset_mems().empty()) out.member("mems", resources.cpuset_mems());
    out.close('}');
}

Result<> add_limits(Writer& out, v1::LinuxContainerResources const& resources, bool has_unified_cgroups) {
    add_cpu(out, resources);
    out.key("memory").open('{');
    if (resources.memory_limit_in_bytes() > 0) out.member("limit", resources.memory_limit_in_bytes());
    if (resources.memory_swap_limit_in_bytes() > 0) out.member("swap", resources.memory_swap_limit_in_bytes());
    out.close('}');
    out.key("hugepageLimits").open('[');
    for (v1::HugepageLimit const& limit : resources.hugepage_limits())
        if (limit.limit() > 0)
            out.open('{').member("pageSize", limit.page_size()).member("limit", limit.limit()).close('}');
    out.close(']');
    if (!resources.unified().empty() && !has_unified_cgroups)
        return fail(ErrorKind::unsupported, "resources.unified needs cgroups v2, which this host does not have");
    if (!resources.unified().empty()) {
        out.key("unified").open('{');
        for (auto const& [key, value] :
             std::map<std::string, std::string>(resources.unified().begin(), resources.unified().end()))
            out.name(key).value(value);
        out.close('}');
    }
    return {};
}

Result<> add_resources(Writer& out, v1::ContainerConfig const& config, SpecSurroundings const& around,
                       std::vector<SpecDevice> const& devices) {
    out.key("resources").open('{');
    add_device_rules(out, config.linux().security_context().privileged(), devices);
    TRY(add_limits(out, config.linux().resources(), around.has_unified_cgroups));
    out.close('}');
    return {};
}

void add_devices(Writer& out, std::vector<SpecDevice> const& devices) {
    out.key("devices").open('[');
    for (SpecDevice const& device : devices) {
        out.open('{').member("path", device.path).member("type", std::string(1, device.type));
        out.member("major", device.major).member("minor", device.minor).member("fileMode", device.mode);
        out.member("uid", device.user).member("gid", device.group).close('}');
    }
    out.close(']');
}

void add_mapping(Writer& out, char const* key, SpecMapping const& mapping) {
    if (mapping.count == 0) return;
    out.key(key).open('[').open('{').member("containerID", 0).member("hostID", mapping.host);
    out.member("size", mapping.count).close('}').close(']');
}

Result<> add_linux(Writer& out, v1::ContainerConfig const& config, SpecSurroundings const& around,
                   ContainerCapabilities const& capabilities, std::string const& propagation) {
    auto const& context = config.linux().security_context();
    auto const devices = TRY(find_devices(config));
    std::string const seccomp = TRY(seccomp_of(context, capabilities.bounding));
    out.key("linux").open('{').member("cgroupsPath", around.cgroups_path).member("rootfsPropagation", propagation);
    out.key("namespaces").open('[');
    for (SpecNamespace const& one : around.namespaces) {
        out.open('{').member("type", one.type);
        if (!one.path.empty()) out.member("path", one.path);
        out.close('}');
    }
    out.close(']');
    add_mapping(out, "uidMappings", around.users);
    add_mapping(out, "gidMappings", around.groups);
    add_devices(out, devices);
    TRY(add_resources(out, config, around, devices));
    if (!around.sysctls.empty()) {
        out.key("sysctl").open('{');
        for (auto const& [name, value] : around.sysctls)
            out.name(name).value(value);
        out.close('}');
    }
    if (!seccomp.empty()) out.key("seccomp").raw(seccomp);
    if (!context.privileged())
        out.key("maskedPaths").list(context.masked_paths()).key("readonlyPaths").list(context.readonly_paths());
    out.close('}');
    return {};
}

std::vector<std::string> with_terminal_type(json::Node const& environment) {
    std::vector<std::string> variables;
    if (auto const* const list = environment.get<json::Array>())
        for (json::Node const& one : *list)
            if (auto const* const text = one.get<std::string>()) variables.push_back(*text);
    if (std::ranges::none_of(variables, [](std::string const& one) { return one.starts_with("TERM="); }))
        variables.emplace_back("TERM=xterm");
    return variables;
}

}  // namespace

Result<std::string> make_spec(v1::ContainerConfig const& config, SpecSurroundings const& around) {
    auto const& context = config.linux().security_context();
    ContainerCapabilities const capabilities = TRY(find_capabilities(context, around.capabilities));
    ContainerMounts const mounts = TRY(find_mounts(config, around.files));
    bool const has_hostname = std::ranges::any_of(
        around.namespaces, [](SpecNamespace const& one) { return one.type == "uts" && one.path.empty(); });
    Writer out;
    out.open('{').member("ociVersion", "1.0.2");
    TRY(add_process(out, config, around, capabilities));
    out.key("root").open('{').member("path", "rootfs").member("readonly", context.readonly_rootfs()).close('}');
    if (has_hostname) out.member("hostname", around.hostname);
    out.key("mounts").open('[');
    for (SpecMount const& mount : mounts.mounts) {
        out.open('{')
            .member("destination", mount.destination)
            .member("type", mount.type)
            .member("source", mount.source);
        out.key("options").list(mount.options).close('}');
    }
    out.close(']');
    TRY(add_linux(out, config, around, capabilities, mounts.propagation));
    return std::move(out.close('}')).text();
}

Result<std::string> make_limits(v1::LinuxContainerResources const& resources, bool has_unified_cgroups) {
    Writer out;
    out.open('{');
    TRY(add_limits(out, resources, has_unified_cgroups));
    return std::move(out.close('}')).text();
}

Result<std::string> make_process(std::string_view spec, std::vector<std::string> const& command, bool is_terminal) {
    TRY(check_texts(command, "an argument"));
    if (command.empty() || command.front().empty()) return fail(ErrorKind::invalid, "there is no command");
    json::ProblemList problems(1);
    auto const node = json::read_json(spec, json::Limits{}, problems);
    auto const* const process = node ? json::value_of<json::Object>(*node, "process") : nullptr;
    if (!process) return fail(ErrorKind::corrupt, "the specification of the container cannot be read");
    Writer out;
    out.open('{');
    for (json::Member const& member : *process) {
        out.name(member.key);
        if (member.key == "args")
            out.list(command);
        else if (member.key == "terminal")
            out.value(is_terminal);
        else if (member.key == "env" && is_terminal)
            out.list(with_terminal_type(member.node));
        else
            out.value(member.node);
    }
    return std::move(out.close('}')).text();
}

}  // namespace triton::cri
