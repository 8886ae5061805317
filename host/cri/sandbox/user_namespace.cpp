#include "host/cri/sandbox/user_namespace.h"

#include <charconv>
#include <string>

#include <sys/utsname.h>
#include <unistd.h>

#include "host/cri/wire/messages.h"
#include "lib/base/read_file.h"

namespace triton::cri {

namespace {

constexpr std::uint64_t most_ids = UINT32_MAX;  // -1 is no id

template <class Mappings>
Result<monitor::IdRange> range_of(Mappings const& mappings, char const* what) {
    if (mappings.size() != 1)
        return fail(ErrorKind::invalid, std::string("a user namespace needs exactly one mapping of ") + what +
                                            ", and has " + std::to_string(mappings.size()));
    v1::IDMapping const& one = mappings.Get(0);
    if (one.container_id() != 0 || one.length() == 0 || std::uint64_t{one.host_id()} + one.length() > most_ids)
        return fail(ErrorKind::invalid,
                    std::string("the mapping of ") + what + " does not begin with 0, or is not one");
    return monitor::IdRange{.host = one.host_id(), .count = one.length()};
}

}  // namespace

Result<monitor::UserMapping> user_mapping_of(v1::UserNamespace const& options) {
    if (options.mode() == v1::NODE) {
        if (options.uids_size() > 0 || options.gids_size() > 0)
            return fail(ErrorKind::invalid, "mappings without a user namespace");
        return monitor::UserMapping{};
    }
    if (options.mode() != v1::POD) return fail(ErrorKind::invalid, "a user namespace is the pod's or the node's");
    monitor::UserMapping mapping;
    mapping.users = TRY(range_of(options.uids(), "users"));
    mapping.groups = TRY(range_of(options.gids(), "groups"));
    return mapping;
}

Result<monitor::UserMapping> user_mapping_of(v1::PodSandboxConfig const& config) {
    auto const& options = config.linux().security_context().namespace_options();
    if (!options.has_userns_options()) return monitor::UserMapping{};
    auto const mapping = TRY(user_mapping_of(options.userns_options()));
    if (!mapping.is_set()) return mapping;
    if (options.network() == v1::NODE || options.ipc() == v1::NODE || options.pid() == v1::NODE)
        return fail(ErrorKind::invalid,
                    "a pod with a user namespace cannot have the network, the IPC or the processes of the node");
    if (config.linux().security_context().privileged())
        return fail(ErrorKind::invalid, "a pod with a user namespace cannot be privileged");
    return mapping;
}

/// Source: mount_setattr(2): overlayfs takes layers with mapped owners since Linux 5.19.
bool has_user_namespaces() {
    utsname name{};
    if (::uname(&name) != 0 || ::access("/proc/self/ns/user", F_OK) != 0) return false;
    auto const limit = read_file("/proc/sys/user/max_user_namespaces", 32);
    if (limit && limit->starts_with("0")) return false;
    std::string const release = name.release;
    int major = 0;
    int minor = 0;
    auto const [rest, error] = std::from_chars(release.data(), release.data() + release.size(), major);
    if (error != std::errc{} || rest == release.data() + release.size()) return false;
    std::from_chars(rest + 1, release.data() + release.size(), minor);
    return major > 5 || (major == 5 && minor >= 19);
}

}  // namespace triton::cri
