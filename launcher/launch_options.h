#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/program.h"
#include "config/version.h"
#include "launcher/log.h"
#include "launcher/supervisor.h"

namespace triton::launcher {

/// How a ProcessConfiguration is read and which binary it means: what launch mode and `check` have in common.
struct SourceOptions {
    config::BinaryRule binary;     ///< an empty container version is taken for the configured one (`check` only)
    std::string environment_file;  ///< empty: none
    bool export_environment_file = false;
    std::uint32_t server_count = 1;
    std::string missing_version;  ///< why binary.container_version is empty: told when a binary is chosen by it
    ProgramPolicy defaults;       ///< what a configuration does not say
    /// Of the processes: the one that the launcher was started with, which raises its own.
    std::optional<config::ResourceLimit> descriptor_limit{};
};

/// Whether the processes get control groups of their own.
enum class CgroupMode : std::uint8_t {
    automatic,  ///< where a delegated tree can be had
    none,
    required,  ///< the launcher does not start without
};

struct LaunchOptions {
    std::string configuration_path;
    SourceOptions source;
    SupervisorPolicy supervisor;
    Log::Settings log;
    std::array<std::uint8_t, 65> rewrite{};  ///< received signal -> what it counts as; 0: dropped
    int orphan_signal = 15;                  ///< 0: none
    int parent_death_signal = 0;             ///< 0: none
    bool kill_group = false;
    bool exit_on_bad_configuration = false;
    CgroupMode cgroup = CgroupMode::automatic;
    bool is_control_asked_for = false;                          ///< then to have no socket is an error, not a remark
    std::string control_socket = "/run/triton-launch/control";  ///< empty: none
    unsigned control_mode = 0600;                               ///< permission bits of that socket
    std::string control_group;                                  ///< its group, a name or a number; empty: as it comes
    char const* const* arguments = nullptr;                     ///< our own, as execve(2) takes them, for an upgrade
    std::vector<std::string> warnings;                          ///< to be logged once there is a log
};

}  // namespace triton::launcher
