#include "host/info/client/event_selection.h"

#include "lib/json/lookup.h"

namespace triton::info {

bool EventSelection::note(json::Node const& machine) {
    std::string const uuid = json::text_of(machine, "uuid");
    if (!machine::matches_all(filters_, machine)) {
        matching_.erase(uuid);
        return false;
    }
    matching_.insert(uuid);
    return !until_.empty() && machine::matches_all(until_, machine);
}

EventSelection::Verdict EventSelection::look(json::Node const& record) {
    if (auto const* const machines = json::value_of<json::Array>(record, "vms")) {
        matching_.clear();  // it has all that there are
        bool is_fulfilled = false;
        for (json::Node const& machine : *machines)
            is_fulfilled = note(machine) || is_fulfilled;
        return is_fulfilled ? Verdict::last : Verdict::shown;
    }
    std::string const uuid = json::text_of(record, "uuid");
    json::Node const* const machine = json::member(record, "vm");
    bool const had_matched = matching_.contains(uuid);
    if (json::text_of(record, "type") == "delete") {
        matching_.erase(uuid);
        return had_matched || filters_.empty() ? Verdict::shown : Verdict::hidden;
    }
    if (!machine) return Verdict::shown;
    if (note(*machine)) return Verdict::last;
    return had_matched || matching_.contains(uuid) ? Verdict::shown : Verdict::hidden;
}

}  // namespace triton::info
