#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "host/machine/listing.h"
#include "lib/json/reader.h"

namespace triton::info {

/// Which records of /events somebody wants to see, and when enough has been seen. Pure. Both need to know what machines
/// were before the first event, so that a stream that is looked at through conditions begins with all machines.
class EventSelection {
public:
    /// `filters`: a machine is shown when it fulfils all of them, before or after an event. `until`: what ends it.
    EventSelection(std::vector<machine::Filter> filters, std::vector<machine::Filter> until)
        : filters_(std::move(filters)), until_(std::move(until)) {}

    [[nodiscard]] bool needs_snapshot() const { return !filters_.empty() || !until_.empty(); }

    enum class Verdict : std::uint8_t {
        hidden,
        shown,
        last,  ///< show it: a machine now fulfils what was waited for
    };
    Verdict look(json::Node const& record);

private:
    /// Returns whether it fulfils what is waited for.
    bool note(json::Node const& machine);

    std::vector<machine::Filter> filters_;
    std::vector<machine::Filter> until_;
    std::set<std::string> matching_;  ///< uuids of machines that fulfil the filters
};

}  // namespace triton::info
