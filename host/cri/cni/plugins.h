#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "host/cri/cni/network_list.h"
#include "lib/base/result.h"

namespace triton::cri {

/// A pod as plugins know it.
struct NetworkedPod {
    std::string id;
    std::string network_namespace;  ///< path; empty: it has gone
    std::string name;
    std::string name_space;
    std::string uid;
};

/// Calls network plugins, each with a limit of time and of output, in an environment without anything of ours. It
/// blocks. Not two calls at once for one pod.
class Plugins {
public:
    /// `directories`: where plugins are, separated by colons.
    explicit Plugins(std::string directories, std::chrono::milliseconds limit)
        : directories_(std::move(directories)), limit_(limit) {}

    /// Whether all of its plugins are there. To be asked before anything is written down: a plugin that is missing can
    /// give nothing back either. Errors: `not_found`, with the name of one.
    [[nodiscard]] Result<> check(NetworkList const& list) const;

    /// Runs the chain. Returns the result of the last plugin. After an error some may have made their part: del().
    [[nodiscard]] Result<std::string> add(NetworkList const& list, NetworkedPod const& pod,
                                          std::string const& capabilities) const;

    /// Runs the chain in reverse, all of it, whatever fails. `result`: of add(), or empty.
    /// Errors: the first one.
    [[nodiscard]] Result<> del(NetworkList const& list, NetworkedPod const& pod, std::string const& capabilities,
                               std::string const& result) const;

    /// Whether what add() has made is there as it was; nothing for a network without CHECK. Errors: the first plugin's.
    [[nodiscard]] Result<> check_pod(NetworkList const& list, NetworkedPod const& pod, std::string const& capabilities,
                                     std::string const& result) const;

    /// Whether its plugins could serve ADD now; nothing for a network without STATUS. Errors: the first plugin's;
    /// `timeout`.
    [[nodiscard]] Result<> status(NetworkList const& list) const;

    /// Lets the plugins free what no pod of these ids holds; nothing for a network without GC. Not while another call
    /// of that network is made. All plugins are called. Errors: the first one.
    [[nodiscard]] Result<> collect(NetworkList const& list, std::vector<std::string> const& pods) const;

private:
    [[nodiscard]] Result<std::string> find(std::string const& type) const;
    [[nodiscard]] Result<std::string> call(char const* command, NetworkList const& list, json::Object const& plugin,
                                           NetworkedPod const& pod, PluginRequest const& request) const;

    std::string directories_;
    std::chrono::milliseconds limit_;
};

inline constexpr char pod_interface[] = "eth0";

}  // namespace triton::cri
