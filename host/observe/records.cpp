#include "host/observe/records.h"

#include <array>
#include <utility>

#include "host/machine/machines.h"
#include "host/machine/native_limits.h"
#include "host/machine/properties.h"
#include "host/machine/values.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"

namespace triton::observe {

using info::Part;

namespace {

constexpr std::array<std::pair<Part, std::string_view>, 4> parts{{
    {Part::stored, "stored"},
    {Part::unit, "unit"},
    {Part::snapshots, "snapshots"},
    {Part::launcher, "launcher"},
}};

std::string_view name_of(machine::UnitStatus::Activity activity) {
    using enum machine::UnitStatus::Activity;
    switch (activity) {
        case inactive: return "inactive";
        case activating: return "activating";
        case active: return "active";
        case deactivating: return "deactivating";
        case failed: return "failed";
    }
    std::unreachable();
}

void write_unit(json::Writer& out, machine::UnitStatus const& unit) {
    out.key("data").open('{').member("activity", name_of(unit.activity)).member("leader", unit.leader);
    out.member("started_at", unit.started_at).member("ended_at", unit.ended_at);
    out.member("exit_status", unit.exit_status);
    if (!unit.exit_reason.empty()) out.member("exit_reason", unit.exit_reason);
    if (!unit.failure.empty()) out.member("failure", unit.failure);
    out.member("restarts", unit.restarts).close('}');
}

/// Whether an error says something about the file of a machine: that it is broken, and not that the system lacks
/// memory or descriptors.
bool is_about_file_of(Error const& error) {
    switch (error.kind) {
        case ErrorKind::unavailable:
        case ErrorKind::exhausted:
        case ErrorKind::busy:
        case ErrorKind::timeout:
        case ErrorKind::internal: return false;
        case ErrorKind::invalid:
        case ErrorKind::not_found:
        case ErrorKind::exists:
        case ErrorKind::refused:
        case ErrorKind::denied:
        case ErrorKind::corrupt:
        case ErrorKind::unsupported: return true;
    }
    std::unreachable();
}

}  // namespace

bool Records::note(Record& record, Part part, Read read, Error const* error) {
    if (error) read.error = error->text();
    record.reads[part] = std::move(read);
    return !error;
}

std::optional<LauncherAddress> Records::launcher_of(Record const& record) {
    bool const runs = record.unit.leader > 0 && !record.unit.is_down();
    if (!runs || !record.stored || !record.stored->launch) return std::nullopt;
    return LauncherAddress{record.unit.leader, record.stored->first_uid.value_or(0)};
}

info::DocumentPtr Records::document_of(std::string const& name, Record const& record) {
    if (!record.stored) return info::make_broken(name, record.broken);
    machine::Machine machine = *record.stored;
    machine::observe(machine, record.unit);
    machine.snapshots = record.snapshots;
    machine::add_volumes_of_snapshots(machine);
    if (record.tree_limit) machine::observe_quota(machine, *record.tree_limit);
    if (machine.launch && machine.pid == record.report.leader) machine.launch_status = record.report.content;
    return info::make_document(machine);
}

Observation Records::take(std::string const& name, Findings findings, std::int64_t at, std::string_view why) {
    Observation seen{.name = name, .document = nullptr};
    Record copy;
    {
        std::scoped_lock const lock(mutex_);
        seen.generation = ++generation_;
        auto const known = records_.find(name);
        bool const is_gone =
            findings.stored && !*findings.stored && findings.stored->error().kind == ErrorKind::not_found;
        // Nothing is known of this machine's files, or it was deleted meanwhile.
        if (is_gone || (!findings.stored && known == records_.end())) {
            if (known != records_.end()) records_.erase(known);
            return seen;
        }
        Record& record = known == records_.end() ? records_[name] : known->second;
        Read const read{at, std::string(why), seen.generation, {}};
        if (auto& stored = findings.stored) {
            bool const is_about_file = *stored || is_about_file_of(stored->error());
            if (is_about_file)
                record.stored = *stored ? std::make_shared<machine::Machine const>(std::move(**stored)) : nullptr;
            if (!*stored) record.broken = stored->error();
            note(record, Part::stored, read, *stored ? nullptr : &record.broken);
            seen.has_failed |= !is_about_file;
        }
        if (auto& unit = findings.unit) {
            if (*unit) record.unit = **unit;
            seen.has_failed |= !note(record, Part::unit, read, *unit ? nullptr : &unit->error());
        }
        if (auto& snapshots = findings.snapshots) {
            // A tree that is not in the pool has no snapshots.
            bool const is_missing = !*snapshots && snapshots->error().kind == ErrorKind::not_found;
            if (*snapshots || is_missing)
                record.snapshots = *snapshots ? std::move(**snapshots) : std::vector<machine::Snapshot>();
            bool const is_well = *snapshots || is_missing;
            seen.has_failed |= !note(record, Part::snapshots, read, is_well ? nullptr : &snapshots->error());
        }
        if (auto const& limit = findings.tree_limit) {
            if (*limit) record.tree_limit = **limit;
            seen.has_failed |= !*limit;
        }
        if (auto& report = findings.report) {
            record.report = *std::move(report);
            Error const silent = fail(ErrorKind::unavailable, "it does not answer").error();
            note(record, Part::launcher, read, launcher_of(record) && !record.report.content ? &silent : nullptr);
        }
        seen.launcher = launcher_of(record);
        copy = record;
    }
    seen.document = document_of(name, copy);
    return seen;
}

std::vector<std::string> Records::names() const {
    std::scoped_lock const lock(mutex_);
    std::vector<std::string> names;
    for (auto const& [name, record] : records_)
        names.push_back(name);
    return names;
}

info::Parts Records::unread(std::string const& name) const {
    std::scoped_lock const lock(mutex_);
    auto const found = records_.find(name);
    info::Parts unread = info::host_parts;
    if (found == records_.end()) return unread;
    for (auto const& [part, read] : found->second.reads)
        if (read.error.empty()) unread = unread.without(part);
    return unread;
}

std::optional<LauncherAddress> Records::launcher(std::string const& name) const {
    std::scoped_lock const lock(mutex_);
    auto const found = records_.find(name);
    return found == records_.end() ? std::nullopt : launcher_of(found->second);
}

std::string Records::raw(std::string const& name) const {
    std::scoped_lock const lock(mutex_);
    auto const found = records_.find(name);
    if (found == records_.end()) return {};
    Record const& record = found->second;
    json::Writer out;
    out.open('{').member("uuid", name);
    for (auto const& [part, title] : parts) {
        auto const read = record.reads.find(part);
        if (read == record.reads.end()) continue;
        out.key(title).open('{').member("at", machine::time_text(read->second.at)).member("why", read->second.why);
        out.member("generation", static_cast<std::int64_t>(read->second.generation));
        if (!read->second.error.empty()) out.member("error", read->second.error);
        if (part == Part::stored && record.stored)
            out.key("data").raw(machine::whole_text(*record.stored));
        else if (part == Part::unit)
            write_unit(out, record.unit);
        else if (part == Part::snapshots) {
            out.key("data").open('[');
            for (machine::Snapshot const& snapshot : record.snapshots)
                out.value(snapshot.name);
            out.close(']');
        } else if (part == Part::launcher && record.report.content)
            out.key("data").value(*record.report.content);
        out.close('}');
    }
    out.close('}');
    return std::move(out).text();
}

}  // namespace triton::observe
