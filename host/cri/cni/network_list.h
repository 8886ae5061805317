#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::cri {

/// A chain of plugins that make one network.
struct NetworkList {
    std::string name;
    std::string version;  ///< "1.0.0"; of all calls
    std::vector<json::Object> plugins;
    bool is_checked = true;    ///< "disableCheck" says no
    bool is_collected = true;  ///< "disableGC" says no

    /// Whether plugins get the result of those before them, and of ADD again at DEL.
    [[nodiscard]] bool has_previous_results() const;
    /// Whether its plugins may be asked by CHECK, and by STATUS and GC: others take these words for a mistake.
    [[nodiscard]] bool has_check() const;
    [[nodiscard]] bool has_status() const;
};

/// Reads a configuration: a list (.conflist), or one plugin (.conf), which is a list of one. All versions from 0.1.0 to
/// 1.1.0; of `cniVersions` the newest that is one of these.
/// Source: https://github.com/containernetworking/cni/blob/main/SPEC.md, "Network configuration format".
/// Errors: `invalid`, with the path; `unsupported`: another version.
Result<NetworkList> parse_network_list(std::string_view text, std::string const& path);

/// What a pod asks of plugins: "runtimeConfig" as JSON, an object with a member for each capability.
struct PluginRequest {
    std::string capabilities = {};     ///< JSON; empty: none
    std::string previous_result = {};  ///< JSON; empty: none
    std::string attachments = {};      ///< of GC: JSON, all that are to be kept; empty: it is no GC
};

/// The text on a plugin's standard input. Members that nobody knows stay as they are.
std::string plugin_input(NetworkList const& list, json::Object const& plugin, PluginRequest const& request);

/// The addresses that a result gives to an interface inside of the pod, without their prefixes: IPv4 first.
/// Errors: `corrupt`: it is no result.
Result<std::vector<std::string>> addresses_of(std::string_view result, std::string const& interface);

/// What a plugin that has failed says: its message and details, or that it says nothing.
Error plugin_error(std::string const& plugin, std::string_view output, std::string_view errors, int exit_code);

}  // namespace triton::cri
