#include "programs/vmadm/choice.h"

#include <algorithm>
#include <array>

#include "host/info/client/documents.h"
#include "lib/json/lookup.h"
#include "lib/text/printable.h"
#include "programs/vmadm/context.h"
#include "programs/vmadm/vminfod.h"

namespace triton::program {

namespace {

using machine::Filter;
using machine::Machine;

std::string_view property_of(std::string_view key) { return key.substr(0, key.find_first_of(".=")); }

template <class Names>
bool has(Names const& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

/// Whether a key needs more of systemd than the states of units.
bool is_detail(std::string_view key) {
    static constexpr auto keys = std::to_array<std::string_view>(
        {"pid", "boot_timestamp", "exit_status", "exit_reason", "exit_timestamp", "init_restarts"});
    return has(keys, property_of(key));
}

/// Whether a key needs a look at the machine's own snapshots or launcher.
bool is_of_whole(std::string_view key) {
    static constexpr auto keys = std::to_array<std::string_view>({"snapshots", "launch_status"});
    return has(keys, property_of(key));
}

void tell_broken(std::vector<json::Node>& broken) {
    auto const uuid = [](json::Node const& machine) { return json::text_of(machine, "uuid"); };
    std::ranges::sort(broken, {}, uuid);
    for (json::Node const& machine : broken)
        say(text::printable(json::text_of(machine, "error")));
}

// --- of vminfod ---

info::Target target_of(Options const& options, Wanted const& wanted) {
    info::Target target("/vms");
    for (std::string const& word : options.words) {
        std::size_t const equals = word.find('=');
        target.add(word.substr(0, equals), word.substr(equals + 1));
    }
    if (wanted.is_whole) return target;
    std::vector<std::string> names{"uuid", "state"};
    std::string fields = "uuid,state";
    for (std::string const& key : wanted.keys) {
        if (has(names, key)) continue;
        names.push_back(key);
        fields += "," + key;
    }
    return target.add("fields", fields);
}

/// Takes unreadable machines out of the list. Returns whether their errors are known.
bool take_broken(std::vector<json::Node>& machines, std::vector<json::Node>& broken) {
    auto const first = std::ranges::stable_partition(machines, [](json::Node const& machine) {
                           return !info::is_unreadable(machine);
                       }).begin();
    broken.assign(std::move_iterator(first), std::move_iterator(machines.end()));
    machines.erase(first, machines.end());
    return std::ranges::all_of(broken, [](json::Node const& node) { return json::member(node, "error") != nullptr; });
}

std::optional<Chosen> choose_of_vminfod(Options const& options, Wanted const& wanted) {
    Vminfod vminfod(options);
    auto machines = vminfod.ask_machines(target_of(options, wanted));
    if (!machines) return std::nullopt;
    Chosen chosen{.machines = std::move(*machines), .broken = {}};
    if (!take_broken(chosen.machines, chosen.broken)) return std::nullopt;
    if (options.words.empty()) {
        tell_broken(chosen.broken);
        return chosen;
    }
    auto broken = vminfod.ask_machines(info::Target("/vms").add("state", "unreadable"));
    if (!broken) return std::nullopt;
    tell_broken(*broken);
    return chosen;
}

// --- directly ---

std::expected<Chosen, Failure> choose_directly(Options const& options, std::span<Filter const> conditions,
                                               Wanted const& wanted) {
    auto const needs = [&](bool (*is_such)(std::string_view key)) {
        return wanted.is_whole || std::ranges::any_of(wanted.keys, is_such) ||
               std::ranges::any_of(options.words, is_such);
    };
    bool const is_whole = needs(is_of_whole);
    auto const host = TRY_RUN(Host::open(options));
    host->units().set_detailed(needs(is_detail));
    auto listed = TRY_RUN(host->machines().list());
    tell_unknown_states(*host, listed);
    Chosen chosen{.machines = {}, .broken = {}};
    for (Machine const& machine : listed.machines) {
        auto const whole = is_whole ? host->machines().get(machine.uuid) : Result<Machine>(machine);
        if (!whole && whole.error().kind == ErrorKind::not_found) continue;  // it has just been removed
        if (!whole) {
            listed.broken.push_back({machine.uuid.text(), whole.error()});
            continue;
        }
        json::Node node = node_of(*whole);
        if (machine::matches_all(conditions, node)) chosen.machines.push_back(std::move(node));
    }
    for (machine::BrokenFile const& file : listed.broken)
        chosen.broken.push_back(broken_node(file));
    tell_broken(chosen.broken);
    std::erase_if(chosen.broken, [&](json::Node const& node) { return !machine::matches_all(conditions, node); });
    return chosen;
}

}  // namespace

json::Node broken_node(machine::BrokenFile const& file) {
    return json::Node{json::Object{{"uuid", json::Node{file.name}},
                                   {"zonename", json::Node{file.name}},
                                   {"state", json::Node{std::string("unreadable")}},
                                   {"error", json::Node{file.error.text()}}}};
}

std::expected<Chosen, Failure> choose(Options const& options, std::string_view what, Wanted const& wanted) {
    auto const conditions = TRY_RUN(filters(options.words, what));
    if (auto chosen = choose_of_vminfod(options, wanted)) return std::move(*chosen);
    return choose_directly(options, conditions, wanted);
}

}  // namespace triton::program
