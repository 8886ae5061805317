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

/// The report of a machine's launcher, and which PID 1 has given it.
struct Report {
    std::int64_t leader = 0;
    std::optional<json::Object> content = {};  ///< nullopt: it did not answer
};

/// What a job has found out about one machine. Parts that it has not read are missing.
struct Findings {
    std::optional<Result<machine::Machine>> stored = {};  ///< not_found: it was deleted
    std::optional<Result<machine::UnitStatus>> unit = {};
    std::optional<Result<std::vector<machine::Snapshot>>> snapshots = {};
    std::optional<Result<std::optional<std::uint64_t>>> tree_limit = {};  ///< read with the snapshots
    std::optional<Report> report = {};
};

/// How to ask a launcher.
struct LauncherAddress {
    std::int64_t leader = 0;
    std::int64_t root_uid = 0;
    bool operator==(LauncherAddress const&) const = default;
};

/// The known state of a machine.
struct Observation {
    std::string name;
    info::DocumentPtr document;  ///< null: it was deleted
    std::uint64_t generation = 0;
    std::optional<LauncherAddress> launcher = {};  ///< nullopt: no launcher is running
    bool has_failed = false;                       ///< a part could not be read, and keeps its earlier state
};

/// The parts of all machines as last read. For any thread.
class Records {
public:
    /// Takes new findings, and combines all parts into the known state of the machine. Observations of one machine may
    /// overtake each other; the one with the higher generation knows more.
    /// `at`: microseconds since 1970. `why`: the reason for reading.
    Observation take(std::string const& name, Findings findings, std::int64_t at, std::string_view why);

    [[nodiscard]] std::vector<std::string> names() const;
    /// The host's parts of a machine that have not been read yet: all of one that is not known.
    [[nodiscard]] info::Parts unread(std::string const& name) const;
    [[nodiscard]] std::optional<LauncherAddress> launcher(std::string const& name) const;
    /// Each part in a line of JSON. Empty: there is no such machine.
    [[nodiscard]] std::string raw(std::string const& name) const;

private:
    struct Read {
        std::int64_t at = 0;
        std::string why = {};
        std::uint64_t generation = 0;
        std::string error = {};  ///< of the latest attempt; empty: it has succeeded
    };
    struct Record {
        std::shared_ptr<machine::Machine const>
            stored;  ///< null: it could never be read, or is unreadable: see `broken`
        Error broken;
        machine::UnitStatus unit;
        std::vector<machine::Snapshot> snapshots;
        std::optional<std::uint64_t> tree_limit;
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
