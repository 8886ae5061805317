#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/program.h"
#include "config/version.h"
#include "launcher/supervisor/supervisor.h"
#include "lib/log/log.h"

namespace triton::launcher {

struct ReadAhead;

/// How a ProcessConfiguration is read and which binary it means: what launch mode and `check` have in common.
struct SourceOptions {
    config::BinaryRule binary;     ///< an empty container version is taken for the configured one (`check` only)
    std::string environment_file;  ///< empty: none
    /// Further ones for substitution alone, such as the labels of a node: the environment file has priority over them,
    /// they over the environment. No process gets them.
    std::vector<std::pair<std::string, std::string>> variables{};
    bool export_environment_file = false;
    std::uint32_t server_count = 1;
    std::string missing_version;  ///< why binary.container_version is empty: reported if a binary depends on it
    ProgramPolicy defaults;       ///< for what a configuration does not say
    /// Beside the programs, when they are up, in the foreground of the terminal: its end is the container's. Empty:
    /// none.
    std::vector<std::string> command{};
    /// Of the processes: the one that the launcher was started with, which raises its own.
    std::optional<process::ResourceLimit> descriptor_limit{};
    std::string agent_path{};                 ///< of the program that knows whether a pattern is one; empty: none
    std::shared_ptr<ReadAhead> read_ahead{};  ///< for the first load; null: none
};

/// Whether the processes get control groups of their own.
enum class CgroupMode : std::uint8_t {
    automatic,  ///< where a delegated tree can be had
    none,
    required,  ///< the launcher does not start without
};

/// The agent: the program that speaks to networks for us, so that we need not.
struct AgentOptions {
    std::string path;                       ///< of the program
    std::vector<std::string> arguments;     ///< its own
    std::vector<std::string> listen;        ///< HOST:PORT, [V6]:PORT, :PORT: opened by us, served by it
    std::vector<std::string> probe_listen;  ///< for probes alone, plain
    std::string output_directory;           ///< whose files it may be asked for; empty: none
    std::string user;                       ///< a name or a number; empty: nobody if we are root, otherwise ours
    bool is_wanted = false;                 ///< else it is started when a configuration needs it
    bool is_reporting = false;              ///< to Kubernetes; otherwise its reports of a pod are ignored
    bool may_command = false;               ///< its page may start, stop and signal programs and read their output
    bool watches_node = false;              ///< the labels of the pod's node come by it, as variables
};

/// Fixed programs instead of a configuration: what the modes init and sidecar run beside the agent.
struct BuiltIn {
    std::string configuration;            ///< a document; empty: launch mode, with a file
    std::vector<std::string> stage_once;  ///< arguments of our own program for one staging, the kind comes in between
    bool is_to_finish = false;            ///< a stop before its end is a failure: 128 + n for signal n
};

struct LaunchOptions {
    std::string configuration_path;
    BuiltIn built_in;
    AgentOptions agent;
    SourceOptions source;
    SupervisorPolicy supervisor;
    log::Log::Settings log;
    std::array<std::uint8_t, 65> rewrite{};  ///< received signal -> what it counts as; 0: dropped
    int orphan_signal = 15;                  ///< 0: none
    int parent_death_signal = 0;             ///< 0: none
    bool kill_group = false;
    bool exit_on_bad_configuration = false;
    bool waits_for_directory = false;  ///< of the first configuration, too
    CgroupMode cgroup = CgroupMode::automatic;
    Duration wait_for_pod{};            ///< at the start, for its annotations: it may be isolated
    bool is_control_asked_for = false;  ///< then to have no socket is an error, not a remark
    std::string control_socket = "/run/triton-launch/control";  ///< empty: none
    unsigned control_mode = 0600;                               ///< permission bits of that socket
    std::string control_group;                                  ///< its group, a name or a number; empty: as it comes
    char const* const* arguments = nullptr;                     ///< our own, as execve(2) takes them, for an upgrade
    std::vector<std::string> warnings;                          ///< to be logged once there is a log
};

}  // namespace triton::launcher
