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

/// Does the jobs of an agenda that read the host. It blocks, and belongs to one thread; what it works with is used by
/// no other thread, except for the watches and the records.
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
        std::string error = {};                  ///< why it is to be tried again; empty: it went well
        std::vector<std::string> machines = {};  ///< of a scan
        std::optional<Observation> seen = {};    ///< of a machine
        Duration took = {};                      ///< as far as it was the machine that took it
    };
    Outcome run(info::Job const& job);

private:
    Outcome scan();
    Outcome read_machine(info::Job const& job);
    Result<machine::Machine> read_stored(std::string const& name);
    Result<machine::UnitStatus> read_unit(Uuid const& uuid, bool is_refresh);
    Result<machine::UnitStatus> ask_unit(Uuid const& uuid, bool is_refresh);

    Host host_;
    bool has_seen_units_ = false;
    /// The units that were loaded at the latest scan. Who is not among them does not run, unless somebody has told
    /// otherwise since.
    std::optional<std::map<Uuid, machine::UnitStatus>> listed_;
    std::set<Uuid> asked_since_;
};

}  // namespace triton::observe
