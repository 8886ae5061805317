#include "host/observe/loader.h"

#include <algorithm>
#include <utility>

namespace triton::observe {

using info::Part;

Loader::Outcome Loader::run(info::Job const& job) { return job.machine ? read_machine(job) : scan(); }

Loader::Outcome Loader::scan() {
    host_.watches.arm_host();
    auto names = host_.machines.store().names();
    if (!names) return {.error = names.error().text()};
    listed_.reset();
    asked_since_.clear();
    if (auto units = host_.units.all()) {
        listed_ = *std::move(units);
        has_seen_units_ = true;
    }
    std::vector<std::string> const known = host_.records.names();  // sorted, as the others are
    std::vector<std::string> all;
    std::ranges::set_union(*names, known, std::back_inserter(all));
    return {.machines = std::move(all)};
}

Loader::Outcome Loader::read_machine(info::Job const& job) {
    std::string const& name = *job.machine;
    auto const uuid = Uuid::parse(name);
    Findings findings;
    bool is_gone = false;
    info::Parts parts = job.parts;
    // The machine may have come with its file alone: nothing else tells of its other parts.
    if (parts.has(Part::stored)) {
        parts |= host_.records.unread(name);
        bool const is_known = !host_.records.unread(name).has(Part::stored);
        findings.stored = read_stored(name);
        // The rest of a machine that is being deleted looks like one without tags.
        if (uuid && is_known && *findings.stored && is_being_deleted(*uuid)) findings.stored.reset();
        is_gone = findings.stored && !*findings.stored && findings.stored->error().kind == ErrorKind::not_found;
    }
    if (uuid && !is_gone) {
        if (parts.has(Part::unit)) findings.unit = read_unit(*uuid, job.is_refresh);
        if (parts.has(Part::snapshots)) {
            findings.snapshots = host_.machines.snapshots(*uuid);
            findings.tree_limit = host_.machines.tree_limit(*uuid);
        }
    }
    Outcome outcome;
    if (findings.unit && !*findings.unit) outcome.error = findings.unit->error().text();
    outcome.seen = host_.records.take(name, std::move(findings), host_.now(), job.why);
    return outcome;
}

bool Loader::is_being_deleted(Uuid const& uuid) const {
    auto const mark = host_.machines.store().mark(uuid);
    return mark && *mark && (*mark)->operation == "delete";
}

Result<machine::Machine> Loader::read_stored(std::string const& name) {
    auto const uuid = Uuid::parse(name);
    if (!uuid || uuid->text() != name) return TRY(host_.machines.store().read_misnamed(name));
    host_.watches.arm(*uuid, host_.pool.path(machine::tree_of(*uuid)));
    auto machine = host_.machines.read(*uuid);
    if (!machine && machine.error().kind == ErrorKind::not_found) host_.watches.forget(name);
    return machine;
}

Result<machine::UnitStatus> Loader::read_unit(Uuid const& uuid, bool is_refresh) {
    machine::UnitStatus status = TRY(ask_unit(uuid, is_refresh));
    machine::add_last_exit(status, host_.machines.store(), uuid);
    machine::add_awaited(status, host_.machines.store(), uuid);
    return status;
}

/// Asks systemd about a unit. On a host without systemd no machine runs. On a host where it was seen, its silence says
/// nothing about machines.
Result<machine::UnitStatus> Loader::ask_unit(Uuid const& uuid, bool is_refresh) {
    bool const was_asked = asked_since_.contains(uuid);
    if (is_refresh && listed_ && !was_asked && !listed_->contains(uuid)) return machine::UnitStatus{};
    asked_since_.insert(uuid);
    auto status = host_.units.status(uuid);
    if (status) has_seen_units_ = true;
    bool const has_systemd = has_seen_units_ || status || status.error().kind != ErrorKind::unavailable;
    if (!has_systemd) return machine::UnitStatus{};
    return status;
}

}  // namespace triton::observe
