#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/info/agenda.h"
#include "host/info/document.h"
#include "host/machine/host.h"
#include "host/machine/machine.h"
#include "lib/base/result.h"

namespace triton::observe {

/// What the launcher of a machine has said, and which PID 1 that was.
struct Report {
    std::int64_t leader = 0;
    std::optional<json::Object> content = {};  ///< nullopt: it did not answer
};

/// What a job has found out of one machine; parts that it has not read are missing.
struct Findings {
    std::optional<Result<machine::Machine>> stored = {};  ///< not_found: it is gone
    std::optional<Result<machine::UnitStatus>> unit = {};
    std::optional<Result<std::vector<machine::Snapshot>>> snapshots = {};
    std::optional<Report> report = {};
};

/// Whose launcher can be asked.
struct LauncherAddress {
    std::int64_t leader = 0;
    std::int64_t root_uid = 0;
    bool operator==(LauncherAddress const&) const = default;
};

/// A machine as it is known now.
struct Observation {
    std::string name;
    info::DocumentPtr document;  ///< null: it is gone
    std::uint64_t generation = 0;
    std::optional<LauncherAddress> launcher = {};  ///< nullopt: it has none that runs
    bool has_failed = false;                       ///< a part could not be read; its earlier state is kept
};

/// The parts of all machines as they were read last. Any thread.
class Records {
public:
    /// Takes what was found and makes of all parts the machine as it is known now. Observations of one machine may
    /// overtake each other on their way; the one of the higher generation knows more.
    /// `at`: microseconds since 1970. `why`: what has caused the reading.
    Observation take(std::string const& name, Findings findings, std::int64_t at, std::string_view why);

    [[nodiscard]] std::vector<std::string> names() const;
    [[nodiscard]] std::optional<LauncherAddress> launcher(std::string const& name) const;
    /// Part by part: a line of JSON. Empty: there is no such machine.
    [[nodiscard]] std::string raw(std::string const& name) const;

private:
    struct Read {
        std::int64_t at = 0;
        std::string why = {};
        std::uint64_t generation = 0;
        std::string error = {};  ///< of the latest attempt; empty: it went well
    };
    struct Record {
        std::shared_ptr<machine::Machine const> stored;  ///< null: it cannot be read, see `broken`
        Error broken;
        machine::UnitStatus unit;
        std::vector<machine::Snapshot> snapshots;
        Report report;
        std::map<info::Part, Read> reads;
    };
    static bool note(Record& record, info::Part part, Read read, Error const* error);
    [[nodiscard]] static std::optional<LauncherAddress> launcher_of(Record const& record);
    static info::DocumentPtr document_of(std::string const& name, Record const& record);

    mutable std::mutex mutex_;
    std::map<std::string, Record, std::less<>> records_;
    std::uint64_t generation_ = 0;
};

}  // namespace triton::observe
