#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace triton::cri {

/// The control groups of containers. The runtime's program makes them; here is what must work without it. It blocks.
/// Source: Linux Documentation/admin-guide/cgroup-v2.rst and cgroup-v1.
class Cgroups {
public:
    /// `top`: where they are mounted.
    explicit Cgroups(std::string top, bool is_systemd) : top_(std::move(top)), is_systemd_(is_systemd) {}

    [[nodiscard]] bool is_unified() const;

    /// "linux.cgroupsPath" of a container below its pod's group: "/kubepods/pod1/<id>", or
    /// "kubepods-pod1.slice:triton:<id>".
    [[nodiscard]] std::string specified(std::string const& parent, std::string const& container) const;
    /// The path of that group below each hierarchy: "/kubepods.slice/kubepods-pod1.slice/triton-<id>.scope".
    [[nodiscard]] std::string path(std::string const& parent, std::string const& container) const;
    /// The path of the pod's own group, likewise; empty: it has none.
    [[nodiscard]] std::string pod_path(std::string const& parent) const;
    /// "cgroupfs" or "systemd".
    [[nodiscard]] std::string driver() const { return is_systemd_ ? "systemd" : "cgroupfs"; }

    /// The files that count kills for want of memory, one a line.
    [[nodiscard]] std::string oom_files(std::string const& path) const;

    /// SIGKILL to everything in a group and below. Succeeds when there is none. Errors: `timeout`: processes come up
    /// faster than they can be killed.
    [[nodiscard]] Result<> kill(std::string const& path) const;
    /// Removes the empty group from all hierarchies.
    void remove(std::string const& path) const;

    /// Where the group is in each hierarchy that has it.
    [[nodiscard]] std::vector<std::string> places(std::string const& path) const;
    [[nodiscard]] std::string const& top() const { return top_; }

private:
    [[nodiscard]] std::vector<std::string> hierarchies() const;

    std::string top_;
    bool is_systemd_;
};

/// Errors: `invalid`: a parent that is no path, or leads out.
Result<> check_cgroup_parent(std::string const& parent);

}  // namespace triton::cri
