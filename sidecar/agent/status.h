#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/json/reader.h"

namespace triton::agent {

/// One supervised process, as the launcher tells it.
struct SupervisedProcess {
    std::int64_t number = 1;
    std::string state;  ///< "up", "backoff", ...
    bool is_ready = false;
    std::int64_t starts = 0;
    std::optional<double> uptime_seconds;
    std::optional<double> started_seconds_ago;  ///< the latest start, of a process that has ended too
    std::optional<double> started_at;           ///< the same, in whole seconds since 1970: see StartTimes
    std::optional<std::int64_t> memory_bytes;
    std::optional<double> cpu_seconds;
    std::optional<std::string> version;  ///< it runs
};

struct SupervisedProgram {
    std::string name;  ///< empty: the only one
    std::string kind;  ///< "service", "one_shot", "scheduled"
    std::int64_t wanted = 0;
    bool is_ready = false;
    bool is_internal = false;            ///< the launcher's own: the agent
    std::optional<std::string> version;  ///< it is to run
    std::vector<SupervisedProcess> processes;
};

struct SupervisionStatus {
    std::string version;
    std::string phase;  ///< "running", "stopping"
    double uptime_seconds = 0;
    double started_at = 0;  ///< in whole seconds since 1970: see StartTimes
    bool has_configuration = false;
    std::optional<std::int64_t> configuration_changes;
    std::optional<double> configuration_time;  ///< seconds since 1970
    std::vector<std::string> rejection;
    std::vector<SupervisedProgram> programs;
};

/// From the replies to GetStatus and List. Missing members and other types count as absent: the launcher may be of
/// another version than we are.
SupervisionStatus supervision_status(json::Node const& get_status, std::vector<json::Node> const& list);

/// When the launcher and its processes were started, by the wall clock. The launcher tells how long ago that was; a
/// time that is computed from each answer anew differs by a second now and then, and would be taken for another start.
class StartTimes {
public:
    /// Writes them into a status that came `now`, in seconds since 1970: those of the status before, unless there was
    /// another start, or the clock was set.
    void settle(SupervisionStatus& status, double now);

private:
    struct Start {
        std::int64_t number = 0;  // how many there had been
        double at = 0;
    };
    double launcher_ = 0;
    std::map<std::pair<std::string, std::int64_t>, Start> processes_;
};

/// Whether everything that is to run is ready, and a text that says what is not: one line a program, as Kubernetes' own
/// components write it.
struct Readiness {
    bool is_ready = false;
    std::string text;
};

/// A configuration that wants no process is ready: nothing is missing, and clusters are made that way. Scheduled
/// programs wait most of the time and do not count; neither do what is done and the launcher's own programs.
Readiness readiness(SupervisionStatus const& status);

/// The programs of the parts of a List reply as one JSON array.
std::string programs_json(std::vector<json::Node> const& list);

/// Requests to /v1/hashes: {"paths": ["a", "b/c"]}.
/// Errors: what is wrong with it, for the answer.
std::expected<std::vector<std::string>, std::string> parse_hashes_request(std::string_view body,
                                                                          std::size_t most_paths);

/// Requests to /v1/stage: {"what": "binaries"}, or nothing for "all". Returns a word that is one of the launcher's.
/// Errors: what is wrong with it, for the answer.
std::expected<std::string, std::string> parse_stage_request(std::string_view body);

/// What became of a copy.
struct StagingReply {
    std::vector<std::string> files;  ///< that are as they should be now
    std::vector<std::string> errors;
};
StagingReply staging_reply(std::vector<json::Node> const& replies);
std::string staging_json(StagingReply const& reply);

}  // namespace triton::agent
