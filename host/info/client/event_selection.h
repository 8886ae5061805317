#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "host/machine/listing.h"
#include "lib/json/reader.h"

namespace triton::info {

/// Decides which records of /events to show, and when enough has been seen. Pure. Both depend on what machines were
/// before the first event, so a stream with conditions must begin with all machines.
class EventSelection {
public:
    /// `filters`: a machine is shown when it meets all of them before or after an event. `until`: the conditions that
    /// end it.
    EventSelection(std::vector<machine::Filter> filters, std::vector<machine::Filter> until)
        : filters_(std::move(filters)), until_(std::move(until)) {}

    [[nodiscard]] bool needs_snapshot() const { return !filters_.empty() || !until_.empty(); }

    enum class Verdict : std::uint8_t {
        hidden,
        shown,
        last,  ///< show it: a machine now meets `until`
    };
    Verdict look(json::Node const& record);

private:
    /// Returns whether the machine meets `until`.
    bool note(json::Node const& machine);

    std::vector<machine::Filter> filters_;
    std::vector<machine::Filter> until_;
    std::set<std::string> matching_;  ///< uuids of machines that meet the filters
};

}  // namespace triton::info
