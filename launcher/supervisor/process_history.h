#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launcher/supervisor/actions.h"
#include "launcher/supervisor/state.h"
#include "lib/base/clock.h"

namespace triton::launcher {

/// One end of a process, a start that failed among them.
struct EndRecord {
    std::uint32_t program = 0;  ///< ProgramId
    std::uint32_t number = 1;
    std::uint64_t sequence = 0;  ///< grows from end to end
    std::int64_t time = 0;       ///< microseconds since 1970, UTC
    Duration run{};
    int status = 0;                ///< as of waitpid(2)
    std::uint16_t error_code = 0;  ///< errno; 0: it has executed its program
    std::uint8_t error_stage = 0;  ///< process::SpawnStage of `error_code`
    Fault fault = Fault::none;     ///< why the launcher stopped it, if nobody had asked for it
    bool was_asked_for = false;
    bool was_oom_killed = false;

    bool operator==(EndRecord const&) const = default;
};
static_assert(sizeof(EndRecord) <= 64);

/// One result of a readiness probe or a health check.
struct ProbeRecord {
    std::uint32_t program = 0;  ///< ProgramId
    std::uint32_t number = 1;
    std::uint8_t helper = 0;  ///< Helper
    bool is_ok = false;
    std::uint64_t sequence = 0;  ///< grows from result to result
    std::int64_t time = 0;       ///< microseconds since 1970, UTC
    std::string why;             ///< "exit code 7"; empty: it has succeeded
    std::string output;          ///< the end of what it printed, any bytes

    bool operator==(ProbeRecord const&) const = default;
};

/// What people ask for afterwards: the last ends of each process, and the last results of its checks. Programs decide
/// how many of both there are, so both have a limit for all processes together: the oldest give way.
class ProcessHistory {
public:
    static constexpr std::size_t ends_of_process = 10;
    static constexpr std::size_t most_ends = (256 << 10) / 64;
    static constexpr std::size_t results_of_check = 3;
    static constexpr std::size_t most_results = 4096;
    static constexpr std::size_t longest_output = 1024;
    static constexpr std::size_t most_text = 256 << 10;  ///< bytes of all results together

    /// `time`: microseconds since 1970. Other reports are no ends. Throws bad_alloc.
    void note(Report const& report, std::int64_t time);
    /// Throws bad_alloc.
    void add(ProbeRecord result);
    /// The id is given to another program.
    void forget(ProgramId id);

    /// The oldest first. Borrowed until the next change.
    [[nodiscard]] std::vector<EndRecord const*> ends_of(ProcessId id) const;
    [[nodiscard]] std::vector<ProbeRecord const*> results_of(ProcessId id) const;
    /// The latest result of a check, if it has failed; else null.
    [[nodiscard]] ProbeRecord const* failure_of(ProcessId id, Helper helper) const;

    // For an upgrade.
    [[nodiscard]] std::vector<EndRecord> const& ends() const { return ends_; }
    [[nodiscard]] std::vector<ProbeRecord> const& results() const { return results_; }
    /// Those that are more than there may be are left out.
    void restore(std::vector<EndRecord> ends, std::vector<ProbeRecord> results);

private:
    void add(EndRecord end);
    void drop_text();

    std::vector<EndRecord> ends_;       // in no order
    std::vector<ProbeRecord> results_;  // the same
    std::size_t text_ = 0;              // bytes in results_
    std::uint64_t sequence_ = 0;
};

/// Which failures of readiness probes are worth a line: the first one, and those with another reason than the last that
/// was reported. Reasons that change all the time are reported every ten seconds.
class ReadinessNews {
public:
    /// Returns how many probes have failed so far when this failure is to be reported, else 0. Throws bad_alloc.
    std::uint32_t failed(ProcessId id, std::string_view why, TimePoint now);
    /// How many have failed since its start.
    [[nodiscard]] std::uint32_t count(ProcessId id) const;
    /// It is ready, or its run is over.
    void forget(ProcessId id) { waiting_.erase(key(id)); }

private:
    struct Waiting {
        std::string told;
        TimePoint told_at{};
        std::uint32_t count = 0;
    };
    static std::uint64_t key(ProcessId id) {
        return static_cast<std::uint64_t>(id.program) << 32 | static_cast<std::uint32_t>(id.number);
    }
    std::unordered_map<std::uint64_t, Waiting> waiting_;  // processes that are not ready yet
};

}  // namespace triton::launcher
