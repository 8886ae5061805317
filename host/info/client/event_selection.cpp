#include "host/info/client/event_selection.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "lib/json/lookup.h"

namespace triton::info {

namespace {

json::Node* place_in(json::Node& node, std::string_view name) {
    auto* const object = std::get_if<json::Object>(&node.value);
    if (!object) return nullptr;
    auto const found = std::ranges::find(*object, name, &json::Member::key);
    return found == object->end() ? nullptr : &found->node;
}

/// Puts a value back. What has changed within a list of a machine is left as it is.
void put_back(json::Node& machine, std::string_view path, json::Node const* value) {
    json::Node* holder = &machine;
    for (std::size_t dot = path.find('.'); holder && dot != std::string_view::npos; dot = path.find('.')) {
        holder = place_in(*holder, path.substr(0, dot));
        path.remove_prefix(dot + 1);
    }
    auto* const object = holder ? std::get_if<json::Object>(&holder->value) : nullptr;
    if (!object) return;
    std::erase_if(*object, [path](json::Member const& member) { return member.key == path; });
    if (value) object->push_back({std::string(path), *value});
}

/// What a machine was before an event.
json::Node before(json::Node const& machine, json::Node const& record) {
    json::Node old = machine;
    auto const* const changes = json::value_of<json::Array>(record, "changes");
    for (json::Node const& change : changes ? *changes : json::Array())
        put_back(old, json::text_of(change, "path"), json::member(change, "oldValue"));
    return old;
}

}  // namespace

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
    bool had_matched = matching_.contains(uuid);
    std::string const type = json::text_of(record, "type");
    // After --since nobody has told what the machines were before.
    if (type == "delete") {
        matching_.erase(uuid);
        return had_matched || machine::matches_all(filters_, record) ? Verdict::shown : Verdict::hidden;
    }
    if (!machine) return Verdict::shown;
    if (type == "modify" && !had_matched && !filters_.empty())
        had_matched = machine::matches_all(filters_, before(*machine, record));
    if (note(*machine)) return Verdict::last;
    return had_matched || matching_.contains(uuid) ? Verdict::shown : Verdict::hidden;
}

}  // namespace triton::info
