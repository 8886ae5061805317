#pragma once

#include <span>
#include <string>
#include <string_view>

#include "host/machine/machine.h"
#include "host/machine/row.h"

namespace triton::machine {

/// Who sets a property.
enum class Set : std::uint8_t {
    by_us,      ///< nobody else
    at_create,  ///< create's payload, and nothing afterwards
    required,   ///< the same, and create's payload must have it
    any_time,   ///< create and update
};

/// When a running machine notices that it has changed.
enum class Takes : std::uint8_t {
    never,  ///< it is kept and shown; nothing on Linux depends on it
    at_once,
    at_start,  ///< when it is started again
};

/// Where its authoritative value is.
enum class Place : std::uint8_t {
    machine_file,   ///< machines/<uuid>.json
    metadata_file,  ///< config/metadata.json in the machine's tree
    tags_file,      ///< config/tags.json
    routes_file,    ///< config/routes.json
    launch_file,    ///< config/launch/config.json
    hidden,         ///< machines/<uuid>.json, and not shown
    payload,        ///< nowhere: it tells create what to do
    observed,       ///< it is looked at when it is asked for
};

/// How `vmadm list` shows it.
struct Column {
    std::size_t width = 0;        ///< 0: it is not a column
    std::string_view title = {};  ///< empty: the name in upper case
};

/// How single parts of it are updated.
enum class Parts : std::uint8_t {
    none,
    keys,     ///< set_<name> (an object), remove_<name> (a list of keys)
    objects,  ///< add_<name>, update_<name> (objects), remove_<name> (a list of keys)
};

struct PropertyRules {
    Set set = Set::any_time;
    Takes takes = Takes::never;
    Column column = {};
    Place place = Place::machine_file;
    Shown shown = Shown::when_set;
    std::string_view alias = {};  ///< an older name, which payloads may use
    Parts parts = Parts::none;
    std::string_view key = {};  ///< of Parts::objects: the member that names one
    bool is_secret = false;     ///< only root and those whom root trusts see it
    bool is_idle = false;       ///< SmartOS acts on it and nothing here does, so that who asks for it is told
};

/// One property of a machine: its reader, its writer and everything known about it. The table drives the reading and
/// checking of payloads, updates, `get`, `list`, filters, the reference page and the completions.
struct Property {
    std::string_view name = {};
    json::Need need = json::Need::optional;
    json::NeededWhen<json::Reading> needed_when = {};
    json::Value<Machine, json::Reading> value = {};
    std::string_view description = {};
    Write<Machine> write = nullptr;
    void (*clear)(Machine& machine) = nullptr;
    PropertyRules rules = {};
    Write<Machine> write_open = nullptr;  ///< where a part of the value is secret: writes the rest

    [[nodiscard]] bool is_settable() const { return rules.set != Set::by_us; }
    /// Whether it is in the machine's own file.
    [[nodiscard]] bool is_stored() const { return rules.place == Place::machine_file || rules.place == Place::hidden; }
    /// Whether it is kept in any file.
    [[nodiscard]] bool is_kept() const { return rules.place != Place::observed && rules.place != Place::payload; }
    /// Whether `vmadm get` shows it.
    [[nodiscard]] bool is_public() const { return rules.place != Place::hidden && rules.place != Place::payload; }
    /// Whether every user of the host may see it, or a part of it.
    [[nodiscard]] bool is_open() const { return is_public() && !rules.is_secret; }
    /// Whether what every user may see is less than all of it.
    [[nodiscard]] bool has_secrets() const { return rules.is_secret || write_open != nullptr; }
    /// Writes what every user of the host may see of one that is_open().
    void write_for_all(Machine const& machine, json::Writer& out) const {
        (write_open ? write_open : write)(name, machine, out);
    }
    /// "CPU_SHARE"
    [[nodiscard]] std::string title() const;
};

std::span<Property const> table(json::TableOf<Machine, json::Reading>);
inline std::span<Property const> properties() { return table(json::TableOf<Machine, json::Reading>{}); }

/// By its name or its older one; nullptr: there is no such property.
Property const* find_property(std::string_view name);
/// Whether only virtual machines with hardware of their own have it, so that it is refused rather than unknown.
bool is_for_hardware(std::string_view name);

/// The value as JSON; empty: it is not set.
std::string value_text(Property const& property, Machine const& machine);

std::string_view name_of(State state);
std::string_view name_of(Phase phase);

/// The JSON object that `vmadm get` shows, in one line.
std::string public_text(Machine const& machine);
/// The same without what is secret.
std::string open_text(Machine const& machine);
/// The content of machines/<uuid>.json.
std::string file_text(Machine const& machine);
/// The same with what is kept in other files: for the mark of an operation.
std::string whole_text(Machine const& machine);
/// The payload of `vmadm create` that asks for such a machine.
std::string payload_text(Machine const& machine);
/// Reads a file's content or the mark's. Errors: corrupt, with every problem in the details. What is unknown is left
/// out: a newer version may have written it.
Result<Machine> parse_file(std::string_view text, std::string_view path);

/// The reference page of the properties, in Markdown.
std::string reference_page();

}  // namespace triton::machine
