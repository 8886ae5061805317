#pragma once

#include <string>

#include "lib/base/result.h"

namespace triton::cri {

/// Where pods and containers have their files.
///
///     /run/triton/cri/pods/<pod>/                 gone after a reboot
///         monitor.sock  resolv.conf  hostname  hosts  shm/
///         c/<container>/{config.json,rootfs,pid,runtime.log}
///     /run/triton/cri/runtime/                    the state of the runtime's program
///     /var/lib/triton/cri/pods/<pod>              the record
///     /var/lib/triton/cri/pods/<pod>.d/<container>
///     /var/lib/triton/cri/containers/<container>/{upper,work}
class Places {
public:
    /// `root`: before all paths of the host.
    explicit Places(std::string const& root) : run_(root + "/run/triton/cri"), state_(root + "/var/lib/triton/cri") {}

    [[nodiscard]] std::string runs() const { return run_ + "/pods"; }
    [[nodiscard]] std::string run(std::string const& pod) const { return runs() + "/" + pod; }
    [[nodiscard]] std::string bundle(std::string const& pod, std::string const& container) const {
        return run(pod) + "/c/" + container;
    }
    [[nodiscard]] std::string runtime() const { return run_ + "/runtime"; }
    [[nodiscard]] std::string records() const { return state_ + "/pods"; }
    [[nodiscard]] std::string record(std::string const& pod) const { return records() + "/" + pod; }
    [[nodiscard]] std::string container_records(std::string const& pod) const { return record(pod) + ".d"; }
    [[nodiscard]] std::string record(std::string const& pod, std::string const& container) const {
        return container_records(pod) + "/" + container;
    }
    [[nodiscard]] std::string layers() const { return state_ + "/containers"; }
    [[nodiscard]] std::string layer(std::string const& container) const { return layers() + "/" + container; }
    [[nodiscard]] std::string archive() const { return state_ + "/archive"; }

private:
    std::string run_;
    std::string state_;
};

/// 64 hexadecimal digits that nobody can guess.
std::string random_id();
/// Whether a text is such an id: others are never a part of a path.
bool is_id(std::string const& text);

inline constexpr unsigned readable_by_all = 0644;

/// Makes a directory of mode 0700 with those above it.
Result<> make_directories(std::string const& path);
/// Replaces a file as a whole. With `is_durable` it survives a loss of power.
Result<> write_file(std::string const& path, std::string const& content, bool is_durable, unsigned mode = 0600);
/// Removes a file or a tree; succeeds when there is none. Follows no link, and leaves what is mounted.
Result<> remove_all(std::string const& path);

}  // namespace triton::cri
