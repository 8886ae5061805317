#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/probe_target.h"
#include "config/program.h"
#include "config/substitution.h"
#include "config/time_zone.h"
#include "launcher/services/notify_receiver.h"
#include "launcher/services/sockets.h"
#include "launcher/supervisor/supervisor.h"
#include "lib/base/box.h"
#include "lib/base/rare.h"
#include "lib/base/rare_list.h"
#include "lib/process/start_plan.h"

namespace triton::launcher {

/// A probe of the agent that tells whether a process is ready or healthy.
struct NetworkProbe {
    config::ProbeKind kind = config::ProbeKind::tcp;
    process::CommandTemplate target;  ///< one argument: HOST:PORT, URL or pattern, checked for every process
    std::optional<process::CommandTemplate> headers = {};  ///< NAME=VALUE, checked as well
    std::vector<config::StatusRange> status = {};
    std::string service = {};
    config::LogStream stream = config::LogStream::both;

    bool operator==(NetworkProbe const&) const = default;
};

/// What is done for a process beside it: a command is run, or the agent asks over the network.
struct HelperPlan {
    std::shared_ptr<process::StartPlan const> start;  ///< null: no command
    std::shared_ptr<NetworkProbe const> network;      ///< then there is no command; most helpers have none
    milliseconds timeout{0};

    bool operator==(HelperPlan const& other) const {
        auto const is_same = [](auto const& one, auto const& another) {
            return one == another || (one && another && *one == *another);
        };
        return timeout == other.timeout && is_same(network, other.network) && is_same(start, other.start);
    }
};

/// What is done beside the processes of one program. Most programs have little or nothing of it.
class HelperPlans {
public:
    /// At most once for each.
    void add(Helper which, HelperPlan plan) { plans_.push_back({which, std::move(plan)}); }
    /// One that does nothing, where there is none.
    [[nodiscard]] HelperPlan const& operator[](Helper which) const;
    [[nodiscard]] bool needs_agent() const;
    bool operator==(HelperPlans const&) const = default;

private:
    RareList<std::pair<Helper, HelperPlan>> plans_;
};

/// Where a process's standard output or error leads.
enum class StreamTarget : std::uint8_t {
    inherited,  ///< where the launcher's does
    null,
    captured,  ///< to pipes of the number's own
    program,   ///< to the pipe of another program
    console    ///< standard output: where the launcher's log goes
};

/// How a process may say that it is ready.
enum class ReadyChannel : std::uint8_t { none, socket, pipe };

/// What a start gives its process beside the plan of the start: decided when a configuration is accepted.
struct StartNeeds {
    bool has_null_input = false;                     ///< several programs cannot share one terminal
    Rare<process::CommandTemplate> input_file = {};  ///< StartFiles::input
    bool has_piped_input = false;                    ///< what others write: see Links
    std::string output_to = {};                      ///< StreamTarget::program: its name
    StreamTarget output = StreamTarget::inherited;   ///< console: only of the standard output
    StreamTarget error = StreamTarget::inherited;    ///< counts where `output` is captured
    bool has_terminal = false;                       ///< instead of an input and pipes; what it shows is captured
    ReadyChannel readiness = ReadyChannel::none;
    NotifyReceiver::SocketSettings notify;  ///< for ReadyChannel::socket
    Rare<process::CgroupLimits> limits;     ///< where there are control groups

    /// Where there are no control groups.
    [[nodiscard]] bool is_nothing() const {
        return !has_null_input && !input_file && !has_piped_input && output == StreamTarget::inherited &&
               readiness == ReadyChannel::none;
    }
};

/// One program of an accepted configuration: everything that is needed to run it, looked up and checked.
struct ProgramPlan {
    Box<config::Program> settings;  ///< as it was written; the unnamed program's has only what the design's form has
    ProgramPolicy policy;           ///< without `after` and `requires_`: only the shell knows the ids
    std::shared_ptr<process::StartPlan const>
        start;  ///< null: taken over from another version, and gone from the document
    HelperPlans helpers;
    RareList<SocketRequest> sockets;               ///< as many as settings->sockets, in that order
    bool is_reader = false;                        ///< others write to its standard input
    RareList<std::string> watched_files;           ///< of settings->files: absolute, their last part may be a pattern
    std::shared_ptr<config::TimeZone const> zone;  ///< of its calendar; null: UTC
    Rare<process::CommandTemplate> pid_file;       ///< one argument: an absolute path
    StartNeeds needs;                              ///< of its settings and its start: see decide_needs()

    /// Whether they say the same.
    bool operator==(ProgramPlan const& other) const {
        bool const has_same_clock = zone == other.zone || (zone && other.zone && *zone == *other.zone);
        return has_same_clock && policy == other.policy && settings == other.settings && helpers == other.helpers &&
               watched_files == other.watched_files && starts_like(other);
    }
    /// Whether a process that runs by one runs by the other too: numbers, dependencies and hooks do not count.
    [[nodiscard]] bool starts_like(ProgramPlan const& other) const {
        return start && other.start && *start == *other.start && settings->output == other.settings->output &&
               settings->stdin_ == other.settings->stdin_ && settings->tty == other.settings->tty &&
               is_reader == other.is_reader && settings->sockets == other.settings->sockets &&
               settings->readiness == other.settings->readiness && pid_file == other.pid_file;
    }
    [[nodiscard]] HelperPlan const& helper(Helper which) const { return helpers[which]; }
    /// As which user its processes start.
    [[nodiscard]] uid_t user() const;
};

/// The files that PID 1 itself opens for a program: of numbered ones the first.
std::vector<std::string> paths_to_open(ProgramPlan const& plan);

/// Sets `needs`, after all else is set.
void decide_needs(ProgramPlan& plan);

}  // namespace triton::launcher
