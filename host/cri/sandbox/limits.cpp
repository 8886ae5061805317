#include <chrono>
#include <utility>

#include "host/cri/container/oci_spec.h"
#include "host/cri/sandbox/pods.h"
#include "lib/process/run_command.h"

namespace triton::cri {

namespace {

constexpr auto runtime_limit = std::chrono::minutes(2);
constexpr std::size_t most_text = 1024;

/// A limit that is not asked for stays as it is.
v1::LinuxContainerResources merged(v1::LinuxContainerResources const& before,
                                   v1::LinuxContainerResources const& wanted) {
    v1::LinuxContainerResources all = before;
    if (wanted.hugepage_limits_size() > 0) all.clear_hugepage_limits();
    auto const score = before.oom_score_adj();  // that of a process that runs is its own
    all.MergeFrom(wanted);
    all.set_oom_score_adj(score);
    return all;
}

Result<> apply(HostFacts const& facts, record::Container const& container,
               v1::LinuxContainerResources const& resources) {
    std::string const file = facts.places.bundle(container.pod(), container.id()) + "/limits.json";
    TRY(write_file(file, TRY(make_limits(resources, facts.is_unified)), false));
    auto const ended = TRY(process::run_command(
        {.arguments = {facts.settings.runtime, "--root", facts.places.runtime(), "--cgroup-manager",
                       facts.cgroups.driver(), "update", "--resources", file, container.id()},
         .timeout = runtime_limit}));
    if (ended.is_ok()) return {};
    return fail(ErrorKind::internal, "change the limits of container " + container.id(),
                ended.errors.empty() ? "the runtime ended with " + std::to_string(ended.exit_code)
                                     : ended.errors.substr(0, most_text));
}

}  // namespace

v1::LinuxContainerResources const& resources_of(record::Container const& container) {
    return container.has_resources() ? container.resources() : container.config().linux().resources();
}

Result<v1::LinuxContainerResources> change_limits(HostFacts const& facts, record::Container const& container,
                                                  v1::LinuxContainerResources const& wanted) {
    v1::LinuxContainerResources const& before = resources_of(container);
    v1::LinuxContainerResources after = merged(before, wanted);
    // The kernel would kill to reach it.
    auto const limit = wanted.memory_limit_in_bytes();
    if (auto const used = read_usage(facts.cgroups, container.cgroup()).memory;
        limit > 0 && used && *used > static_cast<std::uint64_t>(limit))
        return fail(ErrorKind::refused, "change the limits of container " + container.id(),
                    "it uses " + std::to_string(*used) + " bytes of memory, more than the new limit");
    if (auto const done = apply(facts, container, after); !done) {
        (void)apply(facts, container, before);  // what of it was changed; the first error is what is told
        return std::unexpected(done.error());
    }
    return after;
}

}  // namespace triton::cri
