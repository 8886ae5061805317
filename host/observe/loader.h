#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/info/agenda.h"
#include "host/machine/machines.h"
#include "host/observe/file_watches.h"
#include "host/observe/records.h"
#include "host/storage/pool.h"

namespace triton::observe {

/// Does the jobs of an agenda that read the host. It blocks, and belongs to one thread. No other thread uses what it
/// works with, except for the watches and the records.
class Loader {
public:
    /// All borrowed.
    struct Host {
        machine::Machines& machines;
        machine::Units& units;
        storage::Pool& pool;
        FileWatches& watches;
        Records& records;
        std::function<std::int64_t()> now;  ///< microseconds since 1970
    };
    explicit Loader(Host host) : host_(std::move(host)) {}

    struct Outcome {
        std::string error = {};                  ///< why to try again; empty: it has succeeded
        std::vector<std::string> machines = {};  ///< of a scan
        std::optional<Observation> seen = {};    ///< of a machine
        Duration took = {};                      ///< the part of the time that the machine has caused
    };
    Outcome run(info::Job const& job);

private:
    Outcome scan();
    Outcome read_machine(info::Job const& job);
    [[nodiscard]] bool is_being_deleted(Uuid const& uuid) const;
    Result<machine::Machine> read_stored(std::string const& name);
    Result<machine::UnitStatus> read_unit(Uuid const& uuid, bool is_refresh);
    Result<machine::UnitStatus> ask_unit(Uuid const& uuid, bool is_refresh);

    Host host_;
    bool has_seen_units_ = false;
    /// The units that were loaded at the latest scan. Other machines do not run, unless something else was reported
    /// since.
    std::optional<std::map<Uuid, machine::UnitStatus>> listed_;
    std::set<Uuid> asked_since_;
};

}  // namespace triton::observe
