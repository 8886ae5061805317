#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::cri {

/// A server in a file hosts.toml, as containerd's users have it.
struct HostEntry {
    std::string base;  ///< "https://mirror.example/v2"; empty: the registry itself
    bool has_content = true;
    bool resolves = true;
    std::vector<std::string> authorities = {};  ///< absolute paths of PEM files
    std::string certificate = {};               ///< of the client: an absolute path; empty: none
    std::string key = {};                       ///< empty: it is in the file of the certificate
    std::vector<std::string> headers = {};      ///< "X-Name: value"
    bool is_unverified = false;
    milliseconds connect{};  ///< zero: as long as a stall

    bool operator==(HostEntry const&) const = default;
};

/// Reads hosts.toml: the servers in the order in which they are asked; the last one is the registry itself, or the
/// `server` in its place. `path`: for messages, and for relative paths. Pure.
/// Errors: `invalid`: "/etc/containerd/certs.d/docker.io/hosts.toml:3: unknown key "capabilites"".
/// Source: containerd, docs/hosts.md.
Result<std::vector<HostEntry>> parse_hosts_file(std::string_view text, std::string const& path);

}  // namespace triton::cri
